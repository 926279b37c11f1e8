// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"
#include "core/allocator/caching_allocator.h"
#include "core/snapshot/snapshot.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// The history of one device in a snapshot: the events of a range, and the state before them, which is the state at the
/// end of the recording with all events since then undone.
struct DeviceHistory
{
    struct Block
    {
        Bytes size = 0; ///< size of the allocator's block, with rounding and slack
        Bytes requested = 0;
        Snapshot::Index stack = Snapshot::none;
        Snapshot::Index metadata = Snapshot::none;
        Snapshot::Index stream = 0;
        bool awaitsFree = false;
        bool known = false; ///< `size` was recorded, not deduced
    };

    struct Segment
    {
        Bytes size = 0;
        Snapshot::Index stream = 0;
        bool small = false;
        bool expandable = false; ///< the segment is a run of mapped pages
        std::pair<std::int64_t, std::int64_t> pool{};
    };

    using Segments = std::map<std::uint64_t, Segment>; ///< by address

    Segments segments; ///< segments at the start
    std::map<std::uint64_t, Block> blocks; ///< blocks in use at the start, by address
    std::span<const Snapshot::Event> events; ///< events in the range
    Bytes reserved = 0; ///< reserved bytes at the start
    AllocatorRules rules; ///< rules by the program's settings
    std::string settingsProblem; ///< why the settings could not be read; `rules` are PyTorch's defaults then
};

/// Changes segments by an event, or undoes the event (`back`). Other events change nothing.
void changeSegments(DeviceHistory::Segments& segments, const Snapshot::Event& event, const AllocatorRules& rules,
                    bool back);

/// Returns the history of a device. `snapshot` must live as long as the result. `range` must lie within the range with
/// which the snapshot was read. Errors (badInput): no such device, or a device without events.
Result<DeviceHistory> deviceHistory(const Snapshot& snapshot, std::size_t device, SnapshotRange range);
inline Result<DeviceHistory> deviceHistory(const Snapshot& snapshot, std::size_t device)
{
    return deviceHistory(snapshot, device, snapshot.range);
}

/// A summary of a device of a snapshot, for a choice of devices.
struct SnapshotDevice
{
    std::size_t device = 0;
    std::size_t events = 0;
    double fromMs = 0; ///< ms after the snapshot's first event
    double toMs = 0;
    Bytes reservedPeak = 0;
};
std::vector<SnapshotDevice> devicesOf(const Snapshot& snapshot); ///< returns the devices with events, by number

/// Returns the device with the most events.
std::size_t busiestDevice(const Snapshot& snapshot);

/// Tracks the reserved bytes through the events of segments.
class ReservedBytes
{
public:
    explicit ReservedBytes(Bytes start)
        : bytes_(start)
    {
    }
    /// Applies an event; returns whether the event is of a segment.
    bool apply(const Snapshot::Event& event);
    Bytes bytes() const noexcept { return bytes_; }

private:
    Bytes bytes_;
};

/// Compares a recorded history with a replay on the simulated caching allocator. The replay starts from the recorded
/// segments and blocks.
struct SnapshotReplay
{
    std::size_t events = 0;
    std::size_t sameReserved = 0; ///< number of events after which the reserved bytes equal the recorded bytes
    std::size_t allocations = 0;
    std::size_t samePlace = 0; ///< number of allocations at the recorded address
    std::optional<std::size_t> firstDifference; ///< index of the first event after which the reserved bytes differ
    Bytes recordedThen = 0;
    Bytes simulatedThen = 0;
    Bytes recordedPeak = 0;
    Bytes simulatedPeak = 0;
    CachingAllocator::Stats stats; ///< simulated statistics at the end
};

/// Replays a history. The recording gives the addresses of segments, the refusals of the device and the releases of
/// unused segments. The simulation decides the time and the size of new segments.
SnapshotReplay replaySnapshot(const DeviceHistory& history);

} // namespace headroom
