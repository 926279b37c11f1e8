// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/step_clock.h"

#include "core/base/try.h"
#include "core/predict/clock_memory.h"
#include "core/predict/module_memory.h"
#include "core/predict/regions.h"
#include "core/predict/replay_rules.h"
#include "core/timeline/storage_owners.h"

#include <algorithm>
#include <map>

namespace headroom {

bool hasClock(const StepTrace& trace)
{
    return trace.info.simulated && trace.ops.signature.size() > 0;
}

Result<StepClock> clockOf(const StepTrace& trace, const CheckpointPlan& plan)
{
    return clockOf(trace, StepIndex(trace), plan);
}

StepClock clockOfOps(const StepTrace& trace, std::span<const IssuedOp> ops)
{
    ClockMemory clock(trace);
    for (const IssuedOp& issued : ops) {
        clock.beginOp(issued.op, trace.ops.ms[issued.op]);
        if (issued.again)
            clock.addRecomputeMs(trace.ops.ms[issued.op]);
        clock.endOp();
    }
    return std::move(clock).finish();
}

Result<StepClock> clockOf(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    ASSIGN_OR_RETURN(const Regions regions, layOut(trace, index, plan));
    ReplayNotes notes;
    Replay<ClockMemory> replay(trace, index, regions, ClockMemory(trace), notes);
    for (const std::uint32_t event : index.memoryEvents)
        replay.step(event);
    replay.finish();
    return std::move(replay.memory()).finish();
}

EventTimes eventTimes(const StepTrace& trace, const StepIndex& index)
{
    const Regions none;
    ReplayNotes notes;
    Replay<ClockMemory> replay(trace, index, none, ClockMemory(trace), notes);
    EventTimes times;
    const auto count = [&](std::size_t events) {
        times.cpuMs.resize(events, replay.memory().cpuMs());
        times.gpuMs.resize(events, replay.memory().gpuMs());
    };
    for (const std::uint32_t event : index.memoryEvents) {
        count(event + std::size_t{1});
        replay.step(event);
    }
    count(trace.events.size() + 1);
    return times;
}

namespace {

/// When a module of a plan moves something; null: the module moves nothing.
const Offload* whenMoves(const CheckpointRegion& region)
{
    if (region.hosted)
        return &region.hosted->when;
    return region.offload && region.offload->moves ? &*region.offload : nullptr;
}

ModuleOffload::Moves movesOf(const CheckpointRegion& region)
{
    using enum ModuleOffload::Moves;
    if (!region.hosted)
        return savedTensors;
    const bool hasResults = std::ranges::find(region.hosted->ops, true) != region.hosted->ops.end();
    return !region.hosted->arguments ? results : hasResults ? argumentsAndResults : arguments;
}

} // namespace

std::string_view ModuleOffload::what() const noexcept
{
    switch (moves) {
    case Moves::savedTensors:
        return "saved tensors";
    case Moves::arguments:
        return "arguments";
    case Moves::results:
        return "results of ops";
    case Moves::argumentsAndResults:
        return "arguments, results of ops";
    }
    return {};
}

Result<std::vector<ModuleOffload>> offloadByModule(const StepTrace& trace, const CheckpointPlan& plan)
{
    if (std::ranges::none_of(plan, [](const CheckpointRegion& region) { return whenMoves(region) != nullptr; }))
        return std::vector<ModuleOffload>();
    return offloadByModule(trace, StepIndex(trace), plan);
}

Result<std::vector<ModuleOffload>> offloadByModule(const StepTrace& trace, const StepIndex& index,
                                                   const CheckpointPlan& plan)
{
    std::vector<ModuleOffload> modules;
    for (const CheckpointRegion& region : plan)
        if (const Offload* const when = whenMoves(region))
            modules.push_back({region.module, *when, {}, movesOf(region)});
    if (modules.empty())
        return modules;
    ASSIGN_OR_RETURN(const Regions regions, layOut(trace, index, plan));
    const auto of = [&](std::uint32_t region) -> TimedOffload& {
        return std::ranges::find(modules, trace.calls.module[regions.regions[region].call], &ModuleOffload::module)
            ->copies;
    };
    for (const MovedStorage& moved : regions.moved)
        of(moved.region).bytes += trace.storages.bytes[moved.storage];
    if (!hasClock(trace))
        return modules;
    ASSIGN_OR_RETURN(const StepClock clock, clockOf(trace, index, plan));
    for (const std::uint32_t region : regions.numbered) {
        if (region >= clock.offloads.size())
            break;
        if (regions.regions[region].firstMoved == regions.regions[region].endMoved)
            continue;
        of(region).copyMs += clock.offloads[region].copyMs;
        of(region).exposedMs += clock.offloads[region].exposedMs;
    }
    return modules;
}

std::size_t collectiveRow(const StepTrace& trace, OpId op)
{
    return static_cast<std::size_t>(std::ranges::lower_bound(trace.collectives.op, op) - trace.collectives.op.begin());
}

std::vector<ModuleId> collectiveModules(const StepTrace& trace)
{
    const ModuleId root = trace.modules.size() > 0 ? ModuleId(0) : ModuleId();
    const auto isInside = [&](ModuleId module) { return module.valid() && module != root; };
    std::vector<bool> communicates(trace.modules.size(), false);
    std::vector<ModuleId> owners(trace.storages.size());
    for (const OpId op : trace.collectives.op)
        if (isInside(trace.ops.module[op]))
            communicates[trace.ops.module[op].value] = true;
    for (std::size_t row = 0; row < trace.registered.size(); ++row)
        if (trace.registered.storage[row].valid() && !isUnsharded(trace.registered.category[row]))
            owners[trace.registered.storage[row].value] = trace.registered.module[row];
    const auto up = [&](ModuleId module) {
        while (isInside(module) && !communicates[module.value])
            module = trace.modules.parent[module];
        return isInside(module) ? module : root;
    };
    // The owner of the shards that were read last: the ops before an all-gather copy the shards into the input.
    const auto gathered = [&](OpId op) {
        for (std::uint32_t row = op.value + 1; row-- > 0 && trace.ops.phase[OpId(row)] == trace.ops.phase[op];)
            for (const StorageId read : trace.ops.inputs[OpId(row)])
                if (isInside(owners[read.value]))
                    return owners[read.value];
        return ModuleId();
    };
    const auto ranBefore = [&](OpId op) {
        for (std::uint32_t row = op.value; row-- > 0 && trace.ops.phase[OpId(row)] == trace.ops.phase[op];)
            if (isInside(trace.ops.module[OpId(row)]))
                return trace.ops.module[OpId(row)];
        return ModuleId();
    };
    const StorageOwners storages(trace);
    const auto unitOf = [&](OpId op) {
        for (const auto& tensors : {trace.ops.outputs[op], trace.ops.mutated[op], trace.ops.inputs[op]})
            for (const StorageId storage : tensors)
                if (storages.unit(storage).valid())
                    return storages.unit(storage);
        return ModuleId();
    };
    std::vector<ModuleId> modules;
    for (std::size_t row = 0; row < trace.collectives.size(); ++row) {
        const OpId op = trace.collectives.op[row];
        ModuleId module = trace.ops.module[op];
        if (const ModuleId unit = unitOf(op); unit.valid())
            module = unit;
        else if (trace.collectives.kind[row] == CollectiveKind::allGather) {
            if (const ModuleId owner = gathered(op); owner.valid())
                module = up(owner);
        } else if (!isInside(module) && trace.ops.phase[op] == Phase::backward) {
            module = up(ranBefore(op));
        }
        modules.push_back(module.valid() ? module : root);
    }
    return modules;
}

std::vector<ModuleCommunication> communicationByModule(const StepTrace& trace, const StepClock& clock)
{
    const std::vector<ModuleId> of = collectiveModules(trace);
    std::map<ModuleId, ModuleCommunication> modules;
    for (const TimedCollective& collective : clock.collectives) {
        const ModuleId id = of[collectiveRow(trace, collective.op)];
        ModuleCommunication& module = modules[id];
        module.module = id;
        ++module.collectives;
        module.bytes += trace.collectives.bytes[collectiveRow(trace, collective.op)];
        module.ms += collective.ms;
        module.exposedMs += collective.exposedMs;
    }
    std::vector<ModuleCommunication> result;
    for (const auto& [id, module] : modules)
        result.push_back(module);
    std::ranges::stable_sort(result, std::ranges::greater(), &ModuleCommunication::exposedMs);
    return result;
}

std::vector<double> exposedByModule(const StepTrace& trace, const std::vector<ModuleId>& modules,
                                    const StepClock& clock)
{
    std::vector<double> exposed(trace.modules.size(), 0);
    for (const TimedCollective& collective : clock.collectives)
        if (const ModuleId module = modules[collectiveRow(trace, collective.op)]; module.valid())
            exposed[module.value] += collective.exposedMs;
    addToParents(trace, exposed);
    return exposed;
}

} // namespace headroom
