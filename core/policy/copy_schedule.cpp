// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_problem.h"
#include "core/policy/offload_copies.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <span>
#include <utility>

namespace headroom {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr int mostMoments = 8; ///< of the backward of a call, at which copies may begin

/// By module: the position of the part that the module is, or is inside of; -1: none. Modules inside follow the outer
/// module.
std::vector<int> partPositions(const StepTrace& trace, const PartTree& tree)
{
    std::vector<int> positions(trace.modules.size(), -1);
    for (std::size_t part = 0; part < tree.parts.size(); ++part)
        positions[tree.units[static_cast<std::size_t>(tree.parts[part])].module.value] = static_cast<int>(part);
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module)
        if (const ModuleId parent = trace.modules.parent[ModuleId(module)];
            parent.valid() && positions[module] < 0 && positions[parent.value] >= 0)
            positions[module] = positions[parent.value];
    return positions;
}

} // namespace

ModulesAfter modulesAfter(const StepModel& model, const PartTree& tree)
{
    const StepTrace& trace = *model.trace();
    const StepIndex& index = model.index();
    const auto callsOf = [&](ModuleId module) { // none if some call saves nothing
        std::vector<const StepIndex::Call*> calls;
        for (const CallId id : index.callsOf[module.value])
            calls.push_back(&index.calls[id.value]);
        const bool all = std::ranges::all_of(calls, [](const StepIndex::Call* call) { return call->saves(); });
        return all ? calls : std::vector<const StepIndex::Call*>();
    };
    ModulesAfter after;
    if (tree.parts.empty())
        return after;
    const std::vector<const StepIndex::Call*> last
        = callsOf(tree.units[static_cast<std::size_t>(tree.parts.back())].module);
    after.calls.resize(last.size());
    std::vector<bool> inside(trace.modules.size(), false); // a module of the result, or inside one
    for (std::uint32_t number = 0; number < trace.modules.size(); ++number) { // outer modules come first
        const ModuleId module(number), parent = trace.modules.parent[module];
        inside[number] = parent.valid() && inside[parent.value];
        const std::vector<const StepIndex::Call*> calls = callsOf(module);
        if (inside[number] || last.empty() || calls.size() != last.size()
            || index.obstaclesToOffload[number] != CheckpointObstacle::none)
            continue;
        const auto isAfter = [&](const StepIndex::Call* call, const StepIndex::Call* of) {
            const std::uint32_t unpack = firstUnpackOf(index, *call);
            return call->enter >= of->exit && unpack > call->exit && unpack < firstUnpackOf(index, *of);
        };
        if (!std::ranges::equal(calls, last, isAfter))
            continue;
        inside[number] = true;
        after.modules.push_back(module);
        for (std::size_t i = 0; i < calls.size(); ++i) {
            after.calls[i].exit = std::max(after.calls[i].exit, calls[i]->exit);
            after.calls[i].firstUnpack = std::min(after.calls[i].firstUnpack, firstUnpackOf(index, *calls[i]));
        }
    }
    return after;
}

CopyLimits expectedLimits(const StepModel& model, const PartTree& tree)
{
    const StepTrace& trace = *model.trace();
    std::vector<int> positions = partPositions(trace, tree);
    for (const ModuleId module : modulesAfter(model, tree).modules)
        positions[module.value] = static_cast<int>(tree.parts.size()) - 1;
    CopyLimits limits;
    limits.link = hostLinkOf(trace.info);
    limits.forwardMs.assign(tree.parts.size(), 0);
    limits.backwardMs.assign(tree.parts.size(), 0);
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
        const ModuleId module = trace.ops.module[OpId(op)];
        const int position = module.valid() ? positions[module.value] : -1;
        const Phase phase = trace.ops.phase[OpId(op)];
        if (position < 0 || (phase != Phase::forward && phase != Phase::backward))
            continue;
        (phase == Phase::forward ? limits.forwardMs : limits.backwardMs)[static_cast<std::size_t>(position)]
            += trace.ops.ms[OpId(op)];
    }
    return limits;
}

CopySchedule::CopySchedule(const StepModel& model, const EventTimes& times, const PartTree& tree)
    : times_(&times)
    , link_(hostLinkOf(model.trace()->info))
    , after_(modulesAfter(model, tree))
    , parents_(model.trace()->modules.size())
    , partsIn_(model.trace()->modules.size())
    , positions_(partPositions(*model.trace(), tree))
    , calls_(model.trace()->modules.size())
{
    const StepTrace& trace = *model.trace();
    const StepIndex& index = model.index();
    for (std::uint32_t module = 0; module < parents_.size(); ++module)
        parents_[module] = trace.modules.parent[ModuleId(module)];
    for (const int part : tree.parts) {
        const ModuleId module = tree.units[static_cast<std::size_t>(part)].module;
        parts_.push_back(module);
    }
    for (const PartTree::Around& around : tree.around)
        for (int position = around.first; position < around.last; ++position)
            partsIn_[tree.units[static_cast<std::size_t>(around.unit)].module.value].push_back(position);
    std::vector<ModuleId> modules = after_.modules;
    for (const PartTree::Unit& unit : tree.units)
        modules.push_back(unit.module);
    for (const ModuleId module : modules) {
        if (!calls_[module.value].empty())
            continue;
        const bool moves = index.obstaclesToOffload[module.value] == CheckpointObstacle::none;
        const std::vector<bool> moved = moves ? movedPacksOf(trace, index, module) : std::vector<bool>();
        const std::vector<int> movedArguments = moves ? movedArgumentsOf(trace, index, module) : std::vector<int>();
        for (const CallId id : index.callsOf[module.value]) {
            const StepIndex::Call& call = index.calls[id.value];
            if (!call.saves())
                continue;
            Call own{call.enter, call.exit, firstUnpackOf(index, call), momentsOf(index, call, times), {}, {}};
            const std::vector<StorageId> arguments = argumentsOf(trace, id, movedArguments);
            for (const StorageId argument : std::views::reverse(arguments))
                own.arguments.push_back(
                    {call.enter, trace.storages.bytes[argument], times.gpuMs[call.exit] - times.gpuMs[call.enter], 0});
            std::map<StorageId, std::size_t> places;
            for (std::uint32_t pack = call.firstPack;
                 pack < call.endPack && moved.size() == call.endPack - call.firstPack; ++pack) {
                if (!moved[pack - call.firstPack])
                    continue;
                const StorageId storage = trace.packs.storage[PackId(pack)];
                const auto [place, isNew] = places.emplace(storage, own.copied.size());
                if (isNew)
                    own.copied.push_back({index.packEvent[pack], trace.storages.bytes[storage],
                                          times.gpuMs[call.exit] - times.gpuMs[index.packEvent[pack]], never});
                if (const std::uint32_t use = index.unpackEvent[pack]; use != StepIndex::never)
                    own.copied[place->second].useMs
                        = std::min(own.copied[place->second].useMs, times.gpuMs[use] - times.gpuMs[own.firstUnpack]);
            }
            calls_[module.value].push_back(std::move(own));
        }
    }
    const auto mayCount = [&](ModuleId module) {
        return !calls_[module.value].empty() && index.obstaclesToOffload[module.value] == CheckpointObstacle::none;
    };
    for (const int part : tree.parts) {
        std::vector<ModuleId>& counting = counting_.emplace_back();
        const PartTree::Unit& unit = tree.units[static_cast<std::size_t>(part)];
        for (const int inside : unit.inside)
            if (const ModuleId module = tree.units[static_cast<std::size_t>(inside)].module; mayCount(module))
                counting.push_back(module);
        if (counting.size() < 2)
            counting = mayCount(unit.module) ? std::vector{unit.module} : std::vector<ModuleId>();
    }
}

std::vector<CopySchedule::Moment> CopySchedule::momentsOf(const StepIndex& index, const StepIndex::Call& call,
                                                          const EventTimes& times)
{
    const std::vector<std::uint32_t> events = unpacksOf(index, call.firstPack, call.endPack);
    std::vector<Moment> moments;
    const auto msOf = [&](std::uint32_t event) { return times.gpuMs[event] - times.gpuMs[events.front()]; };
    for (std::size_t number = 0; number < events.size(); ++number)
        if (moments.empty() || msOf(events[number]) >= moments.back().ms + msOf(events.back()) / mostMoments)
            moments.push_back({events[number], msOf(events[number]), static_cast<int>(number)});
    return moments;
}

const std::vector<CopySchedule::Copied>* CopySchedule::Call::movedBy(const CheckpointRegion& region) const
{
    if (region.offload)
        return region.offload->moves ? &copied : nullptr;
    return region.hosted && region.hosted->arguments ? &arguments : nullptr;
}

std::vector<std::uint32_t> CopySchedule::copiesOf(const CheckpointPlan& plan) const
{
    std::vector<std::uint32_t> events;
    for (const CheckpointRegion& region : plan)
        if (const std::vector<Call>& calls = calls_[region.module.value]; !calls.empty())
            if (const std::vector<Copied>* const copied = calls.front().movedBy(region))
                std::ranges::transform(*copied, std::back_inserter(events), &Copied::pack);
    std::ranges::sort(events);
    return events;
}

CopyLimits::Own CopySchedule::ownOf(const CheckpointPlan& plan, ModuleId part) const
{
    CopyLimits::Own own;
    for (std::size_t number = 0; number < calls_[part.value].size(); ++number) {
        const Call& whole = calls_[part.value][number];
        std::vector<Moved> calls;
        for (const CheckpointRegion& region : plan) {
            const std::vector<Call>& ofRegion = calls_[region.module.value];
            if (ofRegion.empty() || !ofRegion.front().movedBy(region))
                continue;
            if (ofRegion.size() != calls_[part.value].size())
                return {};
            calls.emplace_back(&ofRegion[number], ofRegion[number].movedBy(region));
        }
        if (const std::vector<Call>& last = calls_[parts_.back().value]; last.size() == calls_[part.value].size()) {
            const auto [exit, firstUnpack] = after_.calls.empty() ? ModulesAfter::Calls() : after_.calls[number];
            const std::uint32_t end = std::max(exit, last[number].exit);
            const std::uint32_t begin = std::min(firstUnpack, last[number].firstUnpack);
            own.moreOutMs += std::max(0.0, times_->gpuMs[whole.exit] - times_->gpuMs[end]);
            if (whole.firstUnpack < begin)
                own.moreInMs += times_->gpuMs[begin] - times_->gpuMs[whole.firstUnpack];
        }
        own.tailMs += tailOf(whole, calls);
        own.leadMs += leadOf(whole, calls);
    }
    return own;
}

/// The time of copies that are left when the forward of `whole` ends.
double CopySchedule::tailOf(const Call& whole, std::vector<Moved> calls) const
{
    double streamMs = 0;
    std::ranges::sort(calls, {}, [](const Moved& moved) { return moved.first->enter; });
    for (const auto& [call, all] : calls)
        for (const Copied& copied : *all)
            streamMs = std::max(streamMs, times_->gpuMs[call->exit] - copied.packMs) + link_.msToHost(copied.bytes);
    return std::max(0.0, streamMs - times_->gpuMs[whole.exit]);
}

/// The time by which the copies back must begin before the backward of `whole`.
double CopySchedule::leadOf(const Call& whole, std::vector<Moved> calls) const
{
    double streamMs = whole.firstUnpack == StepIndex::never ? 0 : times_->gpuMs[whole.firstUnpack];
    double leadMs = 0;
    std::ranges::sort(calls, {}, [](const Moved& moved) { return moved.first->firstUnpack; });
    for (const auto& [call, all] : calls)
        for (const Copied& copied : std::views::reverse(*all)) {
            if (copied.useMs == never)
                continue;
            streamMs += link_.msFromHost(copied.bytes);
            leadMs = std::max(leadMs, streamMs - times_->gpuMs[call->firstUnpack] - copied.useMs);
        }
    return leadMs;
}

/// The plan with the other modules of the parts from the first part on that moves something, and with the modules after
/// the parts. Nothing of these modules moves, but the calls count (Offload::moves), so that a copy may take as long as
/// several calls.
CheckpointPlan CopySchedule::withCounted(CheckpointPlan plan) const
{
    std::vector<bool> isRegion(parents_.size(), false), hasRegion(parents_.size(), false); // by module
    int first = std::numeric_limits<int>::max();
    for (const CheckpointRegion& region : plan) {
        isRegion[region.module.value] = true;
        for (ModuleId module = region.module; module.valid(); module = parents_[module.value])
            hasRegion[module.value] = true;
        if (const int position = firstPositionOf(region.module); position >= 0 && (region.offload || region.hosted))
            first = std::min(first, position);
    }
    if (first == std::numeric_limits<int>::max())
        return plan;
    const std::size_t known = plan.size();
    const auto count = [&](ModuleId module) {
        bool isFree = !hasRegion[module.value];
        for (ModuleId outer = module; isFree && outer.valid(); outer = parents_[outer.value])
            isFree = !isRegion[outer.value];
        if (isFree)
            plan.push_back({module, {}, Offload{0, 0, false}});
    };
    for (auto position = static_cast<std::size_t>(first); position < counting_.size(); ++position)
        std::ranges::for_each(counting_[position], count);
    std::ranges::for_each(after_.modules, count);
    if (plan.size() > known)
        std::ranges::sort(plan, {}, &CheckpointRegion::module);
    return plan;
}

} // namespace headroom
