// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

#include <optional>

namespace headroom {

/// The linear relaxation of a chain problem, solved by GLPK; rows of positions are added where they are violated. Runs
/// of positions of one class share their columns as long as no added row separates them. When the limit is reached, the
/// last solution is returned: its bound is weaker.
struct ChainRelaxation
{
    bool solved = false; ///< false: there are no prices
    ChainPrices prices;
    std::optional<ChainPath> rounded; ///< the solution rounded to one option for each arc; it may not fit
};
ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const SearchLimit& limit);

} // namespace headroom
