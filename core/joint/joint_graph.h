// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/op_obstacles.h"
#include "core/predict/step_model.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace headroom {

using ValueId = Index<struct ValueTag>; ///< a value of a JointGraph
using NodeId = Index<struct NodeTag>; ///< a node of a JointGraph

/// Whether a node may run again in backward.
enum class Repeat : std::uint8_t {
    once, ///< it may not: values would differ, other nodes' storages would change, or no module around it can run again
    again, ///< may run again
};

/// Forward and backward of one step as one graph, as torch._functorch's partitioner sees it, but in storages instead of
/// tensors: a saved value is a storage, whichever view of it autograd packed.
///
/// A value is a storage that a forward op made, or one that existed before. A node makes values: it is one forward op,
/// with the in-place ops that change its result before another op reads it. Views are no nodes: an op that reads a view
/// reads its storage. Immutable.
struct JointGraph
{
    StepTracePtr trace;

    struct Node
    {
        std::vector<OpId> ops; ///< the op that makes the values, then the in-place ops; ascending
        std::vector<ValueId> reads; ///< values read, each once; without its own
        std::vector<ValueId> makes;
        Repeat repeat = Repeat::again;
        bool random = false; ///< draws random numbers; to run again it needs the generator's state of its first run
        double flops = 0;
        double ms = 0;
    };
    std::vector<Node> nodes; ///< each after all nodes that it reads from: in the order of their last ops

    struct Value
    {
        StorageId storage;
        NodeId node; ///< the node that makes it; invalid: it existed before forward (parameter, buffer, input)
        Bytes bytes = 0; ///< of the device's memory, rounded to blocks
        bool needed = false; ///< autograd saves it, and backward unpacks it
        bool kept = false; ///< the program holds it as long as backward needs it: saving it is free
    };
    std::vector<Value> values; ///< in the order of forward

    std::vector<std::vector<NodeId>> readers; ///< by value: nodes, ascending
    std::vector<std::vector<OpId>> backwardReaders; ///< by value: backward ops, ascending
    std::vector<ValueId> valueOf; ///< by storage; invalid: not a value
    std::vector<NodeId> nodeOf; ///< by op; invalid: it makes no value
    std::vector<KeptModule> keptModules; ///< modules that keep needed ops from running again

    const Node& operator[](NodeId id) const { return nodes[id.value]; }
    const Value& operator[](ValueId id) const { return values[id.value]; }

    /// Whether saving a valid value takes memory: not if it existed before forward, or if the program holds it anyway.
    bool takesMemory(ValueId id) const { return values[id.value].node.valid() && !values[id.value].kept; }

    /// The value that autograd packed; invalid: none.
    ValueId packed(PackId pack) const
    {
        const StorageId storage = trace->packs.storage[pack];
        return storage.valid() ? valueOf[storage.value] : ValueId();
    }

    /// By value: whether its storage is one of `storages`.
    std::vector<bool> among(std::span<const StorageId> storages) const;
    std::vector<bool> among(std::span<const ValueId> ids) const; ///< by value: whether it is one of `ids`
};

/// Builds the graph. The program's own recomputations count as backward. Errors (badInput): the step has no forward,
/// backward or saved tensors, or was recorded with a policy.
Result<JointGraph> buildJointGraph(const StepModel& model);

} // namespace headroom
