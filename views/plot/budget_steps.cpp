// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/budget_steps.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace headroom {
namespace {

constexpr Bytes longestStep = 64 * MiB;

Bytes powerOfTwoBelow(double bytes) noexcept
{
    const double inside = std::clamp(bytes, static_cast<double>(allocationGranularity), static_cast<double>(GiB));
    return static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(inside)));
}

} // namespace

Bytes budgetStep(Bytes range) noexcept
{
    return std::min(longestStep, powerOfTwoBelow(static_cast<double>(range) / 200));
}

Bytes budgetPage(Bytes range) noexcept
{
    return 16 * budgetStep(range);
}

Bytes nextStop(std::span<const Bytes> stops, Bytes from, int direction) noexcept
{
    if (direction > 0) {
        const auto after = std::upper_bound(stops.begin(), stops.end(), from);
        return after == stops.end() ? from : *after;
    }
    const auto notBefore = std::lower_bound(stops.begin(), stops.end(), from);
    return notBefore == stops.begin() ? from : *(notBefore - 1);
}

Bytes snapped(std::span<const Bytes> stops, Bytes value, Bytes reach) noexcept
{
    Bytes best = value;
    Bytes nearest = reach + 1;
    for (const Bytes stop : stops) {
        if (std::abs(stop - value) < nearest) {
            nearest = std::abs(stop - value);
            best = stop;
        }
    }
    return best;
}

Bytes roundedForDrag(Bytes value, double resolution) noexcept
{
    const Bytes unit = powerOfTwoBelow(resolution);
    return (value + unit / 2) / unit * unit;
}

double recomputeAt(std::span<const FrontierPoint> frontier, Bytes budget) noexcept
{
    const auto after = std::upper_bound(frontier.begin(), frontier.end(), budget,
                                        [](Bytes value, const FrontierPoint& point) { return value < point.peak; });
    return after == frontier.begin() ? frontier.front().costMs() : (after - 1)->costMs();
}

} // namespace headroom
