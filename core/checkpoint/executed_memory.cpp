// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/executed_memory.h"

#include "core/device/simulated_state.h"

#include <algorithm>
#include <utility>

namespace headroom {

Bytes MemoryLevels::peak() const
{
    Bytes highest = start;
    for (const Allocation& allocation : allocations)
        highest = std::max(highest, allocation.live);
    return highest;
}

MemoryLevels levelsOf(const Timeline& timeline, std::vector<std::size_t>* changes)
{
    MemoryLevels levels;
    levels.start = total(timeline.start);
    Bytes live = levels.start;
    for (std::size_t i = 0; i < timeline.changes.size(); ++i) {
        const MemoryChange& change = timeline.changes[i];
        live += change.delta;
        // A retyped storage leaves one category and enters another: nothing was allocated.
        const MemoryChange* before = i > 0 ? &timeline.changes[i - 1] : nullptr;
        const bool retyped = before && before->delta == -change.delta && before->storage == change.storage
            && before->recomputed == change.recomputed && before->category != change.category;
        if (change.delta <= 0 || retyped)
            continue;
        levels.allocations.push_back({change.delta, live});
        if (changes)
            changes->push_back(i);
    }
    levels.end = live;
    return levels;
}

ExecutedMemory::ExecutedMemory()
{
    sim::SimulatedAllocator& allocator = sim::simulatedState().allocator;
    levels_.start = live_ = allocator.stats().live;
    allocator.setObserver(this);
}

ExecutedMemory::~ExecutedMemory()
{
    sim::simulatedState().allocator.setObserver(nullptr);
}

MemoryLevels ExecutedMemory::levels() const
{
    MemoryLevels levels = levels_;
    levels.end = live_;
    return levels;
}

void ExecutedMemory::change(Bytes delta)
{
    live_ += delta;
    if (delta > 0)
        levels_.allocations.push_back({delta, live_});
}

void ExecutedMemory::allocated(sim::Block& block)
{
    change(roundedToBlock(block.requested));
}

void ExecutedMemory::freed(sim::Block& block)
{
    if (std::exchange(movedAway_, nullptr) != &block)
        change(-roundedToBlock(block.requested));
}

/// As a trace says it: the new block stands for the moment in which both existed, then the storage changes its size.
void ExecutedMemory::moved(sim::Block& old, sim::Block& replacement)
{
    change(-roundedToBlock(replacement.requested));
    change(-roundedToBlock(old.requested));
    change(roundedToBlock(replacement.requested));
    movedAway_ = &old;
}

} // namespace headroom
