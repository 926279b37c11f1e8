// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_labels.h"

namespace headroom {

/// A path, and how far its memory is above the budget: by row, those of positions first, that of the loss last.
struct PathExcess
{
    ChainPath path;
    double time = 0;
    std::vector<Bytes> excess;
};
PathExcess excessOf(const ChainProblem& problem, Bytes budget, ChainPath path);

/// The path that takes least when its memory has to be paid for.
ChainPath cheapestPath(const ChainProblem& problem, const ChainPrices& prices);

} // namespace headroom
