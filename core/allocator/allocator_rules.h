// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace headroom {

/// The sizes and settings by which the CUDA caching allocator decides (c10/core/AllocatorConfig.h, torch 2.11). The
/// settings are those of the environment variable PYTORCH_CUDA_ALLOC_CONF.
struct AllocatorRules
{
    static constexpr Bytes unlimited = std::numeric_limits<Bytes>::max();

    Bytes minBlock = 512; ///< kMinBlockSize: every request is rounded up to it
    Bytes smallSize = 1 * MiB; ///< kSmallSize: requests up to it come from the small pool
    Bytes smallSegment = 2 * MiB; ///< kSmallBuffer: what the small pool takes from the device
    Bytes largeSegment = 20 * MiB; ///< large_segment_size: what a request under minLargeSegment takes
    Bytes minLargeSegment = 10 * MiB; ///< kMinLargeAlloc: from here on a request gets a segment of its own
    Bytes largeRounding = 2 * MiB; ///< kRoundLarge: to a multiple of it
    Bytes capacity = 0; ///< bytes that the device has; 0: no limit

    Bytes maxSplit = unlimited; ///< max_split_size_mb: blocks of this size are not split, and serve only such requests
    Bytes maxNonSplitRounding = 20 * MiB; ///< max_non_split_rounding_mb: such a block may be less than this too large
    bool expandableSegments = false; ///< expandable_segments
    /// garbage_collection_threshold: share of the limit from which unused segments go back by age; 0: never. PyTorch
    /// looks at it only when a program has a limit (memoryFraction).
    double garbageCollection = 0;
    /// per_process_memory_fraction, or torch.cuda.set_per_process_memory_fraction(): share of the device that the
    /// program may take; 0: not set.
    double memoryFraction = 0;
    /// roundup_power2_divisions: steps between two powers of two to which a request is rounded up, for requests from
    /// 1 MiB (and less), 2 MiB, … 32 GiB (and more); 0: not rounded so.
    std::array<std::uint32_t, 16> powerOfTwoDivisions{};

    Bytes roundSize(Bytes requested) const noexcept; ///< size of the block that a request gets
    Bytes segmentSize(Bytes size) const noexcept; ///< what is taken from the device for such a block
    Bytes limit() const noexcept; ///< bytes that the program may take by memoryFraction; unlimited when it is not set

    friend bool operator==(const AllocatorRules&, const AllocatorRules&) = default;
};

/// `rules` with the settings of PYTORCH_CUDA_ALLOC_CONF: "max_split_size_mb:128,expandable_segments:True",
/// "roundup_power2_divisions:[256:1,512:2,>:8]". What is not named is as PyTorch has it by default; the capacity
/// stays. Options that do not change what is reserved (pinned_*, release_lock_on_cudamalloc, …) are read
/// and passed over. Errors (badInput) name the token and what was expected there.
Result<AllocatorRules> withAllocatorSettings(AllocatorRules rules, std::string_view settings);

/// The settings that differ from PyTorch's defaults, in the same syntax; empty when none does.
std::string allocatorSettings(const AllocatorRules& rules);

} // namespace headroom
