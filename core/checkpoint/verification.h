// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/executed_memory.h"
#include "core/checkpoint/gradient_comparison.h"
#include "core/cost/step_times.h"
#include "core/model/step_runner.h"
#include "core/policy/policy.h"

namespace headroom {

/// The prediction for a policy and the measurements of the policy's execution, on the simulated device.
struct Verification : LevelComparison
{
    Bytes budget = 0; ///< the policy's
    Bytes baselinePeak = 0; ///< peak without the policy
    Bytes predictedPeak = 0;
    double stepMs = 0; ///< time of forward and backward without the policy
    double stepFlops = 0; ///< flops of the whole step without the policy
    double predictedRecomputeMs = 0;
    double executedRecomputeMs = 0; ///< without the model's own recomputations
};

/// Records the step without the policy, predicts the step with the policy, and runs the step with the policy. `info`
/// and `device` are as for StepRunner::record(). Errors: a policy that does not fit the model, or a step that fails.
Result<Verification> verifyMemory(ModelSource& model, const StepRunner::Options& options, const Policy& policy,
                                  const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress,
                                  const TimeChoice& times = {});

/// Runs forward and backward without and with the policy from the same random numbers, and compares the gradients. Ops
/// that run under other names on this device are recomputed. Errors: as for verifyMemory().
Result<GradientComparison> compareGradients(ModelSource& model, const StepRunner::Options& options,
                                            const Policy& policy);

} // namespace headroom
