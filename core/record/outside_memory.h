// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"
#include "core/trace/step_trace_builder.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace headroom {

/// Records the simulated card's memory outside of steps: what a program allocates before training, and between two
/// steps, as in an evaluation. A step that is not kept, as a forward pass before there is an optimizer, is outside of
/// steps, too. All blocks of such a step count, with two exceptions:
/// - The step takes more memory than training keeps between steps. Blocks that the step frees again do not count then,
///   except for blocks allocated under no_grad: a plan changes the other blocks.
/// - The step ran out of memory. No block that the step frees again counts: on another card the step takes other
///   blocks.
///
/// Thread-safe.
class OutsideMemory final : public sim::MemoryLog
{
public:
    /// Creates a log that records from now on. If there were allocations before, the time before training is not
    /// recorded.
    static std::shared_ptr<OutsideMemory> watch();

    void stepBegins();
    /// Keeps the step that runs: the time outside of steps ended when the step began, and goes on after stepEnds().
    void keepStep();
    /// Ends the step, kept or not. Does nothing if no step runs.
    void stepEnds();

    const StepTraceBuilder::Outside& beforeTraining() const { return beforeTraining_.rows; }
    /// Of the times between two steps so far, the time with the most bytes of own blocks.
    const StepTraceBuilder::Outside& betweenSteps() const { return betweenSteps_.rows; }
    /// Sentences on what is left out and may matter for a card, after keepStep(): changes, as there were too many, and
    /// steps that were not kept, if such a step took more memory than the kept step.
    std::vector<std::string> remarks() const;

    /// Most bytes that a step that was not kept took outside of no_grad, if the step had room; 0: no such step.
    Bytes mostNotKept() const;

    void taken(std::uint64_t number, Bytes requested, std::uint32_t stream) override;
    void returned(std::uint64_t number, Bytes requested, std::uint32_t stream) override;
    void refused() override;
    void emptied() override;

private:
    static constexpr std::size_t mostRows = 1 << 18; ///< of allocations; each may have a free in addition
    static constexpr std::uint32_t leftOut = std::numeric_limits<std::uint32_t>::max(); ///< in place of a row
    struct Period
    {
        StepTraceBuilder::Outside rows;
        std::vector<bool> withGradients; ///< by row: whether a block was allocated outside of no_grad
        Bytes live = 0; ///< of blocks that the period allocated and has not freed
        Bytes peak = 0; ///< most live bytes
        Bytes keptPeak = 0; ///< most live bytes in `rows`
    };
    /// The period when the step that runs began.
    struct Mark
    {
        std::size_t rows = 0;
        Bytes live = 0; ///< of all blocks
        Bytes peak = 0;
        Bytes keptPeak = 0;
    };
    /// A step that was not kept.
    struct NotKept
    {
        std::size_t begin = 0, end = 0; ///< rows of the period
        Bytes peak = 0; ///< most bytes: the step's own blocks from outside of no_grad, and all older blocks
        bool wasFull = false; ///< a request had no room
    };
    bool hasRoom() const;
    void add(OutsideKind kind, Bytes bytes, std::uint32_t stream, std::uint32_t row);
    void keepWhatStays(Period& period);

    mutable std::mutex mutex_;
    bool knowsStart_ = true; ///< whether the log records since the program's start
    bool hasFinished_ = false; ///< a step was kept
    bool isKept_ = false; ///< the step that runs is kept
    bool wasFull_ = false; ///< in the step that runs a request had no room
    Bytes live_ = 0; ///< of all blocks
    Bytes stepPeak_ = 0; ///< most bytes of all blocks in the step that runs, or ran last
    Bytes ownLive_ = 0, ownPeak_ = 0; ///< of the step that runs: own blocks from outside of no_grad
    Bytes mostNotKept_ = 0;
    Bytes peakLeftOut_ = 0; ///< most of NotKept::peak of steps that had room and are left out
    bool isInStep_ = false;
    Period now_;
    Mark mark_;
    std::vector<NotKept> notKept_; ///< of the period
    std::unordered_map<std::uint64_t, std::uint32_t> rowOf_; ///< of the period's living blocks, by number
    Period beforeTraining_, betweenSteps_;
};

} // namespace headroom
