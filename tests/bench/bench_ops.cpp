// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// How long op-level plans take: a step of 50,000 ops is to be planned within a second, from its file's columns to the
// ops to save, with the peak.
#include "core/joint/ops_planner.h"
#include "tests/core/synthetic_step.h"

#include <benchmark/benchmark.h>

#include <map>

namespace headroom {
namespace {

/// A transformer of many blocks with at least so many ops.
const StepTracePtr& stepOf(int blocks, int elementwise)
{
    static std::map<std::pair<int, int>, StepTracePtr> steps;
    StepTracePtr& step = steps[{blocks, elementwise}];
    if (!step)
        step = makeSyntheticStep({.blocks = blocks, .elementwise = elementwise});
    return step;
}

void readAndPlan(benchmark::State& state)
{
    const StepTracePtr& trace = stepOf(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    OpsRequest request;
    request.fraction = 0.37;
    request.solver = static_cast<OpsSolver>(state.range(2));
    for (auto run : state) {
        const auto planner = OpsPlanner::create(trace);
        auto plan = planner->plan(request);
        benchmark::DoNotOptimize(plan->peak);
    }
    state.counters["ops"] = static_cast<double>(trace->ops.size());
}
BENCHMARK(readAndPlan)
    ->ArgNames({"blocks", "elementwise", "solver"})
    ->Args({96, 2, 0})
    ->Args({96, 240, 0})
    ->Args({1600, 2, 0})
    ->Args({1600, 2, 1})
    ->Args({1600, 2, 2})
    ->Unit(benchmark::kMillisecond);

/// The planner is there, as while the fraction is dragged.
void planAgain(benchmark::State& state)
{
    const StepTracePtr& trace = stepOf(static_cast<int>(state.range(0)), 2);
    const auto planner = OpsPlanner::create(trace);
    OpsRequest request;
    int step = 0;
    for (auto run : state) {
        request.fraction = 0.01 * (1 + step++ % 98);
        auto plan = planner->plan(request);
        benchmark::DoNotOptimize(plan->peak);
    }
    state.counters["ops"] = static_cast<double>(trace->ops.size());
}
BENCHMARK(planAgain)->ArgName("blocks")->Arg(12)->Arg(96)->Arg(1600)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace headroom
