// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What PyTorch's own planner decides, sac_milp (tests/data/pytorch/sac_milp_decisions.json), executed beside exact
// plans, full checkpointing and every other layer, on the simulated device: one row a budget. sac_milp's budget counts
// parameters, gradients and activations, so that the exact plan is given the optimizer's state on top of it. Every
// executed step is compared with its prediction; one that differs by a byte ends the row with the difference. Times are
// those of the ops that ran again. With a world size above 1 the step that ran is the whole one, and the bytes are what
// a rank has of it.
//
// Best read with --benchmark_counters_tabular=true.
#include "core/checkpoint/verification.h"
#include "core/device/simulated_device.h"
#include "core/model/source.h"
#include "core/policy/policy_maker.h"
#include "core/policy/shard_options.h"
#include "core/policy/step_planner.h"

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>

namespace headroom {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Errors end the row: a benchmark says what went wrong.
template <class T>
T valueOf(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().message);
    return *std::move(result);
}

const DeviceSpec& card()
{
    static const DeviceSpec spec = *findDeviceSpec("a100-80gb");
    return spec;
}

/// A plan as it ran.
struct Executed
{
    Bytes peak = 0;
    Bytes optimizer = 0;
    double ms = 0;
};

/// The transformer that the decisions are for, whose loop keeps `output` alive.
class Model
{
public:
    Model(Settings settings, at::ScalarType dtype)
        : source_(valueOf(openModel({.name = "demo:transformer",
                                     .batch = 8,
                                     .dtype = dtype,
                                     .lifetimes = {},
                                     .device = sim::device(),
                                     .settings = std::move(settings)})))
        , trace_(valueOf(StepRunner(*source_, options()).record({}, card(), {})))
        , planner_(valueOf(StepPlanner::create(trace_)))
        , maker_(StepModel(trace_))
    {
    }

    Executed execute(const CheckpointPlan& regions, const Plan& plan, int worldSize) const
    {
        const Policy policy = policyOf(maker_.model(), regions, plan);
        const Timeline predicted = valueOf(maker_.model().predict(regions));
        const Verification ran
            = valueOf(verifyMemory(*source_, options(), policy, {}, card(), {}, {TimeModel::roofline, {}, "none"}));
        if (!ran.timelinesAgree())
            throw std::runtime_error(ran.firstDifference);
        if (ran.executedPeak != predicted.peak || std::abs(ran.executedRecomputeMs - predicted.recomputeMs) > 1e-6)
            throw std::runtime_error("ran with " + std::to_string(ran.executedPeak) + " B and "
                                     + std::to_string(ran.executedRecomputeMs) + " ms, predicted were "
                                     + std::to_string(predicted.peak) + " B and "
                                     + std::to_string(predicted.recomputeMs) + " ms");
        const Timeline rank = perRank(predicted, worldSize); // of the step that ran, as it turned out
        return {rank.peak, rank.start[static_cast<std::size_t>(Category::optimizer)], ran.executedRecomputeMs};
    }

    Executed executeDecisions(const std::map<std::string, double>& decisions, int worldSize) const
    {
        Plan decided;
        decided.status = PlanStatus::optimal;
        decided.decisions = decisions;
        return execute(valueOf(maker_.regions(decided)), decided, worldSize);
    }

    /// Every n-th layer as a whole.
    Executed executeEveryLayer(std::size_t n, int worldSize) const
    {
        CheckpointPlan regions;
        std::size_t layers = 0;
        for (std::uint32_t id = 0; id < trace_->modules.size(); ++id)
            if (trace_->strings[trace_->modules.type[ModuleId(id)]] == "TransformerBlock" && layers++ % n == 0)
                regions.push_back({ModuleId(id), {}});
        return execute(regions, {}, worldSize);
    }

    /// Without a value: no plan fits the budget.
    std::optional<Executed> executeExact(Bytes budget, int worldSize) const
    {
        PlanRequest request;
        request.budget = budget;
        request.worldSize = worldSize;
        const PlanAnswer step = valueOf(planner_.solve(request, {}, 10'000));
        if (step.plan.status == PlanStatus::infeasible)
            return std::nullopt;
        return execute(step.regions, step.plan, worldSize);
    }

private:
    static StepRunner::Options options()
    {
        StepRunner::Options made;
        made.loss = Loss::sum;
        made.holdOutput = true;
        return made;
    }

    std::unique_ptr<ModelSource> source_;
    StepTracePtr trace_;
    StepPlanner planner_;
    PolicyMaker maker_;
};

const Model& modelOf(const std::string& name)
{
    static const std::map<std::string, std::pair<Settings, at::ScalarType>> known{
        {"transformer", {{}, at::kFloat}},
        {"transformer_12L", {{{"n_layers", "12"}, {"vocab_size", "50304"}}, at::kFloat}},
        {"transformer_24L",
         {{{"n_layers", "24"}, {"vocab_size", "50304"}, {"dim", "1024"}, {"n_heads", "16"}}, at::kBFloat16}}};
    static std::pair<std::string, std::unique_ptr<Model>> open; // one at a time: a model sets torch's default dtype
    if (open.first != name) {
        open.second.reset();
        open = {name, std::make_unique<Model>(known.at(name).first, known.at(name).second)};
    }
    return *open.second;
}

double mib(Bytes bytes)
{
    return static_cast<double>(bytes) / static_cast<double>(MiB);
}

void executeRow(benchmark::State& state, const nlohmann::json& made)
{
    const std::string name = made["model"];
    const Model& model = modelOf(name);
    const int worldSize = made["world_size"];
    const auto budget = static_cast<Bytes>(made["budget_gib"].get<double>() * static_cast<double>(GiB));
    Executed torch;
    std::optional<Executed> exact;
    std::optional<Executed> atItsPeak;
    for (auto _ : state) {
        torch = model.executeDecisions(made["decisions"], worldSize);
        exact = model.executeExact(budget + torch.optimizer, worldSize);
        atItsPeak = model.executeExact(torch.peak, worldSize);
    }
    const auto over
        = [&](Bytes given) { return 100 * (static_cast<double>(torch.peak) / static_cast<double>(given) - 1); };
    state.counters["budget_MiB"] = mib(budget + torch.optimizer);
    state.counters["torch_peak_MiB"] = mib(torch.peak);
    state.counters["torch_over_%"] = over(budget + torch.optimizer);
    state.counters["torch_over_without_optimizer_%"] = over(budget); // to whom the budget is the card's memory
    state.counters["torch_ms"] = torch.ms;
    state.counters["exact_peak_MiB"] = exact ? mib(exact->peak) : 0;
    state.counters["exact_ms"] = exact ? exact->ms : 0;
    state.counters["exact_ms_at_torch_peak"] = atItsPeak ? atItsPeak->ms : 0;
    if (!exact)
        state.SetLabel("no plan fits this budget");
}

void executeEveryLayer(benchmark::State& state, const std::string& name, std::size_t n)
{
    Executed layers;
    std::optional<Executed> exact;
    for (auto _ : state) {
        layers = modelOf(name).executeEveryLayer(n, 1);
        exact = modelOf(name).executeExact(layers.peak, 1);
    }
    state.counters["budget_MiB"] = mib(layers.peak);
    state.counters["layers_peak_MiB"] = mib(layers.peak);
    state.counters["layers_ms"] = layers.ms;
    state.counters["exact_peak_MiB"] = exact ? mib(exact->peak) : 0;
    state.counters["exact_ms"] = exact ? exact->ms : 0;
}

/// An error of the run ends its row.
template <class Run>
void row(const std::string& name, Run run)
{
    const auto guarded = [run](benchmark::State& state) {
        try {
            run(state);
        } catch (const std::exception& error) {
            state.SkipWithError(error.what());
        }
    };
    benchmark::RegisterBenchmark(name.c_str(), guarded)->Unit(benchmark::kMillisecond)->Iterations(1);
}

} // namespace
} // namespace headroom

int main(int argc, char** argv)
{
    using namespace headroom;
    benchmark::Initialize(&argc, argv);
    sim::initialize(card());
    std::ifstream file(HEADROOM_SOURCE_DIR "/tests/data/pytorch/sac_milp_decisions.json");
    const nlohmann::json decisions = nlohmann::json::parse(file);
    for (const std::string name : {"transformer", "transformer_12L", "transformer_24L"}) {
        for (const nlohmann::json& made : decisions) {
            if (made["model"] != name)
                continue;
            const std::string ranks
                = made["world_size"] == 1 ? "" : "/" + std::to_string(made["world_size"].get<int>()) + " ranks";
            row(name + "/" + made["budget_gib"].dump() + "GiB" + ranks,
                [made](benchmark::State& state) { executeRow(state, made); });
        }
        row(name + "/every layer", [name](benchmark::State& state) { executeEveryLayer(state, name, 1); });
        row(name + "/every other layer", [name](benchmark::State& state) { executeEveryLayer(state, name, 2); });
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
