// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/offload_copies.h"
#include "core/policy/row_planner.h"
#include "core/policy/row_problem.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace headroom {

/// Searches plans with offload along the chain of parts, and proves bounds. A dynamic programme goes from part to part
/// and keeps a limited number of partial plans, each with time, copies and memory: a restricted decision diagram
/// for plans, a relaxed one for a bound (Bergman, Cire, van Hoeve, Hooker: "Decision Diagrams for Optimization", 2016,
/// chapters 4 and 5). Exposed copies count by CopyLimits, so that no plan takes less than the times of a plan here.
///
/// The chain's objects must outlive the search.
class ChainSearch
{
public:
    explicit ChainSearch(const RelaxedChain& chain)
        : chain_(chain)
    {
    }

    /// A plan, and the time with exposed copies.
    struct Found
    {
        OptionShares options;
        double ms = 0;
    };
    /// Quick plans of less than `belowMs` that keep the budget at the events, by a bound of memory; the quickest first.
    /// At each position up to `width` partial plans are kept.
    std::vector<Found> plansBelow(double belowMs, const std::vector<std::uint32_t>& events, RowProblem::Memory memory,
                                  std::size_t width, const SearchLimit& limit) const;

    struct Bound
    {
        double ms = 0; ///< no plan within the budget takes less; at most belowMs
        bool isLast = false; ///< a greater width gives the same bound
    };
    /// Of more than `width` partial plans the most similar ones are replaced by one that takes no more than each.
    /// Returns 0 if time is up.
    Bound boundBelow(double belowMs, std::size_t width, const SearchLimit& limit) const;

private:
    class Diagram;

    RelaxedChain chain_;
};

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
