// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"
#include "core/policy/trainer_config.h"

namespace headroom {

/// The plan of least recomputation within a budget of device memory among those that the trainer's own options can
/// express; each is predicted on the step. Only the request's budget and world size are used. Infeasible if none fits.
/// Errors: a step without the layers that the trainer checkpoints.
///
/// For torchtitan's lists of ops to save, the ops that take longest to recompute are tried, without random ops.
Result<PlannedStep> planForTrainer(const StepTracePtr& trace, Trainer trainer, const PlanRequest& request);

} // namespace headroom
