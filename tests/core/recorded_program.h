// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/snapshot/snapshot.h"

#include <map>
#include <random>
#include <string>
#include <vector>

namespace headroom {

/// A program of random requests on the simulated allocator, recorded as PyTorch records one: its events, and the
/// segments and blocks at its end. With settings and devices that make_snapshot.py does not know.
class RecordedProgram
{
public:
    RecordedProgram(const std::string& settings, Bytes capacity, unsigned seed);

    void run(int actions);
    /// What a recording that began before the last `events` events holds.
    Snapshot snapshot(std::size_t events) const;
    std::size_t eventCount() const { return events_.size(); }
    /// What the allocator said of each request that failed.
    const std::vector<CachingAllocator::OutOfMemory>& failures() const { return failures_; }

private:
    struct Live
    {
        Bytes size = 0;
        Bytes requested = 0;
        std::uint32_t stream = 0;
        bool awaitsFree = false;
    };
    struct Segment
    {
        Bytes size = 0;
        std::uint32_t stream = 0;
        bool pages = false;
        bool small = false;
    };
    void record(Snapshot::Action action, std::uint64_t address, Bytes size, std::uint32_t stream);
    void allocate();
    void segmentEvent(const CachingAllocator::SegmentEvent& event);
    void completed();

    std::string settings_;
    CachingAllocator allocator_;
    std::mt19937 random_;
    std::vector<Snapshot::Event> events_;
    std::vector<CachingAllocator::OutOfMemory> failures_;
    std::map<std::uint64_t, Live> live_;
    std::map<std::uint64_t, Segment> segments_;
    std::int64_t retries_ = 0;
};

} // namespace headroom
