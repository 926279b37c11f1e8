// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/step_index.h"

#include <algorithm>
#include <utility>

namespace headroom {

std::vector<bool> everOf(const StepTrace& trace, Category category)
{
    std::vector<bool> found(trace.storages.size());
    for (std::uint32_t storage = 0; storage < trace.storages.size(); ++storage)
        found[storage] = trace.storages.category[StorageId(storage)] == category;
    for (std::uint32_t event = 0; event < trace.events.size(); ++event)
        if (const EventIndex at(event);
            trace.events.kind[at] == EventKind::retype && static_cast<Category>(trace.events.b[at]) == category)
            found[trace.events.a[at]] = true;
    return found;
}

StepIndex::StepIndex(const StepTrace& trace)
    : calls(trace.calls.size())
    , callsOf(trace.modules.size())
    , packEvent(trace.packs.size())
    , unpackEvent(trace.packs.size(), never)
    , releaseEvent(trace.packs.size(), never)
    , freeEvent(trace.storages.size(), never)
    , firstPackOf(trace.storages.size())
    , lastPackOf(trace.storages.size())
    , allocatedIn(trace.storages.size())
    , resized(trace.storages.size(), false)
    , mutated(trace.storages.size(), false)
    , gathered(everOf(trace, Category::unshardedParameter))
    , firstTaker(trace.storages.size())
    , lastTaker(trace.storages.size())
    , pass(trace.packs.size(), never)
{
    std::vector<bool> permanent(trace.storages.size(), false); // by storage: alive before and after the step
    bool began = false;
    std::uint32_t packs = 0;
    std::uint32_t ops = 0;
    OpId current;
    const auto end = static_cast<std::uint32_t>(trace.events.size());
    const auto leave = [&](Call& call, std::uint32_t event) {
        call.exit = event;
        call.endPack = packs;
        call.endOp = ops;
    };
    for (std::uint32_t event = 0; event < end; ++event) {
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        switch (trace.events.kind[EventIndex(event)]) {
        case EventKind::enter:
            calls[a] = {event, end, packs, 0, ops, 0};
            callsOf[trace.calls.module[CallId(a)].value].push_back(CallId(a));
            for (const StorageId storage : trace.calls.arguments[CallId(a)]) {
                if (!firstTaker[storage.value].valid())
                    firstTaker[storage.value] = CallId(a);
                lastTaker[storage.value] = CallId(a);
            }
            break;
        case EventKind::exit:
            leave(calls[a], event);
            break;
        case EventKind::opBegin:
            current = OpId(a);
            ops = a + 1;
            break;
        case EventKind::opEnd:
            noteOp(trace, current);
            current = {};
            break;
        case EventKind::alloc:
            allocatedIn[a] = current;
            permanent[a] = !began;
            break;
        case EventKind::free:
            permanent[a] = false;
            freeEvent[a] = event;
            break;
        case EventKind::resize:
            resized[a] = true;
            break;
        case EventKind::unpack:
            unpackEvent[a] = std::min(unpackEvent[a], event);
            notePass(PackId(a), trace.events.b[EventIndex(event)]);
            break;
        case EventKind::mark:
            began = true;
            break;
        case EventKind::pack:
            packEvent[a] = event;
            packs = a + 1;
            if (const StorageId storage = trace.packs.storage[PackId(a)]; storage.valid()) {
                if (!firstPackOf[storage.value].valid())
                    firstPackOf[storage.value] = PackId(a);
                lastPackOf[storage.value] = PackId(a);
            }
            break;
        case EventKind::release:
            releaseEvent[a] = event;
            break;
        default:
            break;
        }
    }
    for (Call& call : calls)
        if (call.exit == end)
            leave(call, end);
    findMemoryEvents(trace, permanent);
    CheckpointObstacles found = checkpointObstacles(trace, *this);
    obstacles = std::move(found.ofModules);
    obstaclesToOffload = std::move(found.toOffload);
    obstacleOfStep = found.ofStep;
}

void StepIndex::noteOp(const StepTrace& trace, OpId op)
{
    for (const StorageId storage : trace.ops.mutated[op])
        mutated[storage.value] = mutated[storage.value] || allocatedIn[storage.value] != op;
    if ((trace.ops.flags[op] & opAutocastCast) == 0)
        return;
    casts.resize(trace.storages.size());
    castName = trace.ops.name[op];
    for (const StorageId storage : trace.ops.outputs[op])
        casts[storage.value] = op;
}

void StepIndex::notePass(PackId pack, std::uint32_t asks)
{
    std::uint32_t& known = pass[pack.value];
    known = known == never || known == asks ? asks : several;
}

bool StepIndex::isInSeveralPasses(const Call& call) const
{
    std::uint32_t known = never;
    for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack) {
        if (pass[pack] == never)
            continue;
        if (pass[pack] == several || (known != never && known != pass[pack]))
            return true;
        known = pass[pack];
    }
    return false;
}

void StepIndex::findMemoryEvents(const StepTrace& trace, const std::vector<bool>& permanent)
{
    const auto end = static_cast<std::uint32_t>(trace.events.size());
    const auto concerns = [&](EventKind kind, std::uint32_t a) {
        switch (kind) {
        case EventKind::pack:
        case EventKind::unpackEnd:
        case EventKind::release:
            // Unpacks are kept, since an unpack may start a recomputation. Another holder of a permanent storage
            // changes nothing.
            return trace.packs.storage[PackId(a)].valid() && !permanent[trace.packs.storage[PackId(a)].value];
        case EventKind::exit:
        case EventKind::backwardEnter:
        case EventKind::backwardExit:
            return false;
        default:
            return true;
        }
    };
    memoryEvents.reserve(end);
    for (std::uint32_t event = 0; event < end; ++event)
        if (concerns(trace.events.kind[EventIndex(event)], trace.events.a[EventIndex(event)]))
            memoryEvents.push_back(event);
    memoryEvents.shrink_to_fit();
}

} // namespace headroom
