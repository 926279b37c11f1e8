// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"
#include "core/trace/step_trace_builder.h"

#include <vector>

namespace headroom::cupti {

/// What the recorder knows of the numbers that it pushed while a step ran.
struct TracedStep
{
    std::vector<OpId> opOf; ///< by the number of an op; invalid: it became none of the step's
    std::vector<bool> moves; ///< by OpId: it moves bytes, so that it should have a kernel
    std::vector<ModuleId> moduleOf; ///< by OpId
    std::vector<ModuleId> callModule; ///< by the number of a module's call
    std::vector<ModuleId> parentOf; ///< by ModuleId
};

/// Gives the step's ops the times of their kernels, and fills in what `measured` says of times. An op without a kernel
/// took no time, unless records are missing: then those that should have one keep the roofline's time, and a note says
/// how many. With no record at all every op does.
void addTimes(const ActivityLog& log, const TracedStep& step, StepTraceBuilder& builder, MeasuredStep& measured);

} // namespace headroom::cupti
