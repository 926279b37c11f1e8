// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom::cupti {

/// Time that work takes on the GPU. Where several streams work at once, `busyMs` counts the time once and `sumMs` for
/// each of them.
struct WorkTime
{
    double busyMs = 0;
    double sumMs = 0;
    std::uint32_t kernels = 0;
    std::uint32_t copies = 0; ///< copies and fills

    friend bool operator==(const WorkTime&, const WorkTime&) = default;
};

/// One activity of the GPU with the op and the module's call that launched it.
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

/// What a step's records say once they are joined.
struct StepTimes
{
    std::vector<LaunchedWork> work; ///< by start
    WorkTime all;
    WorkTime withoutOp; ///< launched outside of every op, as by a library's own threads
    std::vector<StreamTime> streams; ///< by device, context, stream
    double spanMs = 0; ///< from the first start to the last end
    double overheadMs = 0; ///< what tracing cost the CPU, as CUPTI says
    double synchronizationMs = 0; ///< what the CPU waited for the GPU
    std::uint64_t unfinished = 0; ///< records without an end: in no time here
    std::uint64_t dropped = 0;
};

/// Joins activities of the GPU with the numbers that were pushed when they were launched, by correlation id. Records
/// may come in any order: an id after its kernel too. Of several numbers for one launch the highest counts, which is
/// that of the innermost op.
StepTimes correlate(const ActivityLog& log);

/// The time of each key, `keysOf` calling its argument with every key that a piece of work counts to. `work` is sorted
/// by start, as that of StepTimes.
using AddKey = std::function<void(std::uint64_t key)>;
std::unordered_map<std::uint64_t, WorkTime>
timesByKey(const std::vector<LaunchedWork>& work,
           const std::function<void(const LaunchedWork& piece, const AddKey& add)>& keysOf);

} // namespace headroom::cupti
