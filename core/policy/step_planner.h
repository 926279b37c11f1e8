// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/piecewise.h"
#include "core/policy/policy.h"
#include "core/timeline/timeline.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// A plan together with what it does to one recorded step.
struct PlannedStep
{
    Plan plan; ///< peak and recomputeMs are those of `timeline`: the promise of predict(), optimizer state included
    Policy policy;
    CheckpointPlan regions;
    TimelinePtr timeline; ///< the step under the plan; null when infeasible
};

/// One point of the memory/time frontier.
struct FrontierPoint
{
    Bytes peak = 0;
    double recomputeMs = 0;
    double gap = 0;
};

/// Plans one recorded step: what the window drags and `headroom plan step.hrs` answers. Here the budget is all memory
/// that the step may take on the device, optimizer state included, and every answer was predicted on the step itself: a
/// plan whose predicted peak exceeds the budget is solved again with a tighter one, so that what is returned fits to
/// the byte. Built once for a step; solve() is const and thread-safe.
///
/// The plan's status and gap are those of the piecewise model at the budget with which the step fits; the step's own
/// recompute time is predicted, as its peak is. With a world size above 1 parameters, gradients and optimizer state
/// count by the share of one rank, in `timeline` too. The least budget is the lowest peak among plans that recompute
/// all they can, by depth of the checkpointed modules.
class StepPlanner
{
public:
    static Result<StepPlanner> create(StepTracePtr trace);

    Result<PlannedStep> solve(const PlanRequest& request, std::stop_token stop = {}) const;

    /// From the least feasible budget to no checkpointing, at most `points` plans, peak ascending, dominated ones left
    /// out.
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points,
                                                std::stop_token stop = {}) const;

    const StepTracePtr& trace() const noexcept;
    const ModuleInfoPtr& moduleInfo() const noexcept;
    const TimelinePtr& recorded() const noexcept; ///< the step without a plan

private:
    struct Model;
    explicit StepPlanner(std::shared_ptr<const Model> model);
    std::shared_ptr<const Model> model_;
};

} // namespace headroom
