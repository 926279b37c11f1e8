// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// One run of a collective, and how much of it no other kernel hides.
struct TimedCollective
{
    OpId op;
    double beginMs = 0; ///< since the step began
    double atMs = 0; ///< on the axis of Timeline, where ops follow one another
    double ms = 0;
    double exposedMs = 0; ///< in which the GPU does nothing else; of several at once the first has it
};

/// How long a step takes when the CPU issues its ops one after the other and each stream of the GPU runs its kernels in
/// that order, held up by the events between them. The ops' milliseconds are those of the trace; what the CPU takes to
/// issue them is core/cost/op_issue.h's. Other ranks are as fast as this one: they begin each collective with it.
struct StepClock
{
    double stepMs = 0; ///< from the first op until the CPU and all streams are done
    double gpuMs = 0; ///< in which kernels run, collectives apart
    double cpuMs = 0; ///< in which the CPU issues ops
    double kernels = 0; ///< launched; lists of tensors count as the launches that they are cut into, on average
    double recomputedKernels = 0; ///< of them, those of recomputations that the plan adds
    double communicationMs = 0; ///< sum of the collectives
    double exposedMs = 0; ///< of it, what the step waits for
    std::vector<TimedCollective> collectives; ///< as they begin

    /// What most of the step is spent on.
    enum class Bound : std::uint8_t { gpu, cpu, communication };
    Bound bound() const noexcept
    {
        if (exposedMs > gpuMs && exposedMs > cpuMs)
            return Bound::communication;
        return cpuMs > gpuMs ? Bound::cpu : Bound::gpu;
    }
    /// The GPU waits for the CPU more than it works beyond what the CPU has issued.
    bool boundByCpu() const noexcept { return bound() == Bound::cpu; }
};

/// Whether a clock says anything of the step: it was simulated, and its file says what the ops were called with.
bool hasClock(const StepTrace& trace);

/// Of the step under a plan. Errors as predict().
Result<StepClock> clockOf(const StepTrace& trace, const CheckpointPlan& plan);
/// The same for one who asks plan after plan.
Result<StepClock> clockOf(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan);

/// The row of an op in StepTrace::Collectives; it has one.
std::size_t collectiveRow(const StepTrace& trace, OpId op);

/// By row of StepTrace::Collectives: the module that it works for. FSDP's hooks run outside of it: where the recorder
/// did not say whose buffer it is, a gather is of the module whose shards were read last, another collective of
/// backward of that whose ops ran before it, both up to the next module inside of which one runs.
std::vector<ModuleId> collectiveModules(const StepTrace& trace);

/// A module's collectives, those of the modules inside of it apart.
struct ModuleCommunication
{
    ModuleId module;
    std::int64_t collectives = 0;
    Bytes bytes = 0;
    double ms = 0;
    double exposedMs = 0;
};
/// Of the modules that communicate, the most exposed first.
std::vector<ModuleCommunication> communicationByModule(const StepTrace& trace, const StepClock& clock);

/// By ModuleId: exposed milliseconds of the module and of those inside of it; `modules` as collectiveModules() says.
std::vector<double> exposedByModule(const StepTrace& trace, const std::vector<ModuleId>& modules,
                                    const StepClock& clock);

} // namespace headroom
