// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"
#include "core/joint/ops_plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// What follows from a set of saved values: which nodes run again, when, and which of the saved values are used.
struct OpsSchedule
{
    /// Nodes that run again at the unpack of one tensor, in their order.
    struct Run
    {
        std::uint32_t unpack = 0; ///< index of the event
        PackId pack;
        std::vector<NodeId> nodes;
    };
    std::vector<Run> runs;
    std::vector<bool> saved; ///< by value: held, and used
    std::vector<bool> repeated; ///< by node
    Bytes savedBytes = 0;
};

/// Makes schedules of one step from sets of saved values. A missing value that backward unpacks is recomputed at that
/// moment, together with all missing values that it depends on. Immutable.
class OpsScheduler
{
public:
    explicit OpsScheduler(const JointGraph& graph);

    /// Returns the schedule for `saved` (by value). Needed values that no node may recompute are saved too.
    OpsSchedule of(std::vector<bool> saved) const;

    /// Returns whether saving the value takes memory: not if it existed before forward, or if the program holds it
    /// anyway.
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
    std::vector<Unpack> unpacks_; ///< unpacks of values that count, in order
};

/// Returns which values a plan saves, by value.
std::vector<bool> savedValues(const JointGraph& graph, const OpsPlan& plan);

/// Returns the ops of nodes in the order in which they run, which is that of forward.
std::vector<OpId> opsOf(const JointGraph& graph, std::span<const NodeId> nodes);

} // namespace headroom
