// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/ops_answer.h"

#include "core/base/elapsed.h"
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
    answer.fates = opFates(trace, answer.plan());
    if (answer.index + 1 < plans.size())
        answer.flips = opFlips(trace, plans[answer.index + 1], answer.plan());
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

} // namespace headroom
