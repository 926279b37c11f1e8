// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/replay.h"

#include "core/predict/live_memory.h"
#include "core/predict/replay_rules.h"

#include <utility>

namespace headroom {

namespace {

/// The phase of what came after the last mark.
Phase trailingPhase(const StepTrace& trace)
{
    return trace.ops.size() == 0 ? Phase::forward
                                 : trace.ops.phase[OpId(static_cast<std::uint32_t>(trace.ops.size() - 1))];
}

} // namespace

Timeline replay(const StepTrace& trace, const StepIndex& index, const Regions& plan)
{
    ReplayNotes notes;
    Replay<LiveMemory> replay(trace, index, plan, LiveMemory(trace), notes);
    for (const std::uint32_t event : index.memoryEvents)
        replay.step(event);
    replay.finish();
    return std::move(replay.memory()).finish(trailingPhase(trace));
}

RecordedStep replayRecorded(const StepTrace& trace, const StepIndex& index)
{
    const Regions nothing;
    ReplayNotes notes;
    Replay<LiveMemory> replay(trace, index, nothing, LiveMemory(trace), notes);
    RecordedStep recorded;
    for (const std::uint32_t event : index.memoryEvents) {
        replay.step(event);
        recorded.events.resize(replay.memory().changeCount(), event);
    }
    recorded.timeline = std::move(replay.memory()).finish(trailingPhase(trace));
    return recorded;
}

} // namespace headroom
