// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

namespace headroom {

/// The linear relaxation of a chain problem, solved by its dual: the prices at which the cheapest path bounds best. Its
/// paths are found along the chain, so that no linear programme has a column for each option.
struct ChainRelaxation
{
    ChainPrices prices;
    double bound = 0; ///< lower bound of the time of every path, in picoseconds
    ChainPath rounded; ///< whole options near the solution; it may not fit
};

/// `fitting` is a path that fits the budget. When the limit is reached, the prices so far are returned: their bound is
/// weaker.
ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const ChainPath& fitting, const SearchLimit& limit);

/// Two lower bounds of the memory of the same options: the share of `b`, 0 to 1, with which mixed() bounds the time
/// best.
double strongestShare(const ChainProblem& a, const ChainProblem& b, Bytes budget, const SearchLimit& limit);

} // namespace headroom
