// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_clock.h"

#include "core/joint/ops_schedule.h"

namespace headroom {

StepClock clockOf(const JointGraph& graph, const OpsPlan& plan)
{
    const OpsSchedule schedule = OpsScheduler(graph).of(graph.among(plan.saved));
    const StepTrace& trace = *graph.trace;
    std::vector<IssuedOp> issued;
    auto run = schedule.runs.begin();
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
        const EventIndex event(i);
        const std::uint32_t what = trace.events.a[event];
        if (trace.events.kind[event] == EventKind::opBegin)
            issued.push_back({OpId(what)});
        else if (trace.events.kind[event] == EventKind::mark && static_cast<Mark>(what) == Mark::stepBegin)
            issued.clear(); // earlier ops belong to another step
        for (; run != schedule.runs.end() && run->unpack <= i; ++run)
            for (const OpId op : opsOf(graph, run->nodes))
                issued.push_back({op, true});
    }
    return clockOfOps(trace, issued);
}

} // namespace headroom
