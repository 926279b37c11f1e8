// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/min_cut.h"
#include "core/joint/ops_request.h"
#include "core/joint/ops_schedule.h"
#include "core/plan/knapsack.h"
#include "core/predict/module_memory.h"
#include "core/predict/step_clock.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// A schedule and the cost.
struct OpsCandidate
{
    OpsSchedule schedule;
    double cost = 0; ///< in the unit of OpsRequest::runtime
    double flops = 0;
    double ms = 0;
};

/// Orders candidates by cost, then by time, then by saved bytes.
bool better(const OpsCandidate& left, const OpsCandidate& right);

/// Rules of PyTorch's "more aggressive" and "aggressive" options; the second forbids less than the first.
inline constexpr MinCutRules withoutHeuristics{false, false, false, true};
inline constexpr MinCutRules allThatIsCheap{false, false, false, false};

/// Makes candidates for a request. The object holds references to the constructor's arguments.
class OpsCandidates
{
public:
    OpsCandidates(const JointGraph& graph, const MinCutProblem& cuts, const OpsScheduler& scheduler,
                  const OpsRequest& request)
        : graph_(graph)
        , cuts_(cuts)
        , scheduler_(scheduler)
        , request_(request)
    {
    }

    OpsCandidate candidate(OpsSchedule schedule) const;
    OpsCandidate candidateOf(const std::vector<ValueId>& saved) const; ///< the candidate that saves `saved`
    /// Chooses by the knapsack among the banned nodes: a chosen node is saved with all values, the others may be
    /// recomputed. Error: as choose().
    Result<std::vector<OpsCandidate>> byKnapsack(const std::vector<bool>& banned, Bytes cap) const;
    /// Spends the rest of the cap on recomputed nodes. Error: as choose().
    Result<OpsCandidate> refined(OpsCandidate best, Bytes cap) const;
    double cost(NodeId node) const; ///< cost of a recomputation, in the unit of OpsRequest::runtime

private:
    /// The bytes that saving a node's values adds to the saved bytes.
    Bytes bytesOf(NodeId node, const std::vector<bool>& saved) const;
    /// Solves a knapsack with the request's solver. Error (internal): GLPK found no choice.
    Result<KnapsackChoice> choose(const std::vector<KnapsackItem>& items, Bytes cap, std::size_t mostDecisions) const;

    const JointGraph& graph_;
    const MinCutProblem& cuts_;
    const OpsScheduler& scheduler_;
    const OpsRequest& request_;
};

/// Plans a step op by op, as PyTorch's activation_memory_budget does for a compiled graph
/// (torch/_functorch/partitioners.py, choose_saved_values_set). Work that all fractions share is done once. Immutable,
/// cheap to copy, usable from any thread.
class OpsPlanner
{
public:
    /// Creates a planner. Error: as buildJointGraph().
    static Result<OpsPlanner> create(StepModel model);

    const StepModel& model() const noexcept;
    const JointGraph& graph() const noexcept;

    /// Bytes that the default min-cut saves: the saved bytes of the plan of fraction 1, and 100 % for every other
    /// fraction.
    Bytes defaultSavedBytes() const noexcept;

    /// Peak in bytes of the step as recorded.
    Bytes recordedPeak() const noexcept;

    /// Plans a single fraction. Error: a fraction outside 0..1 or measured times of another step (badInput); a fraction
    /// too small for the ops that cannot be recomputed (infeasible); a solver that gave up (internal).
    Result<OpsPlan> plan(const OpsRequest& request) const;

    /// Returns a plan for a fraction with a peak not above the peak of any larger fraction: plan()'s result, or
    /// choose()'s result of the frontier of `points` fractions if that peak is lower. Error: as plan().
    Result<OpsPlan> planMonotone(const OpsRequest& request, int points = 101) const;

    /// Returns the plan that saves exactly the storages in `saved`, as the plan for `fraction`. Error (badInput): a
    /// storage that is not to be saved, or a missing storage that has to be saved.
    Result<OpsPlan> planSaving(const std::vector<StorageId>& saved, double fraction) const;

    /// The step's timeline under a plan of this planner.
    Timeline timeline(const OpsPlan& plan) const;

    /// The effect of a plan of this planner on each module, by ModuleId.
    std::vector<ModuleEffect> effects(const OpsPlan& plan) const;

    /// The step's clock under a plan of this planner; meaningful only if hasClock() is true.
    StepClock clock(const OpsPlan& plan) const;

    /// Returns plans to choose from, by fraction, ascending. A smaller fraction never has a higher peak (unlike in
    /// PyTorch: issue 197838), and a higher peak always costs less. The returned plans are the best among the plans for
    /// `points` fractions, spread evenly over 0..1, and further plans for the same fractions with lower peaks. The plan
    /// for a fraction f is the last plan with a fraction not above f. If all fractions are above f, the first plan is
    /// used: saving less would raise the peak. When `stop` is requested, returns the plans so far. Error: as plan(),
    /// but fractions that are too small are left out.
    Result<std::vector<OpsPlan>> frontier(const OpsRequest& request, int points,
                                          const std::stop_token& stop = {}) const;

    /// Returns the plan of a frontier for a fraction, as above. The frontier must not be empty.
    static const OpsPlan& choose(const std::vector<OpsPlan>& frontier, double fraction);

private:
    struct Shared;
    explicit OpsPlanner(std::shared_ptr<const Shared> shared);
    std::shared_ptr<const Shared> shared_;
};

} // namespace headroom
