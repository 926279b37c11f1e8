// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/regions.h"

#include "core/base/try.h"
#include "core/trace/life_category.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

namespace headroom {

namespace {

std::string nameOf(const StepTrace& trace, ModuleId module)
{
    return std::string(trace.moduleFqn(module));
}

/// Refuses modules that cannot be checkpointed, that the plan names twice, or that lie inside another module of the
/// plan. The time depends on the plan, not on the step, since thousands of small plans are laid out on each part of a
/// step.
Status refuse(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    std::vector<ModuleId> chosen;
    chosen.reserve(plan.size());
    for (const CheckpointRegion& region : plan) {
        if (region.module.value >= trace.modules.size())
            return badInput("the plan names module number " + std::to_string(region.module.value)
                            + ", but the step has " + std::to_string(trace.modules.size()));
        const CheckpointObstacle toOffload = index.obstaclesToOffload[region.module.value];
        const CheckpointObstacle obstacle = region.offload ? toOffload : index.obstacles[region.module.value];
        if (obstacle != CheckpointObstacle::none)
            return badInput(nameOf(trace, region.module) + " cannot be "
                            + (region.offload ? "offloaded: " : "checkpointed: ")
                            + std::string(obstacleText(obstacle)));
        if (region.hosted && toOffload != CheckpointObstacle::none)
            return badInput("what " + nameOf(trace, region.module)
                            + " keeps cannot be offloaded: " + std::string(obstacleText(toOffload)));
        chosen.push_back(region.module);
    }
    std::ranges::sort(chosen);
    if (const auto twice = std::ranges::adjacent_find(chosen); twice != chosen.end())
        return badInput("the plan names " + nameOf(trace, *twice) + " twice");
    const auto nest = [&](ModuleId outer, ModuleId inner) {
        return badInput("a checkpointed module may not contain another: " + nameOf(trace, inner) + " is inside "
                        + nameOf(trace, outer));
    };
    const auto isChosen = [&](ModuleId module) { return std::ranges::binary_search(chosen, module); };
    for (const ModuleId module : chosen)
        for (ModuleId m = trace.modules.parent[module]; m.valid(); m = trace.modules.parent[m])
            if (isChosen(m))
                return nest(m, module);
    // Calls may nest where modules do not, and a module may call itself.
    for (const ModuleId module : chosen)
        for (const CallId call : index.callsOf[module.value])
            for (CallId c = trace.calls.parent[call]; c.valid(); c = trace.calls.parent[c])
                if (isChosen(trace.calls.module[c]))
                    return nest(trace.calls.module[c], module);
    return {};
}

std::span<const CallId> callsBefore(const StepIndex& index, ModuleId module, std::uint32_t end)
{
    const std::vector<CallId>& calls = index.callsOf[module.value];
    const auto begins = [&](CallId call) { return index.calls[call.value].enter < end; };
    return {calls.begin(), std::ranges::partition_point(calls, begins)};
}

/// Sets the flags of a module's ops in each call: `chosen`, CheckpointRegion::save or the hosted ops, is about the ops
/// of a single call; in a call with other ops, the flags apply to ops of equal RegionOpName. A call that packs nothing
/// ran without gradients: checkpoint has no effect there, and no cache exists.
Status markOps(const StepTrace& trace, const StepIndex& index, ModuleId module, const std::vector<bool>& chosen,
               std::uint32_t end, std::vector<bool>& flags)
{
    const auto calls = callsBefore(index, module, end);
    if (chosen.empty() || calls.empty())
        return {};
    const CallId deciding = decidingCall(index, module);
    const std::vector<OpId> first = countedOps(trace, index.calls[deciding.value]);
    if (first.size() != chosen.size())
        return badInput("the plan decides on " + std::to_string(chosen.size()) + " ops of " + nameOf(trace, module)
                        + ", but the forward runs " + std::to_string(first.size()));
    flags.resize(trace.ops.size(), false);
    const auto packs = [&](CallId call) { return index.calls[call.value].saves(); };
    if (std::ranges::count_if(calls, packs) == 1 && packs(deciding)) {
        for (std::size_t i = 0; i < first.size(); ++i)
            flags[first[i].value] = chosen[i];
        return {};
    }
    std::set<RegionOpName> names;
    const auto firstNames = regionOpNames(trace, first);
    for (std::size_t i = 0; i < first.size(); ++i)
        if (chosen[i])
            names.insert(firstNames[i]);
    for (const CallId id : calls) {
        const StepIndex::Call& call = index.calls[id.value];
        if (!call.saves())
            continue;
        const std::vector<OpId> ops = countedOps(trace, call);
        const auto callNames = regionOpNames(trace, ops);
        for (std::size_t i = 0; i < ops.size(); ++i)
            flags[ops[i].value] = names.contains(callNames[i]);
    }
    return {};
}

/// Marks the ops that a region saves and hosts in each call.
Status markOps(const StepTrace& trace, const StepIndex& index, const CheckpointRegion& region, std::uint32_t end,
               std::vector<bool>& saved, std::vector<bool>& hosted)
{
    RETURN_IF_ERROR(markOps(trace, index, region.module, region.save, end, saved));
    if (!region.hosted)
        return {};
    const std::vector<bool>& ops = region.hosted->ops;
    for (std::size_t i = 0; i < ops.size(); ++i)
        if (ops[i] && (i >= region.save.size() || !region.save[i]))
            return badInput("the plan sends outputs of " + nameOf(trace, region.module)
                            + " to the host, but does not save the outputs");
    return markOps(trace, index, region.module, ops, end, hosted);
}

/// Tensors of less than this share of the largest one of a call stay on the device: a copy costs time of the CPU, too.
constexpr Bytes leastShareMoved = 64;
constexpr Bytes leastMoved = 512; ///< bytes
constexpr Bytes leastMovedOutput = 1024; ///< of a hosted op, or an argument; a simulated card has blocks of 512

/// Whether nothing but the saved tensors of a call keeps a storage on the device between forward and backward.
bool mayMove(const StepTrace& trace, const StepIndex& index, const StepIndex::Call& call, StorageId storage,
             std::uint32_t firstUnpack)
{
    if (!storage.valid() || isOfModel(trace.storages.category[storage]) || index.resized[storage.value]
        || index.freeEvent[storage.value] >= firstUnpack)
        return false;
    const PackId first = index.firstPackOf[storage.value];
    return !first.valid() || (first.value >= call.firstPack && index.lastPackOf[storage.value].value < call.endPack);
}

/// The same for an argument of a checkpointed call.
bool mayMoveArgument(const StepTrace& trace, const StepIndex& index, const StepIndex::Call& call, StorageId storage,
                     std::uint32_t firstUnpack)
{
    const StepIndex::Call& first = index.calls[index.firstTaker[storage.value].value];
    const StepIndex::Call& last = index.calls[index.lastTaker[storage.value].value];
    const bool isOfOthers = first.exit < call.exit || last.enter > call.exit;
    const OpId made = index.allocatedIn[storage.value];
    return !isOfOthers && made.valid() && made.value < call.firstOp
        && mayMove(trace, index, call, storage, firstUnpack);
}

std::vector<bool> mayMove(const StepTrace& trace, const StepIndex& index, const StepIndex::Call& call)
{
    const std::uint32_t firstUnpack = firstUnpackOf(index, call);
    std::vector<bool> may;
    may.reserve(call.endPack - call.firstPack);
    for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
        may.push_back(mayMove(trace, index, call, trace.packs.storage[PackId(pack)], firstUnpack));
    return may;
}

/// Adds the storages that the hosted ops of a region move. `hosted`: by op.
void addMovedOutputs(const StepTrace& trace, const StepIndex& index, std::uint32_t number,
                     const std::vector<bool>& hosted, Regions& result)
{
    const Region& region = result.regions[number];
    for (std::uint32_t op = region.firstOp; op < region.endOp && op < hosted.size(); ++op)
        if (hosted[op])
            for (const StorageId storage : movedOutputsOf(trace, index, OpId(op))) {
                result.movedOutputs.emplace_back(OpId(op), static_cast<std::uint32_t>(result.moved.size()));
                result.moved.push_back({storage, number});
            }
}

/// The different storages among the arguments of a call, in order.
std::vector<StorageId> argumentsOf(const StepTrace& trace, CallId call)
{
    std::vector<StorageId> arguments;
    for (const StorageId storage : trace.calls.arguments[call])
        if (std::ranges::find(arguments, storage) == arguments.end())
            arguments.push_back(storage);
    return arguments;
}

/// Numbers the calls, and finds the storages that the calls move, and when. `regions` are in the order of the calls;
/// `hosted`: by op.
void findMoved(const StepTrace& trace, const StepIndex& index, const std::vector<bool>& hosted, Regions& result)
{
    std::map<ModuleId, std::vector<bool>> moved;
    std::map<ModuleId, std::vector<int>> movedArguments;
    for (std::uint32_t number = 0; number < result.regions.size(); ++number) {
        Region& region = result.regions[number];
        if (region.firstPack == region.endPack)
            continue;
        region.number = static_cast<std::uint32_t>(result.numbered.size());
        result.numbered.push_back(number);
        region.firstMoved = region.endArguments = region.endMoved = static_cast<std::uint32_t>(result.moved.size());
        const ModuleId module = trace.calls.module[region.call];
        if (region.hostsArguments) {
            const auto [known, added] = movedArguments.try_emplace(module);
            if (added)
                known->second = movedArgumentsOf(trace, index, module);
            for (const StorageId argument : argumentsOf(trace, region.call, known->second))
                result.moved.push_back({argument, number});
            region.endArguments = region.endMoved = static_cast<std::uint32_t>(result.moved.size());
        }
        if (region.hosted) {
            addMovedOutputs(trace, index, number, hosted, result);
            region.endMoved = static_cast<std::uint32_t>(result.moved.size());
        }
        if (!region.offload || !region.offload->moves)
            continue;
        const auto [known, added] = moved.try_emplace(module);
        if (added)
            known->second = movedPacksOf(trace, index, module);
        if (known->second.size() != region.endPack - region.firstPack)
            continue;
        std::map<StorageId, std::uint32_t> places;
        for (std::uint32_t pack = region.firstPack; pack < region.endPack; ++pack) {
            if (!known->second[pack - region.firstPack])
                continue;
            const StorageId storage = trace.packs.storage[PackId(pack)];
            const auto [place, isNew] = places.emplace(storage, static_cast<std::uint32_t>(result.moved.size()));
            if (isNew)
                result.moved.push_back({storage, number});
            result.movedPacks.emplace_back(pack, place->second);
        }
        region.endMoved = static_cast<std::uint32_t>(result.moved.size());
    }
    for (Region& region : result.regions)
        if (const std::size_t last
            = region.moves() ? region.number + static_cast<std::size_t>(region.moves()->wait) : result.numbered.size();
            last < result.numbered.size())
            region.leave = index.calls[result.regions[result.numbered[last]].call.value].exit;
    for (Region& region : result.regions)
        if (region.moves() && region.moves()->afterUnpacks > 0)
            if (const std::size_t with = region.number + static_cast<std::size_t>(region.moves()->ahead);
                with < result.numbered.size()) {
                const Region& later = result.regions[result.numbered[with]];
                const std::vector<std::uint32_t> unpacks = unpacksOf(index, later.firstPack, later.endPack);
                if (const auto after = static_cast<std::size_t>(region.moves()->afterUnpacks); after < unpacks.size())
                    region.back = unpacks[after];
            }
}

} // namespace

std::uint32_t firstUnpackOf(const StepIndex& index, const StepIndex::Call& call)
{
    std::uint32_t first = StepIndex::never;
    for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
        first = std::min(first, index.unpackEvent[pack]);
    return first;
}

std::vector<std::uint32_t> unpacksOf(const StepIndex& index, std::uint32_t firstPack, std::uint32_t endPack)
{
    std::vector<std::uint32_t> events(index.unpackEvent.begin() + firstPack, index.unpackEvent.begin() + endPack);
    std::erase(events, StepIndex::never);
    std::ranges::sort(events);
    return events;
}

std::vector<bool> movedPacksOf(const StepTrace& trace, const StepIndex& index, ModuleId module)
{
    const CallId deciding = decidingCall(index, module);
    if (!deciding.valid())
        return {};
    const StepIndex::Call& first = index.calls[deciding.value];
    std::vector<bool> moved = mayMove(trace, index, first);
    for (const CallId id : index.callsOf[module.value]) {
        const StepIndex::Call& call = index.calls[id.value];
        if (id == deciding || call.endPack - call.firstPack != moved.size())
            continue;
        const std::vector<bool> may = mayMove(trace, index, call);
        for (std::size_t pack = 0; pack < moved.size(); ++pack)
            moved[pack] = moved[pack] && may[pack];
    }
    const auto bytesOf = [&](std::size_t pack) {
        return trace.storages.bytes[trace.packs.storage[PackId(first.firstPack + static_cast<std::uint32_t>(pack))]];
    };
    Bytes largest = 0;
    for (std::size_t pack = 0; pack < moved.size(); ++pack)
        if (moved[pack])
            largest = std::max(largest, bytesOf(pack));
    for (std::size_t pack = 0; pack < moved.size(); ++pack)
        moved[pack] = moved[pack] && bytesOf(pack) >= std::max(leastMoved, largest / leastShareMoved);
    return moved;
}

std::vector<StorageId> argumentsOf(const StepTrace& trace, CallId call, const std::vector<int>& numbers)
{
    const std::vector<StorageId> all = argumentsOf(trace, call);
    std::vector<StorageId> arguments;
    for (const int number : numbers)
        if (const auto place = static_cast<std::size_t>(number); place < all.size())
            arguments.push_back(all[place]);
    return arguments;
}

std::vector<int> movedArgumentsOf(const StepTrace& trace, const StepIndex& index, ModuleId module)
{
    const CallId deciding = decidingCall(index, module);
    if (!deciding.valid() || !index.calls[deciding.value].saves())
        return {};
    const std::vector<StorageId> first = argumentsOf(trace, deciding);
    std::vector<bool> may(first.size(), true);
    for (const CallId id : index.callsOf[module.value]) {
        const StepIndex::Call& call = index.calls[id.value];
        if (!call.saves())
            continue;
        const std::vector<StorageId> arguments = argumentsOf(trace, id);
        const std::uint32_t firstUnpack = firstUnpackOf(index, call);
        for (std::size_t i = 0; i < first.size(); ++i)
            may[i] = may[i] && i < arguments.size() && mayMoveArgument(trace, index, call, arguments[i], firstUnpack);
    }
    Bytes largest = 0;
    for (std::size_t i = 0; i < first.size(); ++i)
        if (may[i])
            largest = std::max(largest, trace.storages.bytes[first[i]]);
    std::vector<int> moved;
    for (std::size_t i = 0; i < first.size(); ++i)
        if (may[i] && trace.storages.bytes[first[i]] >= std::max(leastMovedOutput, largest / leastShareMoved))
            moved.push_back(static_cast<int>(i));
    return moved;
}

std::vector<StorageId> movedOutputsOf(const StepTrace& trace, const StepIndex& index, OpId op)
{
    std::vector<StorageId> made;
    Bytes largest = 0;
    for (const StorageId storage : trace.ops.outputs[op])
        if (index.allocatedIn[storage.value] == op && std::ranges::find(made, storage) == made.end()) {
            made.push_back(storage);
            largest = std::max(largest, trace.storages.bytes[storage]);
        }
    std::erase_if(made, [&](StorageId storage) {
        return trace.storages.bytes[storage] < std::max(leastMovedOutput, largest / leastShareMoved);
    });
    return made;
}

std::vector<bool> hostableOps(const StepTrace& trace, const StepIndex& index, ModuleId module)
{
    const CallId deciding = decidingCall(index, module);
    if (!deciding.valid())
        return {};
    const auto mayBeHosted = [&](const StepIndex::Call& call, std::uint32_t firstUnpack, OpId op) {
        const std::vector<StorageId> moved = movedOutputsOf(trace, index, op);
        return !moved.empty() && std::ranges::all_of(moved, [&](StorageId storage) {
            return !index.mutated[storage.value] && mayMove(trace, index, call, storage, firstUnpack);
        });
    };
    std::map<RegionOpName, bool> may;
    for (const CallId id : index.callsOf[module.value]) {
        const StepIndex::Call& call = index.calls[id.value];
        if (!call.saves())
            continue;
        const std::uint32_t firstUnpack = firstUnpackOf(index, call);
        const std::vector<OpId> ops = countedOps(trace, call);
        const auto names = regionOpNames(trace, ops);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            bool& all = may.try_emplace(names[i], true).first->second;
            all = all && mayBeHosted(call, firstUnpack, ops[i]);
        }
    }
    std::vector<bool> hostable;
    for (const RegionOpName& name : regionOpNames(trace, countedOps(trace, index.calls[deciding.value])))
        hostable.push_back(may[name]);
    return hostable;
}

Region regionOf(const StepIndex& index, CallId id)
{
    const StepIndex::Call& call = index.calls[id.value];
    Region region{id, call.enter, call.enter, call.exit, call.firstPack, call.endPack, call.firstOp, call.endOp};
    for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
        region.end = std::max(region.end, index.releaseEvent[pack]);
    if (call.saves())
        region.stop = index.packEvent[call.endPack - 1];
    return region;
}

CallId decidingCall(const StepIndex& index, ModuleId module)
{
    if (module.value >= index.callsOf.size() || index.callsOf[module.value].empty())
        return {};
    const auto& calls = index.callsOf[module.value];
    const auto packs = [&](CallId call) { return index.calls[call.value].saves(); };
    const auto found = std::ranges::find_if(calls, packs);
    return found == calls.end() ? calls.front() : *found;
}

std::vector<RegionOpName> regionOpNames(const StepTrace& trace, std::span<const OpId> ops)
{
    std::unordered_map<StringId, int> counts;
    std::vector<RegionOpName> names;
    names.reserve(ops.size());
    for (const OpId op : ops)
        names.push_back({trace.ops.name[op], counts[trace.ops.name[op]]++});
    return names;
}

std::vector<OpId> countedOps(const StepTrace& trace, const StepIndex::Call& call)
{
    std::vector<OpId> ops;
    for (std::uint32_t op = call.firstOp; op < call.endOp; ++op)
        if ((trace.ops.flags[OpId(op)] & opWithoutIndex) == 0)
            ops.emplace_back(op);
    return ops;
}

Result<Regions> layOut(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan, std::uint32_t end)
{
    RETURN_IF_ERROR(refuse(trace, index, plan));
    Regions result;
    std::vector<bool> hosted; // by op
    for (const CheckpointRegion& region : plan) {
        for (const CallId call : callsBefore(index, region.module, end)) {
            result.regions.push_back(regionOf(index, call));
            result.regions.back().offload = region.offload;
            if (region.hosted) {
                result.regions.back().hosted = region.hosted->when;
                result.regions.back().hostsArguments = region.hosted->arguments;
            }
        }
        if (!region.offload)
            RETURN_IF_ERROR(markOps(trace, index, region, end, result.saved, hosted));
    }
    std::ranges::sort(result.regions, {}, &Region::enter);
    if (std::ranges::any_of(plan, [](const CheckpointRegion& region) { return region.offload || region.hosted; }))
        findMoved(trace, index, hosted, result);
    return result;
}

} // namespace headroom
