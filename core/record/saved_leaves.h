// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"
#include "core/record/node_table.h"

#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {

/// A node of autograd's graph: libtorch numbers the nodes of each thread.
struct NodeNumber
{
    std::uint64_t thread = 0;
    std::uint64_t sequence = 0;

    /// Returns the number of the node that this thread created last.
    static NodeNumber last();
    static NodeNumber of(const torch::autograd::Node& node);
    auto operator<=>(const NodeNumber&) const = default;
};

/// The leaves that autograd holds for backward as they are, without hooks, so that a program gets its own tensor back:
/// its attributes, its hooks, and the data that it has by then. Only events that libtorch shows anyway tell when a node
/// unpacks a leaf and when autograd releases it. A step may save many leaves, and one leaf many times: each question is
/// answered without a look at all of them.
class SavedLeaves
{
public:
    struct Leaf
    {
        PackId pack;
        StorageId storage; ///< invalid: not on the device, or freed since, as the program gave the leaf other data
        OpId op; ///< the op that saves the leaf
        bool afterOp = false; ///< saved after an op, as a torch.autograd.Function of Python does; others save before it
        const c10::TensorImpl* tensor = nullptr;
        NodeNumber node; ///< the last node when the leaf was saved: the one that saves it, but for rare cases
        const torch::autograd::Node* reader = nullptr; ///< the node that has unpacked the leaf
        int pass = -1; ///< the last graph task that has unpacked it
    };

    void add(const Leaf& leaf);
    /// Whether this thread waits for the node of a leaf that it saved, to know when the node is destroyed.
    static bool awaits(const torch::autograd::Node& node);
    void nodeIsMade(const NodePtr& node);

    /// Returns the leaf's pack that `node`, which `op` created, unpacks in this pass; invalid: it unpacks none. Each
    /// pack is unpacked once in a pass.
    PackId unpackedBy(const torch::autograd::Node& node, bool isPython, OpId op, const c10::TensorImpl* tensor,
                      int pass);

    /// Each removes the packs that autograd has released, and returns them: those of a node that has run, those of a
    /// node of which another saved tensor was released, and those of destroyed nodes. The last looks at the nodes that
    /// were made last until it has seen `most` that live, and at as many of the others in turn.
    std::vector<PackId> takeOf(const torch::autograd::Node& node);
    std::vector<PackId> takeOf(const NodeNumber& node);
    std::vector<PackId> takeOfDestroyed(std::size_t most = std::numeric_limits<std::size_t>::max());

    /// Returns the packs of a storage that is freed while autograd holds their leaves: these have other data.
    std::vector<PackId> takeStorage(StorageId storage);

private:
    struct MadeNode
    {
        NodeNumber number;
        WeakNodePtr node;
    };
    std::vector<PackId> take(std::vector<PackId> packs);

    std::map<PackId, Leaf> leaves_;
    std::set<std::pair<NodeNumber, PackId>> byNode_;
    std::set<std::tuple<const c10::TensorImpl*, NodeNumber, PackId>> byTensor_;
    std::set<std::pair<StorageId, PackId>> byStorage_; ///< of valid storages
    std::set<std::pair<const torch::autograd::Node*, PackId>> byReader_;
    std::vector<MadeNode> made_; ///< nodes that saved leaves, as nodeIsMade() has told them
    std::size_t turn_ = 0; ///< the next of them that takeOfDestroyed() looks at in turn
};

} // namespace headroom
