// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/regions.h"

#include <algorithm>
#include <cctype>

namespace headroom {

namespace {

constexpr std::size_t longestName = 200; ///< characters of a region's name
constexpr std::size_t mostDepth = 64; ///< levels of nested regions

bool isDottedName(std::string_view name)
{
    return !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == std::string_view::npos
        && std::ranges::all_of(
            name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; });
}

std::optional<Phase> namedPhase(std::string_view name)
{
    std::string lower(name.substr(0, longestName));
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto has = [&](std::string_view word) { return lower.find(word) != std::string::npos; };
    if (has("zero_grad"))
        return Phase::zeroGrad;
    if (has("optimizer"))
        return Phase::optimizer;
    if (has("backward"))
        return Phase::backward;
    if (has("forward"))
        return Phase::forward;
    return std::nullopt;
}

} // namespace

RegionTree::RegionTree()
{
    regions_.push_back({"Snapshot", {}, {}});
}

RegionTree::Node RegionTree::child(Node parent, const std::string& name)
{
    const auto [place, isNew] = regions_[parent].children.try_emplace(name, static_cast<Node>(regions_.size()));
    const Node node = place->second;
    if (isNew) {
        regions_[parent].order.push_back(node);
        regions_.push_back({name, {}, {}});
    }
    return node;
}

RegionTree::Node RegionTree::named(std::string_view name)
{
    name = name.substr(0, longestName);
    if (!isDottedName(name)) {
        std::string whole(name);
        std::ranges::replace(whole, '.', '_');
        return child(0, whole);
    }
    Node node = 0;
    for (std::size_t depth = 0; depth < mostDepth && !name.empty(); ++depth) {
        const std::string_view part = name.substr(0, name.find('.'));
        node = child(node, std::string(part));
        name.remove_prefix(std::min(part.size() + 1, name.size()));
    }
    return node;
}

void RegionTree::addTo(StepTraceBuilder& builder)
{
    modules_.assign(regions_.size(), {});
    add(builder, 0, {}, {});
}

void RegionTree::add(StepTraceBuilder& builder, Node node, const std::string& fqn, ModuleId parent)
{
    const Region& region = regions_[node];
    const std::string own = fqn.empty() ? region.name : fqn + "." + region.name;
    const std::size_t line = region.name.find(':'); // the line of the call is not a part of the type
    modules_[node] = builder.addModule(own, region.name.substr(0, line), parent);
    for (const Node child : region.order)
        add(builder, child, own, modules_[node]);
}

Annotations::Annotations(const Snapshot& snapshot, std::size_t device)
    : snapshot_(snapshot)
{
    std::ranges::copy_if(snapshot.annotations, std::back_inserter(all_), [&](const Snapshot::Annotation& annotation) {
        return annotation.device == static_cast<std::int64_t>(device) && annotation.name != Snapshot::none;
    });
    std::ranges::stable_sort(all_, {}, &Snapshot::Annotation::microseconds);
}

void Annotations::advance(std::int64_t microseconds)
{
    for (; next_ < all_.size() && all_[next_].microseconds <= microseconds; ++next_) {
        const Snapshot::Annotation& annotation = all_[next_];
        if (annotation.begins) {
            open_.push_back(annotation.name);
        } else if (const auto found = std::find(open_.rbegin(), open_.rend(), annotation.name); found != open_.rend()) {
            open_.erase(std::next(found).base());
        }
    }
}

std::optional<Phase> Annotations::phase() const
{
    for (auto name = open_.rbegin(); name != open_.rend(); ++name)
        if (const auto phase = namedPhase(snapshot_.text(*name)))
            return phase;
    return std::nullopt;
}

std::string_view Annotations::innermost() const
{
    for (auto name = open_.rbegin(); name != open_.rend(); ++name)
        if (!namedPhase(snapshot_.text(*name)))
            return snapshot_.text(*name);
    return {};
}

EventMeanings::EventMeanings(const Snapshot& snapshot, std::size_t device, bool hasStacks)
    : snapshot_(snapshot)
    , annotations_(snapshot, device)
    , hasStacks_(hasStacks)
{
}

const StackMeaning& EventMeanings::stack(Snapshot::Index stack)
{
    const auto [place, isNew] = stacks_.try_emplace(stack);
    if (isNew)
        place->second = stackMeaning(snapshot_, stack);
    return place->second;
}

EventMeanings::Meaning EventMeanings::of(const Snapshot::Event& event)
{
    annotations_.advance(event.microseconds);
    Meaning meaning;
    meaning.stack = &stack(event.stack);
    if (meaning.stack->phase)
        meaning.phase = *meaning.stack->phase;
    else if (const auto phase = annotations_.phase())
        meaning.phase = *phase;
    else if (meaning.stack->empty)
        meaning.phase = hasStacks_ && event.action == Snapshot::Action::alloc ? Phase::backward : last_;
    else
        // The program's own code belongs to the last phase; after the optimizer or zero_grad it belongs to forward.
        meaning.phase = last_ == Phase::backward ? Phase::backward : Phase::forward;
    // Only allocations determine the phase, since a tensor may die anywhere.
    if (event.action == Snapshot::Action::alloc)
        last_ = meaning.phase;
    else
        meaning.phase = last_;
    meaning.region = regionOf(event, *meaning.stack);
    return meaning;
}

RegionTree::Node EventMeanings::regionOf(const Snapshot::Event& event, const StackMeaning& stack)
{
    if (const std::string_view name = snapshot_.text(event.metadata); !name.empty()) {
        const auto [place, isNew] = namedRegions_.try_emplace(event.metadata);
        if (isNew)
            place->second = regions_.named(name);
        return place->second;
    }
    if (!stack.modules.empty()) {
        const auto [place, isNew] = stackRegions_.try_emplace(event.stack);
        if (isNew) {
            RegionTree::Node node = 0;
            for (std::size_t i = 0; i < std::min(stack.modules.size(), mostDepth); ++i)
                node = regions_.child(node, stack.modules[i]);
            place->second = node;
        }
        return place->second;
    }
    const std::string_view annotation = annotations_.innermost();
    return annotation.empty() ? 0 : regions_.named(annotation);
}

} // namespace headroom
