// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/step_times.h"

#include "core/cupti/correlation.h"

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
                "another profiler in this process (torch.profiler) takes its records");
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
