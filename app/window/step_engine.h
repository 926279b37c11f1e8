// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_policy.h"
#include "core/plan/plan.h"
#include "core/policy/card_planner.h"
#include "core/policy/policy.h"
#include "core/policy/step_planner.h"
#include "core/predict/step_clock.h"

#include <QString>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

/// The settings of plans by op.
struct OpsChoice
{
    OpsSolver solver = OpsSolver::dp;
    OpsRuntime runtime = OpsRuntime::measured; ///< the window plans by time
    std::shared_ptr<const std::vector<double>> times; ///< by op, from a file of measurements; null: the step's own
    QString timesFile; ///< name of the file of `times`

    bool operator==(const OpsChoice&) const = default;
    OpsRequest request() const;
};

/// A frontier of plans by op, and the planner that made it. Immutable.
struct OpsFrontier
{
    OpsPlanner planner;
    std::vector<OpsPlan> plans; ///< peak ascending, recompute time descending; the last one recomputes nothing
    double stepMs = 0; ///< recorded time of forward and backward
    double solveMs = 0; ///< wall time
    bool complete = false; ///< false: only a few fractions are planned yet

    std::vector<FrontierPoint> points() const;
};
using OpsFrontierPtr = std::shared_ptr<const OpsFrontier>;

/// The plan of a frontier for a budget, with the decision for each op, and the ops with a changed decision.
struct OpsAnswer
{
    OpsFrontierPtr frontier;
    std::size_t index = 0; ///< index in frontier->plans
    std::vector<OpDecision> decisions; ///< by OpId
    std::vector<ChangedOp> changed; ///< ops ascending

    const OpsPlan& plan() const { return frontier->plans[index]; }
};
using OpsAnswerPtr = std::shared_ptr<const OpsAnswer>;

/// A plan by op as selective checkpoints of blocks: lists of ops to save that eager PyTorch can apply.
struct OpsPolicy
{
    OpsAnswerPtr of;
    Policy policy;
    std::string whyNot; ///< why there is no policy; empty: there is one
};
using OpsPolicyPtr = std::shared_ptr<const OpsPolicy>;

/// Plans `points` fractions. Errors: as OpsPlanner::plan().
Result<OpsFrontier> makeOpsFrontier(const OpsPlanner& planner, const OpsChoice& choice, int points,
                                    const std::stop_token& stop);

/// The plan of least recompute time within the budget; if none fits, the one of lowest peak.
OpsAnswer opsAnswer(const OpsFrontierPtr& frontier, Bytes budget);

/// The answer as a PlannedStep with its timeline; infeasible if the plan's peak is above the budget.
PlannedStep plannedStep(const OpsAnswer& answer, Bytes budget);

/// The window's interface to the planner of one recorded step: StepPlanner's functions as virtual functions, so that
/// tests of the window can replace the solver. Immutable; any thread may call every function.
class StepEngine
{
public:
    virtual ~StepEngine() = default;

    virtual const StepModel& model() const noexcept = 0;
    const StepTracePtr& trace() const noexcept { return model().trace(); }
    const TimelinePtr& recorded() const noexcept { return model().recorded(); }
    virtual const ModuleInfoPtr& moduleInfo() const noexcept = 0;
    virtual const ModuleEffects& effects() const noexcept = 0;

    /// The best plan found in about `limitMs`, with its gap.
    virtual Result<PlannedStep> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const = 0;
    virtual Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                        const FrontierWatch& grown) const = 0;
    virtual Result<std::vector<ModuleWay>> ways(ModuleId module) const = 0;
    virtual Result<PlanOnCard> planForCard(const PlanRequest& request, const Card& card,
                                           std::stop_token stop) const = 0;
    virtual Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const Card& card,
                                                                 const PlanOnCard& found,
                                                                 std::stop_token stop) const = 0;

    /// The clock of the step under a plan, by one replay; nullopt: the step has none (hasClock()).
    std::optional<StepClock> clock(const CheckpointPlan& plan) const
    {
        if (!hasClock(*trace()))
            return std::nullopt;
        const Result<StepClock> clock = clockOf(*trace(), model().index(), plan);
        return clock ? std::optional(*clock) : std::nullopt;
    }

protected:
    StepEngine() = default;
    StepEngine(const StepEngine&) = delete;
    StepEngine& operator=(const StepEngine&) = delete;
};

using StepEnginePtr = std::shared_ptr<const StepEngine>;
using StepEngineFactory = std::function<Result<StepEnginePtr>(StepTracePtr)>;

/// Makes the program's StepEngine: it calls StepPlanner, or only shows a step that is not plannable().
Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace);

} // namespace headroom
