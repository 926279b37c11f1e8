// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/device_history.h"

#include <algorithm>
#include <cmath>

namespace headroom {

namespace {

using Action = Snapshot::Action;

/// Takes the events back, from the last to the first.
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

    void take(const Snapshot::Event& event)
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
        case Action::segmentAlloc:
            history_.segments.erase(event.address);
            break;
        case Action::segmentFree:
            history_.segments[event.address]
                = {event.size, event.stream, event.size == history_.rules.smallSegment, false, {}};
            break;
        case Action::segmentMap:
            removePages(event.address, event.size);
            break;
        case Action::segmentUnmap:
            addPages(event);
            break;
        default:
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

    /// The segment that holds an address, or the one before it.
    auto segmentAt(std::uint64_t address)
    {
        auto next = history_.segments.upper_bound(address);
        return next == history_.segments.begin() ? history_.segments.end() : std::prev(next);
    }

    void removePages(std::uint64_t address, Bytes size)
    {
        const auto found = segmentAt(address);
        if (found == history_.segments.end())
            return;
        const std::uint64_t end = found->first + static_cast<std::uint64_t>(found->second.size);
        const std::uint64_t hole = address + static_cast<std::uint64_t>(size);
        if (hole < address || hole > end)
            return;
        const DeviceHistory::Segment whole = found->second;
        if (address == found->first)
            history_.segments.erase(found);
        else
            found->second.size = static_cast<Bytes>(address - found->first);
        if (hole < end) {
            DeviceHistory::Segment rest = whole;
            rest.size = static_cast<Bytes>(end - hole);
            history_.segments[hole] = rest;
        }
    }

    void addPages(const Snapshot::Event& event)
    {
        DeviceHistory::Segment pages{event.size, event.stream, event.size == history_.rules.smallSegment, true, {}};
        // Beside pages of the same segment they are one run with them.
        const auto before = segmentAt(event.address);
        if (before != history_.segments.end() && before->second.expandable
            && before->first + static_cast<std::uint64_t>(before->second.size) == event.address) {
            before->second.size += event.size;
            return;
        }
        const auto after = history_.segments.find(event.address + static_cast<std::uint64_t>(event.size));
        if (after != history_.segments.end() && after->second.expandable) {
            const Bytes more = after->second.size;
            pages = after->second;
            pages.size = event.size + more;
            history_.segments.erase(after);
        }
        history_.segments[event.address] = pages;
    }

    DeviceHistory& history_;
};

/// Sizes of blocks that were freed later: their requests rounded, and in large segments the slack up to what follows.
/// No free block there is smaller than kSmallSize, so that a smaller gap belongs to the block before it.
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
        // Where the gap is larger, a block that is placed in it while this one is there shows where it ends.
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
    std::map<std::uint64_t, Blocks::iterator> unsure_; ///< by the end of their rounded requests
};

} // namespace

bool ReservedBytes::apply(const Snapshot::Event& event)
{
    if (event.action == Action::segmentAlloc || event.action == Action::segmentMap)
        bytes_ += event.size;
    else if (event.action == Action::segmentFree || event.action == Action::segmentUnmap)
        bytes_ = std::max<Bytes>(bytes_ - event.size, 0);
    else
        return false;
    return true;
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
        const auto ms = [&](const Snapshot::Event& event) {
            return static_cast<double>(event.microseconds - snapshot.firstMicroseconds) / 1000;
        };
        SnapshotDevice found{device, events.size(), ms(events.front()), ms(events.back()), 0};
        Bytes reserved = 0; // at the end, and then back to the start
        for (const Snapshot::Segment& segment : snapshot.segments)
            reserved += segment.device == static_cast<std::int64_t>(device) ? segment.size : 0;
        found.reservedPeak = reserved;
        for (auto event = events.rbegin(); event != events.rend(); ++event) {
            if (event->action == Action::segmentAlloc || event->action == Action::segmentMap)
                reserved -= event->size;
            else if (event->action == Action::segmentFree || event->action == Action::segmentUnmap)
                reserved += event->size;
            found.reservedPeak = std::max(found.reservedPeak, reserved);
        }
        devices.push_back(found);
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
    const auto after = [&](const Snapshot::Event& event, double ms) {
        return static_cast<double>(event.microseconds - snapshot.firstMicroseconds) / 1000 > ms;
    };
    if (device < snapshot.traces.size()) {
        const std::vector<Snapshot::Event>& all = snapshot.traces[device];
        const auto first = std::ranges::find_if(all, [&](const Snapshot::Event& event) {
            return static_cast<double>(event.microseconds - snapshot.firstMicroseconds) / 1000 >= range.fromMs;
        });
        events = std::span(first, all.end());
    }
    Undo undo(snapshot, device, history);
    for (auto event = events.rbegin(); event != events.rend(); ++event)
        undo.take(*event);
    if (events.empty() && history.segments.empty())
        return badInput("the snapshot holds nothing of device " + std::to_string(device)
                        + ": expected one that the program used");
    BlockSizes(history).complete(events);
    for (const auto& [address, segment] : history.segments)
        history.reserved += segment.size;
    std::size_t count = events.size();
    if (std::isfinite(range.toMs)) {
        while (count > 0 && after(events[count - 1], range.toMs))
            --count;
    }
    history.events = events.first(count);
    return history;
}

} // namespace headroom
