// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"

#include <deque>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <tuple>
#include <unordered_map>

namespace headroom {

/// The address space of an expandable segment. Pages are mapped as needed.
struct CachingAllocator::Range
{
    Block address = 0;
    Bytes size = 0;
    Bytes page = 0;
};

/// A contiguous piece of a segment: allocated, free, or (in an expandable segment) not mapped.
struct CachingAllocator::Chunk
{
    Block address = 0;
    Bytes size = 0;
    Bytes requested = 0; ///< 0 while free
    Stream stream = 0;
    bool allocated = false;
    bool awaitsFree = false; ///< freed by the program, but in use by another stream
    bool mapped = true;
    Pool* pool = nullptr;
    Range* range = nullptr; ///< the expandable segment of the chunk; null: a plain segment
    Chunk* previous = nullptr; ///< neighbours in the same segment, in address order
    Chunk* next = nullptr;
    std::int64_t callsWhenFreed = 0; ///< value of Pool::calls at the free, for the age in garbage collection

    bool isSplit() const noexcept { return previous || next; }
    bool isFree() const noexcept { return !allocated && !awaitsFree; }
};

/// The free blocks for small or for large requests, sorted by stream, size and address.
struct CachingAllocator::Pool
{
    struct BySize
    {
        bool operator()(const Chunk* a, const Chunk* b) const noexcept
        {
            return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
        }
    };
    struct ByAddress
    {
        bool operator()(const Chunk* a, const Chunk* b) const noexcept
        {
            return std::tie(a->stream, a->address) < std::tie(b->stream, b->address);
        }
    };
    Pool(bool isSmall, std::pmr::memory_resource& memory)
        : free(&memory)
        , unmapped(&memory)
        , small(isSmall)
    {
    }

    std::pmr::set<Chunk*, BySize> free;
    std::pmr::set<Chunk*, ByAddress> unmapped;
    bool small = false;
    std::int64_t calls = 0; ///< number of requests that searched for a free block with garbage collection on
};

struct CachingAllocator::PoolPair
{
    explicit PoolPair(std::pmr::memory_resource& memory)
        : small(true, memory)
        , large(false, memory)
    {
    }

    Pool small;
    Pool large;
};

struct CachingAllocator::Request
{
    Bytes requested = 0;
    Bytes size = 0;
    Stream stream = 0;
    Pool* pool = nullptr;
};

struct CachingAllocator::Storage
{
    std::pmr::unsynchronized_pool_resource memory; ///< of the nodes below: a replay makes nodes by the million
    std::map<PoolId, PoolPair> pools;
    std::deque<Chunk> chunks;
    std::vector<Chunk*> spare; ///< dropped chunks for reuse
    std::pmr::unordered_map<Block, Chunk*> inUse{&memory}; ///< allocated chunks, and chunks that await a free
    std::vector<Chunk*> pending; ///< chunks that await a free, in order
    std::list<Range> ranges;
    std::map<Block, Bytes> extents; ///< segment sizes by address
};

} // namespace headroom
