// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Segments that grow and shrink by pages, and segments as a recording found them.
#include "core/allocator/allocator_state.h"

#include <algorithm>

namespace headroom {

namespace {

/// Address space for a device without a limit.
constexpr Bytes wideRange = Bytes{1} << 44;

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
        candidate = next; // it took the candidate in
    }
    request.pool->free.erase(candidate);
    return candidate;
}

/// The lowest place where free and unmapped pieces that follow one another are large enough.
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
    const Bytes space = rules_.capacity > 0 ? rules_.capacity + rules_.capacity / 8 : wideRange;
    range.size = roundedUp(std::max(space, request.size), range.page);
    range.address = segmentAddress(range.size);
    Chunk* chunk = newChunk();
    chunk->address = range.address;
    chunk->size = range.size;
    chunk->stream = request.stream;
    chunk->pool = request.pool;
    chunk->mapped = false;
    chunk->range = &storage_->ranges.emplace_back(range);
    request.pool->unmapped.insert(chunk);
    return chunk;
}

/// Maps whole pages for `size` bytes from the beginning of an unmapped chunk, which takes its mapped neighbours in.
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
        Chunk* rest = freePart(chunk, chunk->address + static_cast<Block>(mapped), chunk->size - mapped);
        rest->mapped = false;
        rest->previous = chunk;
        rest->next = chunk->next;
        if (rest->next)
            rest->next->previous = rest;
        chunk->next = rest;
        chunk->size = mapped;
        pool.unmapped.insert(rest);
    }
    const Block address = chunk->address;
    merge(chunk, chunk->previous);
    merge(chunk, chunk->next);
    insertFree(chunk);
    report(*chunk, address, mapped, true);
    return true;
}

/// Unmaps the pages that lie wholly in a free chunk.
void CachingAllocator::unmap(Chunk* chunk)
{
    const auto offset = static_cast<Bytes>(chunk->address - chunk->range->address);
    const Bytes first = roundedUp(offset, chunk->range->page);
    const Bytes last = (offset + chunk->size) / chunk->range->page * chunk->range->page;
    if (first >= last)
        return;
    Pool& pool = *chunk->pool;
    pool.free.erase(chunk);
    if (first > offset) {
        Chunk* before = freePart(chunk, chunk->address, first - offset);
        before->previous = chunk->previous;
        before->next = chunk;
        if (before->previous)
            before->previous->next = before;
        chunk->previous = before;
        insertFree(before);
    }
    if (const Bytes rest = offset + chunk->size - last; rest > 0) {
        Chunk* after = freePart(chunk, chunk->range->address + static_cast<Block>(last), rest);
        after->previous = chunk;
        after->next = chunk->next;
        if (after->next)
            after->next->previous = after;
        chunk->next = after;
        insertFree(after);
    }
    chunk->address = chunk->range->address + static_cast<Block>(first);
    chunk->size = last - first;
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

CachingAllocator::Chunk* CachingAllocator::appendPart(Chunk* last, const Segment& segment, Range* range, Block address,
                                                      Bytes size)
{
    Chunk* chunk = newChunk();
    chunk->address = address;
    chunk->size = size;
    chunk->stream = segment.stream;
    chunk->pool = &poolFor(segment.pool, segment.small);
    chunk->range = range;
    chunk->previous = last;
    if (last)
        last->next = chunk;
    return chunk;
}

bool CachingAllocator::addSegment(const Segment& segment)
{
    if (segment.parts.empty())
        return true;
    const Segment::Part& final = segment.parts.back();
    auto size = static_cast<Bytes>(final.address - segment.address) + final.size;
    const Bytes page = segment.small ? rules_.smallSegment : rules_.largeSegment;
    if (segment.expandable)
        size = roundedUp(std::max(size, rules_.capacity > 0 ? rules_.capacity + rules_.capacity / 8 : wideRange), page);
    if (!claim(segment.address, size))
        return false;
    Range* range = nullptr;
    if (segment.expandable)
        range = &storage_->ranges.emplace_back(Range{segment.address, size, page});
    else
        ++stats_.segments;

    Block next = segment.address;
    Chunk* last = nullptr;
    const auto unmappedUpTo = [&](Block address) {
        if (!range || address <= next)
            return;
        last = appendPart(last, segment, range, next, static_cast<Bytes>(address - next));
        last->mapped = false;
        last->pool->unmapped.insert(last);
    };
    std::vector<Chunk*> free;
    for (const Segment::Part& part : segment.parts) {
        unmappedUpTo(part.address);
        next = part.address + static_cast<Block>(part.size);
        stats_.reserved += part.size;
        if (part.requested == 0 && last && last->mapped && last->isFree()) {
            last->size += part.size; // two free pieces are one
            continue;
        }
        last = appendPart(last, segment, range, part.address, part.size);
        if (part.requested == 0) {
            free.push_back(last);
            continue;
        }
        last->allocated = true;
        last->requested = part.requested;
        storage_->inUse.emplace(last->address, last);
        stats_.requested += part.requested;
        stats_.allocated += part.size;
        stats_.active += part.size;
        if (part.awaitsFree)
            requestFree(last->address);
    }
    unmappedUpTo(segment.address + static_cast<Block>(size));
    for (Chunk* chunk : free) {
        insertFree(chunk);
        if (!range && chunk->isSplit())
            stats_.inactiveSplit += chunk->size;
    }
    resetPeaks();
    return true;
}

} // namespace headroom
