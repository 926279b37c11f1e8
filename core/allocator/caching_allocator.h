// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// The rules of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp, torch 2.11) on made-up addresses: best
/// fit among the free blocks of a stream, blocks split and merged inside segments, segments kept until the device is
/// full, or grown page by page where they are expandable. From the requests of a step it says what a GPU would have
/// reserved.
///
/// Addresses of different segments never touch, as cudaMalloc's do not have to; ties between equal blocks go to the
/// lowest.
class CachingAllocator
{
public:
    using Block = std::uint64_t; ///< a block's address: unique while it is allocated
    using Stream = std::uint64_t;
    using PoolId = std::pair<std::int64_t, std::int64_t>; ///< {0, 0}: the default one; others are those of CUDA graphs

    explicit CachingAllocator(AllocatorRules rules = {});
    ~CachingAllocator();
    CachingAllocator(CachingAllocator&&) noexcept;
    CachingAllocator& operator=(CachingAllocator&&) noexcept;

    /// A block for `requested` > 0 bytes, or nothing when the device is full even after every unused segment went back
    /// (outOfMemory() says more).
    std::optional<Block> allocate(Bytes requested, Stream stream = 0, PoolId pool = {});
    /// The program freed it, but another stream may still use it: it stays active until free().
    void requestFree(Block block);
    /// Free for the next request; requestFree() first is not needed.
    void free(Block block);

    /// Bytes that the device has from now on; 0: no limit. What is reserved stays.
    void setCapacity(Bytes capacity) noexcept { rules_.capacity = capacity; }
    const AllocatorRules& rules() const noexcept { return rules_; }
    /// Gives segments without an allocated block back to the device, as torch.cuda.empty_cache() does.
    void releaseUnused();

    struct Stats
    {
        Bytes requested = 0; ///< as asked for, of active blocks
        Bytes allocated = 0; ///< in blocks handed out
        Bytes active = 0; ///< and in those that another stream may still use
        Bytes reserved = 0; ///< in segments taken from the device
        Bytes inactiveSplit = 0; ///< free, but in segments that hold an active block: true fragmentation
        Bytes requestedPeak = 0;
        Bytes allocatedPeak = 0;
        Bytes activePeak = 0;
        Bytes reservedPeak = 0;
        std::int64_t segments = 0;
        std::int64_t retries = 0; ///< times that every unused segment went back, and the request was tried again
    };
    const Stats& stats() const noexcept { return stats_; }
    void resetPeaks() noexcept;

    /// A number of torch.cuda.memory_stats().
    struct Counter
    {
        std::int64_t current = 0;
        std::int64_t peak = 0;
        std::int64_t allocated = 0; ///< all that was ever added
        std::int64_t freed = 0;
        void add(std::int64_t change) noexcept;
    };
    /// Those that torch.cuda.memory_stats() tells of each pool, by its names.
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
        std::int64_t retries = 0;
        std::int64_t synchronizations = 0; ///< of all streams, before unused segments go back
        std::int64_t outOfMemories = 0;
    };
    const Counters& counters() const noexcept { return counters_; }
    /// As torch.cuda.reset_accumulated_memory_stats() does.
    void resetAccumulated() noexcept;

    /// Why the last request that failed did.
    struct OutOfMemory
    {
        Bytes requested = 0;
        Bytes size = 0; ///< rounded to a block
        Bytes wanted = 0; ///< from the device: a segment, or an expandable one's pages
        Bytes deviceFree = 0; ///< what the device, or the program's limit, still had
        Bytes largestFree = 0; ///< free block of this pool and stream, too small
        Stats stats; ///< then, with every unused segment given back
    };
    const OutOfMemory& outOfMemory() const noexcept { return outOfMemory_; }
    Bytes largestFree() const; ///< free block of any pool and stream

    /// Bytes that the device gives, or gets back (an expandable segment's pages too).
    struct SegmentEvent
    {
        Block address = 0;
        Bytes size = 0;
        Stream stream = 0;
        bool taken = false;
        bool pages = false; ///< of an expandable segment: SEGMENT_MAP, SEGMENT_UNMAP
    };
    void setSegmentObserver(std::function<void(const SegmentEvent&)> observer) { observer_ = std::move(observer); }

    /// The next segment lies here, as a recording says: ties between equal blocks then resolve as they did there. Not
    /// where another one is.
    void placeNextSegment(Block address) { nextPlace_ = address; }

    /// A segment that exists already, as a recording found it.
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
        Block address = 0; ///< an expandable one: of its reserved range, which begins with its first page ever
        std::span<const Part> parts; ///< in order; gaps only in an expandable segment, whole pages
    };
    /// False: another segment is there. The counters do not know of it.
    bool addSegment(const Segment& segment);
    /// What there is, by address, as torch.cuda.memory_snapshot() tells of it.
    struct SegmentState
    {
        Stream stream = 0;
        bool small = false;
        Block address = 0;
        std::vector<Segment::Part> parts;
    };
    std::vector<SegmentState> segments() const;
    /// Gives back the segment at an address, as a recording says. False: it is not unused, or not there.
    bool releaseSegmentAt(Block address);

private:
    struct Chunk;
    struct Pool;
    struct Range;
    struct Request;
    struct PoolPair;

    Pool& poolFor(PoolId id, bool small);
    Chunk* bestFit(Request& request);
    Chunk* newMemory(Request& request, bool retry);
    Chunk* newSegment(Request& request);
    Bytes deviceFree() const noexcept;
    void fail(const Request& request);
    void collectGarbage();
    bool releaseOversize(Request& request);
    void releaseSegments(Pool& pool);
    void releaseSegment(Chunk* chunk);
    Block hand(Chunk* chunk, const Request& request);
    void split(Chunk* chunk, Bytes size);
    void merge(Chunk* into, Chunk* neighbour);
    void insertFree(Chunk* chunk);
    void completePending();

    Chunk* growExpandable(Request& request);
    Chunk* expandableCandidate(Request& request);
    Chunk* reserveRange(Request& request);
    bool map(Chunk* chunk, Bytes size);
    void unmap(Chunk* chunk);
    Chunk* freePart(Chunk* like, Block address, Bytes size);

    Chunk* newChunk();
    void drop(Chunk* chunk);
    void report(const Chunk& chunk, Block address, Bytes size, bool taken);
    void countFree(const Chunk& chunk) noexcept;
    void count(const Chunk& chunk, Counter PoolCounters::*counter, std::int64_t change) noexcept;
    Block segmentAddress(Bytes size);
    bool claim(Block address, Bytes size);
    Chunk* appendPart(Chunk* last, const Segment& segment, Range* range, Block address, Bytes size);

    AllocatorRules rules_;
    Stats stats_;
    Counters counters_;
    OutOfMemory outOfMemory_;
    std::map<PoolId, std::unique_ptr<PoolPair>> pools_;
    struct Storage;
    std::unique_ptr<Storage> storage_;
    std::function<void(const SegmentEvent&)> observer_;
    std::optional<Block> nextPlace_;
    Block nextAddress_ = 0;
    Bytes refused_ = 0; ///< by the device, last: a segment or pages
};

} // namespace headroom
