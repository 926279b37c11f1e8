// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/planner_engine.h"

#include "core/predict/step_model.h"
#include "core/trace/phase_times.h"

#include <utility>

namespace headroom {
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
