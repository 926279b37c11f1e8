// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_planner.h"

#include "core/policy/frontier.h"
#include "core/policy/infeasible_step.h"
#include "core/policy/step_search.h"
#include "core/sac/step_statistics.h"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace headroom {

namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point begin)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

bool sameButBudget(const PlanRequest& a, const PlanRequest& b)
{
    return a.worldSize == b.worldSize && a.acUnits == b.acUnits && a.fsdpUnits == b.fsdpUnits && a.pins == b.pins;
}

/// Where memory is highest.
void setBinding(const StepTrace& trace, const Timeline& timeline, Plan& plan)
{
    if (timeline.peakChange == Timeline::npos)
        return;
    const double when = timeline.changes[timeline.peakChange].ms;
    const auto span
        = std::ranges::find_if(timeline.phases, [&](const PhaseSpan& phase) { return when <= phase.endMs; });
    if (span != timeline.phases.end())
        plan.binding.phase = phaseName(span->phase);
    for (std::size_t i = timeline.peakChange + 1; i-- > 0;)
        if (const OpId op = timeline.changes[i].op; op.valid()) {
            plan.binding.module = trace.moduleFqn(trace.ops.module[op]);
            return;
        }
}

} // namespace

struct StepPlanner::Model
{
    Model(StepModel step, ModuleInfoPtr moduleInfo, PiecewiseModules pieces, PiecewisePlanner piecewise)
        : maker(std::move(step))
        , info(std::move(moduleInfo))
        , modules(std::move(pieces))
        , planner(std::move(piecewise))
    {
    }

    PolicyMaker maker;
    ModuleInfoPtr info;
    PiecewiseModules modules;
    PiecewisePlanner planner;

    /// Ranges are kept for the latest request: dragging a budget asks for the same one again and again.
    Result<StepRangePtr> range(const PlanRequest& request, const std::stop_token& stop) const;
    PlannedStep planned(const Attempt& attempt, Bytes budget) const;
    Result<PlannedStep> infeasible(const StepRange& range, const PlanRequest& request,
                                   const std::stop_token& stop) const;

private:
    mutable std::mutex mutex_;
    mutable PlanRequest latestRequest_;
    mutable StepRangePtr latestRange_;
};

Result<StepRangePtr> StepPlanner::Model::range(const PlanRequest& request, const std::stop_token& stop) const
{
    {
        const std::lock_guard lock(mutex_);
        if (latestRange_ != nullptr && sameButBudget(latestRequest_, request))
            return latestRange_;
    }
    const Result<PiecewiseProblem> problem = PiecewiseProblem::create(modules, request);
    if (!problem)
        return problem.error();
    Result<StepRangePtr> found = StepSearch(planner, maker, request, stop).range(*problem);
    if (found && *found != nullptr) {
        const std::lock_guard lock(mutex_);
        latestRequest_ = request;
        latestRange_ = *found;
    }
    return found;
}

PlannedStep StepPlanner::Model::planned(const Attempt& attempt, Bytes budget) const
{
    PlannedStep step{attempt.plan, attempt.choice.policy, attempt.choice.regions,
                     std::make_shared<const Timeline>(attempt.timeline)};
    step.plan.budget = step.policy.budget = budget;
    step.plan.baselinePeak = maker.model().recorded()->peak;
    step.plan.peak = attempt.timeline.peak;
    step.plan.recomputeMs = attempt.timeline.recomputeMs;
    step.plan.boundMs = attempt.timeline.recomputeMs * (1 - attempt.plan.gap);
    step.policy.predicted = {step.plan.peak, step.plan.recomputeMs, step.plan.gap};
    setBinding(*maker.model().trace(), attempt.timeline, step.plan);
    return step;
}

Result<PlannedStep> StepPlanner::Model::infeasible(const StepRange& range, const PlanRequest& request,
                                                   const std::stop_token& stop) const
{
    PlannedStep step;
    step.plan = planned(*range.least(), request.budget).plan;
    step.plan.status = PlanStatus::infeasible;
    step.plan.peak = -1;
    step.plan.recomputeMs = step.plan.boundMs = step.plan.gap = 0;
    step.plan.decisions.clear();
    Bytes leastWithoutWishes = 0;
    if (!request.pins.empty() || !request.acUnits.empty()) {
        PlanRequest free = request;
        free.pins.clear();
        free.acUnits.clear();
        const Result<PiecewiseProblem> problem = PiecewiseProblem::create(modules, free);
        if (!problem)
            return problem.error();
        const Result<StepRangePtr> wider = StepSearch(planner, maker, free, stop).range(*problem);
        if (!wider)
            return wider.error();
        leastWithoutWishes = *wider != nullptr ? (*wider)->least()->timeline.peak : 0;
    }
    step.plan.reason = whyStepDoesNotFit(step.plan, range.least()->timeline, leastWithoutWishes);
    return step;
}

StepPlanner::StepPlanner(std::shared_ptr<const Model> model)
    : model_(std::move(model))
{
}

Result<StepPlanner> StepPlanner::create(StepTracePtr trace)
{
    Result<ModuleInfo> info = headroom::moduleInfo(*trace);
    if (!info)
        return info.error();
    const auto shared = std::make_shared<const ModuleInfo>(std::move(*info));
    Result<PiecewiseModules> modules = PiecewiseModules::create(shared);
    if (!modules)
        return modules.error();
    Result<PiecewisePlanner> planner = PiecewisePlanner::create(shared);
    if (!planner)
        return planner.error();
    return StepPlanner(
        std::make_shared<const Model>(StepModel(std::move(trace)), shared, std::move(*modules), std::move(*planner)));
}

Result<PlannedStep> StepPlanner::solve(const PlanRequest& request, std::stop_token stop) const
{
    const auto begin = Clock::now();
    if (const Result<PiecewiseProblem> valid = PiecewiseProblem::create(model_->modules, request); !valid)
        return valid.error();
    const Result<StepRangePtr> range = model_->range(request, stop);
    if (!range)
        return range.error();
    Result<PlannedStep> step = PlannedStep{};
    if (*range != nullptr && (*range)->least()->timeline.peak > request.budget) {
        step = model_->infeasible(**range, request, stop);
    } else if (*range != nullptr) {
        const Result<AttemptPtr> best = StepSearch(model_->planner, model_->maker, request, stop).best(**range);
        if (!best)
            return best.error();
        step = model_->planned(**best, request.budget);
    }
    if (!step)
        return step;
    if (*range != nullptr)
        step->plan.leastBudget = (*range)->least()->timeline.peak;
    if (stop.stop_requested())
        step->plan.status = PlanStatus::stopped;
    step->plan.solveMs = msSince(begin);
    return step;
}

Result<std::vector<FrontierPoint>> StepPlanner::frontier(const PlanRequest& request, int points,
                                                         std::stop_token stop) const
{
    PlanRequest wishes = request;
    wishes.budget = std::max<Bytes>(1, recorded()->peak);
    const Result<StepRangePtr> range = model_->range(wishes, stop);
    if (!range)
        return range.error();
    std::vector<AttemptPtr> attempts;
    if (*range != nullptr) {
        attempts = (*range)->attempts;
        const StepSearch search(model_->planner, model_->maker, wishes, stop);
        const Bytes low = (*range)->tight->plan.peak;
        const Bytes high = (*range)->roomy->plan.peak;
        for (int point = 1; point + 1 < points && !stop.stop_requested(); ++point) {
            const Result<AttemptPtr> attempt = search.at(low + (high - low) / (points - 1) * point);
            if (!attempt)
                return attempt.error();
            if (*attempt != nullptr)
                attempts.push_back(*attempt);
        }
    }
    std::vector<FrontierPoint> all;
    for (const AttemptPtr& attempt : attempts)
        all.push_back({attempt->timeline.peak, attempt->timeline.recomputeMs, attempt->plan.gap});
    return undominated(std::move(all), points);
}

const StepTracePtr& StepPlanner::trace() const noexcept
{
    return model_->maker.model().trace();
}

const ModuleInfoPtr& StepPlanner::moduleInfo() const noexcept
{
    return model_->info;
}

const TimelinePtr& StepPlanner::recorded() const noexcept
{
    return model_->maker.model().recorded();
}

} // namespace headroom
