// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/span_tree.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace headroom {

SpanTree::SpanTree(const Profile& profile, const ProfileWindow& window)
{
    nest(profile, window);
    attribute(profile, window);
}

void SpanTree::nest(const Profile& profile, const ProfileWindow& window)
{
    for (const Profile::Span& span : profile.spans)
        if (window.begin <= span.begin && span.begin < window.end)
            nodes_.push_back({&span});
    // If two spans begin and end together, the trace has the outer one first.
    std::ranges::stable_sort(
        nodes_, {}, [](const Node& node) { return std::tuple(node.span->thread, node.span->begin, -node.span->end); });
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        const Profile::Span& span = *nodes_[i].span;
        const auto isOver = [&](const Profile::Span& outer) {
            // With times in whole microseconds an inner span may end a little after the outer one.
            return outer.thread != span.thread || outer.end < span.begin
                || (outer.end == span.begin && outer.end != span.end);
        };
        while (!open.empty() && isOver(*nodes_[open.back()].span))
            open.pop_back();
        if (!open.empty()) {
            nodes_[i].parent = open.back();
            nodes_[open.back()].inside += span.end - span.begin;
        }
        open.push_back(i);
        externalIds_.emplace_back(span.externalId, i);
    }
    std::ranges::sort(externalIds_);
}

std::uint32_t SpanTree::innermost(std::uint32_t thread, Profile::Nanoseconds at) const
{
    const auto after = std::ranges::upper_bound(nodes_, std::pair(thread, at), {}, [](const Node& node) {
        return std::pair(node.span->thread, node.span->begin);
    });
    if (after == nodes_.begin() || std::prev(after)->span->thread != thread)
        return none;
    auto node = static_cast<std::uint32_t>(std::distance(nodes_.begin(), after) - 1);
    while (node != none && nodes_[node].span->end < at)
        node = nodes_[node].parent;
    return node;
}

std::uint32_t SpanTree::withExternalId(std::int64_t id) const
{
    const auto found = std::ranges::lower_bound(externalIds_, std::pair(id, std::uint32_t{0}));
    return id != 0 && found != externalIds_.end() && found->first == id ? found->second : none;
}

void SpanTree::attribute(const Profile& profile, const ProfileWindow& window)
{
    std::vector<const Profile::Launch*> launches;
    launches.reserve(profile.launches.size());
    for (const Profile::Launch& launch : profile.launches)
        launches.push_back(&launch);
    std::ranges::stable_sort(launches, {}, &Profile::Launch::correlation);
    const auto launchOf = [&](const Profile::Kernel& kernel) -> const Profile::Launch* {
        const auto found = std::ranges::lower_bound(launches, kernel.correlation, {}, &Profile::Launch::correlation);
        return found != launches.end() && (*found)->correlation == kernel.correlation ? *found : nullptr;
    };
    // A kernel before the first one with a known launch was launched before the trace began.
    Profile::Nanoseconds first = std::numeric_limits<Profile::Nanoseconds>::max();
    for (const Profile::Kernel& kernel : profile.kernels)
        if (kernel.begin < first && launchOf(kernel))
            first = kernel.begin;
    const bool knowsLaunches = first != std::numeric_limits<Profile::Nanoseconds>::max();
    const auto isInside = [&](Profile::Nanoseconds at) { return window.begin <= at && at < window.end; };
    for (const Profile::Kernel& kernel : profile.kernels) {
        const Profile::Launch* const launched = launchOf(kernel);
        std::uint32_t node = none;
        if (launched ? !isInside(launched->begin) : knowsLaunches && kernel.begin < first)
            continue;
        if (launched)
            node = innermost(launched->thread, launched->begin);
        if (node == none)
            node = withExternalId(kernel.externalId);
        if (!launched && node == none && !isInside(kernel.begin))
            continue;
        kernels_.push_back(&kernel);
        if (node == none) {
            withoutSpan_ += kernel.end - kernel.begin;
            continue;
        }
        if (++nodes_[node].kernels == 1)
            nodes_[node].kernel = kernel.name;
        nodes_[node].kernelTime += kernel.end - kernel.begin;
    }
}

} // namespace headroom
