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

/// The sizes and settings of the CUDA caching allocator (c10/core/AllocatorConfig.h, torch 2.11). Settings come from
/// the environment variable PYTORCH_CUDA_ALLOC_CONF.
struct AllocatorRules
{
    static constexpr Bytes unlimited = std::numeric_limits<Bytes>::max();

    Bytes minBlock = 512; ///< kMinBlockSize: every request is rounded up to a multiple of minBlock
    Bytes smallSize = 1 * MiB; ///< kSmallSize: requests up to this size come from the small pool
    Bytes smallSegment = 2 * MiB; ///< kSmallBuffer: segment size of the small pool
    Bytes largeSegment = 20 * MiB; ///< large_segment_size: segment size for requests under minLargeSegment
    Bytes minLargeSegment = 10 * MiB; ///< kMinLargeAlloc: from this size on, a request gets a separate segment
    Bytes largeRounding = 2 * MiB; ///< kRoundLarge: such a segment is a multiple of largeRounding
    Bytes capacity = 0; ///< capacity of the device; 0: no limit
    Bytes total = 0; ///< memory of the device, the base of memoryFraction; 0: the same as `capacity`

    /// max_split_size_mb: blocks of at least this size are not split, and serve only requests of at least this size.
    Bytes maxSplit = unlimited;
    Bytes maxNonSplitRounding = 20 * MiB; ///< max_non_split_rounding_mb: limit of such a block's excess over a request
    bool expandableSegments = false; ///< expandable_segments
    /// garbage_collection_threshold: share of the limit above which unused segments are released by age; 0: never.
    /// PyTorch applies the threshold only if the program has a limit (memoryFraction).
    double garbageCollection = 0;
    /// per_process_memory_fraction, or torch.cuda.set_per_process_memory_fraction(): the share of the device that the
    /// program may take; 0: not set.
    double memoryFraction = 0;
    /// roundup_power2_divisions: number of equal steps between two powers of two; a request is rounded up to the next
    /// step. Entries are for requests from 1 MiB (and less), 2 MiB, … 32 GiB (and more); 0: not set.
    std::array<std::uint32_t, 16> powerOfTwoDivisions{};

    Bytes roundSize(Bytes requested) const noexcept; ///< returns the size of the block for a request
    Bytes segmentSize(Bytes size) const noexcept; ///< returns the size of a new segment for a block of `size` bytes
    /// Returns whether `rest` bytes behind a block of `size` bytes are split off, as a free block. `isSmall`: of the
    /// small pool.
    bool splits(Bytes size, Bytes rest, bool isSmall) const noexcept;
    Bytes limit() const noexcept; ///< returns the bytes that memoryFraction allows; unlimited if not set
    bool collectsGarbage() const noexcept { return garbageCollection > 0 && limit() != unlimited; }

    friend bool operator==(const AllocatorRules&, const AllocatorRules&) = default;
};

/// Returns `rules` with the settings of PYTORCH_CUDA_ALLOC_CONF, such as
/// "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:8]". Other settings get PyTorch's defaults; capacity
/// and total stay. Options that do not change the reserved memory (pinned_*, release_lock_on_cudamalloc, …) are
/// accepted and ignored. Error (badInput): a wrong token; the sentence names the token and what was expected.
Result<AllocatorRules> withAllocatorSettings(AllocatorRules rules, std::string_view settings);

/// Returns the settings that differ from PyTorch's defaults, in the syntax of PYTORCH_CUDA_ALLOC_CONF.
std::string allocatorSettings(const AllocatorRules& rules);

} // namespace headroom
