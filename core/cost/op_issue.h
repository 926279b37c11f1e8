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

/// Copies between a GPU and pinned host memory that is reused, a stream for each direction.
struct HostLink
{
    double toHost = 0; ///< GB/s of large copies
    double fromHost = 0;
    double latencyMs = 0.01; ///< of a copy of a few bytes, so that small copies reach less
    double issueMs = 0.02; ///< CPU time to issue a copy: autograd's hook in Python, two events, the call

    double msToHost(Bytes bytes) const { return latencyMs + static_cast<double>(bytes) / (toHost * 1e6); }
    double msFromHost(Bytes bytes) const { return latencyMs + static_cast<double>(bytes) / (fromHost * 1e6); }
};

/// The link of the step's GPU: StepInfo::toHost and StepInfo::fromHost where these are known, else DeviceSpec's.
HostLink hostLinkOf(const StepInfo& info);

/// The OpIssue of each op of the step. Costs by WorkClass are in resources/kernel_times.json, with sources.
std::vector<OpIssue> opIssues(const StepTrace& trace);

/// StepInfo::cpuFactor from the CPU time to issue each op of a trace, `issueMs` (0: unknown): the median, since most
/// ops wait for nothing. Returns 0 if fewer than 200 ops have a time: a step of a small model has more.
double cpuFactorOf(const StepTrace& trace, std::span<const double> issueMs);

} // namespace headroom
