// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_frontier.h"
#include "core/policy/plan_answer.h"
#include "core/policy/policy.h"

#include <functional>
#include <span>
#include <stop_token>
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

/// The regions of opsPolicy(). Error (badInput): a module that cannot be checkpointed.
Result<CheckpointPlan> opsRegions(const StepModel& model, const OpsPlan& plan, std::span<const ModuleId> modules = {});

/// Bytes that move if the results of an op go to the host.
Bytes movedBytes(const StepModel& model, OpId op);

/// The point of a policy in a frontier of policies, without a gap.
FrontierPoint pointOf(const PlanAnswer& policy);

/// What a policy by op has to keep to, for hostedAnswer().
struct HostedLimits
{
    std::function<bool(const Timeline&)> fits; ///< whether the step may take this memory
    Bytes hostMemory = 0; ///< most pinned host memory; 0: any
    std::stop_token stop = {}; ///< ends the search early, with the best policy so far
};

/// Of policies of `plans`, in which results of saved ops and arguments of modules may go to the host: the policy that
/// takes the least time, of recomputation and exposed copies, within the limits. A plan by modules; the budget is the
/// peak. The search tries results and arguments of neighbouring sizes, of all modules alike but the last ones, and the
/// calls that a copy may take; the search is not exact. Error (infeasible): no policy is within the limits, or a
/// stop came before any was found. Error (badInput): as opsPolicy().
Result<PlanAnswer> hostedAnswer(const StepModel& model, std::span<const OpsPlan> plans,
                                std::span<const ModuleId> modules, const HostedLimits& limits);

/// The policy of a frontier's plans within the request's budget and host memory, as hostedAnswer() finds the policy.
/// PlanAnswer::ops says what happens to each op under the policy; `changed` are the ops with results that go to the
/// host, also as arguments, with the moved bytes. Errors: as hostedAnswer().
Result<PlanAnswer> hostedAnswer(const OpsFrontierPtr& frontier, const PlanRequest& request,
                                const std::stop_token& stop = {});

} // namespace headroom
