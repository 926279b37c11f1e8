// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Expandable segments, growing and shrinking by pages, and segments of a recording.
#include "core/allocator/allocator_state.h"

#include <algorithm>

namespace headroom {

namespace {

constexpr Bytes unlimitedRange = Bytes{1} << 44; ///< address space of an expandable segment if there is no capacity

Bytes roundedUp(Bytes size, Bytes page)
{
    return (size + page - 1) / page * page;
}

} // namespace

CachingAllocator::Chunk* CachingAllocator::growExpandable(Request& request)
{
    Chunk* candidate = expandableCandidate(request);
    if (!candidate->mapped && !map(candidate, std::min(candidate->size, request.size)))
        return nullptr;
    while (candidate->size < request.size) {
        Chunk* next = candidate->next;
        if (!map(next, std::min(request.size - candidate->size, next->size)))
            return nullptr;
        candidate = next; // map() merged the two
    }
    request.pool->free.erase(candidate);
    return candidate;
}

/// Returns the lowest chunk that starts a large enough run of adjacent free and unmapped chunks; without such a chunk,
/// the chunk of a new segment.
CachingAllocator::Chunk* CachingAllocator::expandableCandidate(Request& request)
{
    const auto fits = [&](const Chunk* chunk) {
        Bytes bytes = 0;
        for (; chunk && chunk->isFree() && bytes < request.size; chunk = chunk->next)
            bytes += chunk->size;
        return bytes >= request.size;
    };
    Chunk key;
    key.stream = request.stream;
    Pool& pool = *request.pool;
    for (auto place = pool.unmapped.lower_bound(&key);
         place != pool.unmapped.end() && (*place)->stream == request.stream; ++place) {
        Chunk* chunk = *place;
        if (chunk->previous && chunk->previous->isFree())
            chunk = chunk->previous;
        if (fits(chunk))
            return chunk;
    }
    return reserveRange(request);
}

CachingAllocator::Chunk* CachingAllocator::reserveRange(Request& request)
{
    Range range;
    range.page = request.pool->small ? rules_.smallSegment : rules_.largeSegment;
    range.size = rangeSize(request.size, range.page);
    range.address = segmentAddress(range.size);
    Chunk* chunk
        = newChunk(range.address, range.size, request.stream, request.pool, &storage_->ranges.emplace_back(range));
    chunk->mapped = false;
    request.pool->unmapped.insert(chunk);
    return chunk;
}

/// Returns the address space that PyTorch reserves for an expandable segment: 1 1/8 of the device.
Bytes CachingAllocator::rangeSize(Bytes least, Bytes page) const noexcept
{
    const Bytes space = rules_.capacity > 0 ? rules_.capacity + rules_.capacity / 8 : unlimitedRange;
    return roundedUp(std::max(space, least), page);
}

/// Maps whole pages for `size` bytes at the beginning of an unmapped chunk, and merges the chunk with mapped
/// neighbours. Returns false if the device is full.
bool CachingAllocator::map(Chunk* chunk, Bytes size)
{
    const Bytes mapped = roundedUp(size, chunk->range->page);
    if (mapped > deviceFree()) {
        refused_ = mapped;
        return false;
    }
    Pool& pool = *chunk->pool;
    pool.unmapped.erase(chunk);
    chunk->mapped = true;
    if (mapped < chunk->size) {
        Chunk* rest = cut(chunk, mapped);
        rest->mapped = false;
        pool.unmapped.insert(rest);
    }
    const Block address = chunk->address;
    merge(chunk, chunk->previous);
    merge(chunk, chunk->next);
    insertFree(chunk);
    report(*chunk, address, mapped, true);
    return true;
}

/// Unmaps the pages that lie completely in a free chunk.
void CachingAllocator::unmap(Chunk* chunk)
{
    const auto offset = static_cast<Bytes>(chunk->address - chunk->range->address);
    const Bytes first = roundedUp(offset, chunk->range->page);
    const Bytes last = (offset + chunk->size) / chunk->range->page * chunk->range->page;
    if (first >= last)
        return;
    Pool& pool = *chunk->pool;
    pool.free.erase(chunk);
    if (offset + chunk->size > last)
        insertFree(cut(chunk, last - offset));
    if (first > offset) {
        Chunk* before = chunk;
        chunk = cut(before, first - offset);
        insertFree(before);
    }
    chunk->mapped = false;
    const Block address = chunk->address;
    merge(chunk, chunk->previous);
    merge(chunk, chunk->next);
    report(*chunk, address, last - first, false);
    if (chunk->isSplit()) {
        pool.unmapped.insert(chunk);
        return;
    }
    storage_->extents.erase(chunk->range->address);
    storage_->ranges.remove_if([&](const Range& range) { return &range == chunk->range; });
    drop(chunk);
}

bool CachingAllocator::addSegment(const Segment& segment)
{
    if (segment.parts.empty())
        return true;
    const Segment::Part& final = segment.parts.back();
    auto size = static_cast<Bytes>(final.address - segment.address) + final.size;
    const Bytes page = segment.small ? rules_.smallSegment : rules_.largeSegment;
    if (segment.expandable)
        size = rangeSize(size, page);
    if (!claim(segment.address, size))
        return false;
    Range* range = segment.expandable ? &storage_->ranges.emplace_back(Range{segment.address, size, page}) : nullptr;

    Block next = segment.address;
    Chunk* last = nullptr;
    const auto append = [&](Block address, Bytes bytes) {
        Chunk* chunk = newChunk(address, bytes, segment.stream, &poolFor(segment.pool, segment.small), range);
        chunk->previous = last;
        if (last)
            last->next = chunk;
        last = chunk;
    };
    const auto unmappedUpTo = [&](Block address) {
        if (!range || address <= next)
            return;
        append(next, static_cast<Bytes>(address - next));
        last->mapped = false;
        last->pool->unmapped.insert(last);
    };
    std::vector<Chunk*> free;
    for (const Segment::Part& part : segment.parts) {
        unmappedUpTo(part.address);
        next = part.address + static_cast<Block>(part.size);
        if (part.requested == 0 && last && last->mapped && last->isFree()) {
            last->size += part.size; // adjacent free parts form a single chunk
            count(*last, &PoolCounters::reservedBytes, part.size);
            continue;
        }
        append(part.address, part.size);
        count(*last, &PoolCounters::reservedBytes, part.size);
        if (part.requested == 0) {
            free.push_back(last);
            continue;
        }
        last->allocated = true;
        last->requested = part.requested;
        storage_->inUse.emplace(last->address, last);
        countAllocated(*last, 1);
        countActive(*last, 1);
        if (part.awaitsFree)
            requestFree(last->address);
    }
    unmappedUpTo(segment.address + static_cast<Block>(size));
    if (!range)
        count(*last, &PoolCounters::segment, 1);
    for (Chunk* chunk : free) {
        insertFree(chunk);
        if (!range && chunk->isSplit()) {
            count(*chunk, &PoolCounters::inactiveSplit, 1);
            count(*chunk, &PoolCounters::inactiveSplitBytes, chunk->size);
        }
    }
    resetPeaks();
    return true;
}

} // namespace headroom
