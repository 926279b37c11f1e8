// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/phase_times.h"

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
    return sumOfMs(trace, trace.ops.ms.rows, opRecomputed);
}

} // namespace headroom
