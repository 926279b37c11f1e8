// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/policy/step_planner.h"

#include <span>
#include <string>
#include <vector>

namespace headroom {

/// Bytes by which a key press moves a budget on an axis of `range` bytes: 64 MiB, or on short axes a power of two near
/// range / 200.
Bytes budgetStep(Bytes range) noexcept;
Bytes budgetPage(Bytes range) noexcept; ///< 16 steps: 1 GiB on a long axis

/// A card as a budget.
struct CardStop
{
    std::string name; ///< "RTX 4090"
    Bytes bytes = 0; ///< budget with a plan that runs on the GPU
};

/// The next stop after (direction > 0) or before `from`; `from` if there is none. `stops` are ascending.
Bytes nextStop(std::span<const Bytes> stops, Bytes from, int direction) noexcept;

/// The nearest of `stops` within `reach`, else `value`.
Bytes snapped(std::span<const Bytes> stops, Bytes value, Bytes reach) noexcept;

/// `value` rounded to a multiple of the largest power of two that is not above `resolution` (at least one block).
Bytes roundedForDrag(Bytes value, double resolution) noexcept;

/// Recompute time in ms at a budget: that of the frontier's point with the largest peak that fits; below the first
/// point, that of the first. `frontier` is ascending by peak and not empty.
double recomputeAt(std::span<const FrontierPoint> frontier, Bytes budget) noexcept;

} // namespace headroom
