// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/offload_copies.h"
#include "core/policy/row_planner.h"
#include "core/policy/row_problem.h"

#include <functional>

namespace headroom {

/// Bounds plans with offload of a chain by whole numbers of parts. Equal layers make the linear relaxation weak, as
/// 7.4 of 16 layers may be recomputed, in any order. Here parts are a group if their options have equal terms in all
/// constraints with a price in the relaxation, and a column says how many parts of a group take an option: an orbit
/// (Margot: "Symmetry in Integer Linear Programming", 2010). Few rows and columns are left (SmallMilp). Each plan is a
/// solution, and no plan takes less than the solution.
///
/// The chain's objects must outlive the search.
class CountSearch
{
public:
    explicit CountSearch(const RelaxedChain& chain)
        : chain_(chain)
    {
    }

    /// Tries a plan near a solution. Returns the time from which on a bound is good enough, at most the former time.
    using Try = std::function<double(OptionShares plan)>;

    /// Searches until no plan of less than `enoughMs` is left, or time is up. No plan within the budget takes less than
    /// the result, at most the last `enoughMs`.
    double boundBelow(double enoughMs, const SearchLimit& limit, const Try& tryPlan) const;

private:
    class Groups;

    RelaxedChain chain_;
};

} // namespace headroom
