// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"
#include "core/snapshot/snapshot.h"

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// One device's part of a snapshot, from a state to the end of the range: what was there when the first event happened
/// follows from what was there at the end, when every event since is undone.
struct DeviceHistory
{
    struct Block
    {
        Bytes size = 0; ///< of the allocator's block, rounding and slack included
        Bytes requested = 0;
        Snapshot::Index stack = Snapshot::none;
        Snapshot::Index metadata = Snapshot::none;
        Snapshot::Index stream = 0;
        bool awaitsFree = false;
        bool known = false; ///< size was recorded
    };

    struct Segment
    {
        Bytes size = 0;
        Snapshot::Index stream = 0;
        bool small = false;
        bool expandable = false; ///< a run of mapped pages
        std::pair<std::int64_t, std::int64_t> pool{};
    };

    std::map<std::uint64_t, Segment> segments; ///< at the start, by address
    std::map<std::uint64_t, Block> blocks; ///< in use at the start, by address
    std::span<const Snapshot::Event> events; ///< in the range
    Bytes reserved = 0; ///< at the start
    AllocatorRules rules; ///< by the program's settings
    std::string settingsProblem; ///< why its settings could not be read; the rules are PyTorch's defaults then
};

/// `snapshot` must live as long as the result. The range is that with which the snapshot was read, or a part of it.
/// Errors (badInput): there is no such device, or nothing was recorded of it.
Result<DeviceHistory> deviceHistory(const Snapshot& snapshot, std::size_t device, SnapshotRange range);
inline Result<DeviceHistory> deviceHistory(const Snapshot& snapshot, std::size_t device)
{
    return deviceHistory(snapshot, device, snapshot.range);
}

/// What a snapshot holds of one device, to choose from.
struct SnapshotDevice
{
    std::size_t device = 0;
    std::size_t events = 0;
    double fromMs = 0; ///< after the snapshot's first event
    double toMs = 0;
    Bytes reservedPeak = 0;
};
std::vector<SnapshotDevice> devicesOf(const Snapshot& snapshot); ///< those with events, by number

/// The device with most events.
std::size_t busiestDevice(const Snapshot& snapshot);

/// Follows what was reserved, by the events of segments.
class ReservedBytes
{
public:
    explicit ReservedBytes(Bytes start)
        : bytes_(start)
    {
    }
    /// True when the event changed it.
    bool apply(const Snapshot::Event& event);
    Bytes bytes() const noexcept { return bytes_; }

private:
    Bytes bytes_;
};

} // namespace headroom
