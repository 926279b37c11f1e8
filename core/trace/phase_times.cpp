// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/phase_times.h"

namespace headroom {

namespace {

template <class Counts>
double sumOfMs(const StepTrace& trace, std::span<const double> times, Counts counts)
{
    double ms = 0;
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op)
        if (trace.ops.phase[OpId(op)] <= Phase::backward && counts(OpId(op)))
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
    return sumOfMs(trace, ms, [](OpId) { return true; });
}

double recomputedMs(const StepTrace& trace)
{
    return sumOfMs(trace, trace.ops.ms.rows, [&](OpId op) { return (trace.ops.flags[op] & opRecomputed) != 0; });
}

} // namespace headroom
