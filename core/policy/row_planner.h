// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/search_limit.h"
#include "core/policy/row_problem.h"

#include <optional>

namespace headroom {

struct RowAnswer
{
    std::optional<CheckpointPlan> plan; ///< empty: none was found
    double boundMs = 0; ///< no plan that fits the rows takes less time; infinite if none fits
    double msPerGiB = 0; ///< ms that one more GiB saves, by the linear relaxation
    std::int64_t nodes = 0; ///< of the search tree
};

/// Plans a step that is no chain (models with a backward pass each, several backward passes of one model) by a MILP
/// that chooses one way for each part. Memory is constrained by rows at single events, which are added wherever a
/// solution so far exceeds the budget. Ways are added where they could make the linear relaxation cheaper.
///
/// The plan takes at most `gap` more than the least time, if it is found within the limit.
RowAnswer solveRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, double gap,
                    const SearchLimit& limit);

/// The plan of least peak, by the upper bound of memory; empty if none of less than `most` bytes is found in time.
std::optional<CheckpointPlan> leanestInRows(const RowProblem& problem, Bytes most, const SearchLimit& limit);

} // namespace headroom
