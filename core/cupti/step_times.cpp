// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/step_times.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace headroom::cupti {
namespace {

constexpr double nanosecondsPerMs = 1e6;

double msOf(std::uint64_t nanoseconds)
{
    return static_cast<double>(nanoseconds) / nanosecondsPerMs;
}

/// Adds up work that is sorted by start. Sums of whole nanoseconds do not depend on the order.
class Meter
{
public:
    void add(const GpuActivity& activity)
    {
        const std::uint64_t from = std::max(activity.start, covered_);
        if (activity.end > from)
            busy_ += activity.end - from;
        covered_ = std::max(covered_, activity.end);
        sum_ += activity.end - activity.start;
        ++(activity.kind == GpuActivity::ActivityKind::kernel ? kernels_ : copies_);
    }

    WorkTime time() const { return {msOf(busy_), msOf(sum_), kernels_, copies_}; }

private:
    std::uint64_t covered_ = 0; ///< everything before this instant is counted
    std::uint64_t busy_ = 0;
    std::uint64_t sum_ = 0;
    std::uint32_t kernels_ = 0;
    std::uint32_t copies_ = 0;
};

double msOf(const std::vector<HostActivity>& activities)
{
    std::uint64_t sum = 0;
    for (const HostActivity& activity : activities)
        sum += activity.end > activity.start ? activity.end - activity.start : 0;
    return msOf(sum);
}

struct Origin
{
    std::optional<std::uint64_t> op;
    std::optional<std::uint64_t> call;
};

std::unordered_map<std::uint32_t, Origin> originsOf(const std::vector<ExternalId>& externals)
{
    std::unordered_map<std::uint32_t, Origin> origins;
    for (const ExternalId& external : externals) {
        Origin& origin = origins[external.correlation];
        std::optional<std::uint64_t>& id = external.kind == ExternalId::IdKind::op ? origin.op : origin.call;
        id = std::max(id.value_or(0), external.id);
    }
    return origins;
}

} // namespace

StepTimes correlate(const ActivityLog& log)
{
    StepTimes times;
    const auto origins = originsOf(log.externals);
    for (const GpuActivity& activity : log.gpu) {
        if (activity.end <= activity.start) {
            ++times.unfinished;
            continue;
        }
        const auto origin = origins.find(activity.correlation);
        LaunchedWork& piece = times.work.emplace_back();
        piece.activity = activity;
        if (origin != origins.end()) {
            piece.op = origin->second.op;
            piece.call = origin->second.call;
        }
    }
    // A total order, so that the result does not depend on the order of the buffers.
    std::ranges::sort(times.work, {}, [](const LaunchedWork& piece) {
        const GpuActivity& a = piece.activity;
        return std::tuple(a.start, a.end, a.device, a.context, a.stream, a.correlation, a.kind);
    });

    Meter all;
    Meter withoutOp;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Meter> streams;
    std::uint64_t last = 0;
    for (const LaunchedWork& piece : times.work) {
        const GpuActivity& a = piece.activity;
        all.add(a);
        if (!piece.op)
            withoutOp.add(a);
        streams[{a.device, a.context, a.stream}].add(a);
        last = std::max(last, a.end);
    }
    times.all = all.time();
    times.withoutOp = withoutOp.time();
    for (const auto& [key, meter] : streams)
        times.streams.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), meter.time()});
    if (!times.work.empty())
        times.spanMs = msOf(last - times.work.front().activity.start);
    times.overheadMs = msOf(log.overheads);
    times.synchronizationMs = msOf(log.synchronizations);
    times.dropped = log.dropped;
    return times;
}

std::unordered_map<std::uint64_t, WorkTime>
timesByKey(const std::vector<LaunchedWork>& work,
           const std::function<void(const LaunchedWork& piece, const AddKey& add)>& keysOf)
{
    std::unordered_map<std::uint64_t, Meter> meters;
    for (const LaunchedWork& piece : work)
        keysOf(piece, [&](std::uint64_t key) { meters[key].add(piece.activity); });
    std::unordered_map<std::uint64_t, WorkTime> times;
    for (const auto& [key, meter] : meters)
        times.emplace(key, meter.time());
    return times;
}

} // namespace headroom::cupti

namespace headroom::cupti {
namespace {

template <class Id>
Id at(const std::vector<Id>& column, std::uint64_t index)
{
    return index < column.size() ? column[index] : Id();
}

/// Returns the op of a piece of work; invalid: no op of the step.
OpId opOf(const LaunchedWork& piece, const TracedStep& step)
{
    return piece.op ? at(step.opOf, *piece.op) : OpId();
}

/// Returns the busy time of each module, including its submodules. Work outside of all ops belongs to the running
/// module.
std::vector<double> moduleTimes(const StepTimes& times, const TracedStep& step)
{
    const auto byModule = timesByKey(times.work, [&](const LaunchedWork& piece, const AddKey& add) {
        const OpId op = opOf(piece, step);
        ModuleId module;
        if (op.valid())
            module = at(step.moduleOf, op.value);
        else if (piece.call)
            module = at(step.callModule, *piece.call);
        for (; module.valid(); module = at(step.parentOf, module.value))
            add(module.value);
    });
    std::vector<double> ms(step.parentOf.size(), 0);
    for (const auto& [module, time] : byModule)
        ms.at(module) = time.busyMs;
    return ms;
}

std::string missingNote(const StepTimes& times, std::int64_t ops)
{
    const std::uint64_t missing = times.dropped + times.unfinished;
    return std::to_string(missing) + (missing == 1 ? " record of CUPTI is" : " records of CUPTI are")
        + " missing: the times of " + std::to_string(ops) + " ops without a kernel are the roofline's";
}

} // namespace

void addTimes(const ActivityLog& log, const TracedStep& step, StepTraceBuilder& builder, MeasuredStep& measured)
{
    const StepTimes times = correlate(log);
    measured.busyMs = times.all.busyMs;
    measured.kernelMs = times.all.sumMs;
    measured.spanMs = times.spanMs;
    measured.overheadMs = times.overheadMs;
    measured.synchronizationMs = times.synchronizationMs;
    measured.kernels = static_cast<std::int64_t>(times.work.size());
    measured.droppedRecords = static_cast<std::int64_t>(times.dropped + times.unfinished);
    if (times.work.empty()) {
        // If tracing could not be started, a note already says why.
        if (measured.notes.empty())
            measured.notes.emplace_back(
                "no kernel was traced though CUPTI was switched on: all times are the roofline's; "
                "another profiler in this process (torch.profiler) takes CUPTI's records");
        return;
    }
    measured.moduleMs = moduleTimes(times, step);
    double withoutOp = 0;
    const auto ops = timesByKey(times.work, [&](const LaunchedWork& piece, const AddKey& add) {
        if (const OpId op = opOf(piece, step); op.valid())
            add(op.value);
        else
            withoutOp += static_cast<double>(piece.activity.end - piece.activity.start) / 1e6;
    });
    measured.withoutOpMs = withoutOp;
    for (std::size_t row = 0; row < step.moves.size(); ++row) {
        const auto time = ops.find(row);
        if (time != ops.end())
            builder.measured(OpId(static_cast<std::uint32_t>(row)), time->second.busyMs);
        else if (measured.droppedRecords == 0 || !step.moves[row])
            builder.measured(OpId(static_cast<std::uint32_t>(row)), 0);
        else
            ++measured.opsWithoutKernel;
    }
    if (measured.droppedRecords > 0)
        measured.notes.push_back(missingNote(times, measured.opsWithoutKernel));
}

} // namespace headroom::cupti
