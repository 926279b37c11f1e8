// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace headroom {

/// Bytes by category, indexed by the value of Category.
using CategoryBytes = std::array<Bytes, categoryCount>;
Bytes total(const CategoryBytes& bytes) noexcept;

/// One change of live memory.
struct MemoryChange
{
    /// Position on the step's time axis. Ops, recomputed ops too, run in sequence; no time passes between ops. An
    /// allocation inside an op is at the op's begin, a free inside an op at the op's end.
    double ms = 0;
    Bytes delta = 0; ///< > 0 a storage became alive, < 0 a storage died; a retype or resize is two changes
    StorageId storage; ///< storage of the trace; a recomputed copy has the id of its original
    OpId op; ///< the op during the change; invalid between ops
    Category category = Category::other;
    bool recomputed = false; ///< the change is of a recomputed copy of the storage
    std::uint32_t place = 0; ///< delta > 0: where the allocator places the block (core/trace/graph_ops.h)
};

/// Whether two adjacent changes only change the category of a storage.
constexpr bool isRetype(const MemoryChange& first, const MemoryChange& second)
{
    return first.storage == second.storage && first.delta < 0 && first.delta == -second.delta
        && first.category != second.category;
}

/// A block that died while other streams still used the block (StreamEventKind::use). The caching allocator reuses the
/// block only when the other streams are done. The times are an estimate, from the time model.
struct DelayedFree
{
    std::size_t change = 0; ///< index of the change in which the block died
    std::size_t until = 0; ///< index of the first allocation after the streams are done; npos: none in this step
};

/// A run of an op. Runs follow in sequence: a run ends where the next begins, the last with the step.
struct OpRun
{
    double beginMs = 0; ///< on the axis of MemoryChange::ms
    OpId op;
    bool again = false; ///< in a recomputation that the plan adds
};

/// The part of the time axis that a phase takes.
struct PhaseSpan
{
    Phase phase = Phase::forward;
    double beginMs = 0;
    double endMs = 0;
};

/// Live memory of one step over time: the bytes on the device after each change. Immutable.
///
/// predict() computes the timeline; an empty plan gives the timeline of the recorded step.
struct Timeline
{
    CategoryBytes start{}; ///< live bytes when the step begins
    std::vector<MemoryChange> changes; ///< ms ascending
    std::vector<DelayedFree> delayed; ///< by change, ascending; empty without a clock (hasClock())
    std::vector<PhaseSpan> phases;
    std::vector<OpRun> runs; ///< ms ascending; empty: not of a replay, such as a measured step on another step's axis
    double durationMs = 0;
    double recomputeMs = 0; ///< part of durationMs spent on ops that run a second time

    /// Pinned host memory of a plan's offload: the buffers are reused by size, and PyTorch's allocator of pinned memory
    /// rounds each up to a power of two.
    Bytes hostBytes = 0;
    Bytes movedBytes = 0; ///< bytes that a plan copies to the host in the step; as many come back
    Bytes peak = 0; ///< highest total
    std::size_t peakChange = 0; ///< index of the first change that reaches the peak; npos: the start
    CategoryBytes atPeak{};

    /// Live bytes at a mark, as MemTracker's snapshots: start, after_forward, after_backward, after_step,
    /// after_zero_grad.
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

/// The storages that are alive after the first `count` changes, largest first.
std::vector<LiveBlock> liveBlocks(const StepTrace& trace, const Timeline& timeline, std::size_t count);

/// A JSON object with the bytes of each category by its name (categoryName()).
nlohmann::ordered_json toJson(const StepInfo& info, const CategoryBytes& bytes);

/// Adds "at_peak", and "phases" with the bytes at each mark, to JSON output about a step. If a mark repeats, as in
/// gradient accumulation, the last mark counts.
void addAccount(nlohmann::ordered_json& document, const StepInfo& info, const Timeline& timeline);

} // namespace headroom
