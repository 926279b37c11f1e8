// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/snapshot/device_history.h"

#include <optional>
#include <string>

namespace headroom {

/// Compares a recorded history with its replay on the simulated caching allocator. The replay starts from the recorded
/// segments and blocks.
struct SnapshotReplay
{
    std::size_t events = 0;
    std::size_t sameReserved = 0; ///< number of events after which the reserved bytes equal the recorded ones
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
/// unused segments. The simulation decides when it takes a segment, and of which size.
SnapshotReplay replaySnapshot(const DeviceHistory& history);

} // namespace headroom
