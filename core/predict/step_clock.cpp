// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/step_clock.h"

#include "core/cost/op_issue.h"
#include "core/predict/regions.h"
#include "core/predict/replay_rules.h"

#include <algorithm>
#include <memory>

namespace headroom {
namespace {

/// A Memory of replays that counts no memory: it follows two clocks.
class ClockMemory
{
public:
    using Block = std::uint32_t;

    explicit ClockMemory(const StepTrace& trace)
        : issues_(opIssues(trace))
        , storages_(static_cast<Block>(trace.storages.size()))
    {
    }

    void hold(Block) {}
    void drop(Block) {}
    Block addCopy(StorageId, Bytes) { return storages_++; }
    void resize(Block, Bytes) {}
    void retype(StorageId, Category) {}
    void mark(Mark mark)
    {
        if (mark != Mark::stepBegin)
            return;
        clock_ = {};
        cpu_ = 0;
        gpu_ = 0;
    }

    void beginOp(OpId op, double ms)
    {
        op_ = op;
        const OpIssue& issue = issues_[op.value];
        cpu_ += issue.cpuMs;
        clock_.cpuMs += issue.cpuMs;
        if (ms > 0) {
            gpu_ = std::max(gpu_, cpu_ + launchMs) + ms + issue.gapMs;
            clock_.gpuMs += ms;
            clock_.kernels += issue.kernels;
        }
        if (issue.waits)
            cpu_ = std::max(cpu_, gpu_);
    }
    void endOp() {}
    void addRecomputeMs(double ms) { clock_.recomputedKernels += ms > 0 ? issues_[op_.value].kernels : 0; }

    StepClock finish() &&
    {
        clock_.stepMs = std::max(cpu_, gpu_);
        return clock_;
    }

private:
    /// From the launch on the CPU until a kernel begins on an idle GPU.
    static constexpr double launchMs = 0.004;

    std::vector<OpIssue> issues_;
    Block storages_;
    OpId op_;
    double cpu_ = 0; ///< when the CPU has issued what came until now
    double gpu_ = 0; ///< when the GPU has run it
    StepClock clock_;
};

} // namespace

bool hasClock(const StepTrace& trace)
{
    return trace.info.simulated && trace.ops.signature.size() > 0;
}

Result<StepClock> clockOf(const StepTrace& trace, const CheckpointPlan& plan)
{
    return clockOf(trace, StepIndex(trace), plan);
}

Result<StepClock> clockOf(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    const Result<Regions> regions = layOut(trace, index, plan);
    if (!regions)
        return regions.error();
    ReplayNotes notes;
    Replay<ClockMemory> replay(trace, index, *regions, ClockMemory(trace), notes);
    for (const std::uint32_t event : index.memoryEvents)
        replay.step(event);
    replay.finish();
    return std::move(replay.memory()).finish();
}

} // namespace headroom
