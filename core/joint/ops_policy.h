// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_plan.h"
#include "core/policy/policy.h"

#include <span>
#include <vector>

namespace headroom {

/// Returns the blocks of a model, in the model's order. Blocks are the outermost modules that run, have children, and
/// have siblings of their type (layers.0, layers.1, …). Without any, the model itself is the block.
std::vector<ModuleId> blocksOf(const StepTrace& trace);

/// Converts an op-level plan to a policy that eager PyTorch can apply. Each of `modules` with a recomputation inside
/// becomes a selective checkpoint that saves the outputs that the plan saves, as far as PyTorch permits. A module is
/// recomputed as a whole, including ops that the plan would not repeat; ops outside the modules are unchanged. The
/// policy's `predicted` accounts for that. If `modules` is empty, the blocks are used; a block that cannot be
/// checkpointed (op_obstacles.h) is replaced by the modules inside that can. Error (badInput): a module inside another,
/// or a module that cannot be checkpointed; the sentence names the module and the obstacle.
Result<Policy> opsPolicy(const StepModel& model, const OpsPlan& plan, std::span<const ModuleId> modules = {});

} // namespace headroom
