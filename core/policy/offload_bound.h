// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/offload_copies.h"
#include "core/policy/part_arcs.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace headroom {

/// What no plan with offload within a budget can be quicker than, and plans near the bound.
struct OffloadBound
{
    double ms = 0;
    /// Of a mixture that fits, and the quickest whole plan by the bound's rules; single plans may exceed the budget.
    std::vector<OptionShares> plans;
};

/// A bound that knows exposed copies: a price of memory replaces the budget. At any price, the quickest plan of whole
/// options is found exactly, part by part, with the copies that are still left to do. No plan within the budget is
/// quicker than that plan with the memory's price, without the price of the budget. The best price is found by a
/// mixture of such plans that fits on average (column generation). If time is left, the whole plans below `enoughMs`
/// are enumerated at that price, and the bound is the quickest of these plans that fits, or `enoughMs`.
///
/// `events` are where memory may bind, and grow. A plan that takes `knownMs` is known. Ends early where the bound is
/// `enoughMs`. Needs CopyLimits::isChain and CopyLimits::own.
OffloadBound boundOfMixtures(const RowProblem& problem, const CopyLimits& copies, Bytes budget,
                             std::vector<std::uint32_t>& events, double knownMs, double enoughMs,
                             const SearchLimit& limit);

/// Whole plans near the shares of a linear relaxation.
struct OptionChoices
{
    std::vector<std::vector<ArcOption>> options; ///< of the arcs of the largest shares, in the order of the chain
    std::size_t plans = 1; ///< number of plans: few, so that most arcs have a single option
};
std::optional<OptionChoices> choicesNear(const RowProblem& problem, const OptionShares& shares); ///< nullopt: no shares

} // namespace headroom
