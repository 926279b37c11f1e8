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

/// What a node may do in backward.
enum class Repeat : std::uint8_t {
    once, ///< never runs again: it would give other values, or change something that is not its own, or no module
          ///< around it can be checkpointed
    again, ///< may run again
};

/// Forward and backward of one step as one graph, as torch._functorch's partitioner sees it, but in storages instead of
/// tensors: what is saved is a storage, whichever view of it autograd packed.
///
/// A value is a storage that a forward op made, or one that was there before. A node is what makes values: one forward
/// op, with the in-place ops that change its result before another op reads it. Views make nothing: an op that reads
/// a view reads its storage. Immutable.
struct JointGraph
{
    StepTracePtr trace;

    struct Node
    {
        std::vector<OpId> ops; ///< the op that makes the values, then those that change them in place; ascending
        std::vector<ValueId> reads; ///< each once, without its own
        std::vector<ValueId> makes;
        Repeat repeat = Repeat::again;
        bool random = false; ///< draws random numbers: to run again it needs the generator's state of the first time
        double flops = 0;
        double ms = 0;
    };
    std::vector<Node> nodes; ///< each after all that it reads: in the order of their last ops

    struct Value
    {
        StorageId storage;
        NodeId node; ///< that makes it; invalid: it was there before the forward (parameter, buffer, input)
        Bytes bytes = 0; ///< what the device loses to it
        bool needed = false; ///< autograd saves it, and backward asks for it
        bool kept = false; ///< the program holds it as long as backward needs it: keeping it costs nothing
    };
    std::vector<Value> values; ///< in the order in which forward meets them

    std::vector<std::vector<NodeId>> readers; ///< by value: nodes, ascending
    std::vector<std::vector<OpId>> backwardReaders; ///< by value: backward ops, ascending
    std::vector<ValueId> valueOf; ///< by storage; invalid when it is none
    std::vector<NodeId> nodeOf; ///< by op; invalid when it makes nothing
    std::vector<KeptModule> keptModules; ///< in the way of ops of which backward needs something; in the model's order

    const Node& operator[](NodeId id) const { return nodes[id.value]; }
    const Value& operator[](ValueId id) const { return values[id.value]; }
};

/// What the program checkpoints itself counts as backward where it runs again. Errors (badInput): the step has no
/// forward, backward or saved tensors, or was recorded with a policy.
Result<JointGraph> buildJointGraph(const StepModel& model);

} // namespace headroom
