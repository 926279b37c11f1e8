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

/// Whether a node may be recomputed in backward.
enum class Repeat : std::uint8_t {
    once, ///< no: values would differ, other nodes' storages would change, or no module around the node can be
          ///< recomputed
    again, ///< may be recomputed
};

/// Forward and backward of a step as a single graph, as in torch._functorch's partitioner, but of storages instead of
/// tensors: a saved value is a storage, no matter which view of the storage autograd packed.
///
/// A value is a storage that a forward op made, or a storage from before forward. A node makes values: the node is a
/// single forward op, with the in-place ops that change the result before another op reads the result. Views are no
/// nodes: an op that reads a view reads the storage. Immutable.
struct JointGraph
{
    StepTracePtr trace;

    struct Node
    {
        std::vector<OpId> ops; ///< the op that makes the values, then the in-place ops; ascending
        std::vector<ValueId> reads; ///< values read, each once; without the node's own values
        std::vector<ValueId> makes;
        Repeat repeat = Repeat::again;
        bool random = false; ///< draws random numbers; a recomputation needs the generator's state of the first run
        double flops = 0;
        double ms = 0;
    };
    std::vector<Node> nodes; ///< each node after all nodes that it reads: in the order of the nodes' last ops

    struct Value
    {
        StorageId storage;
        NodeId node; ///< the node that makes the value; invalid: made before forward (parameter, buffer, input)
        Bytes bytes = 0; ///< of the device's memory, rounded to blocks
        bool needed = false; ///< autograd saves the value, and backward unpacks the pack
        bool kept = false; ///< the program holds the value as long as backward needs the value: saving is free
    };
    std::vector<Value> values; ///< in the order of forward

    std::vector<std::vector<NodeId>> readers; ///< by value: nodes, ascending
    std::vector<std::vector<OpId>> backwardReaders; ///< by value: backward ops, ascending
    std::vector<ValueId> valueOf; ///< by storage; invalid: not a value
    std::vector<NodeId> nodeOf; ///< by op; invalid: the op makes no value
    std::vector<KeptModule> keptModules; ///< modules that keep needed ops from running again

    const Node& operator[](NodeId id) const { return nodes[id.value]; }
    const Value& operator[](ValueId id) const { return values[id.value]; }

    /// Whether saving a valid value takes memory: not if the value existed before forward, or if the program holds the
    /// value anyway.
    bool takesMemory(ValueId id) const { return values[id.value].node.valid() && !values[id.value].kept; }

    /// The value that autograd packed; invalid: none.
    ValueId packed(PackId pack) const
    {
        const StorageId storage = trace->packs.storage[pack];
        return storage.valid() ? valueOf[storage.value] : ValueId();
    }

    /// By value: whether the storage is among `storages`.
    std::vector<bool> among(std::span<const StorageId> storages) const;
    std::vector<bool> among(std::span<const ValueId> ids) const; ///< by value: whether the value is among `ids`
};

/// Builds the graph. The program's own recomputations count as backward. Error (badInput): the step has no forward,
/// backward or saved tensors, or was recorded with a policy.
Result<JointGraph> buildJointGraph(const StepModel& model);

} // namespace headroom
