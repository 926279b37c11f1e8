// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The exact planner: how long a proven plan takes, and what its plans are worth beside PyTorch's formulation and the
// two usual ways of checkpointing. HEADROOM_STEPS=a.hrs:b.hrs adds recorded steps; a.hrs@64 is sharded over 64 GPUs.
#include "core/plan/chain_planner.h"
#include "core/plan/piecewise.h"
#include "core/policy/option_table.h"
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <random>
#include <sstream>

namespace headroom {
namespace {

using Clock = std::chrono::steady_clock;

/// Wall time, and the thread's own: the planner has one, and other programs may want the processor.
class Stopwatch
{
public:
    double wallMs() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
    double cpuMs() const { return threadMs() - cpu_; }

private:
    static double threadMs()
    {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
    }
    Clock::time_point begin_ = Clock::now();
    double cpu_ = threadMs();
};

/// What many answers took.
class Times
{
public:
    void add(const Stopwatch& watch)
    {
        wall_.push_back(watch.wallMs());
        cpu_.push_back(watch.cpuMs());
    }

    void report(benchmark::State& state, const std::string& name)
    {
        for (auto [kind, ms] : {std::pair("wall", &wall_), std::pair("cpu", &cpu_)}) {
            std::ranges::sort(*ms);
            state.counters[name + "_p50_" + kind + "_ms"] = (*ms)[ms->size() / 2];
            state.counters[name + "_p95_" + kind + "_ms"] = (*ms)[ms->size() * 95 / 100];
            state.counters[name + "_max_" + kind + "_ms"] = ms->back();
        }
    }

private:
    std::vector<double> wall_;
    std::vector<double> cpu_;
};

/// Layers as large as those of GPT-3 175B in bfloat16, a sequence each.
SyntheticOptions layersOfGpt3(int blocks)
{
    return {.blocks = blocks, .elementwise = 2, .activation = 48 * MiB, .weight = 288 * MiB};
}

struct Case
{
    std::string name;
    StepTracePtr trace;
    int worldSize = 1;
};

const std::vector<Case>& cases()
{
    static const std::vector<Case> all = [] {
        std::vector<Case> made{
            {"12 made-up layers", makeSyntheticStep({.blocks = 12, .activation = 96 * MiB, .weight = 12 * MiB}), 1},
            {"96 made-up layers", makeSyntheticStep({.blocks = 96, .activation = 96 * MiB, .weight = 12 * MiB}), 1},
            {"96 made-up layers of GPT-3's size", makeSyntheticStep(layersOfGpt3(96)), 64},
            {"32 made-up layers with adapters, 8 micro-batches",
             makeSyntheticStep(
                 {.blocks = 32, .activation = 96 * MiB, .weight = 12 * MiB, .adapter = MiB, .microBatches = 8}),
             1}};
        const char* files = std::getenv("HEADROOM_STEPS");
        const std::string folder = HEADROOM_SOURCE_DIR "/tests/data/steps/";
        std::string list;
        for (const char* name : {"gpt2_small", "bert_base", "t5_base", "swin_t", "llama_1b_lora", "actor_critic", "gan",
                                 "two_losses", "multi_crop"})
            list += folder + name + ".hrs:";
        std::istringstream paths(list + (files ? files : ""));
        for (std::string file; std::getline(paths, file, ':');) {
            const std::size_t at = std::min(file.rfind('@'), file.size());
            const int worldSize = at < file.size() ? std::stoi(file.substr(at + 1)) : 1;
            if (const Result<StepTracePtr> trace = readStepTrace(file.substr(0, at)))
                made.push_back({(*trace)->info.model, *trace, worldSize});
        }
        return made;
    }();
    return all;
}

const StepPlanner& plannerOf(std::size_t number)
{
    static std::map<std::size_t, StepPlanner> planners;
    const auto found = planners.find(number);
    return found != planners.end()
        ? found->second
        : planners.emplace(number, *StepPlanner::create(cases()[number].trace)).first->second;
}

struct Range
{
    Bytes least = 0;
    Bytes most = 0;
    Bytes at(double share) const { return least + static_cast<Bytes>(share * static_cast<double>(most - least)); }
};

Range rangeOf(const StepPlanner& planner, int worldSize)
{
    PlanRequest request;
    request.worldSize = worldSize;
    request.budget = 1;
    const Bytes least = planner.solve(request)->plan.leastBudget;
    request.budget = std::numeric_limits<Bytes>::max() / 8;
    return {least, planner.solve(request)->plan.peak};
}

/// 200 budgets over the whole range, each a plan with policy and predicted timeline: what a drag asks for.
void solveAnyBudget(benchmark::State& state)
{
    const auto number = static_cast<std::size_t>(state.range(0));
    const StepPlanner& planner = plannerOf(number);
    PlanRequest request;
    request.worldSize = cases()[number].worldSize;
    const Range range = rangeOf(planner, request.worldSize);
    Times times;
    double worstGap = 0;
    for (auto _ : state)
        for (int i = 0; i < 200; ++i) {
            request.budget = range.at((i + 0.5) / 200);
            const Stopwatch watch;
            const PlanAnswer step = *planner.solve(request);
            times.add(watch);
            worstGap = std::max(worstGap, step.plan.gap);
        }
    times.report(state, "solve");
    state.counters["worst_gap"] = worstGap;
    state.SetLabel(cases()[number].name);
}

/// Layers, each up to 4 % different from the others in what it holds and takes: those of a step, made unequal.
ChainProblem differentLayers(const StepTracePtr& trace)
{
    const StepModel model(trace);
    const StorageEvents events(*trace);
    const PlanModules modules = *PlanModules::create(std::make_shared<const ModuleInfo>(*moduleInfo(*trace)));
    const PartTree tree = PartTree::create(model, modules, *planUnits(modules, {}));
    ChainProblem problem = OptionTable::create(model, events, tree, 1, StepLayout::SharedArguments::held)->problem();
    std::mt19937 random(1);
    std::uniform_real_distribution<double> factor(0.98, 1.02);
    for (ChainArc& arc : problem.arcs) {
        const double bytes = factor(random);
        const double time = factor(random);
        for (ChainOption& option : arc.options) {
            option.held = static_cast<Bytes>(static_cast<double>(option.held) * bytes * factor(random)) / 512 * 512;
            option.time = static_cast<Picoseconds>(static_cast<double>(option.time) * time * factor(random));
        }
    }
    std::ranges::fill(problem.classes, -1);
    return problem;
}

void solveDifferentLayers(benchmark::State& state)
{
    const auto layers = static_cast<int>(state.range(0));
    const StepTracePtr trace = layers > 0
        ? makeSyntheticStep({.blocks = layers, .activation = 96 * MiB, .weight = 12 * MiB})
        : *readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/bert_base.hrs");
    const ChainProblem problem = differentLayers(trace);
    const Bytes least = leastBudget(problem);
    const Bytes most = solveChain(problem, std::numeric_limits<Bytes>::max() / 8).value.peak;
    double gapWithin16 = 0;
    double worstGap = 0;
    Times first;
    Times proof;
    for (auto _ : state)
        for (int i = 0; i < 50; ++i) {
            const Bytes budget = least + (most - least) / 50 * i;
            const auto gapOf = [](const ChainAnswer& answer) {
                return answer.value.time > 0
                    ? static_cast<double>(answer.value.time - answer.bound) / static_cast<double>(answer.value.time)
                    : 0;
            };
            const Stopwatch quick;
            gapWithin16 = std::max(gapWithin16, gapOf(solveChain(problem, budget, {{}, 12, 0, std::nullopt})));
            first.add(quick);
            const Stopwatch whole;
            worstGap = std::max(worstGap, gapOf(solveChain(problem, budget, {{}, 5000, 0, std::nullopt})));
            proof.add(whole);
        }
    first.report(state, "first");
    proof.report(state, "proof");
    state.counters["first_worst_gap"] = gapWithin16;
    state.counters["worst_gap"] = worstGap;
}

/// Opening a step: all options of all layers, predicted.
void findOptions(benchmark::State& state)
{
    const auto number = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        const StepPlanner planner = *StepPlanner::create(cases()[number].trace);
        PlanRequest request;
        request.budget = 1;
        benchmark::DoNotOptimize(planner.solve(request));
    }
    state.SetLabel(cases()[number].name);
}

void frontier(benchmark::State& state)
{
    const auto number = static_cast<std::size_t>(state.range(0));
    const StepPlanner& planner = plannerOf(number);
    PlanRequest request;
    request.worldSize = cases()[number].worldSize;
    std::vector<FrontierPoint> points;
    for (auto _ : state)
        points = *planner.frontier(request, 64);
    double worstGap = 0;
    for (const FrontierPoint& point : points)
        worstGap = std::max(worstGap, point.gap);
    state.counters["points"] = static_cast<double>(points.size());
    state.counters["worst_gap"] = worstGap;
    state.SetLabel(cases()[number].name);
}

/// A plan made another way, as predicted.
struct Other
{
    Bytes peak = 0;
    double ms = 0;
};

/// PyTorch's formulation solved to its optimum at many budgets of its own, each plan predicted on the step.
std::vector<Other> piecewisePlans(const StepTracePtr& trace)
{
    const auto info = std::make_shared<const ModuleInfo>(*moduleInfo(*trace));
    const PiecewisePlanner planner = *PiecewisePlanner::create(info);
    const PolicyMaker maker{StepModel(trace)};
    PlanRequest request;
    request.budget = baseline(*info).peak;
    const Bytes least = planner.solve(request)->leastBudget;
    std::vector<Other> plans;
    for (int i = 0; i <= 100; ++i) {
        request.budget = least + (baseline(*info).peak - least) / 100 * i;
        const Plan plan = *planner.solve(request);
        if (plan.status == PlanStatus::infeasible)
            continue;
        const Timeline timeline = *maker.model().predict(*maker.regions(plan));
        plans.push_back({timeline.peak, timeline.recomputeMs});
    }
    return plans;
}

/// Every n-th layer checkpointed as a whole.
Other everyLayer(const StepTracePtr& trace, std::size_t step)
{
    const StepModel model(trace);
    const PlanModules modules = *PlanModules::create(std::make_shared<const ModuleInfo>(*moduleInfo(*trace)));
    const PartTree tree = PartTree::create(model, modules, *planUnits(modules, {}));
    CheckpointPlan plan;
    for (std::size_t part = 0; part < tree.parts.size(); part += step)
        plan.push_back({tree.units[static_cast<std::size_t>(tree.parts[part])].module, {}});
    const Timeline timeline = *model.predict(plan);
    return {timeline.peak, timeline.recomputeMs};
}

/// At the peak of every other plan: the exact plan's time. `worse` counts the plans of others that take less: none.
void compareAtEqualBudget(benchmark::State& state)
{
    const auto number = static_cast<std::size_t>(state.range(0));
    const StepPlanner& planner = plannerOf(number);
    const auto exactMs = [&](Bytes budget) {
        PlanRequest request;
        request.budget = budget;
        return planner.solve(request, {}, 5000)->plan.recomputeMs;
    };
    int worse = 0;
    double saved = 0;
    std::size_t plans = 0;
    for (auto _ : state) {
        const std::vector<Other> piecewise = piecewisePlans(cases()[number].trace);
        plans = piecewise.size();
        for (const Other& other : piecewise) {
            const double ms = exactMs(other.peak);
            worse += ms > other.ms * (1 + 1e-9) + 1e-9 ? 1 : 0;
            saved += other.ms > 0 ? 1 - ms / other.ms : 0;
        }
        const Other full = everyLayer(cases()[number].trace, 1);
        const Other second = everyLayer(cases()[number].trace, 2);
        state.counters["full_ms"] = full.ms;
        state.counters["exact_at_full_ms"] = exactMs(full.peak);
        state.counters["second_ms"] = second.ms;
        state.counters["exact_at_second_ms"] = exactMs(second.peak);
    }
    state.counters["piecewise_plans"] = static_cast<double>(plans);
    state.counters["worse"] = worse;
    state.counters["less_time_than_piecewise"] = saved / static_cast<double>(std::max<std::size_t>(1, plans));
    state.SetLabel(cases()[number].name);
}

void everyCase(benchmark::internal::Benchmark* benchmark)
{
    benchmark->DenseRange(0, static_cast<int>(cases().size()) - 1)->Unit(benchmark::kMillisecond);
}

BENCHMARK(solveAnyBudget)->Apply(everyCase)->Iterations(1);
BENCHMARK(solveDifferentLayers)
    ->ArgName("layers")
    ->Arg(24)
    ->Arg(48)
    ->Arg(0)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(findOptions)->Apply(everyCase);
BENCHMARK(frontier)->Apply(everyCase)->Iterations(1);
BENCHMARK(compareAtEqualBudget)->Apply(everyCase)->Iterations(1);

} // namespace
} // namespace headroom
