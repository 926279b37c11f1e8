// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// The functions that return memory to the device.
#include "core/allocator/allocator_state.h"

#include <algorithm>
#include <iterator>

namespace headroom {

void CachingAllocator::releaseUnused()
{
    completePending();
    ++counters_.synchronizations;
    // CUDA graphs keep the segments of private pools.
    if (const auto found = storage_->pools.find(PoolId{}); found != storage_->pools.end()) {
        releaseSegments(found->second.large);
        releaseSegments(found->second.small);
    }
}

/// Frees the blocks that streams used until now, since the device is synchronised.
void CachingAllocator::completePending()
{
    while (!storage_->pending.empty())
        free(storage_->pending.front()->address);
}

void CachingAllocator::releaseSegments(Pool& pool)
{
    std::vector<Chunk*> whole;
    std::vector<Chunk*> growable;
    for (Chunk* chunk : pool.free) {
        if (chunk->range)
            growable.push_back(chunk);
        else if (!chunk->isSplit())
            whole.push_back(chunk);
    }
    std::ranges::for_each(whole, [this](Chunk* chunk) { releaseSegment(chunk); });
    std::ranges::for_each(growable, [this](Chunk* chunk) { unmap(chunk); });
}

void CachingAllocator::releaseSegment(Chunk* chunk)
{
    chunk->pool->free.erase(chunk);
    storage_->extents.erase(chunk->address);
    count(*chunk, &PoolCounters::segment, -1);
    if (chunk->size >= rules_.maxSplit)
        counters_.oversizeSegments.add(-1);
    report(*chunk, chunk->address, chunk->size, false);
    drop(chunk);
}

bool CachingAllocator::releaseSegmentAt(Block address)
{
    for (const auto& [id, pair] : storage_->pools) {
        for (const Pool* pool : {&pair.large, &pair.small}) {
            const auto found
                = std::ranges::find_if(pool->free, [&](const Chunk* chunk) { return chunk->address == address; });
            if (found == pool->free.end())
                continue;
            if ((*found)->isSplit() || (*found)->range)
                return false;
            releaseSegment(*found);
            return true;
        }
    }
    return false;
}

/// Releases large segments that have been free for longer than the mean age, until the reserved memory is below the
/// threshold.
void CachingAllocator::collectGarbage()
{
    const auto threshold = static_cast<Bytes>(rules_.garbageCollection * static_cast<double>(rules_.limit()));
    if (reserved() <= threshold)
        return;
    const Bytes target = reserved() - threshold;
    Pool& pool = poolFor({}, false);
    const auto age = [&](const Chunk* chunk) { return pool.calls - chunk->callsWhenFreed; };
    std::int64_t ages = 0;
    std::int64_t count = 0;
    for (const Chunk* chunk : pool.free) {
        if (!chunk->isSplit()) {
            ages += age(chunk);
            ++count;
        }
    }
    Bytes reclaimed = 0;
    bool released = true;
    while (reclaimed < target && released && count > 0) {
        released = false;
        const double oldEnough = static_cast<double>(ages) / static_cast<double>(count);
        for (auto place = pool.free.begin(); place != pool.free.end();) {
            Chunk* chunk = *place++;
            if (chunk->isSplit() || chunk->range || static_cast<double>(age(chunk)) < oldEnough)
                continue;
            released = true;
            reclaimed += chunk->size;
            ages -= age(chunk);
            --count;
            releaseSegment(chunk);
        }
    }
}

/// Releases free blocks that max_split_size_mb keeps whole; each such block is a segment. Takes a single block that is
/// large enough, or as many of the largest blocks as the request needs. Returns whether the released bytes are enough.
bool CachingAllocator::releaseOversize(Request& request)
{
    if (rules_.maxSplit == AllocatorRules::unlimited)
        return false;
    Pool& pool = *request.pool;
    Chunk key;
    key.size = std::max(request.size, rules_.maxSplit);
    key.stream = request.stream;
    auto place = pool.free.lower_bound(&key);
    if (place != pool.free.end() && (*place)->stream == request.stream && !(*place)->range) {
        releaseSegment(*place);
        return true;
    }
    Bytes released = 0;
    while (released < key.size && place != pool.free.begin()) {
        Chunk* chunk = *std::prev(place);
        if (chunk->size < rules_.maxSplit || chunk->stream != request.stream)
            break;
        if (chunk->range) {
            --place;
            continue;
        }
        released += chunk->size;
        releaseSegment(chunk);
    }
    return released >= key.size;
}

} // namespace headroom
