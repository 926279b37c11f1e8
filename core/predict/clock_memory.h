// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_issue.h"
#include "core/predict/step_clock.h"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom {

/// A span of time, in milliseconds.
struct TimeSpan
{
    double begin = 0;
    double end = 0;
};

/// A Memory of replays that counts no memory, but follows the clocks of the CPU and of each stream.
class ClockMemory
{
public:
    using Block = std::uint32_t;

    explicit ClockMemory(const StepTrace& trace);

    void hold(Block) {}
    void drop(Block) {}
    Block addCopy(StorageId, Bytes) { return storages_++; }
    void resize(Block, Bytes) {}
    void retype(StorageId, Category) {}
    void mark(Mark mark);
    void beginOp(OpId op, double ms);
    void endOp() {}
    void addRecomputeMs(double ms) { clock_.recomputedKernels += ms > 0 ? issues_[op_.value].kernels : 0; }

    // Copies of moved storages, by index in Regions::moved. Each direction has a stream.
    void copyOut(std::uint32_t moved, std::uint32_t region, Bytes bytes);
    void waitOut(std::uint32_t moved, std::uint32_t region)
    {
        const double exposed = await(outEnds_[moved], region);
        offloadOf(region).exposedOutMs += exposed;
    }
    void copyIn(std::uint32_t moved, std::uint32_t region, Bytes bytes);
    void waitIn(std::uint32_t moved, std::uint32_t region) { await(inEnds_[moved], region); }
    void endCopy(std::uint32_t, Bytes) {}
    void endCall(std::uint32_t region) { offloadOf(region).forwardEndMs = streams_[stream_]; }
    void beginBackward(std::uint32_t region) { offloadOf(region).backwardBeginMs = streams_[stream_]; }

    /// Lets the stream events before the event at index `event` happen, for a caller that asks for times between ops.
    void reach(std::uint32_t event);
    /// The time when the CPU has issued all ops so far.
    double cpuMs() const { return cpu_; }
    /// The time when the stream of the last op has run all work issued so far.
    double gpuMs() const
    {
        const auto found = streams_.find(stream_);
        return found == streams_.end() ? 0 : found->second;
    }
    /// Ends the uses of a block by other streams. Returns the time when the other streams have run all work issued so
    /// far; nullopt without a use.
    std::optional<double> endUses(Block block);

    StepClock finish() &&;

private:
    void run(OpId op, TimeSpan span, double ms);
    double copy(double& stream, std::uint32_t region, double ms);
    double await(double& copyEnd, std::uint32_t region);
    TimedOffload& offloadOf(std::uint32_t region);
    void happenBefore(OpId op);
    void recordBehind(OpId op, std::uint32_t stream);
    void happen(std::size_t row);

    const StepTrace* trace_;
    std::vector<OpIssue> issues_;
    Block storages_;
    OpId op_;
    double cpu_ = 0;
    double issued_ = 0; ///< sum of the ms of the ops so far
    std::size_t happened_ = 0; ///< rows of stream events; a recomputation lets some happen again
    std::uint32_t begun_ = 0; ///< ops with smaller ids have begun: a recomputation runs such ops
    std::unordered_map<std::uint32_t, double>
        streams_; ///< by stream: time when the stream has run all work issued so far
    std::unordered_map<std::uint32_t, double> recorded_; ///< by stream event: time of the event
    std::unordered_map<Block, std::vector<std::uint32_t>> uses_; ///< streams that use a block of another stream
    HostLink link_;
    std::uint32_t stream_ = 0; ///< of the last op
    double out_ = 0, in_ = 0; ///< time when the stream of a direction has run all copies issued so far
    std::unordered_map<std::uint32_t, double> outEnds_, inEnds_; ///< by moved storage: end of the copy; 0: awaited
    std::vector<TimeSpan> busy_; ///< spans of kernels that are no collectives
    StepClock clock_;
};

} // namespace headroom
