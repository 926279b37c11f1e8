// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_search.h"

#include "core/policy/sharding.h"

#include <algorithm>
#include <limits>

namespace headroom {

namespace {

/// Budgets of the model that are tried for one budget of the step.
constexpr int mostTries = 10;
/// A plan that leaves a smaller share of its budget unused is not improved further.
constexpr double closeEnough = 0.001;
/// More than any step takes.
constexpr Bytes unlimited = std::numeric_limits<Bytes>::max() / 4;

bool holdsLess(const AttemptPtr& a, const AttemptPtr& b)
{
    return a->timeline.peak != b->timeline.peak ? a->timeline.peak < b->timeline.peak
                                                : a->timeline.recomputeMs < b->timeline.recomputeMs;
}

} // namespace

Result<AttemptPtr> StepSearch::predicted(Plan plan) const
{
    Attempt attempt;
    attempt.plan = std::move(plan);
    Result<PolicyMaker::Choice> choice = maker_.make(attempt.plan);
    if (!choice)
        return choice.error();
    attempt.choice = std::move(*choice);
    const Result<Timeline> timeline = maker_.model().predict(attempt.choice.regions);
    if (!timeline)
        return timeline.error();
    attempt.timeline = perRank(*timeline, request_.worldSize);
    return AttemptPtr(std::make_shared<const Attempt>(std::move(attempt)));
}

Result<AttemptPtr> StepSearch::at(Bytes modelBudget) const
{
    PlanRequest request = request_;
    request.budget = modelBudget;
    Result<Plan> plan = planner_.solve(request, stop_);
    if (!plan)
        return plan.error();
    if (plan->status == PlanStatus::infeasible || plan->status == PlanStatus::stopped)
        return AttemptPtr();
    return predicted(std::move(*plan));
}

/// Adds plans that recompute all that they can, each with the modules of one depth checkpointed: whole layers hold
/// least from forward to backward, smaller modules less while they recompute.
Status StepSearch::recomputeEverything(const PiecewiseProblem& problem, StepRange& range) const
{
    const auto units = problem.units();
    std::vector<int> depth(units.size(), 0); // units inside a unit come before it
    for (std::size_t unit = units.size(); unit-- > 0;)
        if (units[unit].parent >= 0)
            depth[unit] = depth[static_cast<std::size_t>(units[unit].parent)] + 1;
    const int deepest = units.empty() ? -1 : std::ranges::max(depth);
    for (int level = 0; level <= deepest; ++level) {
        Plan plan = range.roomy->plan;
        for (std::size_t unit = 0; unit < units.size(); ++unit)
            if (depth[unit] == level || (depth[unit] < level && units[unit].children.empty()))
                plan.decisions[problem.modules().info->stats[static_cast<std::size_t>(units[unit].module)].fqn] = 1;
        const Result<AttemptPtr> attempt = predicted(std::move(plan));
        if (!attempt)
            return attempt.error();
        range.attempts.push_back(*attempt);
    }
    return {};
}

Result<StepRangePtr> StepSearch::range(const PiecewiseProblem& problem) const
{
    StepRange range;
    const Result<AttemptPtr> roomy = at(unlimited);
    if (!roomy)
        return roomy.error();
    if (*roomy == nullptr)
        return StepRangePtr();
    range.roomy = *roomy;
    const Result<AttemptPtr> tight = at(range.roomy->plan.leastBudget);
    if (!tight)
        return tight.error();
    if (*tight == nullptr)
        return StepRangePtr();
    range.tight = *tight;
    range.attempts = {range.roomy, range.tight};
    if (const Status status = recomputeEverything(problem, range); !status)
        return status.error();
    std::ranges::stable_sort(range.attempts, holdsLess);
    return StepRangePtr(std::make_shared<const StepRange>(std::move(range)));
}

/// A budget of the model between two that were tried: as far from the better one as its step is from the budget, since
/// both move by about as much. Now and then the middle, so that a wrong slope costs no more than a few tries.
Bytes StepSearch::guess(const Attempt& tight, const Attempt& loose, int tries) const
{
    const Bytes low = tight.plan.peak;
    const Bytes high = loose.plan.peak;
    const Attempt& near = fits(tight) ? tight : loose;
    const Bytes next = near.plan.peak + request_.budget - near.timeline.peak;
    const Bytes margin = (high - low) / 16;
    const bool inside = next > low + margin && next < high - margin;
    return inside && tries % 3 != 2 ? next : low + (high - low) / 2;
}

Result<AttemptPtr> StepSearch::best(const StepRange& range) const
{
    AttemptPtr best;
    const auto keep = [&](const AttemptPtr& attempt) {
        if (fits(*attempt) && (best == nullptr || attempt->timeline.recomputeMs < best->timeline.recomputeMs))
            best = attempt;
    };
    std::ranges::for_each(range.attempts, keep);
    if (best == range.roomy || best == nullptr)
        return best;

    AttemptPtr tight = range.tight;
    AttemptPtr loose = range.roomy;
    for (int tries = 0; tries < mostTries && loose->plan.peak - tight->plan.peak > 1; ++tries) {
        const Result<AttemptPtr> next = at(guess(*tight, *loose, tries));
        if (!next)
            return next.error();
        if (*next == nullptr)
            break;
        keep(*next);
        (fits(**next) ? tight : loose) = *next;
        const auto unused = static_cast<double>(request_.budget - tight->timeline.peak);
        if (unused >= 0 && unused <= closeEnough * static_cast<double>(request_.budget))
            break;
    }
    return best;
}

} // namespace headroom
