// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/caching_allocator.h"

#include "core/allocator/allocator_state.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

namespace headroom {
namespace {

template <class Change>
void forEachCounter(CachingAllocator::Counters& counters, Change change)
{
    using Pool = CachingAllocator::PoolCounters;
    for (Pool& pool : counters.pools)
        for (const auto counter :
             {&Pool::allocation, &Pool::segment, &Pool::active, &Pool::inactiveSplit, &Pool::allocatedBytes,
              &Pool::reservedBytes, &Pool::activeBytes, &Pool::inactiveSplitBytes, &Pool::requestedBytes})
            change(pool.*counter);
}

} // namespace

CachingAllocator::CachingAllocator(AllocatorRules rules)
    : rules_(rules)
    , storage_(std::make_unique<Storage>())
{
}

CachingAllocator::~CachingAllocator() = default;
CachingAllocator::CachingAllocator(CachingAllocator&&) noexcept = default;
CachingAllocator& CachingAllocator::operator=(CachingAllocator&&) noexcept = default;

CachingAllocator::Pool& CachingAllocator::poolFor(PoolId id, bool small)
{
    std::unique_ptr<PoolPair>& pair = pools_[id];
    if (!pair) {
        pair = std::make_unique<PoolPair>();
        pair->small.small = true;
    }
    return small ? pair->small : pair->large;
}

std::optional<CachingAllocator::Block> CachingAllocator::allocate(Bytes requested, Stream stream, PoolId pool)
{
    assert(requested > 0);
    Request request;
    request.requested = requested;
    request.size = rules_.roundSize(requested);
    request.stream = stream;
    request.pool = &poolFor(pool, request.size <= rules_.smallSize);

    Chunk* chunk = std::exchange(looksForFit_, true) ? bestFit(request) : nullptr;
    if (!chunk) {
        if (rules_.limit() != AllocatorRules::unlimited && rules_.garbageCollection > 0)
            collectGarbage();
        chunk = newMemory(request, false);
        if (!chunk && releaseOversize(request))
            chunk = newMemory(request, false);
        if (!chunk) {
            releaseUnused();
            chunk = newMemory(request, true);
        }
    }
    if (!chunk) {
        fail(request);
        return std::nullopt;
    }
    return hand(chunk, request);
}

CachingAllocator::Chunk* CachingAllocator::bestFit(Request& request)
{
    Pool& pool = *request.pool;
    if (rules_.limit() != AllocatorRules::unlimited && rules_.garbageCollection > 0)
        ++pool.calls;
    Chunk key;
    key.size = request.size;
    key.stream = request.stream;
    const auto end = pool.free.end();
    auto found = pool.free.lower_bound(&key);
    const auto usable = [&](auto place) { return place != end && (*place)->stream == request.stream; };
    if (!usable(found))
        return nullptr;
    if ((*found)->range && rules_.expandableSegments) {
        // A block that can grow into unmapped pages counts as large as it could become.
        const auto couldBe = [](const Chunk* chunk) {
            return chunk->size + (chunk->next && !chunk->next->mapped ? chunk->next->size : 0);
        };
        for (auto next = std::next(found); (*found)->range && usable(next) && couldBe(*next) < couldBe(*found); ++next)
            found = next;
    } else if ((*found)->range) {
        do
            ++found;
        while (usable(found) && (*found)->range);
        if (!usable(found))
            return nullptr;
    }
    Chunk* chunk = *found;
    if (request.size < rules_.maxSplit ? chunk->size >= rules_.maxSplit
                                       : chunk->size - request.size >= rules_.maxNonSplitRounding)
        return nullptr;
    pool.free.erase(found);
    return chunk;
}

Bytes CachingAllocator::deviceFree() const noexcept
{
    return rules_.capacity > 0 ? rules_.capacity - stats_.reserved : AllocatorRules::unlimited;
}

CachingAllocator::Chunk* CachingAllocator::newMemory(Request& request, bool retry)
{
    if (retry) {
        ++stats_.retries;
        ++counters_.retries;
    }
    if (const Bytes limit = rules_.limit();
        limit != AllocatorRules::unlimited && rules_.segmentSize(request.size) > limit - stats_.reserved) {
        refused_ = rules_.segmentSize(request.size);
        return nullptr;
    }
    return rules_.expandableSegments ? growExpandable(request) : newSegment(request);
}

CachingAllocator::Chunk* CachingAllocator::newSegment(Request& request)
{
    const Bytes size = rules_.segmentSize(request.size);
    if (size > deviceFree()) {
        refused_ = size;
        return nullptr;
    }
    Chunk* chunk = newChunk();
    chunk->address = segmentAddress(size);
    chunk->size = size;
    chunk->stream = request.stream;
    chunk->pool = request.pool;
    ++stats_.segments;
    count(*chunk, &PoolCounters::segment, 1);
    report(*chunk, chunk->address, size, true);
    return chunk;
}

CachingAllocator::Block CachingAllocator::segmentAddress(Bytes size)
{
    if (const auto place = std::exchange(nextPlace_, std::nullopt); place && claim(*place, size))
        return *place;
    const Block address = nextAddress_;
    claim(address, size);
    return address;
}

/// False when another segment is there.
bool CachingAllocator::claim(Block address, Bytes size)
{
    const auto end = address + static_cast<Block>(size);
    const auto next = storage_->extents.lower_bound(address);
    if (next != storage_->extents.end() && next->first < end)
        return false;
    if (next != storage_->extents.begin()) {
        const auto& [before, length] = *std::prev(next);
        if (before + static_cast<Block>(length) > address)
            return false;
    }
    storage_->extents.emplace(address, size);
    // A gap: segments never touch.
    nextAddress_ = std::max(nextAddress_, end + static_cast<Block>(rules_.minBlock));
    return true;
}

CachingAllocator::Block CachingAllocator::hand(Chunk* chunk, const Request& request)
{
    const bool wasSplit = chunk->isSplit();
    const Bytes before = chunk->size;
    const Bytes rest = before - request.size;
    const bool divide = request.pool->small || rules_.expandableSegments
        ? rest >= rules_.minBlock
        : request.size < rules_.maxSplit && rest > rules_.smallSize;
    if (divide)
        split(chunk, request.size);
    if (!chunk->range && (wasSplit || divide)) {
        const Bytes change = wasSplit ? -chunk->size : rest;
        stats_.inactiveSplit += change;
        count(*chunk, &PoolCounters::inactiveSplitBytes, change);
        count(*chunk, &PoolCounters::inactiveSplit, wasSplit == divide ? 0 : divide ? 1 : -1);
    }

    chunk->allocated = true;
    chunk->requested = request.requested;
    storage_->inUse.emplace(chunk->address, chunk);
    count(*chunk, &PoolCounters::allocation, 1);
    count(*chunk, &PoolCounters::active, 1);
    count(*chunk, &PoolCounters::allocatedBytes, chunk->size);
    count(*chunk, &PoolCounters::activeBytes, chunk->size);
    count(*chunk, &PoolCounters::requestedBytes, chunk->requested);
    stats_.requested += chunk->requested;
    stats_.allocated += chunk->size;
    stats_.active += chunk->size;
    stats_.requestedPeak = std::max(stats_.requestedPeak, stats_.requested);
    stats_.allocatedPeak = std::max(stats_.allocatedPeak, stats_.allocated);
    stats_.activePeak = std::max(stats_.activePeak, stats_.active);
    return chunk->address;
}

/// The low part stays, the rest is free.
void CachingAllocator::split(Chunk* chunk, Bytes size)
{
    Chunk* rest = freePart(chunk, chunk->address + static_cast<Block>(size), chunk->size - size);
    rest->previous = chunk;
    rest->next = chunk->next;
    if (rest->next)
        rest->next->previous = rest;
    chunk->next = rest;
    chunk->size = size;
    insertFree(rest);
}

void CachingAllocator::requestFree(Block block)
{
    const auto found = storage_->inUse.find(block);
    assert(found != storage_->inUse.end() && found->second->allocated);
    Chunk* chunk = found->second;
    countFree(*chunk);
    chunk->allocated = false;
    chunk->awaitsFree = true;
    storage_->pending.push_back(chunk);
}

void CachingAllocator::free(Block block)
{
    const auto found = storage_->inUse.find(block);
    assert(found != storage_->inUse.end());
    Chunk* chunk = found->second;
    storage_->inUse.erase(found);
    stats_.requested -= chunk->requested;
    stats_.active -= chunk->size;
    if (chunk->awaitsFree)
        std::erase(storage_->pending, chunk);
    else
        countFree(*chunk);
    count(*chunk, &PoolCounters::active, -1);
    count(*chunk, &PoolCounters::activeBytes, -chunk->size);
    count(*chunk, &PoolCounters::requestedBytes, -chunk->requested);
    chunk->allocated = false;
    chunk->awaitsFree = false;
    chunk->requested = 0;

    Bytes splitBytes = 0;
    std::int64_t splits = 0;
    for (Chunk* neighbour : {chunk->previous, chunk->next}) {
        if (!neighbour || !neighbour->isFree() || neighbour->mapped != chunk->mapped)
            continue;
        splitBytes -= neighbour->size;
        --splits;
        merge(chunk, neighbour);
    }
    if (chunk->isSplit()) {
        splitBytes += chunk->size;
        ++splits;
    }
    if (!chunk->range) {
        stats_.inactiveSplit += splitBytes;
        count(*chunk, &PoolCounters::inactiveSplitBytes, splitBytes);
        count(*chunk, &PoolCounters::inactiveSplit, splits);
    }
    insertFree(chunk);
}

/// Takes a free neighbour in, if it is one.
void CachingAllocator::merge(Chunk* into, Chunk* neighbour)
{
    if (!neighbour || !neighbour->isFree() || neighbour->mapped != into->mapped)
        return;
    if (neighbour->mapped)
        neighbour->pool->free.erase(neighbour);
    else
        neighbour->pool->unmapped.erase(neighbour);
    if (into->previous == neighbour) {
        into->address = neighbour->address;
        into->previous = neighbour->previous;
        if (into->previous)
            into->previous->next = into;
    } else {
        into->next = neighbour->next;
        if (into->next)
            into->next->previous = into;
    }
    into->size += neighbour->size;
    drop(neighbour);
}

void CachingAllocator::insertFree(Chunk* chunk)
{
    chunk->callsWhenFreed = chunk->pool->calls;
    chunk->pool->free.insert(chunk);
}

void CachingAllocator::fail(const Request& request)
{
    OutOfMemory failure;
    failure.requested = request.requested;
    failure.size = request.size;
    failure.wanted = refused_;
    failure.deviceFree = std::max<Bytes>(std::min(deviceFree(), rules_.limit() - stats_.reserved), 0);
    for (const Chunk* chunk : request.pool->free) {
        if (chunk->stream == request.stream)
            failure.largestFree = std::max(failure.largestFree, chunk->size);
    }
    failure.stats = stats_;
    outOfMemory_ = failure;
    ++counters_.outOfMemories;
}

Bytes CachingAllocator::largestFree() const
{
    Bytes largest = 0;
    for (const auto& [id, pair] : pools_) {
        for (const Pool* pool : {&pair->small, &pair->large}) {
            for (const Chunk* chunk : pool->free)
                largest = std::max(largest, chunk->size);
        }
    }
    return largest;
}

void CachingAllocator::resetPeaks() noexcept
{
    stats_.requestedPeak = stats_.requested;
    stats_.allocatedPeak = stats_.allocated;
    stats_.activePeak = stats_.active;
    stats_.reservedPeak = stats_.reserved;
    forEachCounter(counters_, [](Counter& counter) { counter.peak = counter.current; });
}

void CachingAllocator::resetAccumulated() noexcept
{
    forEachCounter(counters_, [](Counter& counter) { counter.allocated = counter.freed = 0; });
    counters_.retries = counters_.synchronizations = counters_.outOfMemories = 0;
}

void CachingAllocator::Counter::add(std::int64_t change) noexcept
{
    current += change;
    peak = std::max(peak, current);
    (change > 0 ? allocated : freed) += std::abs(change);
}

void CachingAllocator::count(const Chunk& chunk, Counter PoolCounters::*counter, std::int64_t change) noexcept
{
    (counters_.pools[0].*counter).add(change);
    (counters_.pools[chunk.pool->small ? 1 : 2].*counter).add(change);
}

void CachingAllocator::countFree(const Chunk& chunk) noexcept
{
    stats_.allocated -= chunk.size;
    count(chunk, &PoolCounters::allocation, -1);
    count(chunk, &PoolCounters::allocatedBytes, -chunk.size);
}

std::vector<CachingAllocator::SegmentState> CachingAllocator::segments() const
{
    std::map<Block, const Chunk*> chunks;
    for (const auto& [address, chunk] : storage_->inUse)
        chunks.emplace(address, chunk);
    for (const auto& [id, pair] : pools_)
        for (const Pool* pool : {&pair->small, &pair->large})
            for (const Chunk* chunk : pool->free)
                chunks.emplace(chunk->address, chunk);
    std::vector<SegmentState> segments;
    for (const auto& [address, chunk] : chunks) {
        if (!chunk->previous || !chunk->previous->mapped)
            segments.push_back({chunk->stream, chunk->pool->small, address, {}});
        segments.back().parts.push_back({address, chunk->size, chunk->requested, chunk->awaitsFree});
    }
    return segments;
}

CachingAllocator::Chunk* CachingAllocator::newChunk()
{
    if (storage_->spare.empty())
        return &storage_->chunks.emplace_back();
    Chunk* chunk = storage_->spare.back();
    storage_->spare.pop_back();
    *chunk = {};
    return chunk;
}

CachingAllocator::Chunk* CachingAllocator::freePart(Chunk* like, Block address, Bytes size)
{
    Chunk* part = newChunk();
    part->address = address;
    part->size = size;
    part->stream = like->stream;
    part->pool = like->pool;
    part->range = like->range;
    return part;
}

void CachingAllocator::drop(Chunk* chunk)
{
    storage_->spare.push_back(chunk);
}

void CachingAllocator::report(const Chunk& chunk, Block address, Bytes size, bool taken)
{
    count(chunk, &PoolCounters::reservedBytes, taken ? size : -size);
    stats_.reserved += taken ? size : -size;
    stats_.reservedPeak = std::max(stats_.reservedPeak, stats_.reserved);
    if (observer_)
        observer_({address, size, chunk.stream, taken, chunk.range != nullptr});
}

} // namespace headroom
