// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/active_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace headroom {

bool delaysFrees(const StepTrace& trace)
{
    // Files without positions have no uses.
    return hasClock(trace) && trace.streamEvents.position.size() > 0
        && std::ranges::find(trace.streamEvents.kind, StreamEventKind::use) != trace.streamEvents.kind.end();
}

ActiveMemory::ActiveMemory(const StepTrace& trace)
    : live_(trace)
    , clock_(trace)
{
}

void ActiveMemory::hold(Block block)
{
    const std::size_t before = changeCount();
    live_.hold(block);
    allocatedSince(before);
}

void ActiveMemory::drop(Block block)
{
    const std::size_t before = changeCount();
    live_.drop(block);
    if (changeCount() > before)
        freed(block);
}

/// The new block is allocated before the old block is freed.
void ActiveMemory::resize(Block block, Bytes bytes)
{
    const std::size_t before = changeCount();
    live_.resize(block, bytes);
    if (bytes > 0)
        allocatedSince(before);
    if (changeCount() > before + (bytes > 0 ? 1 : 0))
        freed(block);
}

void ActiveMemory::mark(Mark mark)
{
    clock_.mark(mark);
    live_.mark(mark);
}

/// Notes the free of a block in the last change, if other streams still use the block.
void ActiveMemory::freed(Block block)
{
    if (const std::optional<double> until = clock_.endUses(block))
        pending_.push_back({changeCount() - 1, *until});
}

/// Ends the delayed frees that are over at an allocation, if an allocation was made since `change`.
void ActiveMemory::allocatedSince(std::size_t change)
{
    if (changeCount() == change)
        return;
    std::erase_if(pending_, [&](const Pending& pending) {
        if (pending.untilMs > clock_.cpuMs())
            return false;
        delayed_.push_back({pending.change, change});
        return true;
    });
}

Timeline ActiveMemory::finish() &&
{
    Timeline timeline = std::move(live_).finish();
    for (const Pending& pending : pending_)
        delayed_.push_back({pending.change, Timeline::npos});
    std::ranges::sort(delayed_, {}, &DelayedFree::change);
    timeline.delayed = std::move(delayed_);
    return timeline;
}

} // namespace headroom
