// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <string>
#include <vector>

namespace headroom {

/// Live memory of a step after each allocation. The order of frees between two allocations does not change the peak, so
/// frees have no entries.
struct MemoryLevels
{
    struct Allocation
    {
        Bytes bytes = 0; ///< rounded
        Bytes live = 0; ///< live bytes after the allocation, everything on the device
        bool operator==(const Allocation&) const = default;
    };
    Bytes start = 0;
    std::vector<Allocation> allocations;
    Bytes end = 0;
    Bytes peak() const;
};

/// The levels of a timeline. `changes`, if not null, becomes the index of each allocation in Timeline::changes.
MemoryLevels levelsOf(const Timeline& timeline, std::vector<std::size_t>* changes = nullptr);

/// The difference between an executed step and the predicted step. Allocations are matched before the comparison, so
/// that an allocation in only one of the steps does not shift the later allocations.
struct LevelComparison
{
    Bytes executedPeak = 0;
    std::size_t allocations = 0; ///< of the executed step, and further allocations of the predicted step
    std::size_t unequalAllocations = 0; ///< allocations with a different size or level, or made in a single step only
    Bytes largestDifference = 0; ///< the largest difference between matched allocations, in bytes
    std::string firstDifference; ///< a sentence; empty when the timelines are equal to the byte
    /// The first difference, in place of firstDifference, where only what was gathered differs: the peaks are equal,
    /// and so are the levels without gathered parameters and buffers of collectives. ZeRO gathers parameters that are
    /// not yet on the device.
    std::string gatherDifference;

    bool timelinesAgree() const { return firstDifference.empty(); }
};

/// Compares with levels alone; allocations are matched by size. `trace` is the step that `predicted` is of.
LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const MemoryLevels& executed);

/// Compares with a step that was recorded in execution, with the timeline `ran`; allocations are matched by size, op
/// and module, then by size.
LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const StepTrace& executed,
                              const Timeline& ran);

} // namespace headroom
