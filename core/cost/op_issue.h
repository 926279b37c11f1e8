// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <span>
#include <vector>

namespace headroom {

/// Cost of issuing an op on the CPU and of launching the op's kernels.
struct OpIssue
{
    double cpuMs = 0; ///< CPU time: Python, autograd, dispatch, launches, entering the modules before it
    double gapMs = 0; ///< idle time of the GPU between the op's kernels
    double kernels = 0;
    bool waits = false; ///< the CPU waits until the GPU has run the op, a copy to the host
};

/// The OpIssue of each op of the step. Costs by WorkClass are in resources/kernel_times.json, with sources.
std::vector<OpIssue> opIssues(const StepTrace& trace);

/// StepInfo::cpuFactor from the CPU time to issue each op of a trace, `issueMs` (0: unknown): the median, since most
/// ops wait for nothing. Returns 0 if fewer than 200 ops have a time: a step of a small model has more.
double cpuFactorOf(const StepTrace& trace, std::span<const double> issueMs);

} // namespace headroom
