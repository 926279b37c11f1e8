// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/module_memory.h"
#include "core/predict/step_model.h"
#include "core/timeline/pyramid.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/core/temporary_folder.h"

#include <benchmark/benchmark.h>

#include <map>

using namespace headroom;

namespace {

StepTracePtr step(std::int64_t events)
{
    static std::map<std::int64_t, StepTracePtr> steps;
    StepTracePtr& result = steps[events];
    if (!result)
        result = makeSyntheticStep(syntheticOptions(static_cast<std::size_t>(events)));
    return result;
}

/// Every block, with what `save` says about its savable ops.
CheckpointPlan blocks(const StepModel& model, bool save)
{
    CheckpointPlan plan;
    const StepTrace& trace = *model.trace();
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        if (trace.strings[trace.modules.type[module]] != "TransformerBlock")
            continue;
        std::vector<bool> ops;
        if (save)
            ops = model.savableOps(module);
        for (std::size_t op = 0; op < ops.size(); ++op)
            ops[op] = ops[op] && op % 2 == 0;
        plan.push_back({module, ops});
    }
    return plan;
}

void openStep(benchmark::State& state)
{
    const TemporaryFolder folder;
    const auto path = folder.path() / "step.hrs";
    if (!writeStepTrace(*step(state.range(0)), path))
        state.SkipWithError("cannot write the step");
    for (auto _ : state)
        benchmark::DoNotOptimize(readStepTrace(path));
    state.counters["bytes"] = static_cast<double>(std::filesystem::file_size(path));
}

void writeStep(benchmark::State& state)
{
    const TemporaryFolder folder;
    for (auto _ : state)
        if (!writeStepTrace(*step(state.range(0)), folder.path() / "step.hrs"))
            state.SkipWithError("cannot write the step");
}

void prepareModel(benchmark::State& state)
{
    for (auto _ : state)
        benchmark::DoNotOptimize(StepModel(step(state.range(0))));
}

void predictNoPlan(benchmark::State& state)
{
    const StepModel model(step(state.range(0)));
    for (auto _ : state)
        benchmark::DoNotOptimize(model.predict({}));
}

void predictEveryBlock(benchmark::State& state, bool save)
{
    const StepModel model(step(state.range(0)));
    const CheckpointPlan plan = blocks(model, save);
    for (auto _ : state)
        benchmark::DoNotOptimize(model.predict(plan));
}

/// What the window asks with each answer, and for each way to checkpoint one module.
void moduleEffects(benchmark::State& state, bool every)
{
    const StepModel model(makeSyntheticStep(
        {.blocks = static_cast<int>(state.range(0)), .microBatches = static_cast<int>(state.range(1))}));
    CheckpointPlan plan = blocks(model, true);
    plan.resize(every ? plan.size() : 1);
    const ModuleEffects effects(model);
    for (auto _ : state)
        benchmark::DoNotOptimize(effects.of(plan));
    state.counters["events"] = static_cast<double>(model.trace()->events.size());
}

void buildPyramid(benchmark::State& state)
{
    const StepModel model(step(state.range(0)));
    for (auto _ : state)
        benchmark::DoNotOptimize(TimelinePyramid(model.recorded()));
    state.counters["changes"] = static_cast<double>(model.recorded()->changes.size());
}

void query1400Columns(benchmark::State& state)
{
    const StepModel model(step(state.range(0)));
    const TimelinePyramid pyramid(model.recorded());
    for (auto _ : state)
        benchmark::DoNotOptimize(pyramid.columns(0, model.recorded()->durationMs, 1400));
}

void listLiveBlocks(benchmark::State& state)
{
    const StepModel model(step(state.range(0)));
    const Timeline& timeline = *model.recorded();
    for (auto _ : state)
        benchmark::DoNotOptimize(liveBlocks(*model.trace(), timeline, timeline.changes.size() / 2));
}

BENCHMARK(openStep)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK(writeStep)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK(prepareModel)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK(predictNoPlan)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(predictEveryBlock, recompute, false)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(predictEveryBlock, selective, true)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(moduleEffects, every_block, true)
    ->Args({12, 1})
    ->Args({96, 1})
    ->Args({96, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(moduleEffects, one_block, false)
    ->Args({12, 1})
    ->Args({96, 1})
    ->Args({96, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(buildPyramid)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK(query1400Columns)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK(listLiveBlocks)->Arg(1000000)->Unit(benchmark::kMillisecond);

} // namespace
