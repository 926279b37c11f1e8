// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/module_ways.h"
#include "core/policy/policy.h"
#include "core/predict/step_model.h"
#include "core/sac/module_info.h"
#include "core/timeline/timeline.h"

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

namespace headroom {

/// A plan together with what it does to one recorded step.
struct PlannedStep
{
    Plan plan; ///< peak and recomputeMs are those of `timeline`: the promise of predict(), optimizer state included
    CheckpointPlan regions;
    TimelinePtr timeline; ///< the step under the plan; null when infeasible
    std::vector<ModuleEffect> effects; ///< by ModuleId: what the plan does to each module; empty when infeasible

    Policy policy(const StepModel& model) const; ///< the document for PyTorch, made when asked for
};

/// One point of the memory/time frontier.
struct FrontierPoint
{
    Bytes peak = 0;
    double recomputeMs = 0;
    double gap = 0;
    Bytes upTo = 0; ///< no budget from the peak up to here allows less time, to the gap; 0: not known
};

/// Is told what is known of a frontier that is being computed: from end to end, with fewer points.
using FrontierWatch = std::function<void(std::vector<FrontierPoint>)>;

/// Every break point that there is, each proven: between two of them there is no other plan worth it.
bool isComplete(std::span<const FrontierPoint> frontier);

/// moduleInfo() of a step, each module with what is in the way of a checkpoint (core/predict/obstacles.h).
Result<ModuleInfo> modulesToPlan(const StepModel& model);

/// Whether a checkpoint of the module could free something.
bool hasSomethingToGive(const ModuleStats& stats);

/// Whether plans of a step can be predicted; the error says why not, and what to record in its place.
Status plannable(const StepTrace& trace);

/// Plans one recorded step: what the window drags and `torch-headroom plan step.hrs` answers. The budget is all memory
/// that the step may take on the device, optimizer state included. Each part of the step (layer, block) offers the ways
/// to checkpoint it that are worth it, nested modules and ops to save included, each predicted on the step; memory is
/// constrained wherever the peak can be; and the plan of least recomputation is searched until it is proven, or time is
/// up. Every answer was predicted on the step before it is returned: it fits to the byte. Built once for a step;
/// solve() is const and thread-safe. A step that is not plannable() can be looked at: questions about plans are
/// refused.
///
/// `optimal` means that no other choice among those ways takes less time; otherwise the gap is what is not proven. With
/// a world size above 1 parameters, gradients and optimizer state count by the share of one rank, in `timeline` too.
class StepPlanner
{
public:
    static Result<StepPlanner> create(StepTracePtr trace);

    /// `limitMs` is for the search; what is best by then is returned with its gap.
    Result<PlannedStep> solve(const PlanRequest& request, std::stop_token stop = {}, double limitMs = 1000) const;

    /// From the least feasible budget to no checkpointing, at most `points` plans, peak ascending: each takes the least
    /// time for its peak, to its gap. With enough points it is every break point that there is.
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop = {},
                                                const FrontierWatch& grown = {}) const;

    /// What solve() may choose from for one module: waysOf().
    Result<std::vector<ModuleWay>> ways(ModuleId module) const;

    const StepModel& model() const noexcept;
    const StepTracePtr& trace() const noexcept;
    const ModuleInfoPtr& moduleInfo() const noexcept;
    const TimelinePtr& recorded() const noexcept; ///< the step without a plan
    const ModuleEffects& effects() const noexcept; ///< what plans do to its modules

private:
    struct Model;
    explicit StepPlanner(std::shared_ptr<const Model> model);
    std::shared_ptr<const Model> model_;
};

} // namespace headroom
