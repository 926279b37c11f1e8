// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"
#include "core/trace/out_of_memory.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// Simulates PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, torch 2.11) on made-up addresses: best fit
/// among the free blocks of a stream; blocks split and merged inside segments; segments kept until the device is full,
/// or, if expandable, grown page by page. The result is the memory that a GPU would reserve for the requests of a step.
///
/// There are gaps between segments, since cudaMalloc does not promise that segments are adjacent. Of equal blocks, the
/// block with the lowest address is used.
class CachingAllocator
{
public:
    using Block = std::uint64_t; ///< a block's address: unique while the block is allocated
    using Stream = std::uint64_t;
    using PoolId = std::pair<std::int64_t, std::int64_t>; ///< {0, 0}: the default pool; others belong to CUDA graphs

    explicit CachingAllocator(AllocatorRules rules = {});
    ~CachingAllocator();
    CachingAllocator(CachingAllocator&&) noexcept;
    CachingAllocator& operator=(CachingAllocator&&) noexcept;

    /// Allocates a block for `requested` > 0 bytes. Returns nullopt if the device is full even after every unused
    /// segment was released (outOfMemory() has details).
    std::optional<Block> allocate(Bytes requested, Stream stream = 0, PoolId pool = {});
    /// Frees a block that another stream may still use: the block stays active until free().
    void requestFree(Block block);
    /// Frees a block for the next request, with or without an earlier requestFree().
    void free(Block block);

    /// Sets the capacity of the device in bytes; 0: no limit. Reserved memory stays.
    void setCapacity(Bytes capacity) noexcept { rules_.capacity = capacity; }
    /// Sets rules for later requests, as torch.cuda.memory._set_allocator_settings() does. Segments stay unchanged.
    void setRules(const AllocatorRules& rules) noexcept { rules_ = rules; }
    const AllocatorRules& rules() const noexcept { return rules_; }
    /// Returns segments without an allocated block to the device, as torch.cuda.empty_cache() does.
    void releaseUnused();

    struct Stats
    {
        Bytes requested = 0; ///< requested bytes of active blocks
        Bytes allocated = 0; ///< bytes of allocated blocks
        Bytes active = 0; ///< `allocated`, and blocks that another stream may still use
        Bytes reserved = 0; ///< bytes of segments
        Bytes inactiveSplit = 0; ///< free bytes in segments that hold an active block: true fragmentation
        Bytes requestedPeak = 0;
        Bytes allocatedPeak = 0;
        Bytes activePeak = 0;
        Bytes reservedPeak = 0;
        std::int64_t segments = 0;
        std::int64_t retries = 0; ///< requests retried after a release of unused segments, since resetAccumulated()
    };
    Stats stats() const noexcept;
    void resetPeaks() noexcept;

    /// A statistic of torch.cuda.memory_stats().
    struct Counter
    {
        std::int64_t current = 0;
        std::int64_t peak = 0;
        std::int64_t allocated = 0; ///< total of all increases
        std::int64_t freed = 0;
        void add(std::int64_t change) noexcept;
    };
    /// The statistics that torch.cuda.memory_stats() reports for each pool, under the same names.
    struct PoolCounters
    {
        Counter allocation;
        Counter segment;
        Counter active;
        Counter inactiveSplit;
        Counter allocatedBytes;
        Counter reservedBytes;
        Counter activeBytes;
        Counter inactiveSplitBytes;
        Counter requestedBytes;
    };
    struct Counters
    {
        std::array<PoolCounters, 3> pools; ///< all, small, large
        Counter oversizeAllocations; ///< of at least max_split_size_mb
        Counter oversizeSegments;
        std::int64_t retries = 0;
        std::int64_t synchronizations = 0; ///< times that all streams were synchronised to release unused segments
        std::int64_t outOfMemories = 0;
    };
    const Counters& counters() const noexcept { return counters_; }
    /// Does what torch.cuda.reset_accumulated_memory_stats() does.
    void resetAccumulated() noexcept;

    /// The state at the last failed request.
    struct OutOfMemory
    {
        Bytes requested = 0;
        Bytes size = 0; ///< size of the block
        Bytes wanted = 0; ///< size of the segment or pages that the device refused
        Bytes deviceFree = 0; ///< free bytes of the device, or of the program's limit
        std::vector<Bytes> freeBlocks; ///< sizes of the largest free blocks of this pool and stream, descending, max. 8
        std::vector<Block> beside; ///< for each of freeBlocks, the smaller of the two blocks in use beside; 0: none
        std::size_t freeCount = 0; ///< number of free blocks of this pool and stream
        Stats stats; ///< after every unused segment was released

        bool isFragmentation() const noexcept
        {
            return headroom::isFragmentation(size, stats.reserved - stats.active, deviceFree, stats.reserved);
        }
    };
    const OutOfMemory& outOfMemory() const noexcept { return outOfMemory_; }
    Bytes largestFree() const; ///< returns the size of the largest free block of any pool and stream

    /// A segment, or pages of an expandable segment, that the allocator takes from or returns to the device.
    struct SegmentEvent
    {
        Block address = 0;
        Bytes size = 0;
        Stream stream = 0;
        bool taken = false;
        bool pages = false; ///< pages of an expandable segment: SEGMENT_MAP, SEGMENT_UNMAP
    };
    void setSegmentObserver(std::function<void(const SegmentEvent&)> observer) { observer_ = std::move(observer); }

    /// Places the next segment at the recorded `address`, so that the choice between equal blocks is as in the
    /// recording. Ignored if another segment is there.
    void placeNextSegment(Block address) { nextPlace_ = address; }
    /// Makes the next request take new memory from the device even if a free block fits. PyTorch searches for a block
    /// before waiting for the device, and the wait completes other frees.
    void takeNextFromDevice() noexcept { looksForFit_ = false; }

    /// A segment that exists at the start of a recording.
    struct Segment
    {
        struct Part
        {
            Block address = 0;
            Bytes size = 0;
            Bytes requested = 0; ///< 0: free
            bool awaitsFree = false; ///< requestFree() was called
        };
        Stream stream = 0;
        PoolId pool{};
        bool small = false;
        bool expandable = false;
        Block address = 0; ///< start of the segment; if expandable: the first page that was ever mapped
        std::span<const Part> parts; ///< in order; only an expandable segment has gaps, of whole pages
    };
    /// Adds a segment; returns false if another segment is there. Resets the peaks.
    bool addSegment(const Segment& segment);
    /// A segment of torch.cuda.memory_snapshot().
    struct SegmentState
    {
        Stream stream = 0;
        bool small = false;
        bool expandable = false; ///< the pages that are mapped together
        Block address = 0;
        std::vector<Segment::Part> parts;
    };
    std::vector<SegmentState> segments() const; ///< returns the segments by address
    /// Stream, address, size and requested bytes (0: free) of all blocks, by address.
    std::vector<std::uint64_t> layout() const;
    /// Releases the segment at a recorded address. Returns false if the segment is in use or does not exist.
    bool releaseSegmentAt(Block address);

private:
    struct Chunk;
    struct Pool;
    struct Range;
    struct Request;
    struct PoolPair;

    std::vector<const Chunk*> chunks() const; ///< mapped chunks, by address
    Pool& poolFor(PoolId id, bool small);
    Chunk* bestFit(Request& request);
    Chunk* newMemory(Request& request, bool retry);
    Chunk* newSegment(Request& request);
    Bytes reserved() const noexcept { return counters_.pools[0].reservedBytes.current; }
    Bytes deviceFree() const noexcept;
    void fail(const Request& request);
    void collectGarbage();
    bool releaseOversize(Request& request);
    void releaseSegments(Pool& pool);
    void releaseSegment(Chunk* chunk);
    Block hand(Chunk* chunk, const Request& request);
    Chunk* cut(Chunk* chunk, Bytes size);
    void merge(Chunk* into, Chunk* neighbour);
    void insertFree(Chunk* chunk);
    void completePending();

    Chunk* growExpandable(Request& request);
    Chunk* expandableCandidate(Request& request);
    Chunk* reserveRange(Request& request);
    bool map(Chunk* chunk, Bytes size);
    void unmap(Chunk* chunk);
    Bytes rangeSize(Bytes least, Bytes page) const noexcept;

    Chunk* newChunk(Block address, Bytes size, Stream stream, Pool* pool, Range* range = nullptr);
    void drop(Chunk* chunk);
    void report(const Chunk& chunk, Block address, Bytes size, bool taken);
    void countAllocated(const Chunk& chunk, int sign) noexcept;
    void countActive(const Chunk& chunk, int sign) noexcept;
    void count(const Chunk& chunk, Counter PoolCounters::*counter, std::int64_t change) noexcept;
    Block segmentAddress(Bytes size);
    bool claim(Block address, Bytes size);

    AllocatorRules rules_;
    Counters counters_;
    OutOfMemory outOfMemory_;
    struct Storage;
    std::unique_ptr<Storage> storage_;
    std::function<void(const SegmentEvent&)> observer_;
    std::optional<Block> nextPlace_;
    bool looksForFit_ = true;
    Block nextAddress_ = 0;
    Bytes refused_ = 0; ///< size of the last segment or pages that the device refused
};

} // namespace headroom
