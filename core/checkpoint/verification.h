// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/executed_memory.h"
#include "core/checkpoint/gradient_comparison.h"
#include "core/cost/step_times.h"
#include "core/model/step_runner.h"
#include "core/policy/policy.h"

namespace headroom {

/// The prediction for a policy and the measurements of its execution, on the simulated device.
struct Verification : LevelComparison
{
    Bytes budget = 0; ///< of the policy
    Bytes baselinePeak = 0; ///< of the step without the policy
    Bytes predictedPeak = 0;
    double stepMs = 0; ///< forward and backward without the policy
    double stepFlops = 0; ///< of the whole step without the policy
    double predictedRecomputeMs = 0;
    double executedRecomputeMs = 0; ///< without what the model recomputes by itself
};

/// Records the step without the policy, predicts it with the policy, and runs it with the policy. `info` and `device`
/// are as for StepRunner::record(). Errors: a policy that does not fit the model, or a step that fails.
Result<Verification> verifyMemory(ModelSource& model, const StepRunner::Options& options, const Policy& policy,
                                  const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress,
                                  const TimeChoice& times = {});

/// Runs forward and backward without and with the policy, both from the same random numbers. Ops that do not run on the
/// CPU under the policy's names are recomputed.
Result<GradientComparison> compareGradients(ModelSource& model, const StepRunner::Options& options,
                                            const Policy& policy);

} // namespace headroom
