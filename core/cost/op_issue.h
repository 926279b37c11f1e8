// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <vector>

namespace headroom {

/// What the CPU and the launch queue do for one op.
struct OpIssue
{
    double cpuMs = 0; ///< to issue it: Python, autograd, dispatch, launches; what enters a module before it is in it
    double gapMs = 0; ///< in which the GPU starts its kernels one after the other
    double kernels = 0;
    bool waits = false; ///< the CPU goes on when the GPU has done it: values that are read back
};

/// Of every op of the step. Costs by class of op are in resources/kernel_times.json, with their source.
std::vector<OpIssue> opIssues(const StepTrace& trace);

} // namespace headroom
