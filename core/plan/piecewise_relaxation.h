// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/glpk_problem.h"
#include "core/plan/piecewise_problem.h"

#include <vector>

namespace headroom {

/// The MILP of a PiecewiseProblem with only some of its memory rows, and with identical units counted instead of
/// decided one by one. Its optimum is a lower bound of the problem's; where a solution can be placed on single units so
/// that all rows hold at the same cost, it is the optimum.
///
/// Between two active rows the order of units does not matter. So units are one group when they discard into the same
/// rows, their curves are of one class, the units inside them group alike, and so do the units around them. For a
/// group: n of it checkpointed (integer), x_s bytes discarded on piece s of the curve, x_s <= bytes_s * n — the
/// perspective form, since n modules of one convex curve discard a total most cheaply when they share it evenly:
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

    enum class Order { outerFirst, innerFirst }; ///< which of nested groups takes the earlier units
    /// Chooses units with the counts of a solution, the earliest of each group.
    std::vector<bool> place(const MilpResult& solution, Order order) const;

private:
    struct Group
    {
        std::vector<int> members; ///< units, ascending
        int parent = -1; ///< nearest group around it that has a column
        int interval = 0; ///< number of active rows that do not count it
        bool leaf = true; ///< no group inside it has a column
        bool forced = false;
        int countColumn = -1; ///< -1: nothing is gained by checkpointing these
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

} // namespace headroom
