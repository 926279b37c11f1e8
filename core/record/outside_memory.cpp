// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/outside_memory.h"

#include "core/device/simulated_state.h"

#include <algorithm>
#include <utility>

namespace headroom {

std::shared_ptr<OutsideMemory> OutsideMemory::watch()
{
    auto memory = std::make_shared<OutsideMemory>();
    sim::SimulatedAllocator& allocator = sim::simulatedState().allocator;
    memory->knowsStart_ = allocator.stats().allocations == 0;
    allocator.setObserver(memory);
    return memory;
}

void OutsideMemory::stepFinishes()
{
    const std::lock_guard lock(mutex_);
    Period period = std::exchange(now_, {});
    rowOf_.clear();
    if (hasFinished_ && period.peak >= betweenSteps_.peak)
        betweenSteps_ = std::move(period);
    else if (!hasFinished_ && knowsStart_)
        beforeTraining_ = std::move(period);
    hasFinished_ = true;
}

std::string OutsideMemory::remark() const
{
    for (const Period* period : {&beforeTraining_, &betweenSteps_})
        if (period->peak > period->keptPeak)
            return "the program's memory changed more than " + std::to_string(mostRows) + " times "
                + (period == &beforeTraining_ ? "before training" : "between two steps")
                + ", and later changes, which took " + formatBytes(period->peak - period->keptPeak)
                + " more, are left out of the verdict on a card: leave as much of the card free";
    return {};
}

bool OutsideMemory::hasRoom() const
{
    return now_.rows.size() < mostRows;
}

void OutsideMemory::add(OutsideKind kind, Bytes bytes, std::uint32_t stream, std::uint32_t row)
{
    StepTraceBuilder::Outside& rows = now_.rows;
    rows.kind.push_back(kind);
    rows.bytes.push_back(bytes);
    rows.stream.push_back(stream);
    rows.block.push_back(row);
}

void OutsideMemory::allocated(sim::Block& block)
{
    const std::lock_guard lock(mutex_);
    now_.live += roundedToBlock(block.requested);
    now_.peak = std::max(now_.peak, now_.live);
    rowOf_.emplace(block.address, hasRoom() ? static_cast<std::uint32_t>(now_.rows.size()) : leftOut);
    if (!hasRoom())
        return;
    add(OutsideKind::alloc, block.requested, block.stream, 0);
    now_.keptPeak = now_.peak;
}

void OutsideMemory::freed(sim::Block& block)
{
    const std::lock_guard lock(mutex_);
    const auto found = rowOf_.find(block.address);
    if (found == rowOf_.end()) {
        if (block.requested > 0 && hasRoom())
            add(OutsideKind::freeOlder, block.requested, block.stream, 0);
        return;
    }
    now_.live -= roundedToBlock(block.requested);
    if (found->second != leftOut) // at most as many as allocations
        add(OutsideKind::free, block.requested, block.stream, found->second);
    rowOf_.erase(found);
}

void OutsideMemory::emptied()
{
    const std::lock_guard lock(mutex_);
    if (hasRoom())
        add(OutsideKind::emptyCache, 0, 0, 0);
}

} // namespace headroom
