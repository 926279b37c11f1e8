// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/saved_leaves.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <deque>

namespace headroom {
namespace {

/// Numbers of the nodes that saved a leaf and are not known yet: the node of an op becomes known when another op reads
/// the result. Nodes whose result no op reads are forgotten after a while.
thread_local std::deque<std::uint64_t> awaited;
constexpr std::size_t mostAwaited = 64;

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
    leaves_.push_back(leaf);
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
    for (Leaf& leaf : leaves_) {
        if (leaf.node != number)
            continue;
        leaf.made = WeakNodePtr(node);
        leaf.isMade = true;
    }
}

PackId SavedLeaves::unpackedBy(const torch::autograd::Node& node, bool isPython, OpId op, const c10::TensorImpl* tensor,
                               int pass)
{
    const NodeNumber number = NodeNumber::of(node);
    Leaf* found = nullptr;
    for (Leaf& leaf : leaves_) {
        if (leaf.tensor != tensor || leaf.pass == pass || leaf.node.thread != number.thread
            || leaf.node.sequence < number.sequence)
            continue;
        // More nodes were made between this one and its save.
        const bool isLater = (leaf.afterOp && isPython) || (op.valid() && leaf.op == op);
        if ((leaf.node == number || isLater) && (!found || leaf.node.sequence < found->node.sequence))
            found = &leaf;
    }
    if (!found)
        return {};
    found->reader = &node;
    found->pass = pass;
    return found->pack;
}

template <class Predicate>
std::vector<PackId> SavedLeaves::take(Predicate isTaken)
{
    std::vector<PackId> packs;
    std::erase_if(leaves_, [&](const Leaf& leaf) {
        const bool taken = isTaken(leaf);
        if (taken)
            packs.push_back(leaf.pack);
        return taken;
    });
    return packs;
}

std::vector<PackId> SavedLeaves::takeOf(const torch::autograd::Node& node)
{
    const NodeNumber number = NodeNumber::of(node);
    return take([&](const Leaf& leaf) { return leaf.node == number || leaf.reader == &node; });
}

std::vector<PackId> SavedLeaves::takeOf(const NodeNumber& node)
{
    return take([&](const Leaf& leaf) { return leaf.node == node; });
}

std::vector<PackId> SavedLeaves::takeOfDestroyed()
{
    return take([](const Leaf& leaf) { return leaf.isMade && leaf.made.expired(); });
}

std::vector<PackId> SavedLeaves::takeStorage(StorageId storage)
{
    std::vector<PackId> packs;
    for (Leaf& leaf : leaves_) {
        if (leaf.storage != storage)
            continue;
        packs.push_back(leaf.pack);
        leaf.storage = {};
    }
    return packs;
}

} // namespace headroom
