// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/executed_memory.h"

#include "core/device/simulated_state.h"

#include <memory>
#include <utility>

namespace headroom {

ExecutedMemory::ExecutedMemory()
{
    sim::SimulatedAllocator& allocator = sim::simulatedState().allocator;
    levels_.start = live_ = allocator.stats().live;
    allocator.setObserver({std::shared_ptr<void>(), this}); // not owned, since no other thread uses the device
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

/// Counts a resize as a trace does: first only the new block's allocation is counted, then the storage changes
/// size.
void ExecutedMemory::moved(sim::Block& old, sim::Block& replacement)
{
    change(-roundedToBlock(replacement.requested));
    change(-roundedToBlock(old.requested));
    change(roundedToBlock(replacement.requested));
    movedAway_ = &old;
}

} // namespace headroom
