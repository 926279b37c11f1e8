// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <string>
#include <vector>

namespace headroom {

/// Memory of a step as allocations see it. What is freed between two of them comes in no order that could be told apart
/// by a peak, so only the level after each allocation counts.
struct MemoryLevels
{
    struct Allocation
    {
        Bytes bytes = 0; ///< rounded
        Bytes live = 0; ///< afterwards, everything on the device
        bool operator==(const Allocation&) const = default;
    };
    Bytes start = 0;
    std::vector<Allocation> allocations;
    Bytes end = 0;
    Bytes peak() const;
};

/// The same of a predicted or recorded step; `changes` are the places of the allocations in the timeline's.
MemoryLevels levelsOf(const Timeline& timeline, std::vector<std::size_t>* changes = nullptr);

/// How far an executed step is from the predicted one. An allocation that only one of them makes does not move those
/// after it: each is compared with the one of the other step that it corresponds to.
struct LevelComparison
{
    Bytes executedPeak = 0;
    std::size_t allocations = 0; ///< of the executed step
    std::size_t unequalAllocations = 0; ///< of another size or level than predicted, and those of one step only
    Bytes largestDifference = 0; ///< of the levels, and of what only one of the steps allocates
    std::string firstDifference; ///< one sentence; empty when the timelines are equal to the byte

    bool timelinesAgree() const { return firstDifference.empty(); }
};

/// `trace` is the step that `predicted` was made of. Allocations correspond by their sizes.
LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const MemoryLevels& executed);

/// The same with a step that was recorded while it ran, `ran` its timeline: allocations correspond by op and module,
/// too.
LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const StepTrace& executed,
                              const Timeline& ran);

} // namespace headroom
