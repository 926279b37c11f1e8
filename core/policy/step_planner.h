// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/module_options.h"
#include "core/policy/plan_answer.h"
#include "core/predict/step_model.h"
#include "core/sac/module_info.h"
#include "core/timeline/timeline.h"

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace headroom {

/// One point of the memory/time frontier.
struct FrontierPoint
{
    Bytes peak = 0;
    double recomputeMs = 0;
    double gap = 0;
    Bytes upTo = 0; ///< no budget from the peak up to this allows less time, within the gap; 0: not known
    double exposedMs = 0; ///< with offload: time when the GPU waits for copies
    Bytes movedBytes = 0; ///< with offload: bytes to the host
    Bytes hostBytes = 0; ///< with offload: pinned host memory

    double costMs() const { return recomputeMs + exposedMs; } ///< what the point adds to the step
    double gapMs() const { return gap * costMs(); } ///< the most that a better plan saves
};

bool movesAny(std::span<const FrontierPoint> points); ///< whether a point sends bytes to the host

/// Receives intermediate results of a frontier that is being computed: from end to end, with fewer points.
using FrontierWatch = std::function<void(std::vector<FrontierPoint>)>;

class StepSolver;
/// The frontier of memory and time, by ascending peak. Solves `points` budgets spread evenly, those far apart first,
/// then budgets just below the points found, until all break points are known or `points` are found. A stop request
/// ends the search early with the points so far. Calls `grown` with intermediate frontiers. Errors: those of predict().
Result<std::vector<FrontierPoint>> breakPoints(const StepSolver& options, const PlanRequest& request, int points,
                                               const std::stop_token& stop, const FrontierWatch& grown = {});

/// Whether the frontier has all break points, each proven optimal.
bool isComplete(std::span<const FrontierPoint> frontier);

/// The points by ascending peak, without each point that takes no less time than a point of no higher peak.
std::vector<FrontierPoint> withoutWorse(std::vector<FrontierPoint> points);

/// moduleInfo() of a step, with the obstacle to checkpointing of each module (core/predict/obstacles.h). Errors: those
/// of moduleInfo().
Result<ModuleInfo> modulesToPlan(const StepModel& model);

/// Whether a checkpoint of the module could free something.
bool hasSomethingToGive(const ModuleStats& stats);

/// Whether plans of a step can be predicted; the error says why not, and what to record instead.
Status plannable(const StepTrace& trace);

/// Whether saved tensors of a module of a plannable() step can go to host memory; the error says why not.
Status offloadable(const StepModel& model);

/// Plans one recorded step, for the window and for `torch-headroom plan step.hrs`. The budget is all memory that the
/// step may take on the device, optimizer state included. Each part of the step (layer, block) has several options to
/// checkpoint it, nested modules and ops to save included, each predicted on the step. Memory is constrained wherever
/// the peak can be. The plan of least recomputation is searched until it is proven or time is up. Every plan is
/// predicted on the step before it is returned, so that it fits to the byte. Built once for a step; solve() is const
/// and thread-safe. For a step that is not plannable(), functions that plan return an error; the others work.
///
/// `optimal` means that no other choice among those options takes less time. With a world size above 1 parameters,
/// gradients and optimizer state are the share of one rank, in `timeline` too.
class StepPlanner
{
public:
    /// Errors: those of modulesToPlan().
    static Result<StepPlanner> create(StepTracePtr trace);

    /// Returns the best plan found within `limitMs` of search, with its gap. If no plan fits, the answer is
    /// infeasible. Errors: a budget below 1 B, a step that is not plannable() or offloadable(), wrong pins or units
    /// (badInput); pins that need more host memory than allowed (infeasible).
    Result<PlanAnswer> solve(const PlanRequest& request, std::stop_token stop = {}, double limitMs = 1000) const;

    /// The answer with other regions, predicted on the step; bound and status stay. Errors: those of predict().
    Result<PlanAnswer> withRegions(PlanAnswer answer, CheckpointPlan regions) const;

    /// At most `points` plans from the least feasible budget to no checkpointing, by ascending peak. Each takes the
    /// least time for its peak, within its gap. With enough points these are all break points. Errors: as solve().
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop = {},
                                                const FrontierWatch& grown = {}) const;

    /// The options of one module that solve() chooses from. Errors: those of the free moduleOptions().
    Result<std::vector<ModuleOption>> moduleOptions(ModuleId module) const;

    const StepModel& model() const noexcept;
    const StepTracePtr& trace() const noexcept;
    const ModuleInfoPtr& moduleInfo() const noexcept;
    const TimelinePtr& recorded() const noexcept; ///< the step without a plan
    const ModuleEffects& effects() const noexcept; ///< computes the effect of a plan on each module

private:
    struct Model;
    explicit StepPlanner(std::shared_ptr<const Model> model);
    std::shared_ptr<const Model> model_;
};

/// One sentence for the user that says why no plan fits: the least peak, where it is, its largest categories and
/// modules, and what would help. `least` is the timeline of the plan of least peak; `leastWithoutWishes` is the least
/// budget in bytes without pins and AC units, 0 if the request has none.
std::string whyStepDoesNotFit(const StepTrace& trace, const Plan& plan, const Timeline& least,
                              Bytes leastWithoutWishes);

} // namespace headroom
