// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"
#include "core/trace/step_trace_builder.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom::cupti {

/// Time of work on the GPU. Where several streams work at once, `busyMs` counts the time once, `sumMs` once for each
/// stream.
struct WorkTime
{
    double busyMs = 0;
    double sumMs = 0;
    std::uint32_t kernels = 0;
    std::uint32_t copies = 0; ///< copies and fills

    friend bool operator==(const WorkTime&, const WorkTime&) = default;
};

/// An activity of the GPU, with the op and the module call of the launch.
struct LaunchedWork
{
    std::optional<std::uint64_t> op;
    std::optional<std::uint64_t> call;
    GpuActivity activity;
};

struct StreamTime
{
    std::uint32_t device = 0;
    std::uint32_t context = 0;
    std::uint32_t stream = 0;
    WorkTime time;
};

/// The times of a step, from joined records.
struct StepTimes
{
    std::vector<LaunchedWork> work; ///< sorted by start
    WorkTime all;
    WorkTime withoutOp; ///< launched outside of any op, for example by a library's own threads
    std::vector<StreamTime> streams; ///< sorted by device, context, stream
    double spanMs = 0; ///< from the first start to the last end
    double overheadMs = 0; ///< CPU time of tracing, as reported by CUPTI
    double synchronizationMs = 0; ///< time that the CPU waited for the GPU
    std::uint64_t unfinished = 0; ///< records without an end, in none of the times above
    std::uint64_t dropped = 0;
};

/// Joins GPU activities with the ids that were pushed at the launch, by correlation id. Records may come in any
/// order, for example an id after the id's kernel. If a launch has several ids, the highest counts: the id of
/// the innermost op.
StepTimes correlate(const ActivityLog& log);

/// Returns the time of each key. `keysOf` calls `add` for every key that a piece of work counts for. `work` must be
/// sorted by start, as in StepTimes.
using AddKey = std::function<void(std::uint64_t key)>;
std::unordered_map<std::uint64_t, WorkTime>
timesByKey(const std::vector<LaunchedWork>& work,
           const std::function<void(const LaunchedWork& piece, const AddKey& add)>& keysOf);

} // namespace headroom::cupti

namespace headroom::cupti {

/// The recorder's tables for the ids that the recorder pushed during a step.
struct TracedStep
{
    std::vector<OpId> opOf; ///< by traced number of an op; invalid: not an op of the step
    std::vector<bool> moves; ///< by OpId: the op moves bytes, so a kernel is expected
    std::vector<ModuleId> moduleOf; ///< by OpId
    std::vector<ModuleId> callModule; ///< by traced number of a module call
    std::vector<ModuleId> parentOf; ///< by ModuleId
};

/// Sets the measured times of the step's ops, and fills in the times of `measured`. An op without a kernel took no
/// time. If records are missing, an op that is expected to have a kernel keeps the roofline's time, and a note counts
/// such ops. Without any record, all ops keep the roofline's time.
void addTimes(const ActivityLog& log, const TracedStep& step, StepTraceBuilder& builder, MeasuredStep& measured);

} // namespace headroom::cupti
