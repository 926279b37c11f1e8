// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"
#include "core/trace/step_trace_builder.h"

#include <vector>

namespace headroom::cupti {

/// The recorder's tables for the ids that it pushed during a step.
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
