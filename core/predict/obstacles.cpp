// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/obstacles.h"

#include "core/predict/regions.h"
#include "core/predict/step_index.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace headroom {

namespace {

class ObstacleFinder
{
public:
    ObstacleFinder(const StepTrace& trace, const StepIndex& index)
        : trace_(trace)
        , index_(index)
        , changes_(trace.storages.size())
        , begin_(trace.storages.size(), 0)
        , free_(trace.storages.size(), StepIndex::never)
        , firstUnpack_(trace.packs.size(), StepIndex::never)
        , lastUnpack_(trace.packs.size(), 0)
        , holdsCheckpoint_(trace.modules.size(), false)
        , gathered_(findGathered())
    {
        for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
            const std::uint32_t a = trace.events.a[EventIndex(event)];
            const EventKind kind = trace.events.kind[EventIndex(event)];
            if (kind == EventKind::alloc)
                begin_[a] = event;
            else if (kind == EventKind::free)
                free_[a] = event;
            else if (kind == EventKind::unpack) {
                firstUnpack_[a] = std::min(firstUnpack_[a], event);
                lastUnpack_[a] = event;
            } else if (kind == EventKind::opEnd)
                for (const StorageId storage : trace.ops.mutated[OpId(a)])
                    if (!gathered_[storage.value])
                        changes_[storage.value].push_back(event);
        }
        ofStep_ = findObstacleOfStep();
        findOwnCheckpoints();
    }

    CheckpointObstacle ofStep() const { return ofStep_; }

    CheckpointObstacle of(CallId id) const
    {
        const StepIndex::Call& call = index_.calls[id.value];
        if (!call.saves())
            return CheckpointObstacle::none;
        const Region region = regionOf(index_, id);
        const std::uint32_t ranAgain = lastRecomputation(region);
        const auto isChanged = [&](StorageId storage) {
            const auto& changes = changes_[storage.value];
            const auto next = std::ranges::upper_bound(changes, region.enter);
            return next != changes.end() && *next < ranAgain;
        };
        for (std::uint32_t i = call.firstOp; i < call.endOp; ++i)
            if (std::ranges::any_of(trace_.ops.mutated[OpId(i)], [this](StorageId s) { return gathered_[s.value]; }))
                return CheckpointObstacle::gathersInside;
        if (std::ranges::any_of(trace_.calls.arguments[id], isChanged))
            return CheckpointObstacle::argumentChanged;
        for (std::uint32_t i = call.firstOp; i < call.endOp; ++i)
            for (const StorageId input : trace_.ops.inputs[OpId(i)])
                if (begin_[input.value] < region.enter && !changes(OpId(i), input) && isChanged(input))
                    return CheckpointObstacle::stateChanged;
        if (usesReplaced(id, ranAgain))
            return CheckpointObstacle::stateReplaced;
        for (std::uint32_t event = call.enter; event < call.exit; ++event)
            if (trace_.events.kind[EventIndex(event)] == EventKind::unpack
                && trace_.events.a[EventIndex(event)] >= call.firstPack)
                return CheckpointObstacle::ownBackward;
        return holdsCheckpoint_[trace_.calls.module[id].value] ? CheckpointObstacle::ownCheckpoint : ofStep_;
    }

private:
    bool runsInBackward(OpId op) const
    {
        return trace_.ops.node[op].valid() && (trace_.ops.flags[op] & opRecomputed) == 0;
    }

    /// The event up to which the tensors that a region reads must not change. An optimizer that steps during backward,
    /// parameter by parameter, changes those of a module after the module has run again. With several backward passes a
    /// module runs again in each, and a graph that is kept longer (retain_graph) does not run again.
    std::uint32_t lastRecomputation(const Region& region) const
    {
        std::uint32_t first = region.end;
        std::uint32_t last = 0;
        for (std::uint32_t pack = region.firstPack; pack < region.endPack; ++pack) {
            first = std::min(first, firstUnpack_[pack]);
            last = std::max(last, lastUnpack_[pack]);
        }
        return index_.isInSeveralPasses(index_.calls[region.call.value]) ? last : first;
    }

    /// Whether a call computes with what the program let go of before the call ran again: not an argument, which
    /// checkpoint() keeps, but an attribute that now has another tensor. What it makes for attributes only (a running
    /// mean) may differ.
    bool usesReplaced(CallId id, std::uint32_t ranAgain) const
    {
        const StepIndex::Call& call = index_.calls[id.value];
        const auto arguments = trace_.calls.arguments[id];
        const auto isReplaced = [&](StorageId input) {
            return begin_[input.value] < call.enter && call.enter < free_[input.value] && free_[input.value] < ranAgain
                && isOfProgram(trace_.storages.category[input])
                && (index_.casts.empty() || !index_.casts[input.value].valid())
                && std::ranges::find(arguments, input) == arguments.end();
        };
        std::set<StorageId> differ; // in the run again
        for (std::uint32_t i = call.firstOp; i < call.endOp; ++i) {
            const auto inputs = trace_.ops.inputs[OpId(i)];
            std::ranges::copy_if(inputs, std::inserter(differ, differ.end()), isReplaced);
            if (std::ranges::any_of(inputs, [&](StorageId input) { return differ.contains(input); }))
                differ.insert(trace_.ops.outputs[OpId(i)].begin(), trace_.ops.outputs[OpId(i)].end());
        }
        const auto isDifferent = [&](StorageId storage) { return storage.valid() && differ.contains(storage); };
        return !differ.empty()
            && (std::ranges::any_of(trace_.calls.results[id], isDifferent)
                || std::ranges::any_of(trace_.packs.storage.rows.subspan(call.firstPack, call.endPack - call.firstPack),
                                       isDifferent));
    }

    static bool isOfProgram(Category category)
    {
        return category == Category::activation || category == Category::temporary || category == Category::other;
    }

    /// By storage: whether FSDP gathers it. It has the same content after each gather, before forward and backward.
    std::vector<bool> findGathered() const
    {
        std::vector<bool> gathered(trace_.storages.size());
        for (std::uint32_t storage = 0; storage < trace_.storages.size(); ++storage)
            gathered[storage] = trace_.storages.category[StorageId(storage)] == Category::unshardedParameter;
        for (std::uint32_t event = 0; event < trace_.events.size(); ++event)
            if (const EventIndex at(event); trace_.events.kind[at] == EventKind::retype
                && static_cast<Category>(trace_.events.b[at]) == Category::unshardedParameter)
                gathered[trace_.events.a[at]] = true;
        return gathered;
    }

    CheckpointObstacle findObstacleOfStep() const
    {
        const auto isOfBackward
            = [this](OpId op) { return op.valid() && trace_.ops.phase[op] == Phase::backward && runsInBackward(op); };
        if (std::ranges::any_of(trace_.packs.op, isOfBackward)) // nodes of a backward pass save tensors themselves
            return CheckpointObstacle::secondOrder;
        return castsOutliveBackward() ? CheckpointObstacle::castsOutliveBackward : CheckpointObstacle::none;
    }

    /// Finds the modules that contain a module which the recorded step recomputes.
    void findOwnCheckpoints()
    {
        std::vector<bool> runsAgain(trace_.modules.size(), false);
        for (std::uint32_t op = 0; op < trace_.ops.size(); ++op)
            if ((trace_.ops.flags[OpId(op)] & opRecomputed) != 0 && trace_.ops.call[OpId(op)].valid())
                runsAgain[trace_.calls.module[trace_.ops.call[OpId(op)]].value] = true;
        for (std::uint32_t i = 0; i < trace_.calls.size(); ++i)
            if (runsAgain[trace_.calls.module[CallId(i)].value])
                for (CallId above = trace_.calls.parent[CallId(i)]; above.valid(); above = trace_.calls.parent[above])
                    holdsCheckpoint_[trace_.calls.module[above].value] = true;
    }

    bool castsOutliveBackward() const
    {
        if (index_.casts.empty())
            return false;
        std::uint32_t lastUnpack = 0; // event
        for (std::uint32_t event = 0; event < trace_.events.size(); ++event) {
            const EventKind kind = trace_.events.kind[EventIndex(event)];
            const OpId op(trace_.events.a[EventIndex(event)]);
            if (kind == EventKind::unpack)
                lastUnpack = event;
            if (kind != EventKind::opBegin || runsInBackward(op))
                continue;
            for (const StorageId input : trace_.ops.inputs[op])
                if (index_.casts[input.value].valid() && begin_[input.value] < lastUnpack)
                    return true;
        }
        return false;
    }

    bool changes(OpId op, StorageId storage) const
    {
        return std::ranges::find(trace_.ops.mutated[op], storage) != trace_.ops.mutated[op].end();
    }

    const StepTrace& trace_;
    const StepIndex& index_;
    std::vector<std::vector<std::uint32_t>> changes_; ///< by storage: events at which an op has changed it, ascending
    std::vector<std::uint32_t> begin_; ///< by storage: event of its allocation
    std::vector<std::uint32_t> free_; ///< by storage: event from which on the program does not hold it
    std::vector<std::uint32_t> firstUnpack_, lastUnpack_; ///< by pack: event
    std::vector<bool> holdsCheckpoint_; ///< by module
    std::vector<bool> gathered_; ///< by storage
    CheckpointObstacle ofStep_ = CheckpointObstacle::none; ///< obstacle of all modules
};

} // namespace

std::string_view obstacleText(CheckpointObstacle obstacle)
{
    switch (obstacle) {
    case CheckpointObstacle::none:
        break;
    case CheckpointObstacle::argumentChanged:
        return "one of its arguments is changed in place, so that it cannot run again from it";
    case CheckpointObstacle::stateChanged:
        return "it reads a tensor that is changed in place before it would run again, so that it would not compute the "
               "same";
    case CheckpointObstacle::stateReplaced:
        return "it reads a tensor that the program has replaced before it would run again (a state from call to call), "
               "so that it would compute something else";
    case CheckpointObstacle::secondOrder:
        return "the step has a backward pass with create_graph, after which autograd's order, and so its memory, "
               "cannot be foretold";
    case CheckpointObstacle::castsOutliveBackward:
        return "torch.autocast stays open over several backward passes, and a recomputation empties its cache of "
               "casts: leave it before each backward";
    case CheckpointObstacle::ownCheckpoint:
        return "the program checkpoints a part of it already";
    case CheckpointObstacle::ownBackward:
        return "a backward pass runs inside of its forward";
    case CheckpointObstacle::gathersInside:
        return "fully_shard gathers the parameters of modules inside of it, one after the other: checkpoint these";
    }
    return "";
}

CheckpointObstacles checkpointObstacles(const StepTrace& trace, const StepIndex& index)
{
    const ObstacleFinder finder(trace, index);
    CheckpointObstacles obstacles{finder.ofStep(), {}};
    obstacles.ofModules.resize(trace.modules.size(), CheckpointObstacle::none);
    for (std::size_t module = 0; module < obstacles.ofModules.size(); ++module)
        for (const CallId call : index.callsOf[module])
            if (obstacles.ofModules[module] == CheckpointObstacle::none)
                obstacles.ofModules[module] = finder.of(call);
    return obstacles;
}

} // namespace headroom
