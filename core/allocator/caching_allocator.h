// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace headroom {

/// The sizes by which the CUDA caching allocator decides (c10/core/AllocatorConfig.h, torch 2.11).
struct AllocatorRules
{
    Bytes minBlock = 512; ///< kMinBlockSize: every request is rounded up to it
    Bytes smallSize = 1 * MiB; ///< kSmallSize: requests up to it come from the small pool
    Bytes smallSegment = 2 * MiB; ///< kSmallBuffer: what the small pool takes from the device
    Bytes largeSegment = 20 * MiB; ///< large_segment_size: what a request under minLargeSegment takes
    Bytes minLargeSegment = 10 * MiB; ///< kMinLargeAlloc: from here on a request gets a segment of its own
    Bytes largeRounding = 2 * MiB; ///< kRoundLarge: to a multiple of it
    Bytes capacity = 0; ///< bytes that the device has; 0: no limit
};

/// The rules of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp) on made-up addresses, for one stream:
/// best fit among free blocks, blocks split and merged inside segments, segments kept until the device is full. From
/// the requests of a step it says what a GPU would have reserved.
///
/// Addresses of different segments never touch, as cudaMalloc's do not have to; ties between equal blocks go to the
/// lowest.
class CachingAllocator
{
public:
    using Block = std::uint64_t; ///< a block's address: unique while it is allocated

    explicit CachingAllocator(AllocatorRules rules = {});
    ~CachingAllocator();
    CachingAllocator(CachingAllocator&&) noexcept;
    CachingAllocator& operator=(CachingAllocator&&) noexcept;

    /// A block for `requested` > 0 bytes, or nothing when the device is full even after every unused segment went back.
    std::optional<Block> allocate(Bytes requested);
    void free(Block block);

    /// Bytes that the device has from now on; 0: no limit. What is reserved stays.
    void setCapacity(Bytes capacity) noexcept { rules_.capacity = capacity; }
    /// Gives segments without an allocated block back to the device, as torch.cuda.empty_cache() does.
    void releaseUnused();

    struct Stats
    {
        Bytes requested = 0; ///< as asked for
        Bytes allocated = 0; ///< in blocks handed out; with one stream also what PyTorch calls active
        Bytes reserved = 0; ///< in segments taken from the device
        Bytes requestedPeak = 0;
        Bytes allocatedPeak = 0;
        Bytes reservedPeak = 0;
        std::int64_t segments = 0;
    };
    const Stats& stats() const noexcept { return stats_; }
    void resetPeaks() noexcept;

private:
    struct Chunk;
    struct Pool;
    Chunk* bestFit(Pool& pool, Bytes size) const;
    Chunk* newSegment(Pool& pool, Bytes size);
    void releaseUnusedSegments(Pool& pool);
    Bytes segmentSize(Bytes size) const noexcept;

    AllocatorRules rules_;
    Stats stats_;
    std::unique_ptr<Pool> small_;
    std::unique_ptr<Pool> large_;
    std::map<Block, std::unique_ptr<Chunk>> chunks_; ///< every block, allocated or free, by address
    Block nextAddress_ = 0;
};

} // namespace headroom
