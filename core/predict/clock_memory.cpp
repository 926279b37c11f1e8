// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/clock_memory.h"

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

/// Time from a launch on the CPU until the kernel begins on an idle GPU.
constexpr double launchMs = 0.004;

/// Adds a span. A span that begins inside the last span extends the last span.
void append(std::vector<TimeSpan>& spans, TimeSpan span)
{
    if (!spans.empty() && span.begin <= spans.back().end && span.begin >= spans.back().begin)
        spans.back().end = std::max(spans.back().end, span.end);
    else
        spans.push_back(span);
}

/// Sorts spans and joins overlapping spans.
std::vector<TimeSpan> joined(std::vector<TimeSpan> spans)
{
    std::ranges::sort(spans, {}, &TimeSpan::begin);
    std::vector<TimeSpan> result;
    for (const TimeSpan& span : spans)
        append(result, span);
    return result;
}

/// The time of `span` that no span of `busy` covers.
double outside(TimeSpan span, const std::vector<TimeSpan>& busy)
{
    double free = std::max(0.0, span.end - span.begin);
    for (auto at = std::ranges::upper_bound(busy, span.begin, {}, &TimeSpan::end);
         at != busy.end() && at->begin < span.end; ++at)
        free -= std::min(span.end, at->end) - std::max(span.begin, at->begin);
    return free;
}

/// Calls visit(row) for the events between the op before and this op.
template <class Visit>
void forEachRowBefore(const StepTrace::StreamEvents& events, OpId op, Visit visit)
{
    const auto [first, last] = std::equal_range(events.op.begin(), events.op.end(), op);
    for (auto found = first; found != last; ++found)
        visit(static_cast<std::size_t>(found - events.op.begin()));
}

} // namespace

ClockMemory::ClockMemory(const StepTrace& trace)
    : trace_(&trace)
    , issues_(opIssues(trace))
    , storages_(static_cast<Block>(trace.storages.size()))
    , link_(hostLinkOf(trace.info))
{
}

void ClockMemory::mark(Mark mark)
{
    if (mark != Mark::stepBegin)
        return;
    clock_ = {};
    cpu_ = issued_ = out_ = in_ = 0;
    outEnds_.clear();
    inEnds_.clear();
    streams_.clear();
    recorded_.clear();
    busy_.clear();
}

void ClockMemory::beginOp(OpId op, double ms)
{
    op_ = op;
    happenBefore(op);
    const std::uint32_t stream = stream_ = trace_->ops.stream.size() > 0 ? trace_->ops.stream[op] : 0;
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
    recordBehind(op, stream);
}

TimedOffload& ClockMemory::offloadOf(std::uint32_t region)
{
    if (region >= clock_.offloads.size())
        clock_.offloads.resize(region + 1);
    return clock_.offloads[region];
}

/// Issues a copy on the stream of a direction, behind the ops issued so far. Returns the end of the copy.
double ClockMemory::copy(double& stream, std::uint32_t region, double ms)
{
    cpu_ += link_.issueMs;
    clock_.cpuMs += link_.issueMs;
    clock_.copyMs += ms;
    offloadOf(region).copyMs += ms;
    stream = std::max({stream, streams_[stream_], cpu_ + launchMs}) + ms;
    return stream;
}

void ClockMemory::copyOut(std::uint32_t moved, std::uint32_t region, Bytes bytes)
{
    outEnds_[moved] = copy(out_, region, link_.msToHost(bytes));
    offloadOf(region).bytes += bytes;
}

void ClockMemory::copyIn(std::uint32_t moved, std::uint32_t region, Bytes bytes)
{
    inEnds_[moved] = copy(in_, region, link_.msFromHost(bytes));
}

/// Lets the stream of the last op wait for the end of a copy. Returns the time when the GPU runs nothing else.
double ClockMemory::await(double& copyEnd, std::uint32_t region)
{
    double& gpu = streams_[stream_];
    const double exposed = std::max(0.0, copyEnd - std::max(gpu, cpu_ + launchMs));
    clock_.exposedCopyMs += exposed;
    offloadOf(region).exposedMs += exposed;
    gpu = std::max(gpu, copyEnd);
    copyEnd = 0;
    return exposed;
}

void ClockMemory::reach(std::uint32_t event)
{
    const auto& position = trace_->streamEvents.position;
    while (happened_ < position.size() && position[happened_].value <= event)
        happen(happened_++);
}

std::optional<double> ClockMemory::endUses(Block block)
{
    const auto users = uses_.extract(block);
    if (users.empty())
        return std::nullopt;
    double until = 0;
    for (const std::uint32_t stream : users.mapped())
        until = std::max(until, streams_[stream]);
    return until;
}

StepClock ClockMemory::finish() &&
{
    happenBefore(OpId(static_cast<std::uint32_t>(trace_->ops.size())));
    clock_.stepMs = cpu_;
    for (const auto& [stream, end] : streams_)
        clock_.stepMs = std::max(clock_.stepMs, end);
    std::ranges::sort(clock_.collectives, {}, &TimedCollective::beginMs);
    const std::vector<TimeSpan> busy = joined(std::move(busy_));
    double reached = 0; // end of the collectives that began before
    for (TimedCollective& collective : clock_.collectives) {
        const double end = collective.beginMs + collective.ms;
        collective.exposedMs = outside({std::max(collective.beginMs, reached), end}, busy);
        reached = std::max(reached, end);
        clock_.communicationMs += collective.ms;
        clock_.exposedMs += collective.exposedMs;
    }
    return clock_;
}

void ClockMemory::run(OpId op, TimeSpan span, double ms)
{
    if (std::ranges::binary_search(trace_->collectives.op, op)) {
        clock_.collectives.push_back({op, span.begin, issued_, ms, 0});
        return;
    }
    clock_.gpuMs += ms;
    append(busy_, span);
}

void ClockMemory::happenBefore(OpId op)
{
    const StepTrace::StreamEvents& events = trace_->streamEvents;
    const bool isAgain = op.value < begun_;
    forEachRowBefore(events, op, [&](std::size_t row) {
        if (isAgain ? events.kind[row] != StreamEventKind::use : row >= happened_)
            happen(row);
    });
    if (isAgain)
        return;
    begun_ = op.value + 1;
    const auto next = std::ranges::upper_bound(events.op, op);
    happened_ = std::max(happened_, static_cast<std::size_t>(next - events.op.begin()));
}

/// Lets the records right after an op, on the op's stream, happen: after a recomputed op another op may follow than in
/// forward.
void ClockMemory::recordBehind(OpId op, std::uint32_t stream)
{
    const StepTrace::StreamEvents& events = trace_->streamEvents;
    forEachRowBefore(events, OpId(op.value + 1), [&](std::size_t row) {
        if (events.kind[row] == StreamEventKind::record && events.stream[row] == stream)
            happen(row);
    });
}

void ClockMemory::happen(std::size_t row)
{
    const StepTrace::StreamEvents& events = trace_->streamEvents;
    const std::uint32_t stream = events.stream[row];
    const std::uint32_t event = events.event[row];
    switch (events.kind[row]) {
    case StreamEventKind::record:
        recorded_[event] = streams_[stream];
        break;
    case StreamEventKind::wait:
        streams_[stream] = std::max(streams_[stream], recorded_[event]);
        break;
    case StreamEventKind::synchronize:
        cpu_ = std::max(cpu_, recorded_[event]);
        break;
    case StreamEventKind::use:
        uses_[event].push_back(stream);
        break;
    }
}

} // namespace headroom
