// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/offload_copies.h"
#include "core/policy/row_problem.h"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace headroom {

/// What the linear relaxation of a chain says of all plans within the budget. A plan takes at least `boundMs`, and
/// beyond that the reduced cost of each option, and the price of what the plan leaves unused.
struct ReducedCosts
{
    double boundMs = 0;
    std::vector<std::vector<double>> options; ///< by arc, by option: ms
    std::map<std::uint32_t, double> memory; ///< by event with a constraint: ms of each byte that is unused
    /// Of the streams of copies, to the host and back, by position: ms of each ms without a copy.
    std::array<std::vector<double>, 2> idle;
    std::vector<double> cover; ///< by position: ms that the relaxation pays for an option there
    /// By direction, by position: ms of each ms of copies that the part there cannot hide (CopyLimits::Own).
    std::array<std::vector<double>, 2> late;
};

/// A chain of parts (CopyLimits::isChain) at a budget, and what the linear relaxation says of the plans.
struct RelaxedChain
{
    const RowProblem& problem;
    const CopyLimits& copies;
    const ReducedCosts& costs;
    Bytes budget = 0;
};

struct RowAnswer
{
    std::optional<CheckpointPlan> plan; ///< empty: none was found
    OptionShares options; ///< of the plan
    double plannedMs = 0; ///< time of the plan, with exposed copies
    OptionShares relaxed; ///< the solution of the linear relaxation; empty: none
    double boundMs = 0; ///< no plan that fits the rows takes less time; infinite if none fits
    double msPerGiB = 0; ///< ms that another GiB saves, by the linear relaxation
    std::optional<ReducedCosts> reduced; ///< of a linear relaxation with CopyLimits::own and isChain
    std::int64_t nodes = 0; ///< of the search tree
};

/// What a search needed, from which a similar search starts: options, and events of rows.
struct RowHints
{
    OptionSet options; ///< empty: none
    std::vector<std::uint32_t> events;
};

inline constexpr double budgetUnits = 1000; ///< the budget in the unit of memory of a programme

/// Cost of a ms of hidden copies: of equal plans the plan that moves less is taken.
inline constexpr double copyPrice = 1e-3;

/// Plans a step that is no chain (models with a backward pass each, several backward passes of a model) by a MILP that
/// chooses an option for each part. Memory is constrained by rows at single events. Rows are added lazily, where a
/// solution so far exceeds the budget (cutting planes). Options are added where the linear relaxation could become
/// cheaper (column generation).
///
/// The plan takes at most `gap` more than the least time, if found within the limit. `copies` is for a problem with
/// options that offload; the time then includes the exposed copies, and beside the options of the linear relaxation
/// `moreOptions` are searched; with Memory::atLeast only if these are all that matter. Plans of `belowMs` or more are
/// not searched: the answer may have no plan then, but a bound.
RowAnswer solveRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, double gap,
                    const SearchLimit& limit, const std::optional<CopyLimits>& copies = {},
                    double belowMs = std::numeric_limits<double>::infinity(), const RowHints& hints = {},
                    std::size_t moreOptions = 0);

/// Solves only the linear relaxation: the answer has no plan. Starts from `hints`, and adds what was found.
RowAnswer relaxRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, const SearchLimit& limit,
                    const CopyLimits& copies, RowHints& hints);

/// The plan of least peak, by the upper bound of memory; empty if none of less than `most` bytes is found in time.
OptionShares minMemoryInRows(const RowProblem& problem, Bytes most, const SearchLimit& limit);

} // namespace headroom
