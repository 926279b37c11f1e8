// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>

namespace headroom {

/// How long a step takes when the CPU issues its ops one after the other and the GPU runs their kernels in that order.
/// The ops' milliseconds are those of the trace; what the CPU takes to issue them is core/cost/op_issue.h's.
struct StepClock
{
    double stepMs = 0; ///< from the first op until CPU and GPU are done
    double gpuMs = 0; ///< in which kernels run
    double cpuMs = 0; ///< in which the CPU issues ops
    double kernels = 0; ///< launched; lists of tensors count as the launches that they are cut into, on average
    double recomputedKernels = 0; ///< of them, those of recomputations that the plan adds

    /// The GPU waits for the CPU more than it works beyond what the CPU has issued.
    bool boundByCpu() const noexcept { return cpuMs > gpuMs; }
};

/// Whether a clock says anything of the step: it was simulated, and its file says what the ops were called with.
bool hasClock(const StepTrace& trace);

/// Of the step under a plan. Errors as predict().
Result<StepClock> clockOf(const StepTrace& trace, const CheckpointPlan& plan);
/// The same for one who asks plan after plan.
Result<StepClock> clockOf(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan);

} // namespace headroom
