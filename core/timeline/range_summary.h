// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/timeline/timeline.h"
#include "core/trace/source_lines.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace headroom {

/// A range of a timeline: what happens after `beginMs`, up to and at `endMs`; from 0 on, also what happens at 0. So the
/// bytes at both ends are those of liveBlocks() at these times, and ranges side by side share nothing.
struct TimeRange
{
    double beginMs = 0;
    double endMs = 0;

    double ms() const noexcept { return endMs - beginMs; }
    bool contains(double ms) const noexcept { return (ms > beginMs || beginMs <= 0) && ms <= endMs; }
    /// Whether something from `begin` to `end` takes place in the range, if only in part.
    bool meets(double begin, double end) const noexcept { return begin <= endMs && (end > beginMs || beginMs <= 0); }
};

/// What happens in a range of a timeline: the memory that is made and freed there, and the ops that run. An op that
/// runs in a part of the range belongs to the range. A new category of a block makes and frees nothing.
struct RangeSummary
{
    /// Bytes that a module's ops, or a line of source code, make in the range.
    template <class Id>
    struct Share
    {
        Id id;
        Bytes bytes = 0;
        std::int64_t blocks = 0; ///< number
    };

    TimeRange range;
    Bytes atBegin = 0; ///< live bytes
    Bytes atEnd = 0; ///< live bytes: atBegin + made - freed
    Bytes peak = 0; ///< most live bytes in the range and at its ends
    Bytes made = 0;
    Bytes freed = 0;
    Bytes kept = 0; ///< part of `made` that is alive at the end
    /// The blocks that are made, largest first, with the bytes made and the last category. They sum up to `made`.
    std::vector<LiveBlock> blocks;
    std::vector<Share<ModuleId>> modules; ///< most bytes first; an invalid id: memory of no module
    std::vector<Share<std::uint32_t>> lines; ///< as `modules`, by SourceLines; empty: the step has no lines
    std::size_t ops = 0; ///< runs of ops, recomputations included
    std::size_t opsAgain = 0; ///< part of `ops` in recomputations that the plan adds
    std::vector<bool> runs; ///< by OpId: whether the op runs
    std::size_t collectives = 0;
    Bytes collectiveBytes = 0;
    std::shared_ptr<const SourceLines> source; ///< lines of the step; null: none

    /// By ModuleId: whether the module itself, without the modules inside, runs an op or makes memory.
    std::vector<bool> modulesAtWork(const StepTrace& trace) const;
};
using RangeSummaryPtr = std::shared_ptr<const RangeSummary>;

/// Returns what happens in the range. `trace` must outlive RangeSummary::source. Time: a pass over the timeline.
RangeSummary summaryOf(const StepTrace& trace, const Timeline& timeline, TimeRange range);

} // namespace headroom
