// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

namespace headroom {

/// The linear relaxation of a chain problem, solved by the dual: prices such that the cheapest path gives the best
/// bound. Paths are found along the chain, so that no linear programme has a column for each option.
struct ChainRelaxation
{
    ChainPrices prices;
    double bound = 0; ///< lower bound of the time of every path, in picoseconds
    ChainPath rounded; ///< whole options near the solution; the path may not fit
};

/// Solves the relaxation. `fitting` is a path that fits the budget. At the limit, relax() returns the prices so far,
/// with a weaker bound.
ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const ChainPath& fitting, const SearchLimit& limit);

/// `a` and `b` are lower bounds of the memory of the same options. Returns the share of `b`, 0 to 1, where mixed() has
/// the best lower bound of the time.
double strongestShare(const ChainProblem& a, const ChainProblem& b, Bytes budget, const SearchLimit& limit);

enum class ChainStatus {
    optimal, ///< proven: no path takes less time
    feasible, ///< fits, not proven optimal: see bound
    infeasible, ///< proven: no path fits
    stopped, ///< stopped by the caller before the answer was proven
};

struct ChainAnswer
{
    ChainStatus status = ChainStatus::stopped;
    ChainPath path;
    ChainValue value;
    Picoseconds bound = 0; ///< lower bound of the time of every path
    std::int64_t nodes = 0; ///< number of labels of the dynamic programme
    double price = 0; ///< picoseconds saved by another byte of budget, by the linear relaxation
};

struct ChainOptions
{
    std::stop_token stop;
    double limitMs = 1000; ///< time limit; a little more if no path was found by then
    double gap = 0; ///< the search ends at this gap: (time - bound) / time
    std::optional<Picoseconds> below; ///< only paths of less time are searched; the bound is at most this
    bool proof = true; ///< false: only the narrowest search, for good paths
};

/// Finds the path of least time under a budget by labels (ChainLabels), with the duals of the linear relaxation as
/// prices. Proves the path optimal if the time limit allows.
ChainAnswer solveChain(const ChainProblem& problem, Bytes budget, const ChainOptions& options = {});

} // namespace headroom
