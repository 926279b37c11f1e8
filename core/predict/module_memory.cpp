// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/module_memory.h"

#include "core/base/try.h"
#include "core/predict/regions.h"
#include "core/predict/replay_rules.h"

#include <algorithm>
#include <utility>

namespace headroom {

ModuleMemory::ModuleMemory(const StepTrace& trace)
    : trace_(trace)
    , own_(trace.modules.size() + 1)
    , recomputeMs_(trace.modules.size())
{
    const auto none = static_cast<std::uint32_t>(trace.modules.size());
    blocks_.reserve(2 * trace.storages.size()); // room for what a plan adds
    for (std::size_t i = 0; i < trace.storages.size(); ++i) {
        const StorageId storage(static_cast<std::uint32_t>(i));
        const OpId creator = trace.storages.creator[storage];
        const bool inForward = creator.valid() && trace.ops.phase[creator] == Phase::forward;
        blocks_.push_back({{trace.storages.bytes[storage]}, inForward ? moduleOf(creator) : none});
    }
}

/// An op outside of every module counts for the model.
std::uint32_t ModuleMemory::moduleOf(OpId op) const
{
    const ModuleId module = trace_.ops.module[op];
    return module.valid() ? module.value : 0;
}

void ModuleMemory::resize(Block block, Bytes bytes)
{
    State& state = blocks_[block];
    own_[state.module] += state.resize(bytes);
}

void ModuleMemory::mark(Mark mark)
{
    if (mark == Mark::forwardEnd)
        turns_.push_back(own_);
}

ModuleTally ModuleMemory::finish() &&
{
    if (turns_.empty())
        turns_.push_back(own_);
    ModuleTally tally{std::move(turns_), std::move(recomputeMs_)};
    for (std::vector<Bytes>& held : tally.held) {
        held.pop_back();
        addToParents(trace_, held);
    }
    addToParents(trace_, tally.recomputeMs);
    return tally;
}

namespace {

/// The event of the last boundary of forward and backward; the end of the step when there is none.
std::uint32_t lastBoundary(const StepTrace& trace)
{
    for (auto event = static_cast<std::uint32_t>(trace.events.size()); event-- > 0;)
        if (trace.events.kind[EventIndex(event)] == EventKind::mark
            && static_cast<Mark>(trace.events.a[EventIndex(event)]) == Mark::forwardEnd)
            return event;
    return static_cast<std::uint32_t>(trace.events.size());
}

/// After the last boundary live bytes do not matter: only unpacks do, since unpacks start recomputations.
std::vector<std::uint32_t> eventsToTally(const StepTrace& trace, const StepIndex& index)
{
    std::vector<std::uint32_t> events;
    const std::uint32_t boundary = lastBoundary(trace);
    for (const std::uint32_t event : index.memoryEvents)
        if (event <= boundary || trace.events.kind[EventIndex(event)] == EventKind::unpack)
            events.push_back(event);
    return events;
}

} // namespace

double discardedShare(const ModuleEffect& effect)
{
    if (effect.recorded <= 0)
        return 0;
    return std::clamp(1 - static_cast<double>(effect.kept) / static_cast<double>(effect.recorded), 0.0, 1.0);
}

std::vector<ModuleEffect> moduleEffects(const ModuleTally& recorded, const ModuleTally& planned)
{
    std::vector<ModuleEffect> effects(recorded.recomputeMs.size());
    for (std::size_t module = 0; module < effects.size(); ++module) {
        std::size_t most = 0;
        for (std::size_t boundary = 1; boundary < recorded.held.size(); ++boundary)
            if (recorded.held[boundary][module] > recorded.held[most][module])
                most = boundary;
        effects[module] = {recorded.held[most][module], planned.held[most][module], planned.recomputeMs[module]};
    }
    return effects;
}

ModuleEffects::ModuleEffects(StepModel model)
    : model_(std::move(model))
    , events_(eventsToTally(*model_.trace(), model_.index()))
    , tally_(replayed({}))
    , recorded_(moduleEffects(tally_, tally_))
{
}

ModuleTally ModuleEffects::replayed(const Regions& plan) const
{
    ReplayNotes notes;
    Replay<ModuleMemory> replay(*model_.trace(), model_.index(), plan, ModuleMemory(*model_.trace()), notes);
    for (const std::uint32_t event : events_)
        replay.step(event);
    return std::move(replay.memory()).finish();
}

Result<std::vector<ModuleEffect>> ModuleEffects::of(const CheckpointPlan& plan) const
{
    ASSIGN_OR_RETURN(const Regions regions, layOut(*model_.trace(), model_.index(), plan));
    return moduleEffects(tally_, replayed(regions));
}

} // namespace headroom
