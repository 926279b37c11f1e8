// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace headroom {

/// Parts the modules of a step into a few groups, so that memory can be stacked by module: children take the place of a
/// module that holds a large share, runs of them together where there are many ("layers.0–11"). Small modules share one
/// group. Optimizer state belongs to no module and is a group of its own.
///
/// A storage is of the module that owns the parameter, or of the module whose op created it; in backward that is the
/// module of the forward op.
struct ModuleGrouping
{
    std::vector<std::string> titles; ///< from the bottom of the stack up: optimizer state, other modules, then in order
    std::vector<std::uint8_t> ofStorage; ///< group by StorageId
    static constexpr std::uint8_t optimizerGroup = 0;
    static constexpr std::uint8_t otherGroup = 1;
    static constexpr std::size_t mostRuns = 8; ///< of children of one module

    std::size_t size() const noexcept { return titles.size(); }
    std::uint8_t groupOf(StorageId storage, Category category) const noexcept;

    /// By what is alive at the peak of `recorded`, which is a timeline of the trace.
    static std::shared_ptr<const ModuleGrouping> of(const StepTrace& trace, const Timeline& recorded);
};
using ModuleGroupingPtr = std::shared_ptr<const ModuleGrouping>;

/// Live bytes of each group over a timeline: any instant in O(1), by sums kept at every so many changes. Immutable,
/// shares the timeline.
class GroupedTimeline
{
public:
    GroupedTimeline(const StepTrace& trace, TimelinePtr timeline, ModuleGroupingPtr grouping);

    const Timeline& timeline() const noexcept { return *timeline_; }
    const ModuleGrouping& grouping() const noexcept { return *grouping_; }

    /// After the first `count` changes, one number for each group. Adds up to TimelinePyramid::bytesAt(count).
    void bytesAt(std::size_t count, std::span<Bytes> groups) const;

private:
    static constexpr std::size_t interval = 1024;

    TimelinePtr timeline_;
    ModuleGroupingPtr grouping_;
    std::vector<Bytes> sums_; ///< before change k * interval, for each group
};
using GroupedTimelinePtr = std::shared_ptr<const GroupedTimeline>;

} // namespace headroom
