// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/piecewise.h"
#include "core/plan/piecewise_problem.h"
#include "core/policy/policy_maker.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// A plan of the piecewise model, its policy, and the step that it makes.
struct Attempt
{
    Plan plan; ///< peak and time as the model sees them
    PolicyMaker::Choice choice;
    Timeline timeline; ///< as one rank of the request sees it
};
using AttemptPtr = std::shared_ptr<const Attempt>;

/// What can be had for one request, whatever its budget.
struct StepRange
{
    std::vector<AttemptPtr> attempts; ///< all of the following, and more that hold little memory; peak ascending
    AttemptPtr tight; ///< at the least budget of the model
    AttemptPtr roomy; ///< only what is pinned is recomputed
    const AttemptPtr& least() const { return attempts.front(); }
};
using StepRangePtr = std::shared_ptr<const StepRange>;

/// Finds plans that a step fits with. The model's memory is that of parameters, gradients and activations at module
/// boundaries; the step's is predicted. Both rise together, so the search is for the model's budget.
class StepSearch
{
public:
    StepSearch(const PiecewisePlanner& planner, const PolicyMaker& maker, PlanRequest request, std::stop_token stop)
        : planner_(planner)
        , maker_(maker)
        , request_(std::move(request))
        , stop_(std::move(stop))
    {
    }

    /// `problem` is the request's.
    Result<StepRangePtr> range(const PiecewiseProblem& problem) const;

    /// The plan for a budget of the model; null when it was stopped.
    Result<AttemptPtr> at(Bytes modelBudget) const;

    /// The plan of least recompute time whose step fits the request's budget; null when there is none.
    Result<AttemptPtr> best(const StepRange& range) const;

private:
    Result<AttemptPtr> predicted(Plan plan) const;
    Status recomputeEverything(const PiecewiseProblem& problem, StepRange& range) const;
    bool fits(const Attempt& attempt) const { return attempt.timeline.peak <= request_.budget; }
    Bytes guess(const Attempt& tight, const Attempt& loose, int tries) const;

    const PiecewisePlanner& planner_;
    const PolicyMaker& maker_;
    PlanRequest request_;
    std::stop_token stop_;
};

} // namespace headroom
