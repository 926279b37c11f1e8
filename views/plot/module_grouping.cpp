// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/module_grouping.h"

#include <algorithm>
#include <cassert>

namespace headroom {
namespace {

/// A module goes on being looked into while one child holds so much of it.
constexpr double spineShare = 0.75;
/// A module beside the spine is a group of its own from this share on.
constexpr double largeShare = 0.03;

class Partition
{
public:
    Partition(const StepTrace& trace, const Timeline& recorded)
        : trace_(trace)
        , children_(trace.modules.size())
        , bytes_(trace.modules.size())
        , group_(trace.modules.size(), ModuleGrouping::otherGroup)
        , moduleOf_(trace.storages.size())
    {
        for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
            const auto parent = trace.modules.parent[ModuleId(i)];
            if (parent.valid())
                children_[parent.value].push_back(i);
        }
        attribute();
        measure(recorded);
    }

    ModuleGrouping make()
    {
        made_.titles = {"Optimizer state", "Other modules"};
        if (!bytes_.empty() && bytes_[0] > 0)
            part();
        made_.ofStorage.reserve(moduleOf_.size());
        for (const auto module : moduleOf_)
            made_.ofStorage.push_back(module.valid() ? group_[module.value] : ModuleGrouping::otherGroup);
        return std::move(made_);
    }

private:
    void attribute()
    {
        for (std::uint32_t i = 0; i < moduleOf_.size(); ++i) {
            const auto op = trace_.storages.creator[StorageId(i)];
            if (op.valid())
                moduleOf_[i] = trace_.ops.module[op];
        }
        for (std::size_t i = 0; i < trace_.registered.size(); ++i) {
            const auto storage = trace_.registered.storage[i];
            if (storage.valid())
                moduleOf_[storage.value] = trace_.registered.module[i];
        }
    }

    // Bytes of each module with all below it, at the peak. Parents come before their children.
    void measure(const Timeline& recorded)
    {
        const std::size_t count = recorded.peakChange == Timeline::npos ? 0 : recorded.peakChange + 1;
        for (const auto& block : liveBlocks(trace_, recorded, count)) {
            const auto module = moduleOf_[block.storage.value];
            if (module.valid() && block.category != Category::optimizer)
                bytes_[module.value] += block.bytes;
        }
        for (std::size_t i = bytes_.size(); i-- > 1;) {
            const auto parent = trace_.modules.parent[ModuleId(static_cast<std::uint32_t>(i))];
            if (parent.valid())
                bytes_[parent.value] += bytes_[i];
        }
    }

    void part()
    {
        // Down along the module that holds most.
        std::uint32_t spine = 0;
        std::vector<std::uint32_t> beside;
        while (true) {
            const auto& below = children_[spine];
            const auto large = std::find_if(below.begin(), below.end(), [&](std::uint32_t child) {
                return static_cast<double>(bytes_[child]) >= spineShare * static_cast<double>(bytes_[spine])
                    && !children_[child].empty();
            });
            if (large == below.end())
                break;
            for (const auto child : below) {
                if (child != *large
                    && static_cast<double>(bytes_[child]) >= largeShare * static_cast<double>(bytes_[0]))
                    beside.push_back(child);
            }
            spine = *large;
        }
        std::vector<std::uint32_t> inside;
        std::copy_if(children_[spine].begin(), children_[spine].end(), std::back_inserter(inside),
                     [&](std::uint32_t child) { return bytes_[child] > 0; });
        // In the model's order: what lies before the spine, its children, what lies after.
        std::sort(beside.begin(), beside.end());
        const auto after = std::find_if(beside.begin(), beside.end(), [&](std::uint32_t m) { return m > spine; });
        std::for_each(beside.begin(), after, [&](std::uint32_t module) { addGroup({&module, 1}); });
        const std::size_t runs = std::min(inside.size(), ModuleGrouping::mostRuns);
        for (std::size_t run = 0; run < runs; ++run) {
            const std::size_t first = run * inside.size() / runs;
            const std::size_t last = (run + 1) * inside.size() / runs;
            addGroup(std::span(inside).subspan(first, last - first));
        }
        std::for_each(after, beside.end(), [&](std::uint32_t module) { addGroup({&module, 1}); });
    }

    void addGroup(std::span<const std::uint32_t> modules)
    {
        const auto number = static_cast<std::uint8_t>(made_.titles.size());
        std::string title = shortName(modules.front());
        if (modules.size() > 1) {
            const auto last = shortName(modules.back());
            const auto dot = last.rfind('.');
            title += "–" + (dot == std::string::npos ? last : last.substr(dot + 1));
        }
        made_.titles.push_back(std::move(title));
        for (const auto module : modules)
            mark(module, number);
    }

    void mark(std::uint32_t module, std::uint8_t number)
    {
        group_[module] = number;
        for (const auto child : children_[module])
            mark(child, number);
    }

    // Without the root's class name.
    std::string shortName(std::uint32_t module) const
    {
        const auto fqn = trace_.moduleFqn(ModuleId(module));
        const auto dot = fqn.find('.');
        return std::string(dot == std::string_view::npos ? fqn : fqn.substr(dot + 1));
    }

    const StepTrace& trace_;
    std::vector<std::vector<std::uint32_t>> children_;
    std::vector<Bytes> bytes_;
    std::vector<std::uint8_t> group_;
    std::vector<ModuleId> moduleOf_;
    ModuleGrouping made_;
};

} // namespace

std::uint8_t ModuleGrouping::groupOf(StorageId storage, Category category) const noexcept
{
    if (category == Category::optimizer)
        return optimizerGroup;
    return storage.valid() && storage.value < ofStorage.size() ? ofStorage[storage.value] : otherGroup;
}

ModuleGroupingPtr ModuleGrouping::of(const StepTrace& trace, const Timeline& recorded)
{
    return std::make_shared<const ModuleGrouping>(Partition(trace, recorded).make());
}

GroupedTimeline::GroupedTimeline(const StepTrace& trace, TimelinePtr timeline, ModuleGroupingPtr grouping)
    : timeline_(std::move(timeline))
    , grouping_(std::move(grouping))
{
    std::vector<Bytes> now(grouping_->size(), 0);
    for (const auto& block : liveBlocks(trace, *timeline_, 0))
        now[grouping_->groupOf(block.storage, block.category)] += block.bytes;
    const auto& changes = timeline_->changes;
    sums_.reserve((changes.size() / interval + 1) * now.size());
    for (std::size_t i = 0; i < changes.size(); ++i) {
        if (i % interval == 0)
            sums_.insert(sums_.end(), now.begin(), now.end());
        now[grouping_->groupOf(changes[i].storage, changes[i].category)] += changes[i].delta;
    }
    if (changes.size() % interval == 0)
        sums_.insert(sums_.end(), now.begin(), now.end());
}

void GroupedTimeline::bytesAt(std::size_t count, std::span<Bytes> groups) const
{
    assert(groups.size() == grouping_->size());
    const std::size_t leaf = count / interval;
    const auto first = sums_.begin() + static_cast<std::ptrdiff_t>(leaf * groups.size());
    std::copy_n(first, groups.size(), groups.begin());
    for (std::size_t i = leaf * interval; i < count; ++i) {
        const auto& change = timeline_->changes[i];
        groups[grouping_->groupOf(change.storage, change.category)] += change.delta;
    }
}

} // namespace headroom
