// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/recorded_program.h"

#include <algorithm>
#include <stdexcept>

namespace headroom {

namespace {

AllocatorRules rulesOf(const std::string& settings, Bytes capacity)
{
    AllocatorRules rules;
    rules.capacity = capacity;
    const Result<AllocatorRules> read = withAllocatorSettings(rules, settings);
    if (!read)
        throw std::invalid_argument(read.error().message);
    return *read;
}

} // namespace

RecordedProgram::RecordedProgram(const std::string& settings, Bytes capacity, unsigned seed)
    : settings_(settings)
    , allocator_(rulesOf(settings, capacity))
    , random_(seed)
{
    allocator_.setSegmentObserver([this](const CachingAllocator::SegmentEvent& event) { segmentEvent(event); });
}

void RecordedProgram::record(Snapshot::Action action, std::uint64_t address, Bytes size, std::uint32_t stream)
{
    Snapshot::Event event;
    event.action = action;
    event.address = address;
    event.size = size;
    event.stream = stream;
    event.microseconds = 1'000'000 + static_cast<std::int64_t>(events_.size());
    events_.push_back(event);
}

void RecordedProgram::segmentEvent(const CachingAllocator::SegmentEvent& event)
{
    using enum Snapshot::Action;
    const auto stream = static_cast<std::uint32_t>(event.stream);
    // Every unused segment goes back only after the other streams were waited for.
    if (!event.taken)
        completed();
    record(event.taken ? (event.pages ? segmentMap : segmentAlloc) : (event.pages ? segmentUnmap : segmentFree),
           event.address, event.size, stream);
    const std::uint64_t end = event.address + static_cast<std::uint64_t>(event.size);
    if (!event.pages && event.taken) {
        segments_[event.address] = {event.size, stream, false, event.size == 2 * MiB};
    } else if (!event.pages) {
        segments_.erase(event.address);
    } else {
        // Page by page; snapshot() joins them.
        const Bytes page = event.size % (20 * MiB) == 0 ? 20 * MiB : 2 * MiB;
        for (std::uint64_t at = event.address; at < end; at += static_cast<std::uint64_t>(page)) {
            if (event.taken)
                segments_[at] = {page, stream, true, page == 2 * MiB};
            else
                segments_.erase(at);
        }
    }
}

void RecordedProgram::completed()
{
    if (retries_ == allocator_.stats().retries && allocator_.stats().active != allocator_.stats().allocated)
        return; // not by waiting
    for (auto entry = live_.begin(); entry != live_.end();) {
        if (entry->second.awaitsFree) {
            record(Snapshot::Action::freeCompleted, entry->first, entry->second.requested, entry->second.stream);
            entry = live_.erase(entry);
        } else {
            ++entry;
        }
    }
}

void RecordedProgram::allocate()
{
    const auto stream = static_cast<std::uint32_t>(random_() % 2);
    const unsigned long most = random_() % 5 ? 400'000 : 70'000'000;
    const Bytes bytes = 1 + static_cast<Bytes>(random_() % most);
    const Bytes before = allocator_.stats().allocated;
    const auto block = allocator_.allocate(bytes, stream);
    retries_ = allocator_.stats().retries;
    if (!block) {
        completed();
        record(Snapshot::Action::outOfMemory, 0, bytes, stream);
        failures_.push_back(allocator_.outOfMemory());
        return;
    }
    live_[*block] = {allocator_.stats().allocated - before, bytes, stream, false};
    record(Snapshot::Action::alloc, *block, bytes, stream);
}

void RecordedProgram::run(int actions)
{
    for (; actions > 0; --actions) {
        if (live_.empty() || random_() % 20 < 11) {
            allocate();
            continue;
        }
        auto entry = std::next(live_.begin(), static_cast<std::ptrdiff_t>(random_() % live_.size()));
        Live& block = entry->second;
        if (!block.awaitsFree) {
            allocator_.requestFree(entry->first);
            record(Snapshot::Action::freeRequested, entry->first, block.requested, block.stream);
            block.awaitsFree = true;
            if (random_() % 10 == 0)
                continue; // another stream uses it for a while
        }
        record(Snapshot::Action::freeCompleted, entry->first, block.requested, block.stream);
        allocator_.free(entry->first);
        live_.erase(entry);
    }
}

Snapshot RecordedProgram::snapshot(std::size_t events) const
{
    Snapshot snapshot;
    snapshot.settings = settings_;
    snapshot.streams = {0, 1};
    const std::size_t kept = std::min(events, events_.size());
    snapshot.traces.emplace_back(events_.end() - static_cast<std::ptrdiff_t>(kept), events_.end());
    snapshot.eventCount = kept;
    snapshot.firstMicroseconds = kept > 0 ? snapshot.traces[0].front().microseconds : 0;
    for (const auto& [address, segment] : segments_) {
        Snapshot::Segment* last = snapshot.segments.empty() ? nullptr : &snapshot.segments.back();
        if (last && last->expandable && segment.pages && last->stream == segment.stream && last->small == segment.small
            && last->address + static_cast<std::uint64_t>(last->size) == address) {
            last->size += segment.size;
            continue;
        }
        Snapshot::Segment added;
        added.address = address;
        added.size = segment.size;
        added.stream = segment.stream;
        added.small = segment.small;
        added.expandable = segment.pages;
        snapshot.segments.push_back(added);
    }
    for (const auto& [address, block] : live_) {
        const auto next = std::ranges::upper_bound(snapshot.segments, address, {}, &Snapshot::Segment::address);
        std::prev(next)->blocks.push_back(static_cast<Snapshot::Index>(snapshot.blocks.size()));
        Snapshot::Block added;
        added.address = address;
        added.size = block.size;
        added.requested = block.requested;
        added.active = true;
        added.awaitsFree = block.awaitsFree;
        snapshot.blocks.push_back(added);
    }
    return snapshot;
}

} // namespace headroom
