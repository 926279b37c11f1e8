// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/snapshot_replay.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace headroom {

namespace {

using Action = Snapshot::Action;
using Part = CachingAllocator::Segment::Part;

class Player
{
public:
    explicit Player(const DeviceHistory& history)
        : history_(history)
        , allocator_(history.rules)
        , reserved_(history.reserved)
    {
        for (const auto& [address, segment] : history.segments)
            pools_[address] = {segment.size, segment.pool};
        addPlainSegments();
        addExpandableSegments();
        result_.recordedPeak = history.reserved;
    }

    SnapshotReplay run()
    {
        const std::span events = history_.events;
        for (std::size_t i = 0; i < events.size(); ++i) {
            const Snapshot::Event& event = events[i];
            segmentEvent(event);
            play(event);
            // The recording has the segment of a request before the request, so the two are compared after the request.
            // Pages that are released together are several recorded events and one step of the simulation.
            const bool goesOn = event.action == Action::segmentUnmap && i + 1 < events.size()
                && events[i + 1].action == Action::segmentUnmap;
            if (goesOn)
                ++awaited_;
            else if (event.action != Action::segmentAlloc && event.action != Action::segmentMap)
                compare(i);
        }
        result_.events = events.size();
        result_.simulatedPeak = allocator_.stats().reservedPeak;
        result_.stats = allocator_.stats();
        return result_;
    }

private:
    void segmentEvent(const Snapshot::Event& event)
    {
        if (!reserved_.apply(event))
            return;
        result_.recordedPeak = std::max(result_.recordedPeak, reserved_.bytes());
        if (event.action == Action::segmentAlloc) {
            allocator_.placeNextSegment(event.address);
            if (released_)
                allocator_.takeNextFromDevice();
            ++awaited_;
        } else if (event.action == Action::segmentMap) {
            allocator_.placeNextSegment(event.address); // used only for the first page of a segment
            ++awaited_;
        } else if (event.action == Action::segmentFree) {
            allocator_.releaseSegmentAt(event.address);
        } else if (!unmapping_) {
            allocator_.releaseUnused();
            std::erase_if(live_,
                          [](const auto& entry) { return entry.second.awaitsFree; }); // releaseUnused() freed them
        }
        unmapping_ = event.action == Action::segmentUnmap;
        released_ = released_ || unmapping_ || event.action == Action::segmentFree;
    }

    void play(const Snapshot::Event& event)
    {
        if (event.action == Action::alloc && event.size > 0) {
            if (const auto old = live_.find(event.address); old != live_.end())
                finish(old);
            const auto block = allocator_.allocate(event.size, event.stream, poolOf(event.address));
            ++result_.allocations;
            released_ = false;
            if (block) {
                result_.samePlace += *block == event.address ? 1 : 0;
                live_[event.address] = {*block, false};
            }
        } else if (event.action == Action::freeRequested) {
            if (const auto found = live_.find(event.address); found != live_.end() && !found->second.awaitsFree) {
                allocator_.requestFree(found->second.block);
                found->second.awaitsFree = true;
            }
        } else if (event.action == Action::freeCompleted) {
            if (const auto found = live_.find(event.address); found != live_.end())
                finish(found);
        }
    }

    void compare(std::size_t i)
    {
        const Bytes simulated = allocator_.stats().reserved;
        if (simulated == reserved_.bytes()) {
            // The events of the request's segments agree too.
            result_.sameReserved += 1 + std::exchange(awaited_, 0);
            return;
        }
        awaited_ = 0;
        if (!result_.firstDifference) {
            result_.firstDifference = i;
            result_.recordedThen = reserved_.bytes();
            result_.simulatedThen = simulated;
        }
    }

    struct Live
    {
        CachingAllocator::Block block = 0;
        bool awaitsFree = false;
    };

    void finish(std::unordered_map<std::uint64_t, Live>::iterator found)
    {
        allocator_.free(found->second.block);
        live_.erase(found);
    }

    CachingAllocator::PoolId poolOf(std::uint64_t address) const
    {
        const auto next = pools_.upper_bound(address);
        if (next == pools_.begin())
            return {};
        const auto& [start, pool] = *std::prev(next);
        return address - start < static_cast<std::uint64_t>(pool.first) ? pool.second : CachingAllocator::PoolId{};
    }

    /// Returns the blocks and the free pieces between them, from `begin` to `end`.
    std::vector<Part> parts(std::uint64_t begin, std::uint64_t end) const
    {
        std::vector<Part> found;
        std::uint64_t next = begin;
        for (auto place = history_.blocks.lower_bound(begin); place != history_.blocks.end() && place->first < end;
             ++place) {
            const auto& [address, block] = *place;
            const std::uint64_t last = address + static_cast<std::uint64_t>(block.size);
            if (address < next || last > end)
                continue; // a recording that lost events may contradict itself
            if (address > next)
                found.push_back({next, static_cast<Bytes>(address - next), 0, false});
            found.push_back({address, block.size, block.requested, block.awaitsFree});
            next = last;
        }
        if (next < end)
            found.push_back({next, static_cast<Bytes>(end - next), 0, false});
        return found;
    }

    void addPlainSegments()
    {
        for (const auto& [address, segment] : history_.segments) {
            if (segment.expandable)
                continue;
            const std::vector<Part> all = parts(address, address + static_cast<std::uint64_t>(segment.size));
            CachingAllocator::Segment added;
            added.stream = segment.stream;
            added.pool = segment.pool;
            added.small = segment.small;
            added.address = address;
            added.parts = all;
            add(added);
        }
    }

    void add(const CachingAllocator::Segment& segment)
    {
        if (!allocator_.addSegment(segment))
            return; // segments overlap: the recording contradicts itself
        for (const Part& part : segment.parts)
            if (part.requested > 0)
                live_[part.address] = {part.address, part.awaitsFree};
    }

    /// Adds one expandable segment for all runs of pages of a pool and a stream. It begins with the first page that was
    /// ever mapped.
    void addExpandableSegments()
    {
        struct Run
        {
            std::uint64_t first = 0;
            std::vector<Part> parts;
        };
        std::map<std::tuple<CachingAllocator::PoolId, std::uint32_t, bool>, Run> runs;
        for (const auto& [address, segment] : history_.segments) {
            if (!segment.expandable)
                continue;
            Run& run = runs[{segment.pool, segment.stream, segment.small}];
            if (run.parts.empty())
                run.first = address;
            else if (address < run.parts.back().address + static_cast<std::uint64_t>(run.parts.back().size))
                continue;
            for (const Part& part : parts(address, address + static_cast<std::uint64_t>(segment.size)))
                run.parts.push_back(part);
        }
        for (const auto& [key, run] : runs) {
            CachingAllocator::Segment added;
            std::tie(added.pool, added.stream, added.small) = key;
            added.expandable = true;
            added.address = firstPage(run.first, added.stream, added.small);
            added.parts = run.parts;
            add(added);
        }
    }

    std::uint64_t firstPage(std::uint64_t mapped, std::uint32_t stream, bool small) const
    {
        for (const Snapshot::Event& event : history_.events) {
            const bool itsOwn = event.stream == stream && (event.size == history_.rules.smallSegment) == small;
            if (event.action == Action::segmentMap && itsOwn)
                mapped = std::min(mapped, event.address);
        }
        return mapped;
    }

    const DeviceHistory& history_;
    CachingAllocator allocator_;
    ReservedBytes reserved_;
    SnapshotReplay result_;
    std::map<std::uint64_t, std::pair<Bytes, CachingAllocator::PoolId>> pools_;
    std::unordered_map<std::uint64_t, Live> live_;
    std::size_t awaited_ = 0; ///< recorded events of segments since the last comparison
    bool unmapping_ = false;
    bool released_ = false; ///< segments were released since the last request
};

} // namespace

SnapshotReplay replaySnapshot(const DeviceHistory& history)
{
    return Player(history).run();
}

} // namespace headroom
