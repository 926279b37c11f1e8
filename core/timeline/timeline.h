// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <array>
#include <memory>
#include <vector>

namespace headroom {

/// Bytes by Category, indexed by its value.
using CategoryBytes = std::array<Bytes, categoryCount>;
Bytes total(const CategoryBytes& bytes) noexcept;

/// One change of live memory.
struct MemoryChange
{
    /// On the step's own time axis: ops take their ms one after the other, recomputed ones too, and between ops no time
    /// passes. What an op allocates is there when the op begins; what dies inside an op is there until it ends.
    double ms = 0;
    Bytes delta = 0; ///< > 0 a storage became alive, < 0 it died; a retype or resize is two changes
    StorageId storage; ///< of the trace; a recomputed copy carries the id of its original
    OpId op; ///< during which it happened; invalid between ops
    Category category = Category::other;
    bool recomputed = false; ///< of a recomputed copy of the storage, not of the one that was recorded
};

/// A labelled stretch of the time axis.
struct PhaseSpan
{
    Phase phase = Phase::forward;
    double beginMs = 0;
    double endMs = 0;
};

/// Live memory of one step over time: what the device holds after each change. Immutable.
///
/// Built by predict() (with an empty plan it is the recorded step itself).
struct Timeline
{
    CategoryBytes start{}; ///< alive when the step begins
    std::vector<MemoryChange> changes; ///< ms ascending
    std::vector<PhaseSpan> phases;
    double durationMs = 0;
    double recomputeMs = 0; ///< of durationMs, time spent on ops that run a second time

    Bytes peak = 0; ///< highest total
    std::size_t peakChange = 0; ///< index of the change that reached it first; npos when the start is the peak
    CategoryBytes atPeak{};

    /// As MemTracker's snapshots: start, after_forward, after_backward, after_step, after_zero_grad.
    struct Snapshot
    {
        Mark mark = Mark::stepBegin;
        CategoryBytes bytes{};
    };
    std::vector<Snapshot> snapshots;

    static constexpr std::size_t npos = static_cast<std::size_t>(-1);
};

using TimelinePtr = std::shared_ptr<const Timeline>;

/// A storage that is alive at an instant.
struct LiveBlock
{
    StorageId storage;
    Bytes bytes = 0;
    Category category = Category::other;
    OpId creator;
    bool recomputed = false;
};

/// What is alive after the first `count` changes, largest first.
std::vector<LiveBlock> liveBlocks(const StepTrace& trace, const Timeline& timeline, std::size_t count);

} // namespace headroom
