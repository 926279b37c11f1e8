// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/import.h"
#include "core/timeline/timeline.h"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace headroom {

/// An instant of a step, and what the program did then.
struct StepInstant
{
    double ms = 0; ///< since the step began
    std::string phase; ///< "start": before the first change
    std::string op; ///< empty: between ops
    std::string module; ///< of the op
};

/// Returns the instant of a change of the timeline; npos: the step's start.
StepInstant instantOf(const StepTrace& trace, const Timeline& timeline, std::size_t change);

/// Blocks that are alive at a step's peak and have the same module, category and op.
struct PeakHolding
{
    bool ofModule = false; ///< false: no module holds the blocks, as with optimizer state
    std::string module; ///< below the root; empty: the root
    Category category = Category::other;
    std::uint32_t line = UINT32_MAX; ///< index in PeakSide::lines; UINT32_MAX: no line is known
    std::string op; ///< the op that allocated the blocks; empty: older than the step, or allocated between ops
    Bytes bytes = 0;
    std::int64_t blocks = 0;
};

/// A line of source code that allocates. Two versions of a script have equal lines at other numbers.
struct AllocatingLine
{
    std::string text; ///< "model.py:57 Block.forward", printable
    std::string function; ///< file and function without the line: "model.py Block.forward"
    std::uint64_t number = 0; ///< rises with the line
    std::vector<std::string> ops; ///< different ops that the line runs, in the order of the first run
};

/// Ops with the same name in the same module and phase.
struct ComparedOp
{
    std::string name;
    std::string module; ///< below the root; empty: the root
    Phase phase = Phase::forward;

    friend auto operator<=>(const ComparedOp&, const ComparedOp&) = default;
};

/// What a comparison needs of a file: the blocks at the step's peak, and the ops that allocate. Names stand in place of
/// ids, so that sides of different files can be compared. Memory outside of PyTorch's allocator is left out, since a
/// simulation has none.
struct PeakSide
{
    std::string name; ///< for sentences
    std::string source; ///< StepInfo::source
    std::string root; ///< name of the root module
    Bytes peak = 0;
    Bytes nonPyTorch = 0; ///< the most memory outside of PyTorch, not in `peak`
    StepInstant instant; ///< of the peak
    std::vector<PeakHolding> holdings; ///< sum up to `peak`
    std::vector<AllocatingLine> lines;
    bool namesModules = false; ///< the file has modules besides the root
    bool namesOps = false; ///< false: a snapshot without frames
    std::vector<ComparedOp> kinds;
    std::vector<std::uint32_t> ops; ///< index in `kinds` of each op that allocates, in order
    std::vector<Bytes> made; ///< bytes that each of `ops` allocates
};

/// Returns the side of a step. Error (badInput): the step has no memory (a profiler's trace without profile_memory).
Result<PeakSide> peakSideOf(const StepTrace& trace, const Timeline& timeline, std::string name);

/// Returns the side of a snapshot: the same as of the step that importSnapshot() makes, in a fraction of the memory.
/// Error: as importSnapshot().
Result<PeakSide> peakSideOf(const SnapshotPart& part, std::string name);

} // namespace headroom
