// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// The cost of one way to checkpoint a part of a step, as the fields of ChainOption.
struct WayCost
{
    Bytes held = 0;
    Bytes high = 0;
    Picoseconds time = 0;
};

/// Indices of the ways that no other way dominates, sorted by held, then time; of equal ways the first. If there are
/// more than `most`, corners of the lower hull of time over bytes are kept first.
std::vector<std::size_t> worthIt(std::span<const WayCost> ways, std::size_t most);

/// By unit: the index of one of its ways.
using Combination = std::vector<std::size_t>;

/// At most `most` combinations that are not dominated in the sums of held and time.
std::vector<Combination> bestSums(std::span<const std::vector<WayCost>> units, std::size_t most);

/// All combinations of a few ways of each unit, at most `most` in total.
std::vector<Combination> products(std::span<const std::vector<WayCost>> units, std::size_t most);

} // namespace headroom
