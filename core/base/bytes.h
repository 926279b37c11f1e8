// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

/// A number of bytes, always exact. Conversion to GiB happens only in text for the user.
using Bytes = std::int64_t;

inline constexpr Bytes KiB = 1024;
inline constexpr Bytes MiB = 1024 * KiB;
inline constexpr Bytes GiB = 1024 * MiB;

/// Block size of the CUDA caching allocator (kMinBlockSize, c10/core/AllocatorConfig.h): every request is rounded up to
/// a multiple.
inline constexpr Bytes allocationGranularity = 512;

/// `bytes` rounded up to the allocator's block size; 0 stays 0 (an empty storage takes no block).
constexpr Bytes roundedToBlock(Bytes bytes) noexcept
{
    return (bytes + allocationGranularity - 1) / allocationGranularity * allocationGranularity;
}

/// Parses `123`, `1.6GiB`, `512 MiB`, `64KiB`; the unit's case does not matter. GB, MB and KB are ambiguous, and
/// therefore errors. The result is rounded down to a whole byte. Errors: not a number, negative, unknown unit, over
/// 2^62.
Result<Bytes> parseBytes(std::string_view text);

/// Returns "1.60 GiB", "12.00 KiB", "100 B": uses the largest unit in which the value is at least 1, with `decimals`
/// digits after the point.
std::string formatBytes(Bytes bytes, int decimals = 2);

/// Returns the exact number with digits in groups of three: "2,583,888,896".
std::string groupedDigits(std::int64_t number);

/// Returns "2.41 GiB (2,583,888,896 bytes)", and "512 bytes" below a KiB.
std::string exactBytes(Bytes bytes);

} // namespace headroom
