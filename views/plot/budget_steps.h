// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/policy/step_planner.h"

#include <span>
#include <string>
#include <vector>

namespace headroom {

/// How far one key press moves a budget on an axis of `range` bytes: 64 MiB, on short axes a power of two near a
/// two-hundredth.
Bytes budgetStep(Bytes range) noexcept;
Bytes budgetPage(Bytes range) noexcept; ///< 16 steps: 1 GiB on a long axis

/// A known card as a budget.
struct CardSize
{
    std::string name; ///< "RTX 4090"
    Bytes bytes = 0; ///< what it gives to tensors: CardMemory::usable()
};
/// Those within [least, most], ascending.
std::vector<CardSize> cardSizes(Bytes least, Bytes most);

/// The stop after (direction > 0) or before `from`; `from` where there is none. `stops` ascending.
Bytes nextStop(std::span<const Bytes> stops, Bytes from, int direction) noexcept;

/// The nearest of `stops` within `reach`, else `value`.
Bytes snapped(std::span<const Bytes> stops, Bytes value, Bytes reach) noexcept;

/// `value` rounded to a multiple of the largest power of two that is not above `resolution` (at least one block).
Bytes roundedForDrag(Bytes value, double resolution) noexcept;

/// Recompute time at a budget: the frontier's point with the largest peak that still fits; that of the first point
/// below it. `frontier` ascending by peak, not empty.
double recomputeAt(std::span<const FrontierPoint> frontier, Bytes budget) noexcept;

} // namespace headroom
