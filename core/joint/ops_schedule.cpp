// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_schedule.h"

#include <algorithm>
#include <utility>

namespace headroom {

OpsScheduler::OpsScheduler(const JointGraph& graph)
    : graph_(graph)
{
    const StepTrace& trace = *graph.trace;
    for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
        if (trace.events.kind[EventIndex(event)] != EventKind::unpack)
            continue;
        const PackId pack(trace.events.a[EventIndex(event)]);
        if (const ValueId value = graph.packed(pack); value.valid() && graph.takesMemory(value))
            unpacks_.push_back({event, pack, value});
    }
}

bool OpsScheduler::isThere(const OpsSchedule& schedule, ValueId value) const
{
    return !graph_.takesMemory(value) || schedule.saved[value.value] || schedule.repeated[graph_[value].node.value];
}

OpsSchedule OpsScheduler::of(std::vector<bool> saved) const
{
    OpsSchedule schedule;
    schedule.saved = std::move(saved);
    schedule.repeated.assign(graph_.nodes.size(), false);
    for (const Unpack& unpack : unpacks_)
        if (!isThere(schedule, unpack.value))
            makeAgain(schedule, unpack);
    dropUnused(schedule);
    return schedule;
}

void OpsScheduler::makeAgain(OpsSchedule& schedule, const Unpack& unpack) const
{
    OpsSchedule::Run run{unpack.event, unpack.pack, {}};
    std::vector<ValueId> open{unpack.value};
    while (!open.empty()) {
        const ValueId value = open.back();
        open.pop_back();
        if (isThere(schedule, value))
            continue;
        const NodeId node = graph_[value].node;
        if (graph_[node].repeat == Repeat::once) {
            schedule.saved[value.value] = true;
            continue;
        }
        schedule.repeated[node.value] = true;
        run.nodes.push_back(node);
        open.insert(open.end(), graph_[node].reads.begin(), graph_[node].reads.end());
    }
    std::ranges::sort(run.nodes);
    if (!run.nodes.empty())
        schedule.runs.push_back(std::move(run));
}

void OpsScheduler::dropUnused(OpsSchedule& schedule) const
{
    for (std::uint32_t i = 0; i < schedule.saved.size(); ++i) {
        if (!schedule.saved[i])
            continue;
        const ValueId value(i);
        const std::vector<NodeId>& readers = graph_.readers[i];
        const bool read = std::ranges::any_of(readers, [&](NodeId node) { return schedule.repeated[node.value]; });
        schedule.saved[i] = graph_.takesMemory(value) && (graph_[value].needed || read);
        if (schedule.saved[i])
            schedule.savedBytes += graph_[value].bytes;
    }
}

std::vector<OpId> opsOf(const JointGraph& graph, std::span<const NodeId> nodes)
{
    std::vector<OpId> ops;
    for (const NodeId node : nodes)
        ops.insert(ops.end(), graph[node].ops.begin(), graph[node].ops.end());
    std::ranges::sort(ops);
    return ops;
}

} // namespace headroom
