// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/device_history.h"

#include <algorithm>
#include <optional>

namespace headroom {

namespace {

using Action = Snapshot::Action;

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

    /// Returns the last segment that begins at or before an address; end() if there is none.
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
        // Adjacent pages of a segment are one run.
        const auto before = segmentAt(event.address);
        if (before != history_.segments.end() && before->second.expandable
            && before->first + static_cast<std::uint64_t>(before->second.size) == event.address) {
            before->second.size += event.size;
            return;
        }
        const auto after = history_.segments.find(event.address + static_cast<std::uint64_t>(event.size));
        if (after != history_.segments.end() && after->second.expandable) {
            pages = after->second;
            pages.size += event.size;
            history_.segments.erase(after);
        }
        history_.segments[event.address] = pages;
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

/// Returns by how many bytes an event changes the reserved memory; nullopt if it is not an event of a segment.
std::optional<Bytes> reservedChange(const Snapshot::Event& event)
{
    if (event.action == Action::segmentAlloc || event.action == Action::segmentMap)
        return event.size;
    if (event.action == Action::segmentFree || event.action == Action::segmentUnmap)
        return -event.size;
    return std::nullopt;
}

} // namespace

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
                        + ": expected one that the program used");
    BlockSizes(history).complete(events);
    for (const auto& [address, segment] : history.segments)
        history.reserved += segment.size;
    while (!events.empty() && snapshot.ms(events.back()) > range.toMs)
        events = events.first(events.size() - 1);
    history.events = events;
    return history;
}

} // namespace headroom
