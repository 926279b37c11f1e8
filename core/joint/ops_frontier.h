// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_planner.h"
#include "core/policy/plan_answer.h"
#include "core/policy/step_planner.h"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// What a plan does with an op of forward.
enum class OpDecision : std::uint8_t {
    none, ///< backward needs no result of the op, or the program holds the result anyway
    saved, ///< a result of the op is held until backward
    recomputed, ///< recomputed in backward
    offloaded, ///< a result of the op goes to the host, and is back before backward needs the result
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

/// A frontier of plans by op, and the planner that made it. Immutable.
struct OpsFrontier
{
    OpsPlanner planner;
    std::vector<OpsPlan> plans; ///< peak ascending, recompute time descending; the last one recomputes nothing
    double solveMs = 0; ///< wall time
    bool complete = false; ///< false: only a few fractions are planned yet

    std::vector<FrontierPoint> points() const;
};
using OpsFrontierPtr = std::shared_ptr<const OpsFrontier>;

/// What the plan of an answer does with each op, and the ops with a changed decision.
struct OpsDecisions
{
    OpsFrontierPtr frontier;
    std::size_t index = 0; ///< index in frontier->plans
    std::vector<OpDecision> decisions; ///< by OpId
    std::vector<ChangedOp> changed; ///< from the next plan of the frontier, which has a higher peak; ops ascending

    const OpsPlan& plan() const { return frontier->plans[index]; }
};
using OpsDecisionsPtr = std::shared_ptr<const OpsDecisions>;

/// Plans `points` fractions. A plan that takes no less time than a plan of lower peak is left out, as plans chosen by
/// flops may be. Errors: as OpsPlanner::plan().
Result<OpsFrontier> makeOpsFrontier(const OpsPlanner& planner, const OpsRequest& request, int points,
                                    const std::stop_token& stop);

/// The answer of a frontier: the plan of least recompute time within the request's budget, with its clock. If no plan
/// fits, PlanAnswer::closest has the plan with the lowest peak, and PlanAnswer::ops its decisions. Only the budget
/// counts: plans by op depend on neither pins nor the world size.
PlanAnswer answerOf(const OpsFrontierPtr& frontier, const PlanRequest& request);

/// The answer with this plan of the planner, whatever its peak.
PlanAnswer answerOf(const OpsPlanner& planner, OpsPlan plan);

} // namespace headroom
