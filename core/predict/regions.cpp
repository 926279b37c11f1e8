// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/regions.h"

#include "core/base/try.h"

#include <algorithm>
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
        if (const CheckpointObstacle obstacle = index.obstacles[region.module.value];
            obstacle != CheckpointObstacle::none)
            return badInput(nameOf(trace, region.module)
                            + " cannot be checkpointed: " + std::string(obstacleText(obstacle)));
        chosen.push_back(region.module);
    }
    std::ranges::sort(chosen);
    if (const auto twice = std::ranges::adjacent_find(chosen); twice != chosen.end())
        return badInput("the plan names " + nameOf(trace, *twice) + " twice");
    const auto nest = [&](ModuleId outer, ModuleId inner) {
        return badInput("checkpointed modules may not contain one another: " + nameOf(trace, inner) + " is inside "
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

/// Marks the ops that a region saves in each call. CheckpointRegion::save is about the ops of a single call; in a call
/// with other ops, the flags apply to ops of equal RegionOpName. A call that packs nothing ran without gradients:
/// checkpoint has no effect there, and no cache exists.
Status markSaved(const StepTrace& trace, const StepIndex& index, const CheckpointRegion& region, std::uint32_t end,
                 std::vector<bool>& saved)
{
    const auto calls = callsBefore(index, region.module, end);
    if (region.save.empty() || calls.empty())
        return {};
    const CallId deciding = decidingCall(index, region.module);
    const std::vector<OpId> first = countedOps(trace, index.calls[deciding.value]);
    if (first.size() != region.save.size())
        return badInput("the plan decides on " + std::to_string(region.save.size()) + " ops of "
                        + nameOf(trace, region.module) + ", but its forward runs " + std::to_string(first.size()));
    saved.resize(trace.ops.size(), false);
    const auto packs = [&](CallId call) { return index.calls[call.value].saves(); };
    if (std::ranges::count_if(calls, packs) == 1 && packs(deciding)) {
        for (std::size_t i = 0; i < first.size(); ++i)
            saved[first[i].value] = region.save[i];
        return {};
    }
    std::set<RegionOpName> names;
    const auto firstNames = regionOpNames(trace, first);
    for (std::size_t i = 0; i < first.size(); ++i)
        if (region.save[i])
            names.insert(firstNames[i]);
    for (const CallId id : calls) {
        const StepIndex::Call& call = index.calls[id.value];
        if (!call.saves())
            continue;
        const std::vector<OpId> ops = countedOps(trace, call);
        const auto callNames = regionOpNames(trace, ops);
        for (std::size_t i = 0; i < ops.size(); ++i)
            saved[ops[i].value] = names.contains(callNames[i]);
    }
    return {};
}

} // namespace

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
    for (const CheckpointRegion& region : plan) {
        for (const CallId call : callsBefore(index, region.module, end))
            result.regions.push_back(regionOf(index, call));
        RETURN_IF_ERROR(markSaved(trace, index, region, end, result.saved));
    }
    std::ranges::sort(result.regions, {}, &Region::enter);
    return result;
}

} // namespace headroom
