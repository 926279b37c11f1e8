// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/piecewise_problem.h"

#include <stop_token>

namespace headroom {

/// The cheapest choice of units that keeps every memory row within the budget.
struct PiecewiseSolution
{
    PlanStatus status = PlanStatus::stopped;
    std::vector<bool> chosen; ///< units checkpointed
    PiecewiseProblem::Discards discards;
    double boundMs = 0;
    int solves = 0; ///< number of MILPs that were solved
};

/// Solves relaxations with more and more memory rows, until a solution can be placed on single units at its own cost.
/// The budget must be at least problem.leastBudget().
Result<PiecewiseSolution> searchPiecewise(const PiecewiseProblem& problem, Bytes budget, std::stop_token stop);

} // namespace headroom
