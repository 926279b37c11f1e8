// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/device_history.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace headroom {

namespace {

using Action = Snapshot::Action;

/// Changes the segments of a device by events.
class SegmentChange
{
public:
    SegmentChange(DeviceHistory::Segments& segments, const AllocatorRules& rules)
        : segments_(segments)
        , rules_(rules)
    {
    }

    void add(const Snapshot::Event& event)
    {
        segments_[event.address] = {event.size, event.stream, event.size == rules_.smallSegment, false, {}};
    }
    void remove(const Snapshot::Event& event) { segments_.erase(event.address); }

    void removePages(std::uint64_t address, Bytes size)
    {
        const auto found = segmentAt(address);
        if (found == segments_.end())
            return;
        const std::uint64_t end = found->first + static_cast<std::uint64_t>(found->second.size);
        const std::uint64_t hole = address + static_cast<std::uint64_t>(size);
        if (hole < address || hole > end)
            return;
        const DeviceHistory::Segment whole = found->second;
        if (address == found->first)
            segments_.erase(found);
        else
            found->second.size = static_cast<Bytes>(address - found->first);
        if (hole < end) {
            DeviceHistory::Segment rest = whole;
            rest.size = static_cast<Bytes>(end - hole);
            segments_[hole] = rest;
        }
    }

    void addPages(const Snapshot::Event& event)
    {
        DeviceHistory::Segment pages{event.size, event.stream, event.size == rules_.smallSegment, true, {}};
        // Adjacent pages of a segment form a run.
        const auto before = segmentAt(event.address);
        if (before != segments_.end() && before->second.expandable
            && before->first + static_cast<std::uint64_t>(before->second.size) == event.address) {
            before->second.size += event.size;
            const auto after = segments_.find(event.address + static_cast<std::uint64_t>(event.size));
            if (after != segments_.end() && after->second.expandable && after->second.stream == before->second.stream) {
                before->second.size += after->second.size;
                segments_.erase(after);
            }
            return;
        }
        const auto after = segments_.find(event.address + static_cast<std::uint64_t>(event.size));
        if (after != segments_.end() && after->second.expandable) {
            pages = after->second;
            pages.size += event.size;
            segments_.erase(after);
        }
        segments_[event.address] = pages;
    }

private:
    /// Returns the last segment that begins at or before an address; end() if there is none.
    DeviceHistory::Segments::iterator segmentAt(std::uint64_t address)
    {
        auto next = segments_.upper_bound(address);
        return next == segments_.begin() ? segments_.end() : std::prev(next);
    }

    DeviceHistory::Segments& segments_;
    const AllocatorRules& rules_;
};

/// Undoes events, from the last to the first.
class Undo
{
public:
    Undo(const Snapshot& snapshot, std::size_t device, DeviceHistory& history)
        : history_(history)
    {
        for (const Snapshot::Segment& segment : snapshot.segments) {
            if (segment.device != static_cast<std::int64_t>(device))
                continue;
            history_.segments[segment.address]
                = {segment.size, segment.stream, segment.small, segment.expandable, segment.pool};
            for (const Snapshot::Index row : segment.blocks)
                add(snapshot.blocks[row], segment.stream);
        }
    }

    void undo(const Snapshot::Event& event)
    {
        switch (event.action) {
        case Action::alloc:
            history_.blocks.erase(event.address);
            break;
        case Action::freeCompleted:
            if (event.size > 0)
                history_.blocks[event.address]
                    = {0, event.size, event.stack, event.metadata, event.stream, true, false};
            break;
        case Action::freeRequested:
            if (const auto found = history_.blocks.find(event.address); found != history_.blocks.end())
                found->second.awaitsFree = false;
            break;
        default:
            changeSegments(history_.segments, event, history_.rules, true);
            break;
        }
    }

private:
    void add(const Snapshot::Block& block, Snapshot::Index stream)
    {
        if (block.active && block.requested > 0)
            history_.blocks[block.address]
                = {block.size, block.requested, block.stack, block.metadata, stream, block.awaitsFree, true};
    }

    DeviceHistory& history_;
};

/// Deduces the sizes of blocks that were freed later: the rounded requests, and in large segments the slack behind
/// them. A large segment has no free block of kSmallSize or less, so a gap of that size belongs to the block before it.
class BlockSizes
{
public:
    explicit BlockSizes(DeviceHistory& history)
        : history_(history)
    {
    }

    void complete(std::span<const Snapshot::Event> events)
    {
        for (auto place = history_.blocks.begin(); place != history_.blocks.end(); ++place) {
            if (!place->second.known)
                fromNeighbours(place);
        }
        // If a gap is larger, a block that is placed in it while the block before it lives shows the end of that block.
        for (const Snapshot::Event& event : events) {
            if (unsure_.empty())
                return;
            if (event.action == Action::alloc)
                fromLater(event.address);
            else if (event.action == Action::freeCompleted)
                forget(event.address);
        }
    }

private:
    using Blocks = std::map<std::uint64_t, DeviceHistory::Block>;

    void fromNeighbours(Blocks::iterator place)
    {
        auto& [address, block] = *place;
        block.size = history_.rules.roundSize(block.requested);
        auto segment = history_.segments.upper_bound(address);
        if (segment == history_.segments.begin())
            return;
        --segment;
        std::uint64_t end = segment->first + static_cast<std::uint64_t>(segment->second.size);
        if (const auto next = std::next(place); next != history_.blocks.end())
            end = std::min(end, next->first);
        const std::uint64_t own = address + static_cast<std::uint64_t>(block.size);
        if (segment->second.small || segment->second.expandable || end <= own)
            return;
        const auto gap = static_cast<Bytes>(end - own);
        if (gap <= history_.rules.smallSize || block.size >= history_.rules.maxSplit)
            block.size += gap;
        else
            unsure_[own] = place;
    }

    void fromLater(std::uint64_t address)
    {
        auto found = unsure_.upper_bound(address);
        if (found == unsure_.begin())
            return;
        --found;
        const auto gap = static_cast<Bytes>(address - found->first);
        if (gap > history_.rules.smallSize)
            return;
        found->second->second.size += gap;
        unsure_.erase(found);
    }

    void forget(std::uint64_t address)
    {
        if (const auto block = history_.blocks.find(address); block != history_.blocks.end())
            unsure_.erase(address + static_cast<std::uint64_t>(block->second.size));
    }

    DeviceHistory& history_;
    std::map<std::uint64_t, Blocks::iterator> unsure_; ///< blocks with a larger gap, by the end of the rounded request
};

/// Returns by how many bytes an event changes the reserved memory; nullopt for events of other than segments.
std::optional<Bytes> reservedChange(const Snapshot::Event& event)
{
    if (event.action == Action::segmentAlloc || event.action == Action::segmentMap)
        return event.size;
    if (event.action == Action::segmentFree || event.action == Action::segmentUnmap)
        return -event.size;
    return std::nullopt;
}

} // namespace

void changeSegments(DeviceHistory::Segments& segments, const Snapshot::Event& event, const AllocatorRules& rules,
                    bool back)
{
    SegmentChange change(segments, rules);
    switch (event.action) {
    case Action::segmentAlloc:
        back ? change.remove(event) : change.add(event);
        break;
    case Action::segmentFree:
        back ? change.add(event) : change.remove(event);
        break;
    case Action::segmentMap:
        back ? change.removePages(event.address, event.size) : change.addPages(event);
        break;
    case Action::segmentUnmap:
        back ? change.addPages(event) : change.removePages(event.address, event.size);
        break;
    default:
        break;
    }
}

bool ReservedBytes::apply(const Snapshot::Event& event)
{
    const std::optional<Bytes> change = reservedChange(event);
    bytes_ = std::max<Bytes>(bytes_ + change.value_or(0), 0);
    return change.has_value();
}

std::size_t busiestDevice(const Snapshot& snapshot)
{
    const auto most = std::ranges::max_element(snapshot.traces, {}, [](const auto& events) { return events.size(); });
    if (most != snapshot.traces.end() && !most->empty())
        return static_cast<std::size_t>(most - snapshot.traces.begin());
    for (const Snapshot::Segment& segment : snapshot.segments)
        if (segment.device >= 0)
            return static_cast<std::size_t>(segment.device);
    return 0;
}

std::vector<SnapshotDevice> devicesOf(const Snapshot& snapshot)
{
    std::vector<SnapshotDevice> devices;
    for (std::size_t device = 0; device < snapshot.traces.size(); ++device) {
        const std::vector<Snapshot::Event>& events = snapshot.traces[device];
        if (events.empty())
            continue;
        Bytes reserved = 0; // bytes at the end, and then back to the start
        for (const Snapshot::Segment& segment : snapshot.segments)
            reserved += segment.device == static_cast<std::int64_t>(device) ? segment.size : 0;
        Bytes peak = reserved;
        for (auto event = events.rbegin(); event != events.rend(); ++event) {
            reserved -= reservedChange(*event).value_or(0);
            peak = std::max(peak, reserved);
        }
        devices.push_back({device, events.size(), snapshot.ms(events.front()), snapshot.ms(events.back()), peak});
    }
    return devices;
}

Result<DeviceHistory> deviceHistory(const Snapshot& snapshot, std::size_t device, SnapshotRange range)
{
    DeviceHistory history;
    if (Result<AllocatorRules> rules = withAllocatorSettings({}, snapshot.settings); rules.ok())
        history.rules = *rules;
    else
        history.settingsProblem = rules.error().message;
    std::span<const Snapshot::Event> events;
    if (device < snapshot.traces.size()) {
        const std::vector<Snapshot::Event>& all = snapshot.traces[device];
        const auto isInside = [&](const Snapshot::Event& event) { return snapshot.ms(event) >= range.fromMs; };
        events = std::span(std::ranges::find_if(all, isInside), all.end());
    }
    Undo state(snapshot, device, history);
    for (auto event = events.rbegin(); event != events.rend(); ++event)
        state.undo(*event);
    if (events.empty() && history.segments.empty())
        return badInput("the snapshot holds nothing of device " + std::to_string(device)
                        + ": expected a device that the program used");
    BlockSizes(history).complete(events);
    for (const auto& [address, segment] : history.segments)
        history.reserved += segment.size;
    while (!events.empty() && snapshot.ms(events.back()) > range.toMs)
        events = events.first(events.size() - 1);
    history.events = events;
    return history;
}

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
            // Pages that are released together are several recorded events and a single step of the simulation.
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
