// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What PyTorch's own planner decides, sac_milp (tests/data/pytorch/sac_milp_decisions.json), executed beside exact
// plans: one row a budget. Its budget counts parameters, gradients and activations, so that the exact plan is given the
// optimizer's state on top of it. Peaks are predicted; tests of verification show that executed steps take them to the
// byte.
#include "core/policy/policy_maker.h"
#include "core/policy/sharding.h"
#include "core/policy/step_planner.h"
#include "core/trace/step_file.h"

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

namespace headroom {
namespace {

const std::string data = std::string(HEADROOM_SOURCE_DIR) + "/tests/data/";

struct Model
{
    explicit Model(const StepTracePtr& trace)
        : planner(*StepPlanner::create(trace))
        , maker(StepModel(trace))
    {
    }
    StepPlanner planner;
    PolicyMaker maker;
};

const Model& modelOf(const std::string& name)
{
    static std::map<std::string, std::unique_ptr<Model>> models;
    std::unique_ptr<Model>& model = models[name];
    if (model == nullptr)
        model = std::make_unique<Model>(*readStepTrace(data + "steps/" + name + ".hrs"));
    return *model;
}

void executedDecisions(benchmark::State& state, const nlohmann::json& made)
{
    const Model& model = modelOf(made["model"]);
    const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(MiB); };
    Plan decided;
    decided.status = PlanStatus::optimal;
    decided.decisions = made["decisions"].get<std::map<std::string, double>>();
    PlanRequest request;
    request.worldSize = made["world_size"];
    const auto budget = static_cast<Bytes>(made["budget_gib"].get<double>() * static_cast<double>(GiB));
    Timeline executed;
    Plan exact;
    Plan atItsPeak;
    Bytes optimizer = 0;
    for (auto _ : state) {
        executed = perRank(*model.maker.model().predict(model.maker.make(decided)->regions), request.worldSize);
        optimizer = executed.start[static_cast<std::size_t>(Category::optimizer)];
        request.budget = budget + optimizer;
        exact = model.planner.solve(request)->plan;
        request.budget = executed.peak;
        atItsPeak = model.planner.solve(request)->plan;
    }
    state.counters["budget_MiB"] = mib(budget + optimizer);
    state.counters["torch_peak_MiB"] = mib(executed.peak);
    const auto over
        = [&](Bytes given) { return 100 * (static_cast<double>(executed.peak) / static_cast<double>(given) - 1); };
    state.counters["torch_over_%"] = over(budget + optimizer);
    state.counters["torch_over_without_optimizer_%"] = over(budget); // to whom the budget is the card's memory
    state.counters["torch_ms"] = executed.recomputeMs;
    state.counters["exact_peak_MiB"] = exact.status == PlanStatus::infeasible ? 0 : mib(exact.peak);
    state.counters["exact_ms"] = exact.recomputeMs;
    state.counters["exact_ms_at_torch_peak"] = atItsPeak.recomputeMs;
    if (exact.status == PlanStatus::infeasible)
        state.SetLabel("no plan fits this budget");
}

} // namespace
} // namespace headroom

int main(int argc, char** argv)
{
    benchmark::Initialize(&argc, argv);
    std::ifstream file(headroom::data + "pytorch/sac_milp_decisions.json");
    for (const nlohmann::json& made : nlohmann::json::parse(file)) {
        const std::string name = made["model"].get<std::string>() + "/" + made["budget_gib"].dump() + "GiB";
        benchmark::RegisterBenchmark(name.c_str(), headroom::executedDecisions, made)
            ->Unit(benchmark::kMillisecond)
            ->Iterations(1);
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
