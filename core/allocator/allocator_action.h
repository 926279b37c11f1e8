// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headroom {

/// What the caching allocator did, in the order of PyTorch's TraceEntry::Action.
enum class AllocatorAction : std::uint8_t {
    alloc,
    freeRequested, ///< the program freed the block
    freeCompleted, ///< no stream uses the block any more
    segmentAlloc, ///< cudaMalloc
    segmentFree, ///< cudaFree
    segmentMap, ///< pages of an expandable segment
    segmentUnmap,
    snapshot,
    outOfMemory,
    other, ///< without a name here
};

/// The names of the actions in PyTorch's memory snapshots.
inline constexpr std::array allocatorActionNames{"alloc",         "free_requested", "free_completed",
                                                 "segment_alloc", "segment_free",   "segment_map",
                                                 "segment_unmap", "snapshot",       "oom"};
static_assert(allocatorActionNames.size() == static_cast<std::size_t>(AllocatorAction::other));

} // namespace headroom
