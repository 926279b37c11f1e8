// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/obstacles.h"

#include "core/predict/regions.h"
#include "core/predict/step_index.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <span>

namespace headroom {

namespace {

class ObstacleFinder
{
public:
    ObstacleFinder(const StepTrace& trace, const StepIndex& index)
        : trace_(trace)
        , index_(index)
        , changes_(trace.storages.size())
        , reads_(trace.storages.size())
        , opEnd_(trace.ops.size(), 0)
        , begin_(trace.storages.size(), 0)
        , free_(trace.storages.size(), StepIndex::never)
        , firstUnpack_(trace.packs.size(), StepIndex::never)
        , lastUnpack_(trace.packs.size(), 0)
        , inLargerGraph_(findInLargerGraphs())
        , graphPlaces_(graphPlaces(trace))
        , buffer_(everOf(trace, Category::communication))
        , isZero_(trace.info.setting("parameters gathered by") == "ZeRO-3")
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
            } else if (kind == EventKind::opEnd) {
                opEnd_[a] = event;
                for (const StorageId storage : trace.ops.mutated[OpId(a)])
                    if (!index_.gathered[storage.value])
                        changes_[storage.value].push_back(event);
            } else if (kind == EventKind::mark && static_cast<Mark>(a) == Mark::stepBegin)
                stepBegin_ = event;
        }
        findReads();
        ofStep_ = findObstacleOfStep();
        holdsCheckpoint_ = findHoldsCheckpoint();
        runsInBackward_ = modulesWith(opInBackwardForward);
        holdsImplicit_ = modulesAround(runsInBackward_);
    }

    CheckpointObstacle ofStep() const { return ofStep_; }

    CheckpointObstacle of(CallId id)
    {
        const StepIndex::Call& call = index_.calls[id.value];
        if (!call.saves())
            return CheckpointObstacle::none;
        if (inLargerGraph_[trace_.calls.module[id].value])
            return CheckpointObstacle::inLargerGraph;
        if (runsInCudaGraph(call))
            return CheckpointObstacle::inCudaGraph;
        const CheckpointObstacle ofRuns = obstacleOfRuns(id);
        const Region region = regionOf(index_, id);
        const std::uint32_t ranAgain = lastRecomputation(region);
        for (std::uint32_t i = call.firstOp; i < call.endOp; ++i)
            if (const CheckpointObstacle obstacle = obstacleOfGather(OpId(i)); obstacle != CheckpointObstacle::none)
                return obstacle;
        if (std::ranges::any_of(trace_.calls.arguments[id],
                                [&](StorageId argument) { return isChanged(argument, region.enter, ranAgain); }))
            return CheckpointObstacle::argumentChanged;
        if (const CheckpointObstacle obstacle = obstacleOfState(region, ranAgain); obstacle != CheckpointObstacle::none)
            return obstacle;
        if (usesReplaced(id, ranAgain))
            return CheckpointObstacle::stateReplaced;
        return ofRuns != CheckpointObstacle::none ? ofRuns : ofStep_;
    }

    /// What is in the way of offloading what a call saves.
    CheckpointObstacle toOffload(CallId id) const
    {
        const StepIndex::Call& call = index_.calls[id.value];
        if (!call.saves())
            return CheckpointObstacle::none;
        const std::uint32_t module = trace_.calls.module[id].value;
        if (inLargerGraph_[module])
            return CheckpointObstacle::inLargerGraph;
        const CheckpointObstacle ofRuns = obstacleOfRuns(id);
        return ofRuns == CheckpointObstacle::none && ofStep_ == CheckpointObstacle::secondOrder ? ofStep_ : ofRuns;
    }

private:
    /// What a backward or the program's own checkpoint does inside of a call, or with the call's module.
    CheckpointObstacle obstacleOfRuns(CallId id) const
    {
        const StepIndex::Call& call = index_.calls[id.value];
        const std::uint32_t module = trace_.calls.module[id].value;
        for (std::uint32_t event = call.enter; event < call.exit; ++event)
            if (trace_.events.kind[EventIndex(event)] == EventKind::unpack
                && trace_.events.a[EventIndex(event)] >= call.firstPack)
                return CheckpointObstacle::ownBackward;
        if (runsInBackward_[module] || holdsImplicit_[module])
            return CheckpointObstacle::inBackward;
        // A recomputation may stop before the module's ops. A compiled backward calls modules that do not run again.
        const bool isOwn = holdsCheckpoint_[module]
            || (!isCompiled(call) && std::ranges::any_of(index_.callsOf[module], [this](CallId other) {
                               return runsAgain(index_.calls[other.value]);
                           }));
        return isOwn ? CheckpointObstacle::ownCheckpoint : CheckpointObstacle::none;
    }

    bool isCompiled(const StepIndex::Call& call) const
    {
        for (std::uint32_t op = call.firstOp; op < call.endOp; ++op)
            if ((trace_.ops.flags[OpId(op)] & opInCompiledGraph) != 0)
                return true;
        return false;
    }

    /// Whether a CUDA graph of torch.compile runs an op of a call.
    bool runsInCudaGraph(const StepIndex::Call& call) const
    {
        return !graphPlaces_.empty()
            && std::ranges::any_of(std::views::iota(call.firstOp, call.endOp), [this](std::uint32_t op) {
                   return graphPlaces_[op] != 0 && (trace_.ops.flags[OpId(op)] & opInCompiledGraph) != 0;
               });
    }

    /// Whether a call is a part of a recomputation by the program's own checkpoint: a forward that runs in backward.
    /// The recomputation may end before the call's first op.
    bool runsAgain(const StepIndex::Call& call) const
    {
        const std::uint32_t op = call.firstOp < call.endOp ? call.firstOp : call.firstOp - std::min(1U, call.firstOp);
        return op < trace_.ops.size() && trace_.ops.phase[OpId(op)] == Phase::backward;
    }

    bool runsInBackward(OpId op) const
    {
        return trace_.ops.node[op].valid() && (trace_.ops.flags[op] & (opRecomputed | opInBackwardForward)) == 0;
    }

    /// Returns what is in the way if an op of a region is a part of a gather. ZeRO-3 may begin a gather before the
    /// region: the region then copies parameters out of the gather's buffer.
    CheckpointObstacle obstacleOfGather(OpId op) const
    {
        const auto anyOf = [](const std::vector<bool>& kind, std::span<const StorageId> storages) {
            return std::ranges::any_of(storages, [&](StorageId storage) { return kind[storage.value]; });
        };
        if (isZero_ && anyOf(buffer_, trace_.ops.inputs[op]))
            return CheckpointObstacle::gathersInOrder;
        if (!anyOf(index_.gathered, trace_.ops.mutated[op]))
            return CheckpointObstacle::none;
        return isZero_ ? CheckpointObstacle::gathersInOrder : CheckpointObstacle::gathersInside;
    }

    /// The event up to which the tensors that a region reads must not change. An optimizer that steps during backward,
    /// parameter by parameter, changes a module's parameters after the module's recomputation. With several backward
    /// passes each pass recomputes the module, and a graph that is kept longer (retain_graph) is not recomputed.
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

    bool isChanged(StorageId storage, std::uint32_t from, std::uint32_t to) const
    {
        const auto& changes = changes_[storage.value];
        const auto next = std::ranges::upper_bound(changes, from);
        return next != changes.end() && *next < to;
    }

    /// Finds what is in the way among the tensors that a region did not make and that are no arguments, such as
    /// buffers.
    CheckpointObstacle obstacleOfState(const Region& region, std::uint32_t ranAgain)
    {
        for (std::uint32_t i = region.firstOp; i < region.endOp; ++i)
            for (const StorageId input : trace_.ops.inputs[OpId(i)]) {
                if (begin_[input.value] < region.enter && isChanged(input, region.enter, ranAgain)
                    && computesWith(OpId(i), input, region.enter))
                    return changes(OpId(i), input) ? CheckpointObstacle::stateUpdated
                                                   : CheckpointObstacle::stateChanged;
            }
        for (std::uint32_t i = region.firstOp; i < region.endOp; ++i)
            for (const StorageId storage : trace_.ops.mutated[OpId(i)])
                if (begin_[storage.value] < region.enter && !index_.gathered[storage.value]
                    && isReadAfter(storage, ranAgain))
                    return CheckpointObstacle::changedTwice;
        return CheckpointObstacle::none;
    }

    /// Whether a result of an op may depend on what `input` holds, apart from `input` itself if the op changes it: a
    /// tensor that the op makes, or a tensor younger than `from` (an event). A view computes nothing.
    bool computesWith(OpId op, StorageId input, std::uint32_t from) const
    {
        const auto inputs = trace_.ops.inputs[op];
        const auto outputs = trace_.ops.outputs[op];
        const auto mutated = trace_.ops.mutated[op];
        if (!changes(op, input))
            return outputs.empty() || !mutated.empty() || std::ranges::any_of(outputs, [&](StorageId output) {
                       return std::ranges::find(inputs, output) == inputs.end();
                   });
        return !updatesRunningStatistics(trace_.opName(op))
            && (std::ranges::any_of(outputs, [&](StorageId output) { return !changes(op, output); })
                || std::ranges::any_of(mutated, [&](StorageId other) { return begin_[other.value] >= from; }));
    }

    /// Whether gradients depend on what a tensor holds after a region's recomputation; the region itself does not read
    /// the tensor. What lives from step to step is read in the next step as in this step.
    bool isReadAfter(StorageId storage, std::uint32_t ranAgain)
    {
        const std::vector<OpId>& reads = reads_[storage.value];
        const bool lasts = begin_[storage.value] < stepBegin_ && free_[storage.value] == StepIndex::never;
        if (reads.empty() || (!lasts && opEnd_[reads.back().value] <= ranAgain))
            return false;
        const auto [known, isNew] = depends_.try_emplace(storage, false);
        if (isNew)
            known->second = gradientsDependOn(storage);
        return known->second;
    }

    /// Follows what a changed tensor holds through the reading ops, until autograd saves a result or the program reads
    /// a result. DistributedDataParallel's broadcast of running statistics ends in the same statistics, and in nothing
    /// else.
    bool gradientsDependOn(StorageId storage) const
    {
        std::vector<bool> differs(trace_.storages.size(), false);
        differs[storage.value] = true;
        for (std::uint32_t i = reads_[storage.value].front().value; i < trace_.ops.size(); ++i) {
            const OpId op(i);
            if (!isOfForwardOrBackward(op) || std::ranges::none_of(trace_.ops.inputs[op], [&](StorageId input) {
                    return differs[input.value] && computesWith(op, input, begin_[input.value] + 1);
                }))
                continue;
            const auto outputs = trace_.ops.outputs[op];
            const auto mutated = trace_.ops.mutated[op];
            if (outputs.empty() && mutated.empty()) // item()
                return true;
            for (const auto results : {outputs, mutated})
                for (const StorageId result : results)
                    differs[result.value] = true;
        }
        for (std::uint32_t pack = 0; pack < trace_.packs.size(); ++pack) {
            const StorageId saved = trace_.packs.storage[PackId(pack)];
            const OpId op = trace_.packs.op[PackId(pack)];
            const bool isStatistic = op.valid() && updatesRunningStatistics(trace_.opName(op)) && changes(op, saved);
            if (saved.valid() && differs[saved.value] && !isStatistic)
                return true;
        }
        return false;
    }

    bool isOfForwardOrBackward(OpId op) const
    {
        const Phase phase = trace_.ops.phase[op];
        return (phase == Phase::forward || phase == Phase::backward) && !isBatchNormBackward(trace_.opName(op));
    }

    /// Notes, for each changed storage, the ops of forward and backward that read the storage.
    void findReads()
    {
        for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
            const OpId op(i);
            if (!isOfForwardOrBackward(op))
                continue;
            for (const StorageId input : trace_.ops.inputs[op])
                if (!changes_[input.value].empty() && computesWith(op, input, begin_[input.value] + 1))
                    reads_[input.value].push_back(op);
        }
    }

    /// Whether a call computes with a tensor that the program released before the call's recomputation. Such a tensor
    /// is not an argument (checkpoint() keeps arguments), but an attribute that now holds another tensor. Results for
    /// attributes only (a running mean) may differ.
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
        std::set<StorageId> differ; // in the recomputation
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
        return category == Category::activation || category == Category::temporary || category == Category::other
            || category == Category::parameter; // whose data the program has replaced
    }

    /// By module: whether the recorder notes the module: names with a comma between them.
    std::vector<bool> notedIn(std::string_view setting) const
    {
        const std::string noted = ", " + std::string(trace_.info.setting(setting)) + ",";
        std::vector<bool> found(trace_.modules.size(), false);
        for (std::uint32_t i = 0; i < found.size(); ++i)
            found[i] = noted.find(", " + std::string(trace_.moduleFqn(ModuleId(i))) + ",") != std::string::npos;
        return found;
    }

    /// By module: whether the recorder notes the module or a module around it.
    std::vector<bool> findInLargerGraphs() const
    {
        std::vector<bool> found = notedIn("in larger graphs");
        for (std::uint32_t i = 0; i < found.size(); ++i)
            if (const ModuleId parent = trace_.modules.parent[ModuleId(i)]; parent.valid() && found[parent.value])
                found[i] = true;
        return found;
    }

    /// By module: whether the recorded step recomputes a module inside, or the recorder notes a checkpoint in there: a
    /// recomputation may end before the first op.
    std::vector<bool> findHoldsCheckpoint() const
    {
        std::vector<bool> holds = modulesAround(modulesWith(opRecomputed));
        const std::vector<bool> noted = notedIn("checkpoints in");
        for (std::uint32_t i = 0; i < noted.size(); ++i)
            for (ModuleId module = noted[i] ? ModuleId(i) : ModuleId(); module.valid();
                 module = trace_.modules.parent[module])
                holds[module.value] = true;
        return holds;
    }

    CheckpointObstacle findObstacleOfStep() const
    {
        const auto isOfBackward
            = [this](OpId op) { return op.valid() && trace_.ops.phase[op] == Phase::backward && runsInBackward(op); };
        if (std::ranges::any_of(trace_.packs.op, isOfBackward)) // nodes of a backward pass save tensors themselves
            return CheckpointObstacle::secondOrder;
        return castsOutliveBackward() ? CheckpointObstacle::castsOutliveBackward : CheckpointObstacle::none;
    }

    /// Returns by module whether the module runs ops with a flag.
    std::vector<bool> modulesWith(std::uint16_t flag) const
    {
        std::vector<bool> runs(trace_.modules.size(), false);
        for (std::uint32_t op = 0; op < trace_.ops.size(); ++op)
            if ((trace_.ops.flags[OpId(op)] & flag) != 0 && trace_.ops.call[OpId(op)].valid())
                runs[trace_.calls.module[trace_.ops.call[OpId(op)]].value] = true;
        return runs;
    }

    /// Returns by module whether a call of the module contains a call of any of `modules`.
    std::vector<bool> modulesAround(const std::vector<bool>& modules) const
    {
        std::vector<bool> around(trace_.modules.size(), false);
        for (std::uint32_t i = 0; i < trace_.calls.size(); ++i)
            if (modules[trace_.calls.module[CallId(i)].value])
                for (CallId above = trace_.calls.parent[CallId(i)]; above.valid(); above = trace_.calls.parent[above])
                    around[trace_.calls.module[above].value] = true;
        return around;
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
    std::vector<std::vector<std::uint32_t>> changes_; ///< by storage: events of changes by ops, ascending
    std::vector<std::vector<OpId>> reads_; ///< by storage that is changed: ops of forward and backward, ascending
    std::vector<std::uint32_t> opEnd_; ///< by op: event
    std::map<StorageId, bool> depends_; ///< gradientsDependOn(), as far as known
    std::uint32_t stepBegin_ = 0; ///< event
    std::vector<std::uint32_t> begin_; ///< by storage: event of the allocation
    std::vector<std::uint32_t> free_; ///< by storage: event from which on the program does not hold the storage
    std::vector<std::uint32_t> firstUnpack_, lastUnpack_; ///< by pack: event
    std::vector<bool> holdsCheckpoint_; ///< by module: whether the recorded step recomputes a module inside
    std::vector<bool> runsInBackward_; ///< by module: whether a node's backward runs the module
    std::vector<bool> holdsImplicit_; ///< by module: whether a node's backward runs a module inside
    std::vector<bool> inLargerGraph_; ///< by module
    std::vector<std::uint32_t> graphPlaces_; ///< by op: graphPlaces()
    std::vector<bool> buffer_; ///< by storage: of a collective
    bool isZero_ = false;
    CheckpointObstacle ofStep_ = CheckpointObstacle::none; ///< obstacle of all modules
};

} // namespace

std::string_view obstacleText(CheckpointObstacle obstacle)
{
    switch (obstacle) {
    case CheckpointObstacle::none:
        break;
    case CheckpointObstacle::argumentChanged:
        return "an argument of the module is changed in place; a recomputation would read changed values";
    case CheckpointObstacle::stateChanged:
        return "the module reads a tensor that is changed in place before backward; a recomputation would read changed "
               "values";
    case CheckpointObstacle::stateUpdated:
        return "an op of the module computes with a state that the op itself changes (a range, a running average); a "
               "recomputation would compute something else";
    case CheckpointObstacle::changedTwice:
        return "the module changes a tensor in place that the step reads elsewhere; a recomputation would change the "
               "tensor a second time";
    case CheckpointObstacle::stateReplaced:
        return "the module reads a tensor that the program replaces before backward (a state from call to call); a "
               "recomputation would compute something else";
    case CheckpointObstacle::secondOrder:
        return "the step has a backward pass with create_graph, and the later order of autograd, and so the memory, "
               "cannot be predicted";
    case CheckpointObstacle::castsOutliveBackward:
        return "torch.autocast stays open over several backward passes, and a recomputation empties the cache of "
               "casts: leave torch.autocast before each backward";
    case CheckpointObstacle::ownCheckpoint:
        return "the program already checkpoints a part of the module";
    case CheckpointObstacle::inBackward:
        return "backward runs the module, or a part of the module, to take further gradients (as in an implicit layer)";
    case CheckpointObstacle::ownBackward:
        return "the module's forward runs a backward pass, or reads what autograd has saved (grad_fn._saved_…)";
    case CheckpointObstacle::inLargerGraph:
        return "torch.compile compiled the module as a part of a larger graph, and only PyTorch's partitioner decides "
               "what that graph recomputes";
    case CheckpointObstacle::inCudaGraph:
        return "CUDA graphs run ops of the module and keep saved tensors until a later graph begins: compile the "
               "module without `mode=\"reduce-overhead\"`";
    case CheckpointObstacle::gathersInside:
        return "the parameters of submodules are gathered in turn: checkpoint the submodules";
    case CheckpointObstacle::gathersInOrder:
        return "ZeRO-3 gathers parameters inside of the module, and a recomputation would change order and time, so "
               "that memory cannot be predicted: turn on the program's own checkpointing, and record that step";
    }
    return "";
}

CheckpointObstacles checkpointObstacles(const StepTrace& trace, const StepIndex& index)
{
    ObstacleFinder finder(trace, index);
    CheckpointObstacles obstacles{finder.ofStep(), {}, {}};
    obstacles.ofModules.resize(trace.modules.size(), CheckpointObstacle::none);
    obstacles.toOffload = obstacles.ofModules;
    for (std::size_t module = 0; module < obstacles.ofModules.size(); ++module)
        for (const CallId call : index.callsOf[module]) {
            if (obstacles.ofModules[module] == CheckpointObstacle::none)
                obstacles.ofModules[module] = finder.of(call);
            if (obstacles.toOffload[module] == CheckpointObstacle::none)
                obstacles.toOffload[module] = finder.toOffload(call);
        }
    return obstacles;
}

} // namespace headroom
