// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/caching_allocator.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <vector>

namespace headroom {

/// A contiguous piece of a segment, allocated or free.
struct CachingAllocator::Chunk
{
    Block address = 0;
    Bytes size = 0;
    Bytes requested = 0; ///< 0 while free
    bool allocated = false;
    Pool* pool = nullptr;
    Chunk* previous = nullptr; ///< neighbours in the same segment, in address order
    Chunk* next = nullptr;
};

/// The free blocks of small or of large requests, smallest and lowest first.
struct CachingAllocator::Pool
{
    struct BySizeThenAddress
    {
        bool operator()(const Chunk* a, const Chunk* b) const noexcept
        {
            return std::tie(a->size, a->address) < std::tie(b->size, b->address);
        }
    };
    std::set<Chunk*, BySizeThenAddress> free;
    Bytes leastRemainder = 0; ///< a split must leave more than it (large pool) or as much (small pool)
    bool small = false;

    bool shouldSplit(Bytes blockSize, Bytes size) const noexcept
    {
        const Bytes remainder = blockSize - size;
        return small ? remainder >= leastRemainder : remainder > leastRemainder;
    }
};

CachingAllocator::CachingAllocator(AllocatorRules rules)
    : rules_(rules)
    , small_(std::make_unique<Pool>())
    , large_(std::make_unique<Pool>())
{
    small_->small = true;
    small_->leastRemainder = rules_.minBlock;
    large_->leastRemainder = rules_.smallSize;
}

CachingAllocator::~CachingAllocator() = default;
CachingAllocator::CachingAllocator(CachingAllocator&&) noexcept = default;
CachingAllocator& CachingAllocator::operator=(CachingAllocator&&) noexcept = default;

Bytes CachingAllocator::segmentSize(Bytes size) const noexcept
{
    if (size <= rules_.smallSize)
        return rules_.smallSegment;
    if (size < rules_.minLargeSegment)
        return rules_.largeSegment;
    return (size + rules_.largeRounding - 1) / rules_.largeRounding * rules_.largeRounding;
}

CachingAllocator::Chunk* CachingAllocator::bestFit(Pool& pool, Bytes size) const
{
    Chunk key;
    key.size = size;
    const auto found = pool.free.lower_bound(&key);
    if (found == pool.free.end())
        return nullptr;
    Chunk* chunk = *found;
    pool.free.erase(found);
    return chunk;
}

CachingAllocator::Chunk* CachingAllocator::newSegment(Pool& pool, Bytes size)
{
    const Bytes segment = segmentSize(size);
    if (rules_.capacity > 0 && stats_.reserved + segment > rules_.capacity)
        return nullptr;
    auto chunk = std::make_unique<Chunk>();
    chunk->address = nextAddress_;
    chunk->size = segment;
    chunk->pool = &pool;
    nextAddress_ += static_cast<Block>(segment) + static_cast<Block>(rules_.minBlock); // a gap: segments never touch
    stats_.reserved += segment;
    stats_.reservedPeak = std::max(stats_.reservedPeak, stats_.reserved);
    ++stats_.segments;
    Chunk* result = chunk.get();
    chunks_.emplace(result->address, std::move(chunk));
    return result;
}

void CachingAllocator::releaseUnusedSegments(Pool& pool)
{
    std::vector<Chunk*> whole;
    std::ranges::copy_if(pool.free, std::back_inserter(whole),
                         [](const Chunk* chunk) { return !chunk->previous && !chunk->next; });
    for (Chunk* chunk : whole) {
        pool.free.erase(chunk);
        stats_.reserved -= chunk->size;
        --stats_.segments;
        chunks_.erase(chunk->address);
    }
}

void CachingAllocator::releaseUnused()
{
    releaseUnusedSegments(*large_);
    releaseUnusedSegments(*small_);
}

std::optional<CachingAllocator::Block> CachingAllocator::allocate(Bytes requested)
{
    assert(requested > 0);
    const Bytes size = std::max(rules_.minBlock, (requested + rules_.minBlock - 1) / rules_.minBlock * rules_.minBlock);
    Pool& pool = size <= rules_.smallSize ? *small_ : *large_;

    Chunk* chunk = bestFit(pool, size);
    if (!chunk)
        chunk = newSegment(pool, size);
    if (!chunk) {
        releaseUnused();
        chunk = newSegment(pool, size);
    }
    if (!chunk)
        return std::nullopt;

    if (pool.shouldSplit(chunk->size, size)) {
        auto rest = std::make_unique<Chunk>();
        rest->address = chunk->address + static_cast<Block>(size);
        rest->size = chunk->size - size;
        rest->pool = &pool;
        rest->previous = chunk;
        rest->next = chunk->next;
        if (rest->next)
            rest->next->previous = rest.get();
        chunk->next = rest.get();
        chunk->size = size;
        pool.free.insert(rest.get());
        chunks_.emplace(rest->address, std::move(rest));
    }
    chunk->allocated = true;
    chunk->requested = requested;
    stats_.requested += requested;
    stats_.allocated += chunk->size;
    stats_.requestedPeak = std::max(stats_.requestedPeak, stats_.requested);
    stats_.allocatedPeak = std::max(stats_.allocatedPeak, stats_.allocated);
    return chunk->address;
}

void CachingAllocator::free(Block block)
{
    const auto found = chunks_.find(block);
    assert(found != chunks_.end() && found->second->allocated);
    Chunk* chunk = found->second.get();
    stats_.requested -= chunk->requested;
    stats_.allocated -= chunk->size;
    chunk->allocated = false;
    chunk->requested = 0;

    const auto absorb = [this](Chunk* into, Chunk* absorbed) {
        into->size += absorbed->size;
        into->next = absorbed->next;
        if (into->next)
            into->next->previous = into;
        chunks_.erase(absorbed->address);
    };
    if (Chunk* next = chunk->next; next && !next->allocated) {
        chunk->pool->free.erase(next);
        absorb(chunk, next);
    }
    if (Chunk* previous = chunk->previous; previous && !previous->allocated) {
        previous->pool->free.erase(previous);
        absorb(previous, chunk);
        chunk = previous;
    }
    chunk->pool->free.insert(chunk);
}

void CachingAllocator::resetPeaks() noexcept
{
    stats_.requestedPeak = stats_.requested;
    stats_.allocatedPeak = stats_.allocated;
    stats_.reservedPeak = stats_.reserved;
}

} // namespace headroom
