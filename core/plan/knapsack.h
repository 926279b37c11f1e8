// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// An item of a knapsack problem: bytes, and the value of taking the item.
struct KnapsackItem
{
    Bytes bytes = 0;
    double value = 0;
};

struct KnapsackChoice
{
    std::vector<bool> taken; ///< by item
    Bytes bytes = 0;
    double value = 0;
    bool proven = false; ///< no other choice within the cap has a higher value
};

constexpr std::size_t mostKnapsackDecisions = 6'000'000;

/// The choice of highest value, by dynamic programming over choices that are not dominated. Sums of bytes are exact, so
/// that the cap is never exceeded. After `mostDecisions` steps the result is the best choice so far, with `proven`
/// false.
KnapsackChoice exactKnapsack(std::span<const KnapsackItem> items, Bytes cap,
                             std::size_t mostDecisions = mostKnapsackDecisions);

/// Takes items greedily by value per byte, larger items first among equals. Repeats the pass without each of the first
/// few items alone, and without all items up to that item, and returns the best choice.
KnapsackChoice greedyKnapsack(std::span<const KnapsackItem> items, Bytes cap);

/// The choice of highest value by GLPK, or the best choice found within the time limit. Error (internal): GLPK found no
/// choice for the cap.
Result<KnapsackChoice> ilpKnapsack(std::span<const KnapsackItem> items, Bytes cap, double limitMs = 10000);

} // namespace headroom
