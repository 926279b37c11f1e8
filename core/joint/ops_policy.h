// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_plan.h"
#include "core/joint/ops_planner.h"
#include "core/policy/policy.h"

#include <span>
#include <vector>

namespace headroom {

/// What a plan does with an op of forward.
enum class OpDecision : std::uint8_t {
    none, ///< backward needs no result of the op, or the program holds the result anyway
    saved, ///< a result of the op is held until backward
    recomputed, ///< recomputed in backward
};

/// Returns the decision for each op, by OpId.
std::vector<OpDecision> opDecisions(const StepTrace& trace, const OpsPlan& plan);

/// An op with a decision or retained bytes that differ between two plans.
struct ChangedOp
{
    OpId op;
    OpDecision before = OpDecision::none;
    OpDecision now = OpDecision::none;
    Bytes bytes = 0; ///< held bytes of the op's results, before minus now
};

/// Returns the differences of `now` from `before`; ops ascending.
std::vector<ChangedOp> changedOps(const StepTrace& trace, const OpsPlan& before, const OpsPlan& now);

/// Returns the plan without recomputation: the step as recorded. Such a plan may save more than the default min-cut
/// does.
OpsPlan planAsRecorded(const OpsPlanner& planner);

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
