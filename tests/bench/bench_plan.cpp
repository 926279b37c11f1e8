// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// How long plans take, with PyTorch's own time beside ours (sac_milp with CBC on one core of the machine that made the
// reference; its gap is in brackets where it was not proven). A plan must come within a frame of the window, 16 ms,
// while the budget is dragged.
#include "core/plan/op_policy.h"
#include "core/plan/piecewise.h"
#include "core/policy/card_planner.h"
#include "core/policy/step_planner.h"
#include "tests/core/synthetic_step.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

namespace headroom {
namespace {

std::filesystem::path reference(const std::string& name)
{
    return std::filesystem::path(HEADROOM_SOURCE_DIR) / "tests/data/pytorch" / name;
}

const PiecewisePlanner& plannerOf(const char* model)
{
    static std::map<std::string, PiecewisePlanner> planners;
    const auto found = planners.find(model);
    if (found != planners.end())
        return found->second;
    const auto info
        = std::make_shared<const ModuleInfo>(*readModuleInfo(reference(std::string(model) + "_modinfo.json")));
    return planners.emplace(model, *PiecewisePlanner::create(info)).first->second;
}

struct Case
{
    const char* model;
    int worldSize;
    double gib;
    const char* pytorch;
};

constexpr Case cases[]{
    {"transformer", 4, 1.6, "PyTorch 0.093 s"},
    {"transformer", 4, 2.4, "PyTorch 0.023 s"},
    {"transformer", 4, 0.8, "PyTorch 0.012 s, infeasible"},
    {"gpt2_small_12L", 4, 7.381, "PyTorch 0.42 s [3 %], proven 3.08 s"},
    {"gpt2_small_12L", 4, 5.784, "PyTorch 0.24 s"},
    {"gpt2_small_12L", 4, 4.187, "PyTorch 0.25 s"},
    {"gpt2_medium_24L", 4, 9.52, "PyTorch 181 s, time limit [241 %]"},
    {"gpt2_medium_24L", 4, 7.472, "PyTorch 181 s, time limit [383 %]"},
    {"gpt2_medium_24L", 4, 5.425, "PyTorch 181 s, time limit [81 %]"},
    {"gpt3_175b_96L", 64, 78.409, "HiGHS 12.7 s"},
    {"gpt3_175b_96L", 64, 63.239, "HiGHS 5.6 s"},
    {"gpt3_175b_96L", 64, 48.069, "HiGHS 4.6 s"},
};

void solveOneBudget(benchmark::State& state)
{
    const Case& wanted = cases[state.range(0)];
    const PiecewisePlanner& planner = plannerOf(wanted.model);
    PlanRequest request;
    request.budget = static_cast<Bytes>(wanted.gib * static_cast<double>(GiB));
    request.worldSize = wanted.worldSize;
    Plan plan;
    for (auto _ : state)
        plan = *planner.solve(request);
    state.counters["gap"] = plan.gap;
    state.counters["recompute_ms"] = plan.recomputeMs;
    state.SetLabel(std::string(wanted.model) + " " + formatBytes(request.budget, 3) + ": " + wanted.pytorch);
}
BENCHMARK(solveOneBudget)->DenseRange(0, static_cast<int>(std::size(cases)) - 1)->Unit(benchmark::kMillisecond);

struct Range
{
    const char* model;
    int worldSize;
};
constexpr Range ranges[]{{"transformer", 1}, {"gpt2_small_12L", 4}, {"gpt2_medium_24L", 4},
                         {"resnet50", 1},    {"gpt3_175b_96L", 64}, {"gpt3_175b_96L", 8}};

/// A hundred budgets from the least feasible one to no checkpointing; the slowest is what a drag feels.
void solveWholeRange(benchmark::State& state)
{
    constexpr int budgets = 100;
    const Range& wanted = ranges[state.range(0)];
    const PiecewisePlanner& planner = plannerOf(wanted.model);
    PlanRequest request;
    request.worldSize = wanted.worldSize;
    request.budget = 1;
    const Bytes least = planner.solve(request)->leastBudget;
    request.budget = Bytes{1} << 50;
    const Bytes most = planner.solve(request)->peak;
    double slowest = 0;
    double worstGap = 0;
    for (auto _ : state)
        for (int i = 0; i <= budgets; ++i) {
            request.budget = least + (most - least) / budgets * i;
            const Plan plan = *planner.solve(request);
            slowest = std::max(slowest, plan.solveMs);
            worstGap = std::max(worstGap, plan.gap);
        }
    state.counters["slowest_ms"] = slowest;
    state.counters["worst_gap"] = worstGap;
    state.counters["plans_per_s"]
        = benchmark::Counter(static_cast<double>(state.iterations() * (budgets + 1)), benchmark::Counter::kIsRate);
    state.SetLabel(std::string(wanted.model) + ", world size " + std::to_string(wanted.worldSize));
}
BENCHMARK(solveWholeRange)->DenseRange(0, static_cast<int>(std::size(ranges)) - 1)->Unit(benchmark::kMillisecond);

void createPlanner(benchmark::State& state)
{
    const auto info = std::make_shared<const ModuleInfo>(*readModuleInfo(reference("gpt3_175b_96L_modinfo.json")));
    for (auto _ : state)
        benchmark::DoNotOptimize(PiecewisePlanner::create(info));
}
BENCHMARK(createPlanner)->Unit(benchmark::kMillisecond);

/// The root of ResNet-50: the op policy with most different sizes.
void opPolicyOfRoot(benchmark::State& state)
{
    const SacStats stats = *readSacStats(reference("resnet50_sacstats.json"), "ResNet");
    for (auto _ : state)
        benchmark::DoNotOptimize(opPolicy(stats, static_cast<double>(state.range(0)) / 100));
}
BENCHMARK(opPolicyOfRoot)->Arg(25)->Arg(50)->Arg(85)->Arg(95)->Unit(benchmark::kMillisecond);

/// A plan whose step was predicted, for a recorded step of so many layers.
void planStep(benchmark::State& state)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = static_cast<int>(state.range(0))});
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.budget = 1;
    const Bytes least = planner.solve(request)->plan.leastBudget;
    const Bytes most = planner.recorded()->peak;
    int i = 0;
    for (auto _ : state) {
        request.budget = least + (most - least) / 10 * (i++ % 9 + 1);
        benchmark::DoNotOptimize(planner.solve(request));
    }
    state.counters["events"] = static_cast<double>(trace->events.size());
}
BENCHMARK(planStep)->Arg(4)->Arg(12)->Arg(24)->Arg(96)->Unit(benchmark::kMillisecond);

/// A plan for a card, for a step of so many blocks that all differ.
void planDifferentBlocksForACard(benchmark::State& state)
{
    const int blocks = static_cast<int>(state.range(0));
    const StepPlanner planner = *StepPlanner::create(makeSyntheticStep({.blocks = blocks, .kinds = blocks}));
    PlanRequest request;
    request.budget = 1;
    const Bytes least = planner.solve(request)->plan.leastBudget;
    const Bytes middle = least + (planner.recorded()->peak - least) / 2;
    const auto card = std::make_shared<const Card>(*cardFor(std::to_string(middle), *planner.trace(), std::nullopt));
    for (auto _ : state) {
        const PlanAnswer found = *planForCard(planner, {}, card);
        state.counters["tried"] = found.card->tried;
        state.counters["gap"] = found.plan.gap;
    }
}
BENCHMARK(planDifferentBlocksForACard)->Arg(96)->Arg(2500)->Iterations(1)->Unit(benchmark::kMillisecond);

/// The first plan of adapters in many blocks, with all casts of weights in autocast's cache until backward is over. The
/// time per block may grow by half (larger data, colder caches), and not with the blocks.
void planUnderAutocast(benchmark::State& state)
{
    const StepTracePtr trace = makeSyntheticStep(
        {.blocks = static_cast<int>(state.range(0)), .adapter = 64 * KiB, .backwardInAutocast = true});
    PlanRequest request;
    request.budget = 1;
    for (auto _ : state)
        benchmark::DoNotOptimize(StepPlanner::create(trace)->solve(request));
    state.counters["perBlock"]
        = benchmark::Counter(static_cast<double>(state.range(0)),
                             benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(planUnderAutocast)->Arg(250)->Arg(4000)->Iterations(1)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace headroom
