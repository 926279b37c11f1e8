// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"
#include "core/joint/ops_request.h"
#include "core/predict/module_memory.h"
#include "core/timeline/timeline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// The consequences of a set of saved values: the recomputed nodes, the time of each recomputation, and the saved
/// values that are used.
struct OpsSchedule
{
    /// Nodes recomputed at the unpack of a single tensor, in order.
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

/// Makes schedules of a step from sets of saved values. A missing value that backward unpacks is recomputed at that
/// moment, together with all missing values among its inputs, directly or not. Immutable.
class OpsScheduler
{
public:
    explicit OpsScheduler(const JointGraph& graph);

    /// Returns the schedule for `saved` (by value). Needed values that no node may recompute are saved too.
    OpsSchedule of(std::vector<bool> saved) const;

private:
    struct Unpack
    {
        std::uint32_t event = 0;
        PackId pack;
        ValueId value;
    };

    bool isThere(const OpsSchedule& schedule, ValueId value) const;
    void makeAgain(OpsSchedule& schedule, const Unpack& unpack) const;
    void dropUnused(OpsSchedule& schedule) const;

    const JointGraph& graph_;
    std::vector<Unpack> unpacks_; ///< unpacks of values that take memory, in order
};

/// Returns the ops of nodes in the order of execution, the order of forward.
std::vector<OpId> opsOf(const JointGraph& graph, std::span<const NodeId> nodes);

/// The positions of a step's ops in the list of events.
struct OpEvents
{
    explicit OpEvents(const StepTrace& trace);
    std::vector<std::uint32_t> begin, end; ///< by op
};

/// Replays the step under a schedule, by the rules of OpsPlan, and returns the timeline. Cost: a pass over all events,
/// and a pass over the events of each recomputed op.
Timeline replayOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule);

/// Replays the step likewise, and returns the tally by module.
ModuleTally tallyOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule);

} // namespace headroom
