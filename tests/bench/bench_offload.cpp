// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Plans with offload: what a drag of the budget pays for each of its plans, and which gap the plans have within 100 ms.
// HEADROOM_STEPS=a.hrs:b.hrs adds recorded steps, whose ops need shapes.
#include "core/cost/step_times.h"
#include "core/policy/step_planner.h"
#include "core/trace/step_file.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>
#include <sstream>

namespace headroom {
namespace {

constexpr int budgets = 200;

/// CPU time of all threads: other programs may want the processor.
double cpuMs()
{
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

struct Case
{
    std::string name;
    StepPlanner planner;
    Bytes least = 0;
};

std::vector<Case>& cases()
{
    static std::vector<Case> all = [] {
        const std::string folder = HEADROOM_SOURCE_DIR "/tests/data/steps/";
        std::string list;
        for (const char* name : {"llama_6L_h100", "gpt2_12L_h100", "t5_3L_h100", "lora_3L_h100"})
            list += folder + name + ".hrs:";
        const char* more = std::getenv("HEADROOM_STEPS");
        std::istringstream paths(list + (more ? more : ""));
        std::vector<Case> made;
        for (std::string file; std::getline(paths, file, ':');) {
            const Result<StepTracePtr> trace = readStepTrace(file);
            if (!trace)
                continue;
            Case step{file.substr(file.rfind('/') + 1), *StepPlanner::create(withTimes(*trace, {})->step), 0};
            PlanRequest request;
            request.offload = true;
            request.budget = 1;
            step.least = step.planner.solve(request)->plan.leastBudget;
            made.push_back(std::move(step));
        }
        return made;
    }();
    return all;
}

/// Solves budgets over the whole range, each with `limitMs` of search. `gap_2` is the share of plans with a gap of at
/// most 2 %, or of at most 0.1 % of the step; `gap` the largest gap of the others.
void solve(benchmark::State& state, double limitMs)
{
    const Case& step = cases()[static_cast<std::size_t>(state.range(0))];
    PlanRequest request;
    request.offload = true;
    const Bytes most = step.planner.recorded()->peak;
    std::vector<double> wall, cpu;
    int good = 0, small = 0, solved = 0;
    double worst = 0, cost = 0;
    for (auto _ : state)
        for (int i = 0; i < budgets; ++i) {
            request.budget
                = step.least + static_cast<Bytes>((i + 0.5) / budgets * static_cast<double>(most - step.least));
            const auto begin = std::chrono::steady_clock::now();
            const double cpuBegin = cpuMs();
            const PlanAnswer answer = *step.planner.solve(request, {}, limitMs);
            cpu.push_back(cpuMs() - cpuBegin);
            wall.push_back(elapsedMs(begin));
            if (!answer.fits())
                continue;
            const Plan& plan = answer.plan;
            const double ms = plan.recomputeMs + plan.offload.exposedMs;
            ++solved;
            good += plan.gap <= 0.02 ? 1 : 0;
            small += ms - plan.boundMs <= 0.001 * plan.stepMs ? 1 : 0;
            worst = std::max(worst, plan.gap > 0.02 ? (ms - plan.boundMs) / plan.stepMs : 0);
            cost += ms / plan.stepMs;
        }
    for (auto [name, times] : {std::pair("wall", &wall), std::pair("cpu", &cpu)}) {
        std::ranges::sort(*times);
        state.counters[std::string("p50_") + name] = (*times)[times->size() / 2];
        state.counters[std::string("p95_") + name] = (*times)[times->size() * 95 / 100];
        state.counters[std::string("max_") + name] = times->back();
    }
    state.counters["solved"] = solved;
    state.counters["gap_2"] = good;
    state.counters["0.1_of_step"] = small;
    state.counters["worst_of_step"] = worst;
    state.counters["cost"] = cost / std::max(solved, 1);
    state.SetLabel(step.name);
}

/// What the window asks for while the budget is dragged (PlanController::firstAnswerMs).
void drag(benchmark::State& state)
{
    solve(state, 5);
}

void within100(benchmark::State& state)
{
    solve(state, 100);
}

void everyCase(benchmark::internal::Benchmark* benchmark)
{
    benchmark->DenseRange(0, static_cast<int>(cases().size()) - 1)->Unit(benchmark::kMillisecond)->Iterations(1);
}

BENCHMARK(drag)->Apply(everyCase);
BENCHMARK(within100)->Apply(everyCase);

} // namespace
} // namespace headroom
