// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_frontier.h"
#include "core/policy/card_planner.h"
#include "core/policy/plan_answer.h"
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

/// A plan by op as selective checkpoints of blocks: lists of ops to save that eager PyTorch can apply.
struct OpsPolicy
{
    OpsDecisionsPtr of;
    Policy policy;
    std::string whyNot; ///< why there is no policy; empty: there is one
};
using OpsPolicyPtr = std::shared_ptr<const OpsPolicy>;

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
    virtual Result<PlanAnswer> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const = 0;
    virtual Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                        const FrontierWatch& grown) const = 0;
    virtual Result<std::vector<ModuleWay>> ways(ModuleId module) const = 0;
    virtual Result<PlanAnswer> planForCard(const PlanRequest& request, const CardPtr& card,
                                           std::stop_token stop) const = 0;
    virtual Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const PlanAnswer& found,
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
