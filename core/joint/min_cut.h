// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace headroom {

/// A directed network with a source and a sink, and the maximum flow (Boost, Boykov and Kolmogorov's algorithm).
class MaxFlow
{
public:
    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

    explicit MaxFlow(std::size_t vertices); ///< numbered from 0; source and sink are added
    ~MaxFlow();
    MaxFlow(const MaxFlow&) = delete;
    MaxFlow& operator=(const MaxFlow&) = delete;

    std::size_t source() const noexcept { return vertices_; }
    std::size_t sink() const noexcept { return vertices_ + 1; }
    void addEdge(std::size_t from, std::size_t to, std::int64_t capacity);

    /// Returns, by vertex, whether the vertex is on the sink's side of the minimum cut. Of cuts with equal capacity,
    /// the cut nearest to the sink is used, as in networkx.
    std::vector<bool> sinkSide();

private:
    struct Network;
    std::size_t vertices_;
    std::unique_ptr<Network> network_;
};

/// Rules that ban nodes from recomputation, besides nodes that are too expensive: the compiler's heuristics for running
/// time (torch/_functorch/partitioners.py, MinCutOptions). The defaults are PyTorch's.
struct MinCutRules
{
    bool usedFarApart = true; ///< bans readers fusible with their value that come after an unfusible reader
    bool longFusibleChains = true; ///< bans parts of chains of cheap nodes through the whole model
    bool materializedInBackward = true; ///< bans nodes if backward has the result in memory anyway
    bool onlyKnownCheap = true; ///< bans nodes not known to be cheap; false: only random and compute-intensive nodes
};

struct MinCut
{
    /// The cut: values held from forward to backward. Ascending; values that live on anyway are left out.
    std::vector<ValueId> saved;
    std::vector<bool> banned; ///< by node: must not be recomputed
};

/// The joint graph with everything that all minimum cuts share. Immutable.
class MinCutProblem
{
public:
    explicit MinCutProblem(const JointGraph& graph);

    /// Returns the cheapest set of values to hold so that everything that backward needs can be made from that set
    /// without a banned node. Nodes in `allowed` (by node; empty: none) may be recomputed although banned by the rules.
    MinCut solve(const MinCutRules& rules, const std::vector<bool>& allowed = {}) const;

    /// Number of nodes between this node and backward, at least 1; `unreachable` if no path leads there.
    std::uint32_t distance(NodeId node) const { return distance_[node.value]; }
    static constexpr std::uint32_t unreachable = 1'000'000'000;

    bool computeIntensive(NodeId node) const { return facts_[node.value].computeIntensive; }

private:
    struct Facts
    {
        bool recomputable = false;
        bool fusible = false;
        bool computeIntensive = false;
        bool random = false;
        bool concatenation = false;
        std::uint32_t order = 0; ///< position of the node's last op among the ops of forward
    };
    class Bans;

    bool fusibleFrom(ValueId value) const;
    bool fusible(ValueId from, NodeId to) const;
    bool materialized(ValueId value) const;
    bool materializedInBackward(NodeId node) const;
    bool reduces(NodeId node) const;
    bool mustBan(NodeId node, const MinCutRules& rules) const;
    std::int64_t weight(ValueId value) const;
    std::uint32_t distanceOf(ValueId value) const;

    const JointGraph& graph_;
    std::vector<Facts> facts_; ///< by node
    std::vector<std::uint32_t> distance_; ///< by node
    std::vector<bool> fusedByBackward_; ///< by value: all the value's readers in backward can be fused with the value
    std::vector<bool> leadsToBackward_; ///< by value: backward needs the value, or something made from the value
};

} // namespace headroom
