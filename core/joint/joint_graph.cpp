// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/joint_graph.h"

#include "core/joint/op_obstacles.h"
#include "core/policy/step_planner.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace headroom {

namespace {

/// Facts about each storage, collected in a single pass over the events.
struct StorageFacts
{
    explicit StorageFacts(const StepTrace& trace);

    std::vector<OpId> lastMutation; ///< last change in forward or backward after the creator; invalid: none
    std::vector<bool> unpacked; ///< autograd saves the storage, and backward unpacks the pack
    std::uint32_t lastUnpack = 0; ///< event
};

StorageFacts::StorageFacts(const StepTrace& trace)
    : lastMutation(trace.storages.size())
    , unpacked(trace.storages.size(), false)
{
    for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
        const std::uint32_t a = trace.events.a[EventIndex(event)];
        switch (trace.events.kind[EventIndex(event)]) {
        case EventKind::opEnd:
            if (trace.ops.phase[OpId(a)] == Phase::forward || trace.ops.phase[OpId(a)] == Phase::backward)
                for (const StorageId storage : trace.ops.mutated[OpId(a)])
                    if (trace.storages.creator[storage] != OpId(a))
                        lastMutation[storage.value] = OpId(a);
            break;
        case EventKind::unpack:
            lastUnpack = event;
            if (const StorageId storage = trace.packs.storage[PackId(a)]; storage.valid())
                unpacked[storage.value] = true;
            break;
        default:
            break;
        }
    }
}

template <class Id>
void addOnce(std::vector<Id>& ids, Id id)
{
    if (std::ranges::find(ids, id) == ids.end())
        ids.push_back(id);
}

/// Builds the graph op by op, in order.
class Builder
{
public:
    explicit Builder(const StepModel& model)
        : trace_(*model.trace())
        , index_(model.index())
        , facts_(trace_)
        , obstacles_(trace_, model.index())
        , read_(trace_.storages.size(), false)
    {
        graph_.trace = model.trace();
        graph_.valueOf.resize(trace_.storages.size());
        graph_.nodeOf.resize(trace_.ops.size());
    }

    Result<JointGraph> build();

private:
    void forwardOp(OpId op);
    void addNode(OpId op, std::vector<ValueId> reads);
    void changeInPlace(OpId op, const std::vector<ValueId>& reads);
    void readByBackward(OpId op);
    ValueId valueOf(StorageId storage);
    std::vector<ValueId> readsOf(OpId op);
    bool isChangedSince(OpId op, StorageId storage) const;
    bool readsWhatChanges(OpId op, const OpKind& kind) const;
    bool readsWhatGoes(const std::vector<ValueId>& reads) const;
    void include(JointGraph::Node& node, OpId op);
    void nameKeptModules();
    void order();

    const StepTrace& trace_;
    const StepIndex& index_;
    StorageFacts facts_;
    OpObstacles obstacles_;
    std::vector<bool> read_; ///< by storage: a node has read the storage
    JointGraph graph_;
};

Result<JointGraph> Builder::build()
{
    if (const Status can = plannable(trace_); !can && (!trace_.info.measured || !trace_.info.policy.empty()))
        return can.error();
    std::size_t forward = 0;
    std::size_t backward = 0;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
        const OpId op(i);
        const bool again = (trace_.ops.flags[op] & (opRecomputed | opInBackwardForward)) != 0;
        if (trace_.ops.phase[op] == Phase::forward && !again) {
            forwardOp(op);
            ++forward;
        } else if (trace_.ops.phase[op] == Phase::backward || again) {
            readByBackward(op);
            ++backward;
        }
    }
    if (forward == 0 || backward == 0)
        return badInput("the step has no " + std::string(forward == 0 ? "forward" : "backward")
                        + ": expected a step recorded to the end of backward");
    if (trace_.packs.size() == 0)
        return badInput(
            "the step does not tell the tensors that autograd saves: expected a step recorded on the simulated GPU");
    nameKeptModules();
    order();
    return std::move(graph_);
}

ValueId Builder::valueOf(StorageId storage)
{
    ValueId& id = graph_.valueOf[storage.value];
    if (!id.valid()) {
        id = ValueId(static_cast<std::uint32_t>(graph_.values.size()));
        JointGraph::Value value;
        value.storage = storage;
        value.bytes = trace_.storages.bytes[storage];
        value.needed = facts_.unpacked[storage.value];
        value.kept = index_.freeEvent[storage.value] > facts_.lastUnpack;
        graph_.values.push_back(value);
        graph_.readers.emplace_back();
        graph_.backwardReaders.emplace_back();
    }
    return id;
}

std::vector<ValueId> Builder::readsOf(OpId op)
{
    std::vector<ValueId> reads;
    for (const StorageId storage : trace_.ops.inputs[op])
        if (trace_.storages.creator[storage] != op)
            addOnce(reads, valueOf(storage));
    return reads;
}

/// Whether the op, or a later op, writes to the storage. A parameter that is gathered again has the same content.
bool Builder::isChangedSince(OpId op, StorageId storage) const
{
    const OpId change = facts_.lastMutation[storage.value];
    return change.valid() && change >= op && !index_.gathered[storage.value];
}

/// Whether an input of the op has another content at the op's recomputation. The running statistics of batch
/// normalisation do not count, since results in training do not depend on the statistics.
bool Builder::readsWhatChanges(OpId op, const OpKind& kind) const
{
    const auto mutated = trace_.ops.mutated[op];
    return std::ranges::any_of(trace_.ops.inputs[op], [&](StorageId storage) {
        const bool own = kind.updatesStatistics && std::ranges::find(mutated, storage) != mutated.end();
        return isChangedSince(op, storage) && !own;
    });
}

/// Whether the op reads a value that no node makes and that is not held until backward: an input that the program
/// frees, or a gradient that forward uses.
bool Builder::readsWhatGoes(const std::vector<ValueId>& reads) const
{
    return std::ranges::any_of(reads,
                               [&](ValueId value) { return !graph_[value].node.valid() && !graph_[value].kept; });
}

void Builder::include(JointGraph::Node& node, OpId op)
{
    node.ops.push_back(op);
    if (obstacles_.keep(op))
        node.repeat = Repeat::once;
    node.random = node.random || (trace_.ops.flags[op] & opRandom);
    node.flops += trace_.ops.flops[op];
    node.ms += trace_.ops.ms[op];
}

void Builder::forwardOp(OpId op)
{
    std::vector<ValueId> reads = readsOf(op);
    const auto outputs = trace_.ops.outputs[op];
    const bool makes
        = std::ranges::any_of(outputs, [&](StorageId storage) { return trace_.storages.creator[storage] == op; });
    if (makes)
        addNode(op, std::move(reads));
    else if (!trace_.ops.mutated[op].empty())
        changeInPlace(op, reads);
}

void Builder::addNode(OpId op, std::vector<ValueId> reads)
{
    const NodeId id(static_cast<std::uint32_t>(graph_.nodes.size()));
    graph_.nodeOf[op.value] = id;
    JointGraph::Node node;
    include(node, op);
    for (const StorageId storage : trace_.ops.outputs[op]) {
        if (trace_.storages.creator[storage] != op || graph_.valueOf[storage.value].valid())
            continue;
        const ValueId value = valueOf(storage);
        graph_.values[value.value].node = id;
        node.makes.push_back(value);
        if (index_.resized[storage.value])
            node.repeat = Repeat::once;
    }
    for (const ValueId value : reads)
        read_[graph_[value].storage.value] = true;
    const OpKind kind = opKind(trace_.opName(op));
    const bool changesOthers = !trace_.ops.mutated[op].empty() && !kind.updatesStatistics;
    if (changesOthers || readsWhatChanges(op, kind) || readsWhatGoes(reads))
        node.repeat = Repeat::once;
    node.reads = std::move(reads);
    graph_.nodes.push_back(std::move(node));
}

/// Adds an op that only changes existing storages. If the op changes the result of a node that no other node has read
/// yet, the op joins that node.
void Builder::changeInPlace(OpId op, const std::vector<ValueId>& reads)
{
    for (const StorageId storage : trace_.ops.mutated[op]) {
        const ValueId value = valueOf(storage);
        const NodeId maker = graph_[value].node;
        if (!maker.valid())
            continue;
        JointGraph::Node& node = graph_.nodes[maker.value];
        const bool alone = trace_.ops.mutated[op].size() == 1 && !read_[storage.value];
        if (!alone)
            node.repeat = Repeat::once;
        include(node, op);
        graph_.nodeOf[op.value] = maker;
        for (const ValueId other : reads) {
            if (std::ranges::find(node.makes, other) != node.makes.end())
                continue;
            addOnce(node.reads, other);
            read_[graph_[other].storage.value] = true;
        }
        const bool othersChange = std::ranges::any_of(reads, [&](ValueId other) {
            return graph_[other].storage != storage && isChangedSince(op, graph_[other].storage);
        });
        if (othersChange || readsWhatGoes(reads))
            node.repeat = Repeat::once;
    }
}

void Builder::readByBackward(OpId op)
{
    for (const StorageId storage : trace_.ops.inputs[op])
        if (const ValueId value = graph_.valueOf[storage.value]; value.valid())
            addOnce(graph_.backwardReaders[value.value], op);
    for (const StorageId storage : trace_.ops.mutated[op])
        if (const ValueId value = graph_.valueOf[storage.value]; value.valid() && graph_[value].node.valid())
            graph_.nodes[graph_[value].node.value].repeat = Repeat::once;
}

void Builder::nameKeptModules()
{
    std::vector<ModuleId> modules;
    for (const JointGraph::Node& node : graph_.nodes) {
        const auto isNeeded = [this](ValueId value) { return graph_[value].needed && !graph_[value].kept; };
        if (std::ranges::none_of(node.makes, isNeeded))
            continue;
        for (const OpId op : node.ops)
            if (obstacles_.keep(op))
                obstacles_.addModules(op, modules);
    }
    graph_.keptModules = obstacles_.named(std::move(modules));
}

/// Sorts nodes by their last ops, so that each node comes after all nodes that it reads.
void Builder::order()
{
    std::vector<std::uint32_t> nodes(graph_.nodes.size());
    std::iota(nodes.begin(), nodes.end(), 0);
    std::ranges::sort(nodes, {}, [&](std::uint32_t i) { return graph_.nodes[i].ops.back(); });
    std::vector<NodeId> newId(nodes.size());
    std::vector<JointGraph::Node> ordered;
    ordered.reserve(nodes.size());
    for (const std::uint32_t i : nodes) {
        newId[i] = NodeId(static_cast<std::uint32_t>(ordered.size()));
        ordered.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(ordered);
    for (JointGraph::Value& value : graph_.values)
        if (value.node.valid())
            value.node = newId[value.node.value];
    for (NodeId& node : graph_.nodeOf)
        if (node.valid())
            node = newId[node.value];
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i)
        for (const ValueId value : graph_.nodes[i].reads)
            graph_.readers[value.value].push_back(NodeId(i));
}

} // namespace

std::vector<bool> JointGraph::among(std::span<const StorageId> storages) const
{
    std::vector<bool> flags(values.size(), false);
    for (const StorageId storage : storages)
        if (const ValueId value = valueOf[storage.value]; value.valid())
            flags[value.value] = true;
    return flags;
}

std::vector<bool> JointGraph::among(std::span<const ValueId> ids) const
{
    std::vector<bool> flags(values.size(), false);
    for (const ValueId id : ids)
        flags[id.value] = true;
    return flags;
}

Result<JointGraph> buildJointGraph(const StepModel& model)
{
    return Builder(model).build();
}

} // namespace headroom
