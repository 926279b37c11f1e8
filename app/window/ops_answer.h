// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_fates.h"
#include "core/plan/plan_mode.h"
#include "core/policy/policy.h"
#include "core/policy/step_planner.h"

#include <QString>

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// How ops are planned.
struct OpsChoice
{
    OpsSolver solver = OpsSolver::dp;
    OpsRuntime runtime = OpsRuntime::measured; ///< the window's question is one of time
    std::shared_ptr<const std::vector<double>> times; ///< by op, measured elsewhere; null: those of the step
    QString timesFile; ///< its name

    bool operator==(const OpsChoice&) const = default;
    OpsRequest request() const;
};

/// Plans of single ops to choose from, and what made them. Immutable.
struct OpsFrontier
{
    OpsPlanner planner;
    std::vector<OpsPlan> plans; ///< peak ascending, recompute time descending; the last one recomputes nothing
    double stepMs = 0; ///< of forward and backward as recorded
    double solveMs = 0; ///< wall time
    bool complete = false; ///< else only a few fractions were planned, and more are to come

    std::vector<FrontierPoint> points() const;
};
using OpsFrontierPtr = std::shared_ptr<const OpsFrontier>;

/// The plan of a frontier for a budget: what it does to each op, and what is new in it.
struct OpsAnswer
{
    OpsFrontierPtr frontier;
    std::size_t index = 0; ///< of frontier->plans
    std::vector<OpFate> fates; ///< by OpId
    std::vector<OpFlip> flips; ///< ops ascending

    const OpsPlan& plan() const { return frontier->plans[index]; }
};
using OpsAnswerPtr = std::shared_ptr<const OpsAnswer>;

/// An op-level plan as selective checkpoints of the blocks: per-op save lists that eager PyTorch can apply.
struct OpsPolicy
{
    OpsAnswerPtr of;
    Policy policy;
    std::string whyNot; ///< why there is none; empty: there is one
};
using OpsPolicyPtr = std::shared_ptr<const OpsPolicy>;

/// `points` fractions are planned. Errors: as OpsPlanner::plan().
Result<OpsFrontier> makeOpsFrontier(const OpsPlanner& planner, const OpsChoice& choice, int points,
                                    const std::stop_token& stop);

/// The cheapest plan within the budget; the one with the lowest peak where none is.
OpsAnswer opsAnswer(const OpsFrontierPtr& frontier, Bytes budget);

/// The same as a plan of the window: with its timeline, infeasible where the budget is below it.
PlannedStep plannedStep(const OpsAnswer& answer, Bytes budget);

} // namespace headroom
