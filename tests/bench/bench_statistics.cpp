// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// How long the statistics of a step take: the window computes them when a step is opened. Steps of 96 layers; 100'000
// events are more than those of a 175B GPT.
#include "core/sac/sac_stats.h"
#include "core/sac/step_statistics.h"
#include "tests/core/synthetic_step.h"

#include <benchmark/benchmark.h>

#include <filesystem>

namespace headroom {
namespace {

StepTracePtr stepOf(const benchmark::State& state)
{
    return makeSyntheticStep(syntheticOptions(static_cast<std::size_t>(state.range(0))));
}

void moduleInfoOfStep(benchmark::State& state)
{
    const StepTracePtr trace = stepOf(state);
    for (auto _ : state)
        benchmark::DoNotOptimize(moduleInfo(*trace));
    state.counters["events"] = static_cast<double>(trace->events.size());
    state.counters["modules"] = static_cast<double>(trace->modules.size());
}
BENCHMARK(moduleInfoOfStep)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void sacStatsOfStep(benchmark::State& state)
{
    const StepTracePtr trace = stepOf(state);
    for (auto _ : state)
        benchmark::DoNotOptimize(sacStats(*trace));
}
BENCHMARK(sacStatsOfStep)->Arg(100'000)->Unit(benchmark::kMillisecond);

/// The root of the largest model: thousands of candidates.
void tradeOffOfRoot(benchmark::State& state)
{
    const SacStats stats = sacStats(*stepOf(state)).at("Transformer");
    for (auto _ : state)
        benchmark::DoNotOptimize(tradeOff(stats));
    state.counters["ops"] = static_cast<double>(stats.memory.size());
}
BENCHMARK(tradeOffOfRoot)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void readPyTorchsModuleInfo(benchmark::State& state)
{
    const std::filesystem::path path
        = std::filesystem::path(HEADROOM_SOURCE_DIR) / "tests/data/pytorch/gpt3_175b_96L_modinfo.json";
    for (auto _ : state)
        benchmark::DoNotOptimize(readModuleInfo(path));
}
BENCHMARK(readPyTorchsModuleInfo)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace headroom
