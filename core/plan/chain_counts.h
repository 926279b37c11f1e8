// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"

#include <optional>
#include <stop_token>

namespace headroom {

struct ChainCounts
{
    std::optional<ChainPath> path; ///< fits
    Picoseconds bound = 0; ///< no path takes less, to the solver's tolerance
    std::int64_t nodes = 0;
};

/// Solves a chain of few classes of identical positions as a mixed integer programme in GLPK: how many positions of a
/// class take each option. Counts do not say where, so options that hold least go first, and where memory at a position
/// is too high nevertheless, the counts of the positions before it and up to it become columns of their own. Nothing is
/// tried when wider arcs could be better or nearly every position is a class of its own.
ChainCounts countChain(const ChainProblem& problem, Bytes budget, const std::stop_token& stop, double limitMs);

} // namespace headroom
