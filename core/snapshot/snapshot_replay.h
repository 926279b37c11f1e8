// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/snapshot/device_history.h"

#include <optional>
#include <string>

namespace headroom {

/// A recorded history played on the simulated caching allocator, from the segments and blocks that the recording began
/// with: does it reserve what the real one did?
struct SnapshotReplay
{
    std::size_t events = 0;
    std::size_t sameReserved = 0; ///< events after which the reserved bytes are the recorded ones
    std::size_t allocations = 0;
    std::size_t samePlace = 0; ///< of them, handed the recorded address
    std::optional<std::size_t> firstDifference; ///< event after which the reserved bytes differ
    Bytes recordedThen = 0;
    Bytes simulatedThen = 0;
    Bytes recordedPeak = 0;
    Bytes simulatedPeak = 0;
    CachingAllocator::Stats stats; ///< simulated, at the end
};

/// What the device gives and when it refuses is taken from the recording: where segments lie, and when unused ones went
/// back. When a segment is taken, and how large, is the simulation's own.
SnapshotReplay replaySnapshot(const DeviceHistory& history);

} // namespace headroom
