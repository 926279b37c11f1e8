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

/// The prediction of a plan for ops and the measurements of the plan's execution, on the device of the recorded step.
struct OpsVerification : LevelComparison
{
    Bytes predictedPeak = 0;
    OpsExecuted planned; ///< predicted by the plan
    OpsExecuted executed;
    /// Peaks of the real device's own allocator, in a plain step and in the planned step; 0 on other devices.
    AllocatorPeaks plainPeaks, plannedPeaks;
};

/// Runs two steps, the second by the plan, and measures the second. `planner` was made from a step of this model with
/// `options`. If that step was recorded with HostedMemory on a real device, `real` is this device, and a third step
/// is run for the peaks of the device's allocator; otherwise `real` is null. Error: a step that fails or does not
/// follow the plan.
Result<OpsVerification> verifyOps(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                  const OpsPlan& plan, RealDevice* real = nullptr);

/// The differences between the values of a plain step and of a step by the plan, on a device that computes.
struct OpsValues : GradientComparison
{
    std::string buffer; ///< first buffer (such as running statistics) that differs; empty: none

    bool equal() const { return GradientComparison::equal() && buffer.empty(); }
};

/// Runs forward and backward plainly and by the plan, and compares the values. The step must have been recorded with
/// HostedMemory on the device of the model. Error: a step that fails or does not follow the plan.
Result<OpsValues> compareValues(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                const OpsPlan& plan);

} // namespace headroom
