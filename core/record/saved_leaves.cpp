// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/saved_leaves.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <deque>
#include <type_traits>

namespace headroom {
namespace {

/// Numbers of the nodes that saved a leaf and are not known yet: the node of an op becomes known when another op reads
/// the result. After a while, a node without such a read is forgotten.
thread_local std::deque<std::uint64_t> awaited;
constexpr std::size_t mostAwaited = 64;

/// Returns the packs of a key in an index, in ascending order.
template <class Key>
std::vector<PackId> packsOf(const std::set<std::pair<Key, PackId>>& index, const std::type_identity_t<Key>& key)
{
    std::vector<PackId> packs;
    for (auto at = index.lower_bound({key, PackId(0)}); at != index.end() && at->first == key; ++at)
        packs.push_back(at->second);
    return packs;
}

} // namespace

NodeNumber NodeNumber::last()
{
    return {at::RecordFunction::currentThreadId(), at::sequence_number::peek() - 1};
}

NodeNumber NodeNumber::of(const torch::autograd::Node& node)
{
    return {node.thread_id(), node.sequence_nr()};
}

void SavedLeaves::add(const Leaf& leaf)
{
    leaves_.emplace(leaf.pack, leaf);
    byNode_.emplace(leaf.node, leaf.pack);
    byTensor_.emplace(leaf.tensor, leaf.node, leaf.pack);
    if (leaf.storage.valid())
        byStorage_.emplace(leaf.storage, leaf.pack);
    if (!awaited.empty() && awaited.back() == leaf.node.sequence)
        return;
    awaited.push_back(leaf.node.sequence);
    if (awaited.size() > mostAwaited)
        awaited.pop_front();
}

bool SavedLeaves::awaits(const torch::autograd::Node& node)
{
    return !awaited.empty() && std::ranges::find(awaited, node.sequence_nr()) != awaited.end()
        && node.thread_id() == at::RecordFunction::currentThreadId();
}

void SavedLeaves::nodeIsMade(const NodePtr& node)
{
    std::erase(awaited, node->sequence_nr());
    const NodeNumber number = NodeNumber::of(*node);
    if (!packsOf(byNode_, number).empty())
        made_.push_back({number, WeakNodePtr(node)});
}

PackId SavedLeaves::unpackedBy(const torch::autograd::Node& node, bool isPython, OpId op, const c10::TensorImpl* tensor,
                               int pass)
{
    const NodeNumber number = NodeNumber::of(node);
    for (auto at = byTensor_.lower_bound({tensor, number, PackId(0)}); at != byTensor_.end(); ++at) {
        const auto& [saved, saver, pack] = *at;
        if (saved != tensor || saver.thread != number.thread)
            break;
        Leaf& leaf = leaves_.at(pack);
        if (!isPython && op.valid() && leaf.op.valid() && op < leaf.op)
            break; // the saves of later nodes have later ops
        // More nodes were made between `node` and the save.
        const bool isLater = (leaf.afterOp && isPython) || (op.valid() && leaf.op == op);
        if (leaf.pass == pass || (saver != number && !isLater))
            continue;
        byReader_.erase({leaf.reader, pack});
        byReader_.emplace(&node, pack);
        leaf.reader = &node;
        leaf.pass = pass;
        return pack;
    }
    return {};
}

/// Removes packs. Returns the packs in the order of saving.
std::vector<PackId> SavedLeaves::take(std::vector<PackId> packs)
{
    std::ranges::sort(packs);
    packs.erase(std::unique(packs.begin(), packs.end()), packs.end());
    for (const PackId pack : packs) {
        const auto found = leaves_.find(pack);
        const Leaf& leaf = found->second;
        byNode_.erase({leaf.node, pack});
        byTensor_.erase({leaf.tensor, leaf.node, pack});
        byStorage_.erase({leaf.storage, pack});
        byReader_.erase({leaf.reader, pack});
        leaves_.erase(found);
    }
    return packs;
}

std::vector<PackId> SavedLeaves::takeOf(const torch::autograd::Node& node)
{
    std::vector<PackId> packs = packsOf(byNode_, NodeNumber::of(node));
    const std::vector<PackId> unpacked = packsOf(byReader_, &node);
    packs.insert(packs.end(), unpacked.begin(), unpacked.end());
    return take(std::move(packs));
}

std::vector<PackId> SavedLeaves::takeOf(const NodeNumber& node)
{
    return take(packsOf(byNode_, node));
}

std::vector<PackId> SavedLeaves::takeOfDestroyed(std::size_t most)
{
    std::vector<PackId> packs;
    const auto isDestroyed = [&](const MadeNode& made) {
        if (!made.node.expired())
            return false;
        const std::vector<PackId> saved = packsOf(byNode_, made.number);
        packs.insert(packs.end(), saved.begin(), saved.end());
        return true;
    };
    std::size_t last = made_.size();
    for (std::size_t alive = 0; last > 0 && alive < most; --last)
        alive += made_[last - 1].node.expired() ? 0 : 1;
    const auto at = [&](std::size_t row) { return made_.begin() + static_cast<std::ptrdiff_t>(row); };
    made_.erase(std::remove_if(at(last), made_.end(), isDestroyed), made_.end());
    if (turn_ >= last)
        turn_ = 0;
    const std::size_t end = turn_ + std::min(most, last - turn_);
    turn_ = static_cast<std::size_t>(made_.erase(std::remove_if(at(turn_), at(end), isDestroyed), at(end))
                                     - made_.begin());
    return take(std::move(packs));
}

std::vector<PackId> SavedLeaves::takeStorage(StorageId storage)
{
    std::vector<PackId> packs = packsOf(byStorage_, storage);
    for (const PackId pack : packs) {
        leaves_.at(pack).storage = {};
        byStorage_.erase({storage, pack});
    }
    return packs;
}

} // namespace headroom
