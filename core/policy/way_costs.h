// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// What one way to checkpoint a part of a step costs where it was measured.
struct WayCost
{
    Bytes held = 0;
    Bytes high = 0;
    Picoseconds time = 0;
};

/// Of all ways those that no other beats, by held, then time, as indices; of equal ones the first. Of too many the
/// corners of the lower hull of time over bytes stay first.
std::vector<std::size_t> worthIt(std::span<const WayCost> ways, std::size_t most);

/// For each of several units one of its ways, by index.
using Combination = std::vector<std::size_t>;

/// Combinations that are worth it by the sums of held and time, at most so many.
std::vector<Combination> bestSums(std::span<const std::vector<WayCost>> units, std::size_t most);

/// Every combination of some ways of each unit, so many that there are at most that many.
std::vector<Combination> products(std::span<const std::vector<WayCost>> units, std::size_t most);

} // namespace headroom
