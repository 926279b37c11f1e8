// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/regions.h"

#include "core/predict/active_memory.h"
#include "core/predict/live_memory.h"
#include "core/predict/replay_rules.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

namespace headroom {

namespace {

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
ReplayedStep replayWith(const StepTrace& trace, const StepIndex& index, const Regions& plan)
{
    ReplayNotes notes;
    Replay<Memory> replay(trace, index, plan, Memory(trace), notes);
    ReplayedStep replayed;
    for (const std::uint32_t event : index.memoryEvents) {
        if constexpr (std::is_same_v<Memory, ActiveMemory>)
            replay.memory().reach(event);
        replay.step(event);
        replayed.events.resize(replay.memory().changeCount(), event);
    }
    replay.finish();
    replayed.timeline = std::move(replay.memory()).finish();
    return replayed;
}

} // namespace

ReplayedStep replay(const StepTrace& trace, const StepIndex& index, const Regions& plan)
{
    // Only a step with delayed frees needs a clock.
    return delaysFrees(trace) ? replayWith<ActiveMemory>(trace, index, plan)
                              : replayWith<LiveMemory>(trace, index, plan);
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
