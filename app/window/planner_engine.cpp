// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/planner_engine.h"

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

    const StepTracePtr& trace() const noexcept override { return planner_.trace(); }
    const ModuleInfoPtr& moduleInfo() const noexcept override { return planner_.moduleInfo(); }
    const TimelinePtr& recorded() const noexcept override { return planner_.recorded(); }

    Result<PlannedStep> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const override
    {
        return planner_.solve(request, std::move(stop), limitMs);
    }
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points,
                                                std::stop_token stop) const override
    {
        return planner_.frontier(request, points, std::move(stop));
    }

private:
    StepPlanner planner_;
};

} // namespace

Result<StepEnginePtr> makePlannerEngine(StepTracePtr trace)
{
    Result<StepPlanner> planner = StepPlanner::create(std::move(trace));
    if (!planner)
        return planner.error();
    return StepEnginePtr(std::make_shared<const PlannerEngine>(*std::move(planner)));
}

} // namespace headroom
