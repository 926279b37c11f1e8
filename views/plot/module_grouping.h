// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A module's name without the class name of the root, with which every fqn begins.
std::string_view withoutRoot(std::string_view fqn);

/// Divides the modules of a step into a few groups, so that memory can be stacked by module. A module with a large
/// share of the memory is replaced by the children, and many children by runs ("layers.0–11"). Small modules
/// share a group. Optimizer state belongs to no module and is a separate group.
///
/// A storage belongs to the module that owns the parameter, or to the module whose op allocated it; in backward that is
/// the module of the forward op.
struct ModuleGrouping
{
    std::vector<std::string> titles; ///< from the bottom up: optimizer state, small modules, other modules in order
    std::vector<std::uint8_t> ofStorage; ///< by StorageId: the group
    static constexpr std::uint8_t optimizerGroup = 0;
    static constexpr std::uint8_t otherGroup = 1;
    static constexpr std::size_t mostRuns = 8; ///< most runs that the children of a module form

    std::size_t size() const noexcept { return titles.size(); }
    std::uint8_t groupOf(StorageId storage, Category category) const noexcept;

    /// Makes the groups by the bytes alive at the peak of `recorded`, a timeline of `trace`.
    static std::shared_ptr<const ModuleGrouping> of(const StepTrace& trace, const Timeline& recorded);
};
using ModuleGroupingPtr = std::shared_ptr<const ModuleGrouping>;

/// Live bytes of each group over a timeline. Sums are stored every `interval` changes, so that bytesAt() takes O(1)
/// time. Immutable; shares the timeline.
class GroupedTimeline
{
public:
    GroupedTimeline(const StepTrace& trace, TimelinePtr timeline, ModuleGroupingPtr grouping);

    const Timeline& timeline() const noexcept { return *timeline_; }
    const ModuleGrouping& grouping() const noexcept { return *grouping_; }

    /// Writes the live bytes of each group after the first `count` changes. Their sum is that of
    /// TimelinePyramid::bytesAt(count).
    void bytesAt(std::size_t count, std::span<Bytes> groups) const;

private:
    static constexpr std::size_t interval = 1024;

    TimelinePtr timeline_;
    ModuleGroupingPtr grouping_;
    std::vector<Bytes> sums_; ///< bytes of each group before change k * interval
};
using GroupedTimelinePtr = std::shared_ptr<const GroupedTimeline>;

} // namespace headroom
