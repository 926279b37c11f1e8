// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"
#include "core/policy/trainer_config.h"

namespace headroom {

/// The plan of least recomputation within a budget of device memory among those that a trainer's own options can say:
/// each of them is predicted on the step. Of the request its budget and world size count. Infeasible when the step takes
/// more than the budget with each. Errors: a step without the layers that the trainer checkpoints.
///
/// torchtitan's lists of ops are tried of the ops that take longest to recompute, random ones left out.
Result<PlannedStep> planForTrainer(const StepTracePtr& trace, Trainer trainer, const PlanRequest& request);

} // namespace headroom
