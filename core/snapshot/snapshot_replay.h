// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/caching_allocator.h"
#include "core/snapshot/device_history.h"

#include <optional>
#include <string>

namespace headroom {

/// A comparison of a recorded history with its replay on the simulated caching allocator, which starts from the
/// recorded segments and blocks.
struct SnapshotReplay
{
    std::size_t events = 0;
    std::size_t sameReserved = 0; ///< number of events after which the reserved bytes equal the recorded ones
    std::size_t allocations = 0;
    std::size_t samePlace = 0; ///< number of them at the recorded address
    std::optional<std::size_t> firstDifference; ///< index of the first event after which they differ
    Bytes recordedThen = 0;
    Bytes simulatedThen = 0;
    Bytes recordedPeak = 0;
    Bytes simulatedPeak = 0;
    CachingAllocator::Stats stats; ///< simulated, at the end
};

/// Replays a history. The addresses of segments, refusals of the device and the release of unused segments are taken
/// from the recording. The simulation itself decides when it takes a segment, and of which size.
SnapshotReplay replaySnapshot(const DeviceHistory& history);

} // namespace headroom
