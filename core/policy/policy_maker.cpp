// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/policy_maker.h"

#include "core/base/try.h"
#include "core/plan/op_policy.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace headroom {
namespace {

/// Adds the bytes of a storage to the events from `begin` to `end` before autograd unpacks the storage and after
/// autograd has released the storage. `changes`, by event, are summed up later.
void addWithoutAutograd(const StepTrace& trace, const StorageEvents& events, StorageId storage, std::uint32_t begin,
                        std::uint32_t end, std::vector<Bytes>& changes)
{
    std::uint32_t asked = end;
    std::uint32_t released = end;
    for (const std::uint32_t event : events.of(storage)) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        if (kind == EventKind::unpack)
            asked = std::min(asked, event);
        else if (kind == EventKind::release)
            released = event;
    }
    const auto add = [&](std::uint32_t first, std::uint32_t after) {
        if (first >= after)
            return;
        changes[first] += trace.storages.bytes[storage];
        changes[after] -= trace.storages.bytes[storage];
    };
    add(begin, asked);
    add(std::max(released, asked), end);
}

} // namespace

std::vector<Bytes> castsThatMayBeGone(const StepModel& model, const StorageEvents& events)
{
    const StepTrace& trace = *model.trace();
    const std::vector<OpId>& casts = model.index().casts;
    std::vector<Bytes> gone;
    std::uint32_t firstUnpack = StepIndex::never; // since the oldest open cast
    std::vector<bool> open(casts.size(), false); // live casts
    std::size_t openCount = 0;
    for (std::uint32_t event = 0; !casts.empty() && event < trace.events.size(); ++event) {
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        const EventKind kind = trace.events.kind[EventIndex(event)];
        if (kind == EventKind::unpack && openCount > 0)
            firstUnpack = std::min(firstUnpack, event);
        else if (kind == EventKind::alloc && casts[a].valid()) {
            open[a] = true;
            ++openCount;
        } else if (kind == EventKind::free && casts[a].valid() && open[a]) {
            open[a] = false;
            --openCount;
            if (firstUnpack != StepIndex::never) {
                gone.resize(trace.events.size(), 0);
                addWithoutAutograd(trace, events, StorageId(a), firstUnpack, event, gone);
            }
            if (openCount == 0)
                firstUnpack = StepIndex::never;
        }
    }
    std::partial_sum(gone.begin(), gone.end(), gone.begin());
    return gone;
}

namespace {

bool hasIndex(const StepTrace& trace, OpId op)
{
    return (trace.ops.flags[op] & opWithoutIndex) == 0;
}

/// Marks ops that PyTorch cannot save as always recomputed, together with all ops of the same decision.
void forbidSaving(SacStats& stats, const std::vector<bool>& savable)
{
    for (std::size_t op = 0; op < savable.size(); ++op)
        if (!savable[op])
            stats.viewLikeOps.push_back(static_cast<int>(op));
    std::erase_if(stats.inplaceOps, [](const auto& pair) { return pair.first == pair.second; });
    if (stats.forceStoreRandom)
        std::erase_if(stats.randOps, [&](int op) { return !savable[static_cast<std::size_t>(op)]; });
}

/// The share of a module's memory that a plan keeps, at least that of the ops that must be saved.
double keptShare(const SacStats& stats, double discardRatio)
{
    const Bytes all = std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
    Bytes forced = 0;
    if (stats.forceStoreRandom)
        for (const int op : stats.randOps)
            forced += stats.memory[static_cast<std::size_t>(op)];
    const double least = all > 0 ? static_cast<double>(forced) / static_cast<double>(all) : 0;
    return std::clamp(1 - discardRatio, least, 1.0);
}

/// Class names from the model to a module inside.
std::vector<std::string> typesOf(const StepTrace& trace, ModuleId module)
{
    std::vector<std::string> types;
    for (; module.valid(); module = trace.modules.parent[module])
        types.emplace_back(trace.moduleType(module));
    if (hasSeveralModels(trace))
        types.pop_back();
    std::ranges::reverse(types);
    return types;
}

/// The models of a step that has several.
std::vector<std::string> objectsOf(const StepTrace& trace)
{
    std::vector<std::string> objects;
    for (std::uint32_t i = 1; hasSeveralModels(trace) && i < trace.modules.size(); ++i)
        if (trace.modules.parent[ModuleId(i)] == ModuleId(0))
            objects.emplace_back(policyFqn(trace, ModuleId(i)));
    return objects;
}

/// Policy::objectsLeft of a plan's regions.
std::vector<std::string> objectsLeft(const StepModel& model, const CheckpointPlan& regions)
{
    const StepTrace& trace = *model.trace();
    const auto objectOf = [&](ModuleId module) {
        const std::string_view fqn = policyFqn(trace, module);
        return std::string(fqn.substr(0, fqn.find('.')));
    };
    std::set<std::string> planned, saving;
    for (const CheckpointRegion& region : regions)
        planned.insert(objectOf(region.module));
    for (std::uint32_t i = 0; i < trace.calls.size(); ++i)
        if (model.index().calls[i].saves())
            saving.insert(objectOf(trace.calls.module[CallId(i)]));
    std::vector<std::string> left;
    std::ranges::copy_if(objectsOf(trace), std::back_inserter(left), [&](const std::string& object) {
        return saving.contains(object) && !planned.contains(object);
    });
    return left;
}

/// Policy::memoryReaders, as noted by the recorder: names with commas in between.
std::vector<std::string> memoryReaders(const StepTrace& trace)
{
    constexpr std::string_view separator = ", ";
    const std::string_view noted = trace.info.setting("memory read in");
    const ModuleNames names = moduleNames(trace);
    std::vector<std::string> readers;
    for (std::size_t begin = 0; begin < noted.size();) {
        const std::size_t end = std::min(noted.find(separator, begin), noted.size());
        if (const auto module = names.find(std::string(noted.substr(begin, end - begin))); module != names.end())
            readers.emplace_back(policyFqn(trace, module->second));
        begin = end + separator.size();
    }
    return readers;
}

} // namespace

ModuleNames moduleNames(const StepTrace& trace)
{
    ModuleNames names;
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module)
        names.emplace(trace.moduleFqn(ModuleId(module)), ModuleId(module));
    for (std::uint32_t module = 0; hasSeveralModels(trace) && module < trace.modules.size(); ++module)
        names.emplace(policyFqn(trace, ModuleId(module)), ModuleId(module));
    return names;
}

bool hasSeveralModels(const StepTrace& trace)
{
    // A model's own name is the class name, as the recorder wrote the name.
    return trace.modules.size() > 0 && trace.moduleFqn(ModuleId(0)) == "models"
        && trace.moduleType(ModuleId(0)) == "Models";
}

PolicyMaker::PolicyMaker(StepModel model)
    : model_(std::move(model))
    , names_(moduleNames(*model_.trace()))
    , records_(recordModules(*model_.trace()))
    , sac_(*model_.trace(), records_)
{
}

/// Chooses the ops of a module to save. Statistics are of the module's last call, the region's ops of the first call;
/// both are matched by RegionOpName.
Result<CheckpointRegion> PolicyMaker::choose(ModuleId module, double discardRatio) const
{
    const StepTrace& trace = *model_.trace();
    const std::vector<OpId> ops = model_.regionOps(module);
    CheckpointRegion region{module, std::vector<bool>(ops.size(), false)};
    if (discardRatio >= 1) // saves nothing, not even the module's result (free in the statistics)
        return region;
    const std::vector<bool> savable = model_.savableOps(module);
    std::map<RegionOpName, std::size_t> places;
    const std::vector<RegionOpName> names = regionOpNames(trace, ops);
    for (std::size_t place = 0; place < names.size(); ++place)
        places.emplace(names[place], place);

    SacStats stats = sac_.stats(module, StepSac::Names::with);
    std::vector<std::size_t> placeOf;
    std::vector<bool> statsSavable;
    const std::vector<OpId> statsOps = sac_.ops(module);
    std::vector<OpId> indexed;
    std::ranges::copy_if(statsOps, std::back_inserter(indexed), [&](OpId op) { return hasIndex(trace, op); });
    const std::vector<RegionOpName> statsNames = regionOpNames(trace, indexed);
    auto name = statsNames.begin();
    for (const OpId op : statsOps) {
        const auto found = hasIndex(trace, op) ? places.find(*name) : places.end();
        name += hasIndex(trace, op) ? 1 : 0;
        placeOf.push_back(found != places.end() ? found->second : ops.size());
        statsSavable.push_back(found != places.end() && savable[found->second]);
    }
    forbidSaving(stats, statsSavable);
    const Result<OpPolicy> policy = opPolicy(stats, keptShare(stats, discardRatio));
    if (!policy)
        return Error{policy.error().kind, std::string(trace.moduleFqn(module)) + ": " + policy.error().message};
    for (std::size_t op = 0; op < placeOf.size(); ++op)
        if (policy->save[op])
            region.save[placeOf[op]] = true;
    return region;
}

Result<CheckpointPlan> PolicyMaker::regions(const Plan& plan) const
{
    if (plan.status == PlanStatus::infeasible || plan.status == PlanStatus::stopped)
        return badInput("a plan with the status " + std::string(planStatusName(plan.status))
                        + " gives no policy: expected a plan that fits the budget");
    std::map<ModuleId, double> decisions; // in the model's order, not the alphabet's
    for (const auto& [fqn, ratio] : plan.decisions) {
        const auto found = names_.find(fqn);
        if (found == names_.end())
            return badInput("the plan checkpoints module `" + fqn + "`, but the step has no such module");
        decisions.emplace(found->second, ratio);
    }
    CheckpointPlan regions;
    for (const auto& [module, ratio] : decisions) {
        ASSIGN_OR_RETURN(CheckpointRegion region, choose(module, ratio));
        regions.push_back(std::move(region));
    }
    return regions;
}

std::map<std::string, double> decisionsOf(const StepTrace& trace, const CheckpointPlan& regions,
                                          std::span<const ModuleEffect> effects)
{
    std::map<std::string, double> decisions;
    for (const CheckpointRegion& region : regions)
        if (!region.offload)
            decisions.emplace(trace.moduleFqn(region.module), discardedShare(effects[region.module.value]));
    return decisions;
}

std::optional<Policy::Moves> movesOf(const StepModel& model, const CheckpointRegion& region)
{
    if (!region.offload)
        return std::nullopt;
    const std::vector<bool> moved = movedPacksOf(*model.trace(), model.index(), region.module);
    const Offload& when = *region.offload;
    Policy::Moves moves{when.wait, when.ahead, {}, static_cast<int>(moved.size()), when.prefetch, when.afterUnpacks};
    for (std::size_t pack = 0; pack < moved.size(); ++pack)
        if (moved[pack] && region.offload->moves)
            moves.tensors.push_back(static_cast<int>(pack));
    return moves;
}

Policy policyOf(const StepModel& model, const CheckpointPlan& regions, const Plan& plan)
{
    const StepTrace& trace = *model.trace();
    Policy policy;
    policy.model = trace.info.model;
    policy.torch = trace.info.torch;
    policy.budget = plan.budget;
    policy.worldSize = plan.worldSize;
    policy.predicted = {plan.peak, plan.recomputeMs, plan.gap};
    policy.objects = objectsOf(trace);
    policy.objectsLeft = objectsLeft(model, regions);
    policy.memoryReaders = memoryReaders(trace);
    for (const CheckpointRegion& region : regions) {
        Policy::Module entry{std::string(policyFqn(trace, region.module)), 0, {}, typesOf(trace, region.module)};
        for (const std::string& name : {entry.fqn, std::string(trace.moduleFqn(region.module))})
            if (const auto decision = plan.decisions.find(name); decision != plan.decisions.end())
                entry.discardRatio = decision->second;
        entry.offload = movesOf(model, region);
        if (region.hosted && region.hosted->arguments)
            entry.arguments = movedArgumentsOf(trace, model.index(), region.module);
        const auto isHosted = [&region](std::size_t op) {
            return region.hosted && op < region.hosted->ops.size() && region.hosted->ops[op];
        };
        const std::vector<RegionOpName> names = regionOpNames(trace, model.regionOps(region.module));
        for (std::size_t op = 0; op < names.size(); ++op)
            entry.ops.push_back({std::string(trace.strings[names[op].op]), names[op].index,
                                 !region.save.empty() && region.save[op], isHosted(op)});
        if (!entry.arguments.empty() || std::ranges::any_of(entry.ops, &Policy::Op::offload))
            entry.hosted = region.hosted->when;
        policy.modules.push_back(std::move(entry));
    }
    if (const auto held = model.heldBytes(regions); held && plan.worldSize == 1)
        for (std::size_t region = 0; region < regions.size(); ++region)
            policy.modules[region].held = (*held)[region];
    return policy;
}

Result<Policy> makePolicy(const StepTrace& trace, const Plan& plan)
{
    const PolicyMaker maker{StepModel(trace)};
    ASSIGN_OR_RETURN(const CheckpointPlan regions, maker.regions(plan));
    return policyOf(maker.model(), regions, plan);
}

} // namespace headroom
