// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_problem.h"
#include "core/policy/offload_copies.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <span>
#include <utility>

namespace headroom {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double nsPerRegion = 300; ///< work of a plan's region in CopySchedule::find()

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
            Call own{call.enter, call.exit, firstUnpackOf(index, call), {}, {}};
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

class CopySchedule::Search
{
public:
    Search(const CopySchedule& schedule, const CheckpointPlan& plan, const PlanMemory& memory, Bytes budget,
           std::span<const RecomputedParts> recomputed)
        : link_(schedule.link_)
        , memory_(memory)
        , budget_(budget)
    {
        const std::vector<double>& gpuMs = schedule.times_->gpuMs;
        for (const CheckpointRegion& region : plan) {
            const int position = schedule.firstPositionOf(region.module);
            for (const Call& call : schedule.calls_[region.module.value]) {
                Numbered& numbered = calls_.emplace_back();
                numbered.call = &call;
                numbered.module = region.module;
                numbered.endMs = gpuMs[call.exit];
                numbered.beginMs = call.firstUnpack == StepIndex::never ? 0 : gpuMs[call.firstUnpack];
                if (!region.offload && position >= 0) {
                    numbered.position = position;
                    numbered.againMs = gpuMs[call.exit] - gpuMs[call.enter];
                }
                if (const std::vector<Copied>* const copied = call.movedBy(region))
                    numbered.copied = *copied;
            }
        }
        addRecomputation(recomputed);
        for (Numbered& numbered : calls_) {
            for (const Copied& copied : std::views::reverse(numbered.copied)) { // in the order of the copies back
                numbered.bytes += copied.bytes;
                numbered.inMs += link_.msFromHost(copied.bytes);
                numbered.latestMs = std::min(numbered.latestMs, numbered.beginMs + copied.useMs - numbered.inMs);
            }
        }
        std::ranges::sort(calls_, {}, [](const Numbered& numbered) { return numbered.call->enter; });
    }

    double run(CheckpointPlan& plan)
    {
        sendAway();
        bringBack();
        std::map<ModuleId, Offload> found;
        for (const Numbered& numbered : calls_) {
            if (numbered.bytes == 0)
                continue;
            const Offload when{numbered.wait, numbered.ahead, true, numbered.prefetch};
            const auto [known, added] = found.emplace(numbered.module, when);
            for (int Offload::*const number : {&Offload::wait, &Offload::ahead, &Offload::prefetch})
                known->second.*number = std::min(known->second.*number, when.*number);
        }
        for (CheckpointRegion& region : plan)
            if (const auto when = found.find(region.module); when != found.end()) {
                Offload& own = region.offload ? *region.offload : region.hosted->when;
                own = when->second;
                if (own.ahead == 0)
                    own.prefetch = Offload::all;
            }
        return exposedMs_;
    }

private:
    struct Numbered
    {
        const Call* call = nullptr;
        ModuleId module;
        std::span<const Copied> copied; ///< what moves
        int position = -1; ///< of the first part of a checkpointed call
        double againMs = 0; ///< time of recomputation
        double endMs = 0, beginMs = 0; ///< of the forward, and of the backward, without waits for copies
        double inMs = 0; ///< time of the copies back
        double latestMs = never; ///< latest begin of the copies back that no op waits for
        Bytes bytes = 0;
        int wait = 0, ahead = 0, prefetch = Offload::all;
    };

    /// Delays each backward by the recomputation of the calls whose backward begins before. Calls in the same parts
    /// share the time of recomputation like the time of their forward.
    void addRecomputation(std::span<const RecomputedParts> recomputed)
    {
        std::vector<std::size_t> partsAt; // by position: index in `recomputed`
        for (std::size_t parts = 0; parts < recomputed.size(); ++parts)
            partsAt.resize(static_cast<std::size_t>(recomputed[parts].last), parts);
        std::vector<double> forwardMs(recomputed.size(), 0);
        for (const Numbered& call : calls_)
            if (call.position >= 0)
                forwardMs[partsAt[static_cast<std::size_t>(call.position)]] += call.againMs;
        for (Numbered& call : calls_)
            if (call.againMs > 0) {
                const std::size_t parts = partsAt[static_cast<std::size_t>(call.position)];
                call.againMs *= recomputed[parts].ms / forwardMs[parts];
            }
        std::ranges::sort(calls_, {}, [](const Numbered& call) { return call.call->firstUnpack; });
        double againMs = 0;
        for (Numbered& call : calls_) {
            call.beginMs += againMs;
            againMs += call.againMs;
        }
    }

    /// Bytes that are left at all events of a stretch.
    double leftIn(std::uint32_t begin, std::uint32_t end) const
    {
        return static_cast<double>(begin >= end ? budget_ : budget_ - memory_.highestIn(begin, end));
    }

    /// Follows the copies to the host from call to call. The device waits for a copy only where memory, or the backward
    /// of the tensors' call, leaves no time.
    void sendAway()
    {
        std::deque<std::pair<std::size_t, double>> here; // number of the call, end of the copy
        double bytes = 0, streamMs = 0, waited = 0;
        for (std::size_t number = 0; number < calls_.size(); ++number) {
            const Numbered& own = calls_[number];
            if (own.bytes > 0) {
                for (const Copied& copied : own.copied)
                    streamMs = std::max(streamMs, own.endMs - copied.packMs + waited) + link_.msToHost(copied.bytes);
                here.emplace_back(number, streamMs);
                bytes += static_cast<double>(own.bytes);
            }
            if (here.empty())
                continue;
            const bool isLast = number + 1 == calls_.size();
            const std::uint32_t next = isLast ? StepIndex::never : calls_[number + 1].call->exit;
            const double most = isLast ? 0 : leftIn(own.call->exit + 1, next + 1);
            while (!here.empty()) {
                const auto [first, endMs] = here.front();
                Numbered& leaving = calls_[first];
                if (endMs > own.endMs + waited) {
                    if (bytes <= most && leaving.call->firstUnpack > next)
                        break;
                    exposedMs_ += endMs - own.endMs - waited;
                    waited = endMs - own.endMs;
                }
                leaving.wait = static_cast<int>(number - first);
                bytes -= static_cast<double>(leaving.bytes);
                here.pop_front();
            }
        }
    }

    /// From the end of the backward on: finds for each call the latest begin of the copies back that hides the copies.
    /// As many storages come early as the memory allows.
    void bringBack()
    {
        std::vector<std::size_t> order;
        for (std::size_t number = 0; number < calls_.size(); ++number)
            if (calls_[number].bytes > 0 && calls_[number].call->firstUnpack != StepIndex::never)
                order.push_back(number);
        const auto unpackOf = [&](std::size_t number) { return calls_[number].call->firstUnpack; };
        std::ranges::sort(order, std::ranges::greater(), unpackOf);
        std::vector<double> room(calls_.size(), -1); // by call: bytes that may be back early during its backward
        double nextMs = never; // the copies of the call after begin
        for (const std::size_t number : order) {
            Numbered& own = calls_[number];
            const double latest = std::min(own.latestMs, nextMs - own.inMs);
            double fits = never, early = 0; // bytes
            double lateMs = own.beginMs - latest;
            std::size_t from = number;
            for (std::size_t call = number + 1;
                 lateMs > 0 && call < calls_.size() && unpackOf(call) < unpackOf(call - 1); ++call) {
                if (room[call] < 0)
                    room[call] = std::max(0.0, leftIn(unpackOf(call), unpackOf(call - 1)));
                fits = std::min(fits, room[call]);
                const auto [storages, bytes] = firstWithin(own, fits);
                if (storages == 0)
                    break;
                const double ms = storages == Offload::all ? calls_[call].beginMs - latest
                                                           : delayMs(own, calls_[call].beginMs, storages, nextMs);
                if (ms >= lateMs)
                    continue;
                lateMs = ms;
                from = call;
                own.prefetch = storages;
                early = bytes;
            }
            for (std::size_t call = number + 1; call <= from; ++call)
                room[call] -= early;
            own.ahead = static_cast<int>(from - number);
            nextMs = std::max(latest, calls_[from].beginMs);
        }
        clockBack(order);
    }

    /// The storages of a call that come back first, of up to `most` bytes in sum. Returns the number, Offload::all for
    /// all, and the bytes.
    static std::pair<int, double> firstWithin(const Numbered& own, double most)
    {
        if (static_cast<double>(own.bytes) <= most)
            return {Offload::all, static_cast<double>(own.bytes)};
        int storages = 0;
        double bytes = 0;
        for (const Copied& copied : std::views::reverse(own.copied)) {
            if (bytes + static_cast<double>(copied.bytes) > most)
                break;
            bytes += static_cast<double>(copied.bytes);
            ++storages;
        }
        return {storages, bytes};
    }

    /// By how much the copies back of a call are late if the first `prefetch` begin at `beginMs`, and the others with
    /// the call's own backward. All should be made by `endMs`.
    double delayMs(const Numbered& own, double beginMs, int prefetch, double endMs) const
    {
        double streamMs = beginMs, mostMs = -never;
        for (const Copied& copied : std::views::reverse(own.copied)) {
            if (prefetch-- == 0)
                streamMs = std::max(streamMs, own.beginMs);
            streamMs += link_.msFromHost(copied.bytes);
            mostMs = std::max(mostMs, streamMs - own.beginMs - copied.useMs);
        }
        return std::max(mostMs, streamMs - endMs);
    }

    /// The time that the device waits for copies back.
    void clockBack(std::vector<std::size_t>& order)
    {
        std::ranges::reverse(order); // in the order of the backward
        double streamMs = 0, waited = 0;
        for (const std::size_t number : order) {
            const Numbered& own = calls_[number];
            const std::size_t from = number + static_cast<std::size_t>(own.ahead);
            streamMs = std::max(streamMs, calls_[from].beginMs + waited);
            int prefetch = own.prefetch;
            for (const Copied& copied : std::views::reverse(own.copied)) {
                if (prefetch-- == 0)
                    streamMs = std::max(streamMs, own.beginMs + waited);
                streamMs += link_.msFromHost(copied.bytes);
                if (const double late = streamMs - (own.beginMs + copied.useMs + waited); late > 0) {
                    waited += late;
                    exposedMs_ += late;
                }
            }
        }
    }

    HostLink link_;
    const PlanMemory& memory_;
    Bytes budget_;
    std::vector<Numbered> calls_;
    double exposedMs_ = 0;
};

CopySchedule::Found CopySchedule::find(CheckpointPlan plan, const PlanMemory& memory, Bytes budget,
                                       std::span<const RecomputedParts> recomputed) const
{
    Found found{withCounted(std::move(plan)), 0};
    SearchLimit::count(static_cast<double>(found.plan.size()), nsPerRegion);
    found.exposedMs = Search(*this, found.plan, memory, budget, recomputed).run(found.plan);
    return found;
}

} // namespace headroom
