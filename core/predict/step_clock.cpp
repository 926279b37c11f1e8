// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/step_clock.h"

#include "core/base/try.h"
#include "core/cost/op_issue.h"
#include "core/predict/issued_ops.h"
#include "core/predict/regions.h"
#include "core/predict/replay_rules.h"
#include "core/timeline/storage_owners.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace headroom {
namespace {

struct Span
{
    double begin = 0;
    double end = 0;
};

/// Begins after what came before it where it would begin inside of that.
void append(std::vector<Span>& spans, Span span)
{
    if (!spans.empty() && span.begin <= spans.back().end && span.begin >= spans.back().begin)
        spans.back().end = std::max(spans.back().end, span.end);
    else
        spans.push_back(span);
}

/// Spans without overlap, in order.
std::vector<Span> joined(std::vector<Span> spans)
{
    std::ranges::sort(spans, {}, &Span::begin);
    std::vector<Span> result;
    for (const Span& span : spans)
        append(result, span);
    return result;
}

/// What of `span` lies outside of `busy`.
double outside(Span span, const std::vector<Span>& busy)
{
    double free = std::max(0.0, span.end - span.begin);
    for (auto at = std::ranges::upper_bound(busy, span.begin, {}, &Span::end); at != busy.end() && at->begin < span.end;
         ++at)
        free -= std::min(span.end, at->end) - std::max(span.begin, at->begin);
    return free;
}

/// A Memory of replays that counts no memory: it follows the clocks of the CPU and of each stream.
class ClockMemory
{
public:
    using Block = std::uint32_t;

    explicit ClockMemory(const StepTrace& trace)
        : trace_(&trace)
        , issues_(opIssues(trace))
        , storages_(static_cast<Block>(trace.storages.size()))
    {
    }

    void hold(Block) {}
    void drop(Block) {}
    Block addCopy(StorageId, Bytes) { return storages_++; }
    void resize(Block, Bytes) {}
    void retype(StorageId, Category) {}
    void mark(Mark mark)
    {
        if (mark != Mark::stepBegin)
            return;
        clock_ = {};
        cpu_ = issued_ = 0;
        streams_.clear();
        recorded_.clear();
        busy_.clear();
    }

    void beginOp(OpId op, double ms)
    {
        op_ = op;
        happenBefore(op.value);
        const std::uint32_t stream = trace_->ops.stream.size() > 0 ? trace_->ops.stream[op] : 0;
        double& gpu = streams_[stream];
        const OpIssue& issue = issues_[op.value];
        cpu_ += issue.cpuMs;
        clock_.cpuMs += issue.cpuMs;
        if (ms > 0) {
            const double begin = std::max(gpu, cpu_ + launchMs);
            gpu = begin + ms + issue.gapMs;
            clock_.kernels += issue.kernels;
            run(op, {begin, gpu}, ms);
        }
        issued_ += ms;
        if (issue.waits)
            cpu_ = std::max(cpu_, gpu);
        // A recomputed op brings the events along that stand behind it: the next op may not be its neighbour.
        happenBefore(op.value + 1, [&](const StepTrace::StreamEvents& events, std::size_t row) {
            return events.kind[row] == StreamEventKind::record && events.stream[row] == stream;
        });
    }
    void endOp() {}
    void addRecomputeMs(double ms) { clock_.recomputedKernels += ms > 0 ? issues_[op_.value].kernels : 0; }

    StepClock finish() &&
    {
        happenBefore(static_cast<std::uint32_t>(trace_->ops.size()));
        clock_.stepMs = cpu_;
        for (const auto& [stream, end] : streams_)
            clock_.stepMs = std::max(clock_.stepMs, end);
        std::ranges::sort(clock_.collectives, {}, &TimedCollective::beginMs);
        const std::vector<Span> busy = joined(std::move(busy_));
        double reached = 0; // by the collectives that began before
        for (TimedCollective& collective : clock_.collectives) {
            const double end = collective.beginMs + collective.ms;
            collective.exposedMs = outside({std::max(collective.beginMs, reached), end}, busy);
            reached = std::max(reached, end);
            clock_.communicationMs += collective.ms;
            clock_.exposedMs += collective.exposedMs;
        }
        return clock_;
    }

private:
    /// From the launch on the CPU until a kernel begins on an idle GPU.
    static constexpr double launchMs = 0.004;

    void run(OpId op, Span span, double ms)
    {
        if (std::ranges::binary_search(trace_->collectives.op, op)) {
            clock_.collectives.push_back({op, span.begin, issued_, ms, 0});
            return;
        }
        clock_.gpuMs += ms;
        append(busy_, span);
    }

    static bool any(const StepTrace::StreamEvents&, std::size_t) { return true; }

    /// The events between the op before and this one.
    template <class Wanted = decltype(&any)>
    void happenBefore(std::uint32_t op, Wanted wanted = &any)
    {
        const StepTrace::StreamEvents& events = trace_->streamEvents;
        const auto rows = std::ranges::equal_range(events.op, OpId(op));
        const auto first = static_cast<std::size_t>(rows.begin() - events.op.begin());
        for (std::size_t row = first; row < first + rows.size(); ++row)
            if (wanted(events, row))
                happen(row);
    }

    void happen(std::size_t row)
    {
        const StepTrace::StreamEvents& events = trace_->streamEvents;
        double& stream = streams_[events.stream[row]];
        double& event = recorded_[events.event[row]];
        switch (events.kind[row]) {
        case StreamEventKind::record:
            event = stream;
            break;
        case StreamEventKind::wait:
            stream = std::max(stream, event);
            break;
        case StreamEventKind::synchronize:
            cpu_ = std::max(cpu_, event);
            break;
        }
    }

    const StepTrace* trace_;
    std::vector<OpIssue> issues_;
    Block storages_;
    OpId op_;
    double cpu_ = 0; ///< when the CPU has issued what came until now
    double issued_ = 0; ///< milliseconds of the ops until now, one after the other
    std::unordered_map<std::uint32_t, double> streams_; ///< when each has run it
    std::unordered_map<std::uint32_t, double> recorded_; ///< when each event is reached
    std::vector<Span> busy_; ///< with kernels other than collectives
    StepClock clock_;
};

} // namespace

bool hasClock(const StepTrace& trace)
{
    return trace.info.simulated && trace.ops.signature.size() > 0;
}

Result<StepClock> clockOf(const StepTrace& trace, const CheckpointPlan& plan)
{
    return clockOf(trace, StepIndex(trace), plan);
}

StepClock clockOfOps(const StepTrace& trace, std::span<const IssuedOp> ops)
{
    ClockMemory clock(trace);
    for (const IssuedOp& issued : ops) {
        clock.beginOp(issued.op, trace.ops.ms[issued.op]);
        if (issued.again)
            clock.addRecomputeMs(trace.ops.ms[issued.op]);
        clock.endOp();
    }
    return std::move(clock).finish();
}

Result<StepClock> clockOf(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan)
{
    ASSIGN_OR_RETURN(const Regions regions, layOut(trace, index, plan));
    ReplayNotes notes;
    Replay<ClockMemory> replay(trace, index, regions, ClockMemory(trace), notes);
    for (const std::uint32_t event : index.memoryEvents)
        replay.step(event);
    replay.finish();
    return std::move(replay.memory()).finish();
}

std::size_t collectiveRow(const StepTrace& trace, OpId op)
{
    return static_cast<std::size_t>(std::ranges::lower_bound(trace.collectives.op, op) - trace.collectives.op.begin());
}

std::vector<ModuleId> collectiveModules(const StepTrace& trace)
{
    const ModuleId root = trace.modules.size() > 0 ? ModuleId(0) : ModuleId();
    const auto isInside = [&](ModuleId module) { return module.valid() && module != root; };
    std::vector<bool> communicates(trace.modules.size(), false);
    std::vector<ModuleId> owners(trace.storages.size());
    for (const OpId op : trace.collectives.op)
        if (isInside(trace.ops.module[op]))
            communicates[trace.ops.module[op].value] = true;
    for (std::size_t row = 0; row < trace.registered.size(); ++row)
        if (trace.registered.storage[row].valid() && !isUnsharded(trace.registered.category[row]))
            owners[trace.registered.storage[row].value] = trace.registered.module[row];
    const auto up = [&](ModuleId module) {
        while (isInside(module) && !communicates[module.value])
            module = trace.modules.parent[module];
        return isInside(module) ? module : root;
    };
    /// Of the shards that were read last, which the ops before a gather pack for it.
    const auto gathered = [&](OpId op) {
        for (std::uint32_t row = op.value + 1; row-- > 0 && trace.ops.phase[OpId(row)] == trace.ops.phase[op];)
            for (const StorageId read : trace.ops.inputs[OpId(row)])
                if (isInside(owners[read.value]))
                    return owners[read.value];
        return ModuleId();
    };
    const auto ranBefore = [&](OpId op) {
        for (std::uint32_t row = op.value; row-- > 0 && trace.ops.phase[OpId(row)] == trace.ops.phase[op];)
            if (isInside(trace.ops.module[OpId(row)]))
                return trace.ops.module[OpId(row)];
        return ModuleId();
    };
    const StorageOwners storages(trace);
    const auto unitOf = [&](OpId op) {
        for (const auto& tensors : {trace.ops.outputs[op], trace.ops.mutated[op], trace.ops.inputs[op]})
            for (const StorageId storage : tensors)
                if (storages.unit(storage).valid())
                    return storages.unit(storage);
        return ModuleId();
    };
    std::vector<ModuleId> modules;
    for (std::size_t row = 0; row < trace.collectives.size(); ++row) {
        const OpId op = trace.collectives.op[row];
        ModuleId module = trace.ops.module[op];
        if (const ModuleId unit = unitOf(op); unit.valid())
            module = unit;
        else if (trace.collectives.kind[row] == CollectiveKind::allGather) {
            if (const ModuleId owner = gathered(op); owner.valid())
                module = up(owner);
        } else if (!isInside(module) && trace.ops.phase[op] == Phase::backward) {
            module = up(ranBefore(op));
        }
        modules.push_back(module.valid() ? module : root);
    }
    return modules;
}

std::vector<ModuleCommunication> communicationByModule(const StepTrace& trace, const StepClock& clock)
{
    const std::vector<ModuleId> of = collectiveModules(trace);
    std::map<ModuleId, ModuleCommunication> modules;
    for (const TimedCollective& collective : clock.collectives) {
        const ModuleId id = of[collectiveRow(trace, collective.op)];
        ModuleCommunication& module = modules[id];
        module.module = id;
        ++module.collectives;
        module.bytes += trace.collectives.bytes[collectiveRow(trace, collective.op)];
        module.ms += collective.ms;
        module.exposedMs += collective.exposedMs;
    }
    std::vector<ModuleCommunication> result;
    for (const auto& [id, module] : modules)
        result.push_back(module);
    std::ranges::stable_sort(result, std::ranges::greater(), &ModuleCommunication::exposedMs);
    return result;
}

std::vector<double> exposedByModule(const StepTrace& trace, const std::vector<ModuleId>& modules,
                                    const StepClock& clock)
{
    std::vector<double> exposed(trace.modules.size(), 0);
    for (const TimedCollective& collective : clock.collectives)
        if (const ModuleId module = modules[collectiveRow(trace, collective.op)]; module.valid())
            exposed[module.value] += collective.exposedMs;
    for (std::size_t i = exposed.size(); i-- > 1;) // parents come before their children
        if (const ModuleId parent = trace.modules.parent[ModuleId(static_cast<std::uint32_t>(i))]; parent.valid())
            exposed[parent.value] += exposed[i];
    return exposed;
}

} // namespace headroom
