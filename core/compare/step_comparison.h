// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <memory>
#include <string>
#include <vector>

namespace headroom {

/// A measured step beside the simulated one of the same model: which op is which, what each took, and the measured
/// memory laid over the time of the simulation. Memory that PyTorch's allocator does not know is left out of all bytes:
/// a simulation has none.
struct StepComparison
{
    /// By what the two time axes were laid over one another.
    enum class Axis {
        ops, ///< each op that both steps have begins and ends at the same place
        marks, ///< forward, backward and optimizer end at the same places; between them time is stretched
    };

    /// Sums over a module and what is inside of it.
    struct ModuleTimes
    {
        double predictedMs = 0;
        double measuredMs = 0;
        bool measured = false; ///< the measured step has ops of this module
    };

    StepTracePtr measured;
    Axis axis = Axis::ops;
    std::string note; ///< a sentence: why only the marks could be used, or what else is not comparable; may be empty
    std::vector<OpId> measuredOp; ///< by OpId of the simulated step: the same op; invalid: none
    std::size_t pairs = 0; ///< ops that both have
    TimelinePtr aligned; ///< measured memory at the instants of the simulated step
    Bytes predictedPeak = 0;
    Bytes measuredPeak = 0;
    Bytes nonPyTorch = 0; ///< of the measured device, not in its peak
    bool hasTimes = true; ///< false: the measured step says memory only (a memory snapshot)
    bool hasMemory = true; ///< false: it says times only (a profiler's trace without profile_memory)
    double predictedMs = 0; ///< sum of all ops
    double measuredMs = 0;
    std::vector<ModuleTimes> modules; ///< by ModuleId of the simulated step

    /// Measured time of an op of the simulated step; negative: not known.
    double measuredMsOf(OpId op) const
    {
        const OpId other = hasTimes ? measuredOp[op.value] : OpId();
        return other.valid() ? measured->ops.ms[other] : -1;
    }
};
using StepComparisonPtr = std::shared_ptr<const StepComparison>;

/// The simulated step with the measured times of the ops that both have, so that what is known of an op of one (its
/// shapes' cost) and of the other (its time) come together. Error (badInput), begins with `name`: they are not the same
/// steps.
Result<StepTracePtr> withMeasuredTimes(const StepTracePtr& predicted, const StepTrace& measured,
                                       const std::string& name);

/// `timeline` is that of the simulated step without a plan. Errors (badInput), each one sentence that begins with
/// `name`: the other step is simulated as well, or of another model.
Result<StepComparisonPtr> compareSteps(const StepTrace& predicted, const Timeline& timeline,
                                       const StepTracePtr& measured, const std::string& name);

} // namespace headroom
