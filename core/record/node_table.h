// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Which op made which autograd node. libtorch numbers nodes by thread in the order of their making, and makes the node
/// of an op before it calls the op's kernel: the numbers that appeared since the last op belong to the one that begins.
class NodeTable
{
public:
    /// Nodes of this thread from here on belong to ops.
    void startThread();
    /// `op` begins on this thread.
    void opBegins(OpId op);
    /// `op`, the last that began on this thread, is none of the step's: its nodes have no op.
    void forget(OpId op);
    /// Nodes were made for an op that has not begun yet.
    bool nodesWait() const;
    /// The op that made a node; invalid when it was not in this step.
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

    std::vector<Thread> threads_; ///< the step's, and one of autograd's for each device
};

} // namespace headroom
