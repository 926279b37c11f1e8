// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"
#include "core/joint/ops_plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// What follows from a set of saved values: what runs again, when, and which of the set is of use.
struct OpsSchedule
{
    /// Nodes that run again at the unpack of one tensor, in their order.
    struct Run
    {
        std::uint32_t unpack = 0; ///< event
        PackId pack;
        std::vector<NodeId> nodes;
    };
    std::vector<Run> runs;
    std::vector<bool> saved; ///< by value: of use, and held
    std::vector<bool> repeated; ///< by node
    Bytes savedBytes = 0;
};

/// Lays out saved sets on one step: a value that backward asks for and that is not there is made again at that moment,
/// with all that it is made of, as far as that is not there either. Immutable.
class OpsScheduler
{
public:
    explicit OpsScheduler(const JointGraph& graph);

    /// `saved` by value. Values that no node may make again are held where they are asked for.
    OpsSchedule of(std::vector<bool> saved) const;

    /// Does it take memory to hold the value? Not what was there before forward, nor what the program holds anyway.
    bool counts(ValueId value) const { return graph_[value].node.valid() && !graph_[value].kept; }

private:
    struct Unpack
    {
        std::uint32_t event = 0;
        PackId pack;
        ValueId value;
    };

    bool isThere(const OpsSchedule& schedule, ValueId value) const;
    void makeAgain(OpsSchedule& schedule, const Unpack& unpack) const;
    void leaveOutWhatIsOfNoUse(OpsSchedule& schedule) const;

    const JointGraph& graph_;
    std::vector<Unpack> unpacks_; ///< of values that count, in their order
};

/// What a plan saves, by value.
std::vector<bool> savedValues(const JointGraph& graph, const OpsPlan& plan);

/// The ops of nodes, in the order in which they run: that of forward.
std::vector<OpId> opsOf(const JointGraph& graph, std::span<const NodeId> nodes);

} // namespace headroom
