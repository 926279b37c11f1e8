// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_engine.h"

#include "core/base/elapsed.h"
#include "core/predict/step_model.h"
#include "core/trace/phase_times.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace headroom {
namespace {

/// Leaves out each plan that takes no less time than one of lower peak, as plans chosen by flops may.
std::vector<OpsPlan> worthwhile(std::vector<OpsPlan> plans, OpsPlan recorded)
{
    std::vector<OpsPlan> chosen;
    for (OpsPlan& plan : plans)
        if (plan.recomputeMs > 0 && plan.peak < recorded.peak
            && (chosen.empty() || plan.recomputeMs < chosen.back().recomputeMs))
            chosen.push_back(std::move(plan));
    chosen.push_back(std::move(recorded));
    return chosen;
}

} // namespace

std::vector<FrontierPoint> OpsFrontier::points() const
{
    std::vector<FrontierPoint> points;
    for (const OpsPlan& plan : plans)
        points.push_back({plan.peak, plan.recomputeMs, 0});
    return points;
}

OpsRequest OpsChoice::request() const
{
    OpsRequest request;
    request.solver = solver;
    request.runtime = runtime;
    if (times)
        request.measuredMs = *times;
    return request;
}

Result<OpsFrontier> makeOpsFrontier(const OpsPlanner& planner, const OpsChoice& choice, int points,
                                    const std::stop_token& stop)
{
    const auto begin = std::chrono::steady_clock::now();
    Result<std::vector<OpsPlan>> plans = planner.frontier(choice.request(), points, stop);
    if (!plans)
        return plans.error();
    const double tookMs = elapsedMs(begin);
    return OpsFrontier{planner, worthwhile(*std::move(plans), planAsRecorded(planner)),
                       forwardBackwardMs(*planner.graph().trace), tookMs, false};
}

OpsAnswer opsAnswer(const OpsFrontierPtr& frontier, Bytes budget)
{
    const std::vector<OpsPlan>& plans = frontier->plans;
    const StepTrace& trace = *frontier->planner.graph().trace;
    const auto above = std::ranges::upper_bound(plans, budget, {}, &OpsPlan::peak);
    OpsAnswer answer;
    answer.frontier = frontier;
    answer.index = above == plans.begin() ? 0 : static_cast<std::size_t>(above - plans.begin()) - 1;
    answer.decisions = opDecisions(trace, answer.plan());
    if (answer.index + 1 < plans.size())
        answer.changed = changedOps(trace, plans[answer.index + 1], answer.plan());
    return answer;
}

PlannedStep plannedStep(const OpsAnswer& answer, Bytes budget)
{
    const OpsPlan& chosen = answer.plan();
    PlannedStep step;
    Plan& plan = step.plan;
    plan.budget = budget;
    plan.baselinePeak = answer.frontier->planner.recordedPeak();
    plan.stepMs = answer.frontier->stepMs;
    plan.solveMs = answer.frontier->solveMs;
    plan.leastBudget = answer.frontier->plans.front().peak;
    if (chosen.peak > budget) {
        plan.status = PlanStatus::infeasible;
        plan.reason = "The lowest peak of all plans of single ops is " + formatBytes(plan.leastBudget)
            + ": whatever more runs again is there at the peak itself.";
        return step;
    }
    plan.status = PlanStatus::feasible;
    plan.peak = chosen.peak;
    plan.recomputeMs = chosen.recomputeMs;
    step.timeline = std::make_shared<const Timeline>(answer.frontier->planner.timeline(chosen));
    return step;
}

namespace {

class PlannerEngine : public StepEngine
{
public:
    explicit PlannerEngine(StepPlanner planner)
        : planner_(std::move(planner))
    {
    }

    const StepModel& model() const noexcept override { return planner_.model(); }
    const ModuleInfoPtr& moduleInfo() const noexcept override { return planner_.moduleInfo(); }
    const ModuleEffects& effects() const noexcept override { return planner_.effects(); }

    Result<PlannedStep> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const override
    {
        return planner_.solve(request, std::move(stop), limitMs);
    }
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                const FrontierWatch& grown) const override
    {
        return planner_.frontier(request, points, std::move(stop), grown);
    }
    Result<std::vector<ModuleWay>> ways(ModuleId module) const override { return planner_.ways(module); }
    Result<PlanOnCard> planForCard(const PlanRequest& request, const Card& card, std::stop_token stop) const override
    {
        return headroom::planForCard(planner_, request, card, stop);
    }
    Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const Card& card,
                                                         const PlanOnCard& found, std::stop_token stop) const override
    {
        return headroom::betterSettings(planner_, request, card, found, stop);
    }

private:
    StepPlanner planner_;
};

/// The engine of a step that is not plannable(): its only plan changes nothing.
class ViewEngine : public StepEngine
{
public:
    explicit ViewEngine(StepModel model)
        : model_(std::move(model))
        , moduleInfo_(std::make_shared<const ModuleInfo>())
        , effects_(model_)
    {
    }

    const StepModel& model() const noexcept override { return model_; }
    const ModuleInfoPtr& moduleInfo() const noexcept override { return moduleInfo_; }
    const ModuleEffects& effects() const noexcept override { return effects_; }

    Result<PlannedStep> solve(const PlanRequest& request, std::stop_token, double) const override
    {
        PlannedStep step;
        step.plan.budget = request.budget;
        step.plan.worldSize = request.worldSize;
        step.plan.baselinePeak = recorded()->peak;
        step.plan.leastBudget = recorded()->peak;
        step.plan.stepMs = forwardBackwardMs(*trace());
        if (request.budget < recorded()->peak) {
            step.plan.reason = plannable(*trace()).error().message;
            return step;
        }
        step.plan.status = PlanStatus::optimal;
        step.plan.peak = recorded()->peak;
        step.timeline = recorded();
        step.effects = effects_.recorded();
        return step;
    }
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest&, int, std::stop_token,
                                                const FrontierWatch&) const override
    {
        return std::vector{FrontierPoint{recorded()->peak, 0, 0}};
    }
    Result<std::vector<ModuleWay>> ways(ModuleId) const override { return std::vector<ModuleWay>(); }
    Result<PlanOnCard> planForCard(const PlanRequest&, const Card&, std::stop_token) const override
    {
        return plannable(*trace()).error();
    }
    Result<std::optional<BetterSettings>> betterSettings(const PlanRequest&, const Card&, const PlanOnCard&,
                                                         std::stop_token) const override
    {
        return plannable(*trace()).error();
    }

private:
    StepModel model_;
    ModuleInfoPtr moduleInfo_;
    ModuleEffects effects_;
};

} // namespace

Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace)
{
    // A step that was recorded under a policy cannot be planned either, but StepPlanner knows its modules.
    if (!plannable(*trace) && trace->info.policy.empty())
        return StepEnginePtr(std::make_shared<const ViewEngine>(std::move(trace)));
    Result<StepPlanner> planner = StepPlanner::create(std::move(trace));
    if (!planner)
        return planner.error();
    return StepEnginePtr(std::make_shared<const PlannerEngine>(*std::move(planner)));
}

} // namespace headroom
