// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

#include <stop_token>

namespace headroom {

enum class ChainStatus {
    optimal, ///< proven: no path takes less
    feasible, ///< fits; see bound
    infeasible, ///< proven: no path fits
    stopped, ///< ended before there was an answer
};

struct ChainAnswer
{
    ChainStatus status = ChainStatus::stopped;
    ChainPath path;
    ChainValue value;
    Picoseconds bound = 0; ///< no path takes less
    std::int64_t nodes = 0; ///< labels of the dynamic programme
    double price = 0; ///< picoseconds that one more byte of budget saves, by the linear relaxation
};

struct ChainOptions
{
    std::stop_token stop;
    double limitMs = 1000; ///< the best answer by then; an answer comes a little later when there is none yet
    double gap = 0; ///< good enough: (time - bound) / time
    std::optional<Picoseconds> below; ///< nothing that takes as long is looked for, and the bound says no more
};

/// The path of least time under a budget, proven where time allows: by labels, with the prices of GLPK's linear
/// relaxation.
ChainAnswer solveChain(const ChainProblem& problem, Bytes budget, const ChainOptions& options = {});

} // namespace headroom
