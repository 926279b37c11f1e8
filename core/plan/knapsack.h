// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <cstddef>
#include <span>
#include <vector>

namespace headroom {

/// Items of which some fit under a cap: bytes and what keeping each is worth.
struct KnapsackItem
{
    Bytes bytes = 0;
    double value = 0;
};

struct KnapsackChoice
{
    std::vector<bool> taken; ///< one an item
    Bytes bytes = 0;
    double value = 0;
    bool proven = false; ///< no other choice under the cap is worth more
};

/// The best choice, by dynamic programming over the choices that no other dominates: sums of bytes are exact, so the
/// cap is never exceeded. After `mostDecisions` of the programme it is the best one known: `proven` is false.
constexpr std::size_t mostKnapsackDecisions = 6'000'000;
KnapsackChoice exactKnapsack(std::span<const KnapsackItem> items, Bytes cap,
                             std::size_t mostDecisions = mostKnapsackDecisions);

/// By value per byte, larger ones first among equals; the best of this, of the same without one of the first few, and
/// of the same without all up to one of them.
KnapsackChoice greedyKnapsack(std::span<const KnapsackItem> items, Bytes cap);

/// The best choice by GLPK, or the best one known when the time is over. Errors: GLPK gave up.
Result<KnapsackChoice> ilpKnapsack(std::span<const KnapsackItem> items, Bytes cap, double limitMs = 10000);

} // namespace headroom
