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
    change(counters.oversizeAllocations);
    change(counters.oversizeSegments);
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
    PoolPair& pair = storage_->pools.try_emplace(id, storage_->memory).first->second;
    return small ? pair.small : pair.large;
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
        if (rules_.collectsGarbage())
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
    if (rules_.collectsGarbage())
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
        // A block that can grow into unmapped pages counts with the size after full growth.
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
    return rules_.capacity > 0 ? rules_.capacity - reserved() : AllocatorRules::unlimited;
}

CachingAllocator::Chunk* CachingAllocator::newMemory(Request& request, bool retry)
{
    counters_.retries += retry ? 1 : 0;
    if (const Bytes limit = rules_.limit();
        limit != AllocatorRules::unlimited && rules_.segmentSize(request.size) > limit - reserved()) {
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
    Chunk* chunk = newChunk(segmentAddress(size), size, request.stream, request.pool);
    count(*chunk, &PoolCounters::segment, 1);
    if (size >= rules_.maxSplit)
        counters_.oversizeSegments.add(1);
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

/// Takes an address range for a segment; returns false if another segment is there.
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
    // The gap keeps segments apart.
    nextAddress_ = std::max(nextAddress_, end + static_cast<Block>(rules_.minBlock));
    return true;
}

/// Allocates a chunk, or the front part if the rest is large enough for a split.
CachingAllocator::Block CachingAllocator::hand(Chunk* chunk, const Request& request)
{
    const bool wasSplit = chunk->isSplit();
    const Bytes before = chunk->size;
    const Bytes rest = before - request.size;
    const bool divide = rules_.splits(request.size, rest, request.pool->small);
    if (divide)
        insertFree(cut(chunk, request.size));
    if (!chunk->range && (wasSplit || divide)) {
        count(*chunk, &PoolCounters::inactiveSplitBytes, wasSplit ? -chunk->size : rest);
        count(*chunk, &PoolCounters::inactiveSplit, wasSplit == divide ? 0 : divide ? 1 : -1);
    }

    chunk->allocated = true;
    chunk->requested = request.requested;
    storage_->inUse.emplace(chunk->address, chunk);
    countAllocated(*chunk, 1);
    countActive(*chunk, 1);
    return chunk->address;
}

/// Cuts a chunk after `size` bytes. Returns the rest, a free chunk of the same segment that is in no set yet.
CachingAllocator::Chunk* CachingAllocator::cut(Chunk* chunk, Bytes size)
{
    Chunk* rest = newChunk(chunk->address + static_cast<Block>(size), chunk->size - size, chunk->stream, chunk->pool,
                           chunk->range);
    rest->previous = chunk;
    rest->next = chunk->next;
    if (rest->next)
        rest->next->previous = rest;
    chunk->next = rest;
    chunk->size = size;
    return rest;
}

void CachingAllocator::requestFree(Block block)
{
    const auto found = storage_->inUse.find(block);
    assert(found != storage_->inUse.end() && found->second->allocated);
    Chunk* chunk = found->second;
    countAllocated(*chunk, -1);
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
    if (chunk->awaitsFree)
        std::erase(storage_->pending, chunk);
    else
        countAllocated(*chunk, -1);
    countActive(*chunk, -1);
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
        count(*chunk, &PoolCounters::inactiveSplitBytes, splitBytes);
        count(*chunk, &PoolCounters::inactiveSplit, splits);
    }
    insertFree(chunk);
}

/// Merges a chunk with a neighbour if that is free and mapped as the chunk is; `neighbour` may be null.
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
    failure.deviceFree = std::max<Bytes>(std::min(deviceFree(), rules_.limit() - reserved()), 0);
    std::vector<const Chunk*> free;
    for (const Chunk* chunk : request.pool->free)
        if (chunk->stream == request.stream)
            free.push_back(chunk);
    failure.freeCount = free.size();
    constexpr std::size_t shown = 8;
    std::ranges::stable_sort(free, std::greater(), &Chunk::size);
    free.resize(std::min(free.size(), shown));
    for (const Chunk* chunk : free) {
        const Chunk* smaller = nullptr;
        for (const Chunk* neighbour : {chunk->previous, chunk->next})
            if (neighbour && neighbour->mapped && !neighbour->isFree() && (!smaller || neighbour->size < smaller->size))
                smaller = neighbour;
        failure.freeBlocks.push_back(chunk->size);
        failure.beside.push_back(smaller ? smaller->address : 0);
    }
    failure.stats = stats();
    outOfMemory_ = failure;
    ++counters_.outOfMemories;
}

Bytes CachingAllocator::largestFree() const
{
    Bytes largest = 0;
    for (const auto& [id, pair] : storage_->pools) {
        for (const Pool* pool : {&pair.small, &pair.large}) {
            for (const Chunk* chunk : pool->free)
                largest = std::max(largest, chunk->size);
        }
    }
    return largest;
}

CachingAllocator::Stats CachingAllocator::stats() const noexcept
{
    const PoolCounters& all = counters_.pools[0];
    return {.requested = all.requestedBytes.current,
            .allocated = all.allocatedBytes.current,
            .active = all.activeBytes.current,
            .reserved = all.reservedBytes.current,
            .inactiveSplit = all.inactiveSplitBytes.current,
            .requestedPeak = all.requestedBytes.peak,
            .allocatedPeak = all.allocatedBytes.peak,
            .activePeak = all.activeBytes.peak,
            .reservedPeak = all.reservedBytes.peak,
            .segments = all.segment.current,
            .retries = counters_.retries};
}

void CachingAllocator::resetPeaks() noexcept
{
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

void CachingAllocator::countAllocated(const Chunk& chunk, int sign) noexcept
{
    count(chunk, &PoolCounters::allocation, sign);
    count(chunk, &PoolCounters::allocatedBytes, sign * chunk.size);
    if (chunk.size >= rules_.maxSplit)
        counters_.oversizeAllocations.add(sign);
}

void CachingAllocator::countActive(const Chunk& chunk, int sign) noexcept
{
    count(chunk, &PoolCounters::active, sign);
    count(chunk, &PoolCounters::activeBytes, sign * chunk.size);
    count(chunk, &PoolCounters::requestedBytes, sign * chunk.requested);
}

std::vector<const CachingAllocator::Chunk*> CachingAllocator::chunks() const
{
    std::vector<const Chunk*> chunks;
    for (const auto& [address, chunk] : storage_->inUse)
        chunks.push_back(chunk);
    for (const auto& [id, pair] : storage_->pools)
        for (const Pool* pool : {&pair.small, &pair.large})
            chunks.insert(chunks.end(), pool->free.begin(), pool->free.end());
    std::ranges::sort(chunks, {}, &Chunk::address);
    return chunks;
}

std::vector<CachingAllocator::SegmentState> CachingAllocator::segments() const
{
    std::vector<SegmentState> segments;
    for (const Chunk* chunk : chunks()) {
        if (!chunk->previous || !chunk->previous->mapped)
            segments.push_back({chunk->stream, chunk->pool->small, chunk->range != nullptr, chunk->address, {}});
        segments.back().parts.push_back({chunk->address, chunk->size, chunk->requested, chunk->awaitsFree});
    }
    return segments;
}

std::vector<std::uint64_t> CachingAllocator::layout() const
{
    std::vector<std::uint64_t> layout;
    for (const Chunk* chunk : chunks())
        layout.insert(layout.end(),
                      {chunk->stream, chunk->address, static_cast<std::uint64_t>(chunk->size),
                       static_cast<std::uint64_t>(chunk->requested)});
    return layout;
}

CachingAllocator::Chunk* CachingAllocator::newChunk(Block address, Bytes size, Stream stream, Pool* pool, Range* range)
{
    if (storage_->spare.empty())
        storage_->spare.push_back(&storage_->chunks.emplace_back());
    Chunk* chunk = storage_->spare.back();
    storage_->spare.pop_back();
    *chunk = {.address = address, .size = size, .stream = stream, .pool = pool, .range = range};
    return chunk;
}

void CachingAllocator::drop(Chunk* chunk)
{
    storage_->spare.push_back(chunk);
}

void CachingAllocator::report(const Chunk& chunk, Block address, Bytes size, bool taken)
{
    count(chunk, &PoolCounters::reservedBytes, taken ? size : -size);
    if (observer_)
        observer_({address, size, chunk.stream, taken, chunk.range != nullptr});
}

} // namespace headroom
