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

/// The MILP of a PiecewiseProblem with only some of its memory rows, and with identical units counted instead of
/// decided one by one. Its optimum is a lower bound. If its solution can be placed on single units so that all rows
/// hold at the same cost, it is the problem's optimum.
///
/// The order of units between two active rows does not matter. So units form one group if they discard into the same
/// rows, their curves are of one class, and the units inside and around them form the same groups. For a group, n of
/// its units are checkpointed (integer), and x_s bytes are discarded on piece s of the curve, x_s <= bytes_s * n. This
/// is the perspective form: n modules of one convex curve discard a total at least cost when they share it evenly.
///     min sum(base * n + sum_s msPerByte_s * x_s)
///     n + sum over groups around it (n_outer * size / size_outer) <= size      one row a path: no nested units
///     D_k = D_(k-1) + sum over groups of row k (free * n + sum_s x_s) >= required_k - budget
class PiecewiseRelaxation
{
public:
    PiecewiseRelaxation(const PiecewiseProblem& problem, Bytes budget, std::vector<int> activeRows,
                        std::size_t coarseness);

    /// Objective and bound in ms; values are for place().
    MilpResult solve(const MilpOptions& options);

    enum class Order { outerFirst, innerFirst }; ///< which of two nested groups takes the earlier units
    /// The units to checkpoint for the counts of a solution: the earliest of each group.
    std::vector<bool> place(const MilpResult& solution, Order order) const;

private:
    struct Group
    {
        std::vector<int> members; ///< units, ascending
        int parent = -1; ///< nearest group around it that has a column
        int interval = 0; ///< number of active rows that the group does not discard into
        bool leaf = true; ///< no group inside it has a column
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
/// rows instead of big-M, cumulative sums, one clique row per path, integer counts for classes of identical modules.
/// The same input gives the same optimum, with gap 0. Three things differ. The recomputation of one module is not
/// limited to 100 ms (sac_milp's big M). Trade-off curves of identical modules that differ by less than 1e-4, which is
/// noise of PyTorch's fit, count as one curve, that of the first module. Bytes are integers, so that a plan never
/// exceeds its budget.
///
/// Among plans of equal time it returns the one that checkpoints the earliest modules; among discards of equal cost it
/// takes those of the latest modules first.
///
/// Built once for a ModuleInfo; solve() is called for each budget. It is const and may run on any thread, since a GLPK
/// problem never outlives the call.
class PiecewisePlanner
{
public:
    static Result<PiecewisePlanner> create(ModuleInfoPtr info);

    /// Errors (badInput): a unit or pin that names no module, a pin on a leaf, world size < 1, budget < 1.
    Result<Plan> solve(const PlanRequest& request, std::stop_token stop = {}) const;

    const ModuleInfo& moduleInfo() const noexcept;

private:
    struct Model;
    explicit PiecewisePlanner(std::shared_ptr<const Model> model);
    std::shared_ptr<const Model> model_;
};

} // namespace headroom
