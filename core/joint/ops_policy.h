// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_plan.h"
#include "core/policy/policy.h"

#include <span>
#include <vector>

namespace headroom {

/// The blocks of a model: of the modules that run, the outermost with children that stand beside others of their type
/// (layers.0, layers.1, …); the model itself when it has none. In the model's order.
std::vector<ModuleId> blocksOf(const StepTrace& trace);

/// An op-level plan as what eager PyTorch can apply: each of `modules` in which the plan repeats something becomes a
/// selective checkpoint that saves the outputs that the plan saves, as far as PyTorch lets them be saved. A module runs
/// again as a whole, ops that the plan would leave out included, and what is outside the modules stays as it is: what
/// that takes is in `predicted`. Without `modules` they are the blocks; in place of one that cannot be checkpointed
/// (op_obstacles.h) those inside of it that can. Errors: modules that contain one another, or cannot be checkpointed.
Result<Policy> opsPolicy(const StepModel& model, const OpsPlan& plan, std::span<const ModuleId> modules = {});

} // namespace headroom
