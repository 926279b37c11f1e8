// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/glpk_problem.h"
#include "core/plan/piecewise_problem.h"
#include "core/plan/plan.h"
#include "core/sac/module_info.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// The MILP of a PiecewiseProblem with only some of the memory constraints, and with identical units counted instead of
/// decided singly. The optimum is a lower bound. If the solution can be placed on single units so that all constraints
/// hold at the same cost, the solution is the problem's optimum.
///
/// The order of units between two active constraints does not matter. So units form a group if the units discard into
/// the same constraints, the curves are of the same class, and the units inside and around form the same groups. In a
/// group, n units are checkpointed (integer), and x_s bytes are discarded on piece s of the curve, x_s <= bytes_s * n.
/// This is the perspective form: n modules of the same convex curve discard a total at least cost by even shares.
///     min sum(base * n + sum_s msPerByte_s * x_s)
///     n + sum over groups around it (n_outer * size / size_outer) <= size      a row per path: no nested units
///     D_k = D_(k-1) + sum over groups of row k (free * n + sum_s x_s) >= required_k - budget
class PiecewiseRelaxation
{
public:
    PiecewiseRelaxation(const PiecewiseProblem& problem, Bytes budget, std::vector<int> activeRows,
                        std::size_t coarseness);

    /// Objective and bound in ms; values are for place().
    MilpResult solve(const MilpOptions& options);

    enum class Order { outerFirst, innerFirst }; ///< the first of two nested groups to take units
    /// The units to checkpoint for the counts of a solution: the earliest of each group.
    std::vector<bool> place(const MilpResult& solution, Order order) const;

private:
    struct Group
    {
        std::vector<int> members; ///< units, ascending
        int parent = -1; ///< nearest group around this group that has a column
        int interval = 0; ///< number of active rows that the group does not discard into
        bool leaf = true; ///< no group inside this group has a column
        bool forced = false;
        int countColumn = -1; ///< -1: checkpointing the group gains nothing
        const RecomputeCurve* curve = nullptr;
    };
    void findGroups(std::size_t coarseness);
    void addGroup(const std::vector<int>& members, int parent, const std::vector<int>& signatures,
                  std::size_t coarseness);
    void addColumns();
    void addPaths();
    void addMemory(Bytes budget);
    void addCapacity(Bytes budget);

    const PiecewiseProblem* problem_;
    std::vector<int> activeRows_;
    std::vector<Group> groups_; ///< outer before inner
    std::vector<std::vector<GlpkProblem::Term>> discards_; ///< by interval
    GlpkProblem milp_;
};

/// PyTorch's MILP (sac_milp in torch/distributed/_tools/sac_ilp.py) in a form that solves in milliseconds: perspective
/// rows instead of big-M, cumulative sums, a clique row per path, integer counts for classes of identical modules. The
/// same input gives the same optimum, with gap 0. Three things differ. The recomputation of a module is not limited to
/// 100 ms (sac_milp's big M). Trade-off curves of identical modules that differ by less than 1e-4, the noise of
/// PyTorch's fit, count as a single curve, the first module's. Bytes are integers, so that a plan never exceeds the
/// budget.
///
/// Among plans of equal time, solve() returns the plan that checkpoints the earliest modules. Among discards of equal
/// cost, the latest modules come first.
///
/// Built once for a ModuleInfo; solve() is called for each budget. solve() is const and may run on any thread, since a
/// GLPK problem never outlives the call.
class PiecewisePlanner
{
public:
    /// Error: as PlanModules::create().
    static Result<PiecewisePlanner> create(ModuleInfoPtr info);

    /// Error: a unit or pin that names no module, a pin that cannot be met, world size < 1, budget < 1 (badInput); GLPK
    /// found no plan for a budget with a plan (internal).
    Result<Plan> solve(const PlanRequest& request, std::stop_token stop = {}) const;

    const ModuleInfo& moduleInfo() const noexcept;

private:
    struct Model;
    explicit PiecewisePlanner(std::shared_ptr<const Model> model);
    std::shared_ptr<const Model> model_;
};

} // namespace headroom
