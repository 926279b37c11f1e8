// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"

#include <ATen/core/TensorBase.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {

/// The owning pointer of a node of autograd's graph: std::shared_ptr, and c10::intrusive_ptr from torch 2.13 on.
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::TensorBase&>().grad_fn())>;

template <typename Owner>
struct WeakOf;
template <typename Node>
struct WeakOf<std::shared_ptr<Node>>
{
    using Type = std::weak_ptr<Node>;
};
template <typename Node>
struct WeakOf<c10::intrusive_ptr<Node>>
{
    using Type = c10::weak_intrusive_ptr<Node>;
};
/// The weak pointer of a node of autograd's graph.
using WeakNodePtr = WeakOf<NodePtr>::Type;

/// Maps autograd nodes to the ops that created the nodes. libtorch numbers nodes per thread in the order of creation,
/// and creates the node of an op before calling the op's kernel. So the numbers that appeared since the last op belong
/// to the op that begins.
class NodeTable
{
public:
    /// Starts the table of this thread: nodes from now on belong to ops.
    void startThread();
    /// `op` begins on this thread.
    void opBegins(OpId op);
    /// Removes `op`, the last that began on this thread, from the step: the nodes of `op` belong to no op.
    void forget(OpId op);
    /// Returns whether nodes exist for an op that has not begun yet.
    bool nodesWait() const;
    /// Returns the op that created a node; invalid if no op of this step did.
    OpId opOf(std::uint64_t thread, std::uint64_t sequence) const;

private:
    struct Thread
    {
        std::uint64_t id = 0;
        std::uint64_t first = 0; ///< number of the node of ops[0]
        std::vector<OpId> ops;

        std::uint64_t next() const { return first + ops.size(); }
    };
    Thread& current();
    const Thread* find(std::uint64_t id) const;

    std::vector<Thread> threads_; ///< the step's thread, and autograd's thread of each device
};

} // namespace headroom
