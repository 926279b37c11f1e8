// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_frontier.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace headroom {
namespace {

Bytes savedBytesOf(const StepTrace& trace, const OpsPlan& plan, OpId op)
{
    Bytes bytes = 0;
    for (const StorageId storage : trace.ops.outputs[op])
        if (storage.valid() && trace.storages.creator[storage] == op && std::ranges::binary_search(plan.saved, storage))
            bytes += trace.storages.bytes[storage];
    return bytes;
}

/// Leaves out each plan that takes no less time than one of lower peak.
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

OpsDecisions decisionsOf(const OpsFrontierPtr& frontier, Bytes budget)
{
    const std::vector<OpsPlan>& plans = frontier->plans;
    const StepTrace& trace = *frontier->planner.graph().trace;
    const auto above = std::ranges::upper_bound(plans, budget, {}, &OpsPlan::peak);
    OpsDecisions chosen;
    chosen.frontier = frontier;
    chosen.index = above == plans.begin() ? 0 : static_cast<std::size_t>(above - plans.begin()) - 1;
    chosen.decisions = opDecisions(trace, chosen.plan());
    if (chosen.index + 1 < plans.size())
        chosen.changed = changedOps(trace, plans[chosen.index + 1], chosen.plan());
    return chosen;
}

} // namespace

std::vector<OpDecision> opDecisions(const StepTrace& trace, const OpsPlan& plan)
{
    std::vector<OpDecision> decisions(trace.ops.size(), OpDecision::none);
    for (const StorageId storage : plan.saved)
        if (const OpId creator = trace.storages.creator[storage]; creator.valid())
            decisions[creator.value] = OpDecision::saved;
    for (const OpId op : plan.recomputed)
        decisions[op.value] = OpDecision::recomputed;
    return decisions;
}

std::vector<ChangedOp> changedOps(const StepTrace& trace, const OpsPlan& before, const OpsPlan& now)
{
    const std::vector<OpDecision> decisionsBefore = opDecisions(trace, before);
    const std::vector<OpDecision> decisionsNow = opDecisions(trace, now);
    std::vector<ChangedOp> changed;
    for (std::uint32_t i = 0; i < decisionsNow.size(); ++i) {
        const OpId op(i);
        const Bytes bytes = savedBytesOf(trace, before, op) - savedBytesOf(trace, now, op);
        if (decisionsBefore[i] != decisionsNow[i] || bytes != 0)
            changed.push_back({op, decisionsBefore[i], decisionsNow[i], bytes});
    }
    return changed;
}

OpsPlan planAsRecorded(const OpsPlanner& planner)
{
    OpsPlan plan;
    for (const JointGraph::Value& value : planner.graph().values) {
        if (!value.needed || value.kept || !value.node.valid())
            continue;
        plan.saved.push_back(value.storage);
        plan.savedBytes += value.bytes;
    }
    std::ranges::sort(plan.saved);
    plan.cap = plan.savedBytes;
    plan.peak = planner.recordedPeak();
    return plan;
}

std::vector<FrontierPoint> OpsFrontier::points() const
{
    std::vector<FrontierPoint> points;
    for (const OpsPlan& plan : plans)
        points.push_back({plan.peak, plan.recomputeMs, 0});
    return points;
}

Result<OpsFrontier> makeOpsFrontier(const OpsPlanner& planner, const OpsRequest& request, int points,
                                    const std::stop_token& stop)
{
    const auto begin = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(std::vector<OpsPlan> plans, planner.frontier(request, points, stop));
    const double tookMs = elapsedMs(begin);
    return OpsFrontier{planner, worthwhile(std::move(plans), planAsRecorded(planner)), tookMs, false};
}

PlanAnswer answerOf(const OpsFrontierPtr& frontier, const PlanRequest& request)
{
    const OpsPlanner& planner = frontier->planner;
    const auto chosen = std::make_shared<const OpsDecisions>(decisionsOf(frontier, request.budget));
    const OpsPlan& plan = chosen->plan();
    PlanAnswer found;
    found.ops = chosen;
    found.timeline = std::make_shared<const Timeline>(planner.timeline(plan));
    found.effects = planner.effects(plan);
    if (hasClock(*planner.graph().trace))
        found.clock = planner.clock(plan);
    found.plan.status = PlanStatus::feasible;
    found.plan.recomputeMs = plan.recomputeMs;
    found.plan.leastBudget = frontier->plans.front().peak;
    found.plan.solveMs = frontier->solveMs;
    if (plan.peak <= request.budget)
        return answerTo(request, planner.model(), std::move(found));

    PlanRequest least = request;
    least.budget = plan.peak;
    PlanAnswer closest = answerTo(least, planner.model(), found);
    PlanAnswer answer = answerTo(request, planner.model(), std::move(found));
    answer.effects = planner.effects(frontier->plans.back()); // as recorded
    answer.closest = std::make_shared<const PlanAnswer>(std::move(closest));
    answer.plan.reason = "The lowest peak of all plans of single ops is " + formatBytes(answer.plan.leastBudget)
        + ": whatever more runs again is there at the peak itself.";
    return answer;
}

PlanAnswer answerOf(const OpsPlanner& planner, OpsPlan plan)
{
    PlanRequest request;
    request.budget = plan.peak;
    return answerOf(std::make_shared<const OpsFrontier>(OpsFrontier{planner, {std::move(plan)}, 0, true}), request);
}

} // namespace headroom
