// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"
#include "core/trace/step_trace.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Returns a module's name without the class name of the root: "layers.0.attention"; empty for the root. The names that
/// DistributedDataParallel, torch.compile and PEFT put in front are left out ("module.", "_orig_mod.",
/// "base_model.model."), and so is PEFT's ".base_layer" behind, so that a wrapped model has the names of the plain one.
std::string_view belowRoot(std::string_view fqn);

/// Returns the name of an op that recordings, profiler's traces and all devices have in common: without the overload,
/// and without the library of cuDNN's and MIOpen's ops. "aten.add.Tensor" → "aten.add".
std::string_view commonOpName(std::string_view op);

/// Returns whether the steps have a module of the same name, besides the root.
bool sharesModules(const StepTrace& first, const StepTrace& second);

/// The pairs of ops of two recordings of one step: as many as possible with the same op, module and phase, in the same
/// order. If the second is a profiler's trace, overloads are ignored; modules are ignored if it has none of the
/// first's.
struct OpPairs
{
    std::vector<OpId> second; ///< by OpId of the first step; invalid: the op has no counterpart
    std::size_t count = 0;
};
OpPairs pairOps(const StepTrace& first, const StepTrace& second);

/// Compares a measured step with the simulated one of the same model: pairs of ops, their times, and the measured
/// memory on the time axis of the simulation. Memory that PyTorch's allocator does not know is left out of all bytes,
/// since a simulation has none.
struct StepComparison
{
    /// The method that aligned the two time axes.
    enum class Axis {
        ops, ///< each paired op begins and ends at the same place
        marks, ///< forward, backward and optimizer end at the same places; time between them is scaled linearly
    };

    /// Sums over a module, submodules included.
    struct ModuleTimes
    {
        double predictedMs = 0;
        double measuredMs = 0;
        bool measured = false; ///< the measured step has ops of this module
    };

    StepTracePtr measured;
    Axis axis = Axis::ops;
    std::string note; ///< one sentence: why only marks could be aligned, or what else is not comparable; may be empty
    std::vector<OpId> measuredOp; ///< by OpId of the simulated step: the paired op; invalid: none
    std::size_t pairs = 0; ///< number of paired ops
    TimelinePtr aligned; ///< measured memory on the time axis of the simulated step
    Bytes predictedPeak = 0;
    Bytes measuredPeak = 0;
    Bytes nonPyTorch = 0; ///< memory of the measured device outside of PyTorch, not in measuredPeak
    bool hasTimes = true; ///< false: the measured step has memory only (a memory snapshot)
    bool hasMemory = true; ///< false: it has times only (a profiler's trace without profile_memory)
    double predictedMs = 0; ///< sum of all ops
    double measuredMs = 0;
    std::vector<ModuleTimes> modules; ///< by ModuleId of the simulated step

    /// Returns the measured time of an op of the simulated step in ms; negative: not known.
    double measuredMsOf(OpId op) const
    {
        const OpId other = hasTimes ? measuredOp[op.value] : OpId();
        return other.valid() ? measured->ops.ms[other] : -1;
    }
};
using StepComparisonPtr = std::shared_ptr<const StepComparison>;

/// Returns the simulated step with the measured times of the paired ops. The error (badInput) begins with `name`: the
/// steps are of different models.
Result<StepTracePtr> withMeasuredTimes(const StepTracePtr& predicted, const StepTrace& measured,
                                       const std::string& name);

/// Returns the memory of any other step on the time axis of `step`: laid over it by the ops if at least half of the ops
/// are the same, else where forward, backward and optimizer end, else from begin to end. `timeline` is that of the
/// other step. Memory outside of PyTorch is left out.
Timeline onAxisOf(const StepTrace& step, const StepTrace& other, const Timeline& timeline);

/// Compares the steps. `timeline` is that of the simulated step without a plan. Errors (badInput) begin with `name`:
/// the other step is simulated too, or of another model.
Result<StepComparisonPtr> compareSteps(const StepTrace& predicted, const Timeline& timeline,
                                       const StepTracePtr& measured, const std::string& name);

} // namespace headroom
