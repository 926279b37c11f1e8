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

/// The leaves that autograd holds for backward without hooks, so that a program gets the leaf itself back: attributes,
/// hooks, and the data at that time. Only events that libtorch shows anyway tell when a node unpacks a leaf and when
/// autograd releases the leaf. A step may save many leaves, and a leaf many times: no question needs a look at all
/// saves.
class SavedLeaves
{
public:
    struct Leaf
    {
        PackId pack;
        StorageId storage; ///< invalid: not on the device, or freed since, as the program gave the leaf other data
        OpId op; ///< the op that saves the leaf
        bool afterOp = false; ///< saved after the op, as by a Python torch.autograd.Function; others save before
        const c10::TensorImpl* tensor = nullptr;
        NodeNumber node; ///< the last node when the leaf was saved: the saving node, but for rare cases
        const torch::autograd::Node* reader = nullptr; ///< the node that has unpacked the leaf
        int pass = -1; ///< the last graph task that has unpacked the leaf
    };

    void add(const Leaf& leaf);
    /// Whether this thread waits for `node`, as the saver of a leaf, to know when the node is destroyed.
    static bool awaits(const torch::autograd::Node& node);
    void nodeIsMade(const NodePtr& node);

    /// Returns the leaf's pack that `node` unpacks in this pass; invalid: none. `op` created `node`. Each pack is
    /// unpacked once in a pass.
    PackId unpackedBy(const torch::autograd::Node& node, bool isPython, OpId op, const c10::TensorImpl* tensor,
                      int pass);

    /// Removes and returns the released packs of a node that has run.
    std::vector<PackId> takeOf(const torch::autograd::Node& node);
    /// Removes and returns the released packs of a node that has released another saved tensor.
    std::vector<PackId> takeOf(const NodeNumber& node);
    /// Removes and returns the released packs of destroyed nodes. Looks at the newest nodes until `most` living nodes
    /// are found, and at up to `most` older nodes in turn.
    std::vector<PackId> takeOfDestroyed(std::size_t most = std::numeric_limits<std::size_t>::max());

    /// Returns the packs of a storage that is freed while autograd holds the leaves: the leaves have other data.
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
    std::vector<MadeNode> made_; ///< nodes that saved leaves, from nodeIsMade()
    std::size_t turn_ = 0; ///< the next row of made_ that takeOfDestroyed() looks at in turn
};

} // namespace headroom
