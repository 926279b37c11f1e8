// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/module_grouping.h"

#include <algorithm>
#include <cassert>

namespace headroom {
namespace {

/// A module with at least this share of the memory is replaced by the children.
constexpr double largeShare = 0.3;
/// A module with less than this share gets no band of its own.
constexpr double smallShare = 0.01;
/// Largest number of bands of modules.
constexpr std::size_t mostGroups = 10;

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

    // Bytes of each module with all below it, at the peak. Parents come before children.
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

    using Run = std::vector<std::uint32_t>; ///< adjacent children of a module

    double share(const Run& run) const
    {
        Bytes sum = 0;
        for (const auto module : run)
            sum += bytes_[module];
        return static_cast<double>(sum) / static_cast<double>(bytes_[0]);
    }

    // The children that take the place of a module: each alone if few, in runs of the same length
    // if many.
    std::vector<Run> split(std::uint32_t module, std::size_t room) const
    {
        Run children;
        std::copy_if(children_[module].begin(), children_[module].end(), std::back_inserter(children),
                     [&](std::uint32_t child) { return bytes_[child] > 0; });
        const bool many = children.size() > ModuleGrouping::mostRuns;
        if (!many)
            std::erase_if(children, [&](std::uint32_t child) { return share({child}) < smallShare; });
        const std::size_t count = std::min({children.size(), ModuleGrouping::mostRuns, room});
        std::vector<Run> runs;
        for (std::size_t i = 0; i < count; ++i)
            runs.emplace_back(children.begin() + static_cast<std::ptrdiff_t>(i * children.size() / count),
                              children.begin() + static_cast<std::ptrdiff_t>((i + 1) * children.size() / count));
        return runs;
    }

    void part()
    {
        std::vector<Run> groups{{0}};
        while (true) {
            auto largest = groups.end();
            for (auto group = groups.begin(); group != groups.end(); ++group) {
                if (group->size() == 1 && !children_[group->front()].empty()
                    && (largest == groups.end() || share(*group) > share(*largest)))
                    largest = group;
            }
            if (largest == groups.end() || share(*largest) < largeShare)
                break;
            auto runs = split(largest->front(), mostGroups - (groups.size() - 1));
            if (runs.empty())
                break;
            const auto place = groups.erase(largest);
            groups.insert(place, std::make_move_iterator(runs.begin()), std::make_move_iterator(runs.end()));
        }
        for (const auto& group : groups)
            addGroup(group);
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

    std::string shortName(std::uint32_t module) const
    {
        return std::string(withoutRoot(trace_.moduleFqn(ModuleId(module))));
    }

    const StepTrace& trace_;
    std::vector<std::vector<std::uint32_t>> children_;
    std::vector<Bytes> bytes_;
    std::vector<std::uint8_t> group_;
    std::vector<ModuleId> moduleOf_;
    ModuleGrouping made_;
};

} // namespace

std::string_view withoutRoot(std::string_view fqn)
{
    const auto dot = fqn.find('.');
    return dot == std::string_view::npos ? fqn : fqn.substr(dot + 1);
}

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
