// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/allocator_rules.h"

#include <algorithm>
#include <bit>

namespace headroom {

namespace {

constexpr int firstInterval = 20; ///< log2 of the requests of the first entry of powerOfTwoDivisions

/// Rounds a request up to the next of `divisions` equal steps between two powers of two.
Bytes nextDivision(Bytes requested, std::uint32_t divisions) noexcept
{
    const auto size = static_cast<std::uint64_t>(requested);
    if (std::has_single_bit(size))
        return requested;
    const std::uint64_t floor = std::bit_floor(size);
    const std::uint64_t step = floor >> std::countr_zero(divisions);
    if (step == 0)
        return static_cast<Bytes>(floor << 1);
    const std::uint64_t down = size & ~(step - 1);
    return static_cast<Bytes>(down == size ? down : down + step);
}

} // namespace

Bytes AllocatorRules::roundSize(Bytes requested) const noexcept
{
    if (requested < minBlock)
        return minBlock;
    const int interval = std::bit_width(static_cast<std::uint64_t>(requested)) - 1 - firstInterval;
    const std::uint32_t divisions = powerOfTwoDivisions[static_cast<std::size_t>(
        std::clamp(interval, 0, static_cast<int>(powerOfTwoDivisions.size()) - 1))];
    if (divisions > 1 && requested > minBlock * static_cast<Bytes>(divisions))
        return nextDivision(requested, divisions);
    return (requested + minBlock - 1) / minBlock * minBlock;
}

Bytes AllocatorRules::segmentSize(Bytes size) const noexcept
{
    if (size <= smallSize)
        return smallSegment;
    if (size < minLargeSegment)
        return largeSegment;
    return (size + largeRounding - 1) / largeRounding * largeRounding;
}

bool AllocatorRules::splits(Bytes size, Bytes rest, bool isSmall) const noexcept
{
    return isSmall || expandableSegments ? rest >= minBlock : size < maxSplit && rest > smallSize;
}

Bytes AllocatorRules::limit() const noexcept
{
    const Bytes whole = total > 0 ? total : capacity;
    return memoryFraction > 0 && whole > 0 ? static_cast<Bytes>(memoryFraction * static_cast<double>(whole))
                                           : unlimited;
}

} // namespace headroom
