// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/simulated_allocator.h"
#include "core/trace/step_trace_builder.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace headroom {

/// Records the simulated card's memory outside of steps: what a program allocates before it trains, and between two
/// steps, as in an evaluation. It observes the allocator while no step is recorded.
///
/// Thread-safe, as an observer has to be.
class OutsideMemory final : public sim::BlockObserver
{
public:
    /// Creates one that observes from now on. If there are blocks already, the time before training is not recorded.
    static std::shared_ptr<OutsideMemory> watch();

    /// Ends the time since the last finished step: a step that began then is finished, or about to be.
    void stepFinishes();
    const StepTraceBuilder::Outside& beforeTraining() const { return beforeTraining_.rows; }
    /// Of the times between two steps so far, the one with the most bytes of its own.
    const StepTraceBuilder::Outside& betweenSteps() const { return betweenSteps_.rows; }
    /// A sentence on changes that were left out, as there were too many; empty: none matters.
    std::string remark() const;

    void allocated(sim::Block& block) override;
    void freed(sim::Block& block) override;
    void moved(sim::Block&, sim::Block&) override {} // an allocation and a free
    void refused(Bytes, Bytes) override {}
    void reserved(Bytes) override {}
    void emptied() override;

private:
    static constexpr std::size_t mostRows = 1 << 18; ///< of allocations; each may have a free in addition
    static constexpr std::uint32_t leftOut = 0xffffffff; ///< in place of a row
    struct Period
    {
        StepTraceBuilder::Outside rows;
        Bytes live = 0; ///< of blocks that the period allocated and has not freed
        Bytes peak = 0; ///< most of those
        Bytes keptPeak = 0; ///< most of those in `rows`
    };
    bool hasRoom() const;
    void add(OutsideKind kind, Bytes bytes, std::uint32_t stream, std::uint32_t row);

    std::mutex mutex_;
    bool knowsStart_ = true; ///< whether it observes since the program's start
    bool hasFinished_ = false; ///< a step has finished
    Period now_;
    std::unordered_map<const void*, std::uint32_t> rowOf_; ///< of living blocks of the period, by address
    Period beforeTraining_, betweenSteps_;
};

} // namespace headroom
