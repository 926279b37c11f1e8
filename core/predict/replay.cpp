// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/regions.h"

#include "core/predict/clock_memory.h"
#include "core/predict/live_memory.h"
#include "core/predict/replay_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {

namespace {

/// A LiveMemory that also finds Timeline::delayed: when a block is freed, PyTorch's allocator records an event on each
/// stream that uses the block. At each allocation the allocator asks for the events that have passed.
class ActiveMemory
{
public:
    using Block = LiveMemory::Block;

    explicit ActiveMemory(const StepTrace& trace);

    void hold(Block block);
    void drop(Block block);
    Block addCopy(StorageId original, Bytes bytes) { return live_.addCopy(original, bytes); }
    void place(Block block, std::uint32_t place) { live_.place(block, place); }
    void resize(Block block, Bytes bytes);
    void retype(StorageId storage, Category category) { live_.retype(storage, category); }
    void beginOp(OpId op, double ms)
    {
        clock_.beginOp(op, ms);
        live_.beginOp(op, ms);
    }
    void endOp() { live_.endOp(); }
    void addRecomputeMs(double ms) { live_.addRecomputeMs(ms); }

    void copyOut(std::uint32_t moved, std::uint32_t region, Bytes bytes)
    {
        clock_.copyOut(moved, region, bytes);
        live_.copyOut(moved, region, bytes);
    }
    void waitOut(std::uint32_t moved, std::uint32_t region) { clock_.waitOut(moved, region); }
    void copyIn(std::uint32_t moved, std::uint32_t region, Bytes bytes) { clock_.copyIn(moved, region, bytes); }
    void waitIn(std::uint32_t moved, std::uint32_t region) { clock_.waitIn(moved, region); }
    void endCopy(std::uint32_t moved, Bytes bytes) { live_.endCopy(moved, bytes); }
    void endCall(std::uint32_t region) { clock_.endCall(region); }
    void beginBackward(std::uint32_t region) { clock_.beginBackward(region); }

    void mark(Mark mark);

    void reach(std::uint32_t event) { clock_.reach(event); } ///< before each event of the step
    std::size_t changeCount() const { return live_.changeCount(); }
    Timeline finish() &&;

private:
    void freed(Block block);
    void allocatedSince(std::size_t change);

    struct Pending
    {
        std::size_t change = 0; ///< DelayedFree::change
        double untilMs = 0;
    };

    LiveMemory live_;
    ClockMemory clock_;
    std::vector<Pending> pending_;
    std::vector<DelayedFree> delayed_;
};

/// Whether blocks of the step are used by other streams, at times that are known (Timeline::delayed).
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

/// The exit events of the regions' calls, ascending: StepIndex::memoryEvents leaves exit events out.
std::vector<std::pair<std::uint32_t, std::size_t>> exitsOf(const StepIndex& index, const Regions& plan)
{
    std::vector<std::pair<std::uint32_t, std::size_t>> exits; // (event, region)
    for (std::size_t region = 0; region < plan.regions.size(); ++region)
        exits.emplace_back(index.calls[plan.regions[region].call.value].exit, region);
    std::ranges::sort(exits);
    return exits;
}

template <class Memory>
Timeline replayWith(const StepTrace& trace, const StepIndex& index, const Regions& plan,
                    std::vector<std::uint32_t>* events)
{
    ReplayNotes notes;
    Replay<Memory> replay(trace, index, plan, Memory(trace), notes);
    for (const std::uint32_t event : index.memoryEvents) {
        if constexpr (std::is_same_v<Memory, ActiveMemory>)
            replay.memory().reach(event);
        replay.step(event);
        if (events)
            events->resize(replay.memory().changeCount(), event);
    }
    replay.finish();
    return std::move(replay.memory()).finish();
}

} // namespace

Timeline replay(const StepTrace& trace, const StepIndex& index, const Regions& plan, std::vector<std::uint32_t>* events)
{
    // Only a step with delayed frees needs a clock.
    return delaysFrees(trace) ? replayWith<ActiveMemory>(trace, index, plan, events)
                              : replayWith<LiveMemory>(trace, index, plan, events);
}

std::vector<HeldBytes> replayBoundaries(const StepTrace& trace, const StepIndex& index, const Regions& plan)
{
    ReplayNotes notes;
    Replay<LiveMemory> replay(trace, index, plan, LiveMemory(trace), notes);
    std::map<CallId, std::size_t> regionOf;
    for (std::size_t region = 0; region < plan.regions.size(); ++region)
        regionOf.emplace(plan.regions[region].call, region);
    const std::vector<std::pair<std::uint32_t, std::size_t>> exits = exitsOf(index, plan);
    std::vector<HeldBytes> held(plan.regions.size());
    std::size_t entered = 0;
    std::size_t left = 0;
    for (const std::uint32_t event : index.memoryEvents) {
        const Bytes live = replay.memory().live();
        for (; left < exits.size() && exits[left].first < event; ++left)
            held[exits[left].second].end = live;
        for (; entered < held.size() && plan.regions[entered].enter == event; ++entered)
            held[entered].begin = live;
        const std::size_t before = replay.ranAgain().size();
        replay.step(event);
        if (replay.ranAgain().size() == before)
            continue;
        Bytes& again = held[regionOf.at(replay.ranAgain().back())].again;
        again = std::max(again, live);
    }
    return held;
}

} // namespace headroom
