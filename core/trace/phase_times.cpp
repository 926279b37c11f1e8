// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/phase_times.h"

#include <algorithm>

namespace headroom {

namespace {

/// Sums the times of the forward and backward ops that have all of `flags`.
double sumOfMs(const StepTrace& trace, std::span<const double> times, unsigned flags)
{
    double ms = 0;
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op)
        if (trace.ops.phase[OpId(op)] <= Phase::backward && (trace.ops.flags[OpId(op)] & flags) == flags)
            ms += times[op];
    return ms;
}

/// Whether an op brings a tensor back from the host beside the GPU's work, as an offloading policy does when a
/// recomputation begins.
bool isCopyFromHost(const StepTrace& trace, OpId op)
{
    return trace.ops.stream.size() > 0 && trace.ops.stream[op] != 0 && trace.opName(op) == "aten.copy_.default"
        && std::ranges::equal(trace.ops.inputs[op], trace.ops.mutated[op]);
}

} // namespace

double forwardBackwardMs(const StepTrace& trace)
{
    return forwardBackwardMs(trace, trace.ops.ms.rows);
}

double forwardBackwardMs(const StepTrace& trace, std::span<const double> ms)
{
    return sumOfMs(trace, ms, 0);
}

double recomputedMs(const StepTrace& trace)
{
    double ms = sumOfMs(trace, trace.ops.ms.rows, opRecomputed);
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op)
        if ((trace.ops.flags[OpId(op)] & opRecomputed) != 0 && isCopyFromHost(trace, OpId(op)))
            ms -= trace.ops.ms[OpId(op)];
    return ms;
}

} // namespace headroom
