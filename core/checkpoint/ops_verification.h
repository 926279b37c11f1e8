// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/executed_memory.h"
#include "core/checkpoint/gradient_comparison.h"
#include "core/checkpoint/ops_execution.h"
#include "core/device/real_device.h"
#include "core/joint/ops_planner.h"
#include "core/model/step_runner.h"

namespace headroom {

/// A plan for ops, and what following it showed on the device on which its step was recorded.
struct OpsVerification : LevelComparison
{
    Bytes predictedPeak = 0;
    OpsExecuted planned; ///< what the plan says of it
    OpsExecuted executed;
    /// What a real device's own allocator counted at the peaks of a plain step and of the planned one; else 0.
    AllocatorPeaks plainPeaks, plannedPeaks;
};

/// Runs two steps, the second by the plan, and watches it. `planner` has the step of this model and these options.
/// `real`: the device that it was recorded on with HostedMemory, and a third step is run to ask its allocator; null:
/// the simulated one, or the CPU.
Result<OpsVerification> verifyOps(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                  const OpsPlan& plan, RealDevice* real = nullptr);

/// What following the plan does to the values of a model on a device that computes.
struct OpsValues : GradientComparison
{
    std::string buffer; ///< the first that is not as after the plain step (running statistics); empty: none

    bool equal() const { return GradientComparison::equal() && buffer.empty(); }
};

/// The step was recorded with HostedMemory on the device where the model is.
Result<OpsValues> compareValues(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                const OpsPlan& plan);

} // namespace headroom
