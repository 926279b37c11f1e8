// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/executed_memory.h"
#include "core/checkpoint/gradient_comparison.h"
#include "core/cost/step_times.h"
#include "core/model/step_runner.h"
#include "core/policy/policy.h"

#include <optional>
#include <string>

namespace headroom {

/// A policy's promise and what running it showed, on the simulated device.
struct Verification : LevelComparison
{
    Bytes budget = 0; ///< the policy's
    Bytes baselinePeak = 0; ///< of the step without the policy
    Bytes predictedPeak = 0;
    double stepMs = 0; ///< forward and backward without the policy
    double stepFlops = 0; ///< of the whole step without it
    double predictedRecomputeMs = 0;
    double executedRecomputeMs = 0; ///< beyond what the model recomputes without it
};

/// Runs the step without the policy and records it, predicts it with the policy, and runs it with the policy. `info`
/// and `device` as for StepRunner::record(). Errors: those of a policy that does not fit the model, and of the steps.
Result<Verification> verifyMemory(ModelSource& model, const StepRunner::Options& options, const Policy& policy,
                                  const StepInfo& info, const DeviceSpec& device, const ProgressReport& progress,
                                  const TimeChoice& times = {});

/// Runs forward and backward without and with the policy, both from the same random numbers. Ops that do not run on the
/// CPU under the name that the policy has for them are recomputed.
Result<GradientComparison> compareGradients(ModelSource& model, const StepRunner::Options& options,
                                            const Policy& policy);

} // namespace headroom
