// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/device_history.h"
#include "core/snapshot/regions.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace headroom {

/// A block of a snapshot from allocation to free.
struct BlockLife
{
    static constexpr std::uint32_t neverFreed = UINT32_MAX;

    Snapshot::Index stack = Snapshot::none;
    Phase made = Phase::forward;
    std::uint32_t madeIn = 0; ///< number of changes of the phase before the allocation
    std::uint32_t freedIn = neverFreed; ///< number of changes of the phase before the free
    bool before = false; ///< the block was allocated before the range
};

/// The lives of a history's blocks, and the phase and the region of each event. PyTorch records none of the three; the
/// three follow from frames, annotations and the order of events.
class SnapshotLives
{
public:
    SnapshotLives(const Snapshot& snapshot, const DeviceHistory& history, std::size_t device);

    /// Lives in the order of allocation: the blocks at the start by address, then those of the events.
    const std::vector<BlockLife>& lives() const noexcept { return lives_; }
    Phase phase(std::size_t event) const { return phases_[event]; }
    RegionTree::Node region(std::size_t event) const { return regions_[event]; }
    const StackMeaning& stack(Snapshot::Index stack) { return meanings_.stack(stack); }
    RegionTree& regions() { return meanings_.regions(); }
    /// Returns the category of a block: deduced from the phases in which the block was allocated and freed. Older
    /// blocks are `other`, unless the frames tell more.
    Category category(const BlockLife& life);

private:
    void find(const DeviceHistory& history);

    EventMeanings meanings_;
    std::vector<BlockLife> lives_;
    std::vector<Phase> phases_; ///< by event
    std::vector<RegionTree::Node> regions_; ///< by event
};

/// Returns the name of the op that allocates: that of the frames, else a placeholder.
std::string_view allocatingOp(const StackMeaning& stack);
inline constexpr std::string_view unnamedAllocation = "allocation"; ///< op of an allocation without frames

/// Adds the stacks of a snapshot to a step as frames.
class SnapshotFrames
{
public:
    SnapshotFrames(const Snapshot& snapshot, StepTraceBuilder& builder)
        : snapshot_(snapshot)
        , builder_(builder)
    {
    }

    /// Returns the innermost frame of a stack; invalid: there is no stack.
    FrameId of(Snapshot::Index stack);

private:
    const Snapshot& snapshot_;
    StepTraceBuilder& builder_;
    std::unordered_map<Snapshot::Index, FrameId> known_; ///< by stack
};

} // namespace headroom
