// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

#include <optional>

namespace headroom {

/// The linear relaxation of a chain problem in GLPK, rows of positions added where they are violated. Runs of equal
/// positions share their columns, as long as no row ends among them. At the limit it is what was solved by then: a
/// bound that is less good.
struct ChainRelaxation
{
    bool solved = false; ///< otherwise there are no prices
    ChainPrices prices;
    std::optional<ChainPath> rounded; ///< the solution with whole options, which may not fit
};
ChainRelaxation relax(const ChainProblem& problem, Bytes budget, const SearchLimit& limit);

} // namespace headroom
