// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_schedule.h"

#include "core/predict/live_memory.h"
#include "core/trace/memory_event.h"

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

OpEvents::OpEvents(const StepTrace& trace)
    : begin(trace.ops.size(), 0)
    , end(trace.ops.size(), 0)
{
    for (std::uint32_t event = 0; event < trace.events.size(); ++event) {
        const EventKind kind = trace.events.kind[EventIndex(event)];
        if (kind == EventKind::opBegin)
            begin[trace.events.a[EventIndex(event)]] = event;
        else if (kind == EventKind::opEnd)
            end[trace.events.a[EventIndex(event)]] = event;
    }
}

namespace {

/// Replays a step under a schedule. `Memory` is that of Replay (core/predict/replay_rules.h).
template <class Memory>
class OpsReplay
{
public:
    OpsReplay(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule)
        : graph_(graph)
        , trace_(*graph.trace)
        , events_(events)
        , schedule_(schedule)
        , memory_(trace_)
        , uses_(graph.values.size())
    {
        for (std::uint32_t i = 0; i < graph.nodes.size(); ++i)
            if (schedule.repeated[i])
                for (const ValueId value : graph.nodes[i].reads)
                    ++uses_[value.value].readers;
        for (std::uint32_t event = 0; event < trace_.events.size(); ++event)
            if (trace_.events.kind[EventIndex(event)] == EventKind::unpack)
                if (const ValueId value = graph_.packed(PackId(trace_.events.a[EventIndex(event)])); dropped(value))
                    ++uses_[value.value].unpacks;
    }

    Memory run() &&
    {
        for (event_ = 0; event_ < trace_.events.size(); ++event_)
            applyEvent(memory_, *this, trace_, event_);
        return std::move(memory_);
    }

    // Functions that applyEvent() calls.

    /// After the last op of a node in forward, holds the node's saved values for the recomputations that read such
    /// values.
    void opEnd(OpId op)
    {
        const NodeId node = graph_.nodeOf[op.value];
        if (!node.valid() || graph_[node].ops.back() != op)
            return;
        for (const ValueId value : graph_[node].makes) {
            Uses& uses = uses_[value.value];
            if (!schedule_.saved[value.value] || uses.readers == 0)
                continue;
            uses.block = graph_[value].storage.value;
            memory_.hold(uses.block);
        }
    }

    void enter(CallId) {} // plans of ops know no modules

    void autograd(EventKind kind, PackId pack)
    {
        const ValueId value = graph_.packed(pack);
        if (!dropped(value))
            holdForAutograd(memory_, trace_, kind, pack);
        else if (kind == EventKind::unpack)
            recomputeNow();
        else if (kind == EventKind::unpackEnd)
            used(value, &Uses::unpacks);
    }

private:
    using Block = typename Memory::Block;
    static constexpr Block none = static_cast<Block>(-1);

    /// Uses of a value that are still to come, besides the trace's uses.
    struct Uses
    {
        std::uint32_t readers = 0; ///< recomputed nodes that read the value
        std::uint32_t unpacks = 0; ///< only of recomputed values
        Block block = none; ///< the recomputed copy, or the saved value itself while held by the executor
    };

    /// Whether packs of the value hold nothing under the plan.
    bool dropped(ValueId value) const
    {
        return value.valid() && graph_.takesMemory(value) && !schedule_.saved[value.value];
    }

    void used(ValueId value, std::uint32_t Uses::*use)
    {
        Uses& uses = uses_[value.value];
        --(uses.*use);
        if (uses.readers == 0 && uses.unpacks == 0 && uses.block != none)
            memory_.drop(std::exchange(uses.block, none));
    }

    void recomputeNow()
    {
        if (nextRun_ == schedule_.runs.size() || schedule_.runs[nextRun_].unpack != event_)
            return;
        const std::vector<OpId> ops = opsOf(graph_, schedule_.runs[nextRun_++].nodes);
        for (const OpId op : ops)
            runAgain(op);
    }

    void runAgain(OpId op)
    {
        memory_.beginOp(op, trace_.ops.ms[op]);
        memory_.addRecomputeMs(trace_.ops.ms[op]);
        inside_.clear();
        for (std::uint32_t event = events_.begin[op.value]; event < events_.end[op.value]; ++event) {
            const EventKind kind = trace_.events.kind[EventIndex(event)];
            const StorageId storage(trace_.events.a[EventIndex(event)]);
            if (kind == EventKind::alloc) {
                inside_.emplace_back(storage, memory_.addCopy(storage, trace_.storages.bytes[storage]));
                memory_.hold(inside_.back().second);
            } else if (kind == EventKind::free) {
                const auto found = std::ranges::find(inside_, storage, &std::pair<StorageId, Block>::first);
                if (found != inside_.end()) {
                    memory_.drop(found->second);
                    inside_.erase(found);
                }
            }
        }
        for (const auto& [storage, block] : inside_) {
            const ValueId value = graph_.valueOf[storage.value];
            const bool wanted = dropped(value) && (uses_[value.value].readers > 0 || uses_[value.value].unpacks > 0);
            if (wanted)
                uses_[value.value].block = block;
            else
                memory_.drop(block);
        }
        const NodeId node = graph_.nodeOf[op.value];
        if (graph_[node].ops.back() == op)
            for (const ValueId value : graph_[node].reads)
                used(value, &Uses::readers);
        memory_.endOp();
    }

    const JointGraph& graph_;
    const StepTrace& trace_;
    const OpEvents& events_;
    const OpsSchedule& schedule_;
    Memory memory_;
    std::vector<Uses> uses_; ///< by value
    std::vector<std::pair<StorageId, Block>> inside_; ///< allocations of the op that is recomputed now
    std::size_t nextRun_ = 0;
    std::uint32_t event_ = 0;
};

} // namespace

Timeline replayOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule)
{
    return OpsReplay<LiveMemory>(graph, events, schedule).run().finish();
}

ModuleTally tallyOps(const JointGraph& graph, const OpEvents& events, const OpsSchedule& schedule)
{
    return OpsReplay<ModuleMemory>(graph, events, schedule).run().finish();
}

} // namespace headroom
