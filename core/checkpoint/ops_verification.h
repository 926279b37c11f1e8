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

/// The prediction of a plan for ops and the measurements of its execution, on the device of the recorded step.
struct OpsVerification : LevelComparison
{
    Bytes predictedPeak = 0;
    OpsExecuted planned; ///< as the plan predicts
    OpsExecuted executed;
    /// Peaks of the real device's own allocator, in a plain step and in the planned one; 0 on other devices.
    AllocatorPeaks plainPeaks, plannedPeaks;
};

/// Runs two steps, the second by the plan, and measures the second. `planner` was made from a step of this model with
/// these options. `real` is the device on which that step was recorded with HostedMemory; a third step is then run for
/// the peaks of its allocator. `real` null: the simulated device, or the CPU.
Result<OpsVerification> verifyOps(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                  const OpsPlan& plan, RealDevice* real = nullptr);

/// How following the plan changes the values of a model, on a device that computes.
struct OpsValues : GradientComparison
{
    std::string buffer; ///< first buffer (running statistics) that differs from the plain step's; empty: none

    bool equal() const { return GradientComparison::equal() && buffer.empty(); }
};

/// Runs forward and backward plainly and by the plan, and compares the values. The step must have been recorded with
/// HostedMemory on the device of the model.
Result<OpsValues> compareValues(ModelSource& model, const StepRunner::Options& options, const OpsPlanner& planner,
                                const OpsPlan& plan);

} // namespace headroom
