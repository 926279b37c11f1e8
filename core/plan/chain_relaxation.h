// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

namespace headroom {

/// The linear relaxation of a chain problem, solved by its dual: the prices at which the cheapest path gives the best
/// bound. Paths are found along the chain, so that no linear programme has a column for each option.
struct ChainRelaxation
{
    ChainPrices prices;
    double bound = 0; ///< lower bound of the time of every path, in picoseconds
    ChainPath rounded; ///< whole options near the solution; it may not fit
};

/// Solves the relaxation. `fitting` is a path that fits the budget. If the limit is reached, it returns the prices so
/// far, with a weaker bound.
ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const ChainPath& fitting, const SearchLimit& limit);

/// `a` and `b` are lower bounds of the memory of the same options. Returns the share of `b`, 0 to 1, at which mixed()
/// has the best lower bound of the time.
double strongestShare(const ChainProblem& a, const ChainProblem& b, Bytes budget, const SearchLimit& limit);

} // namespace headroom
