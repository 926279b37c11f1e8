// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"
#include "core/trace/step_trace.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace headroom {

/// A run of a collective, and the exposed time: the part that overlaps no other kernel.
struct TimedCollective
{
    OpId op;
    double beginMs = 0; ///< from the step's begin
    double atMs = 0; ///< on the axis of Timeline, where ops follow in sequence
    double ms = 0;
    double exposedMs = 0; ///< time when the GPU runs nothing else, or only collectives that began later
};

/// A call of a module of a plan that offloads: the copies to the host and back, none for a checkpointed module.
struct TimedOffload
{
    Bytes bytes = 0; ///< to the host
    double copyMs = 0; ///< both directions
    double exposedMs = 0; ///< time when the GPU waits for the copies and runs nothing
    double exposedOutMs = 0; ///< part of exposedMs for copies to the host
    double forwardEndMs = 0; ///< time from the step's begin, of the GPU
    double backwardBeginMs = 0; ///< the same
};

/// The duration of a step. The model: the CPU issues the ops in sequence, each stream of the GPU runs its kernels in
/// that order, and streams wait for stream events. Kernel times are Ops::ms, the CPU's time to issue an op is from
/// core/cost/op_issue.h. Other ranks are as fast as this rank: all begin a collective together.
struct StepClock
{
    double stepMs = 0; ///< time from the first op until the CPU and all streams are idle
    double gpuMs = 0; ///< sum of the times of kernels, without collectives
    double cpuMs = 0; ///< time when the CPU issues ops
    double kernels = 0; ///< number of launches; fractional where an op's launches are an average
    double recomputedKernels = 0; ///< part of `kernels` in recomputations that the plan adds
    double communicationMs = 0; ///< sum of the times of collectives
    double exposedMs = 0; ///< part of communicationMs that is exposed
    std::vector<TimedCollective> collectives; ///< in the order of beginMs
    double copyMs = 0; ///< sum of the times of the plan's copies to the host and back
    double exposedCopyMs = 0; ///< part of copyMs that is exposed
    std::vector<TimedOffload> offloads; ///< by call of the plan's modules, in the order of the forwards; may be shorter

    /// The largest of gpuMs, cpuMs, exposedMs and exposedCopyMs.
    enum class Bound : std::uint8_t { gpu, cpu, communication, copies };
    Bound bound() const noexcept
    {
        const double works = std::max(gpuMs, cpuMs);
        if (std::max(exposedMs, exposedCopyMs) > works)
            return exposedMs > exposedCopyMs ? Bound::communication : Bound::copies;
        return cpuMs > gpuMs ? Bound::cpu : Bound::gpu;
    }
};

/// Whether the step can be clocked: the step was simulated, and its file has signatures of the ops.
bool hasClock(const StepTrace& trace);

/// The clock of the step under a plan. Error: as predict().
Result<StepClock> clockOf(const StepTrace& trace, const CheckpointPlan& plan);
/// Takes a StepIndex that the caller keeps for many plans. Error: as predict().
Result<StepClock> clockOf(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan);

/// By event: the time from the step's begin, of the CPU and of the GPU, when all ops before are issued and have run.
struct EventTimes
{
    std::vector<double> cpuMs;
    std::vector<double> gpuMs;
};
EventTimes eventTimes(const StepTrace& trace, const StepIndex& index); ///< of the recorded step

/// The copies of a module that moves tensors to the host, all calls together.
struct ModuleOffload
{
    ModuleId module;
    Offload when;
    TimedOffload copies;
    enum class Moves : std::uint8_t { savedTensors, arguments, results, argumentsAndResults };
    Moves moves = Moves::savedTensors; ///< of a checkpointed module the others
    bool isCheckpointed() const noexcept { return moves != Moves::savedTensors; }
    std::string_view what() const noexcept; ///< "saved tensors"
};
/// The modules of a plan that move tensors to the host, in the plan's order. The times are 0 without hasClock(). Error:
/// as predict().
Result<std::vector<ModuleOffload>> offloadByModule(const StepTrace& trace, const CheckpointPlan& plan);
/// Takes a StepIndex that the caller keeps for many plans. Error: as predict().
Result<std::vector<ModuleOffload>> offloadByModule(const StepTrace& trace, const StepIndex& index,
                                                   const CheckpointPlan& plan);

/// An op in the issue order of a plan by op.
struct IssuedOp
{
    OpId op;
    bool again = false; ///< the op runs in a recomputation that the plan adds
};

/// The clock of a step with the issue order `ops`.
StepClock clockOfOps(const StepTrace& trace, std::span<const IssuedOp> ops);

/// The row of an op in StepTrace::Collectives; `op` must be a collective.
std::size_t collectiveRow(const StepTrace& trace, OpId op);

/// By row of StepTrace::Collectives: the module of the collective. FSDP's hooks run outside of the module. The recorder
/// names the module of a buffer where possible. Otherwise an all-gather belongs to the module of the shards that were
/// read last, and another collective of backward to the module of the ops right before the collective; in both cases,
/// to the nearest module outward in which a collective runs.
std::vector<ModuleId> collectiveModules(const StepTrace& trace);

/// Sums over a module's collectives, without the submodules' collectives.
struct ModuleCommunication
{
    ModuleId module;
    std::int64_t collectives = 0;
    Bytes bytes = 0;
    double ms = 0;
    double exposedMs = 0;
};
/// The modules that have collectives, by descending exposedMs.
std::vector<ModuleCommunication> communicationByModule(const StepTrace& trace, const StepClock& clock);

/// By ModuleId: exposed milliseconds of the module and its submodules; `modules` as collectiveModules() returns.
std::vector<double> exposedByModule(const StepTrace& trace, const std::vector<ModuleId>& modules,
                                    const StepClock& clock);

} // namespace headroom
