// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

const std::filesystem::path references = std::filesystem::path(HEADROOM_TEST_DATA) / "pytorch";

ModuleInfoPtr readModel(const std::string& name)
{
    static std::map<std::string, ModuleInfoPtr> cache;
    ModuleInfoPtr& known = cache[name];
    if (known == nullptr) {
        Result<ModuleInfo> info = readModuleInfo(references / (name + "_modinfo.json"));
        EXPECT_TRUE(info.ok()) << info.error().message;
        known = std::make_shared<const ModuleInfo>(info.ok() ? std::move(*info) : ModuleInfo{});
    }
    return known;
}

PiecewisePlanner plannerOf(const ModuleInfoPtr& info)
{
    Result<PiecewisePlanner> planner = PiecewisePlanner::create(info);
    EXPECT_TRUE(planner.ok()) << planner.error().message;
    return *planner;
}

PlanRequest request(double gib, int worldSize)
{
    PlanRequest wanted;
    wanted.budget = static_cast<Bytes>(gib * static_cast<double>(GiB));
    wanted.worldSize = worldSize;
    return wanted;
}

Plan solved(const ModuleInfoPtr& info, const PlanRequest& wanted)
{
    const Result<Plan> plan = plannerOf(info).solve(wanted);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan.ok() ? *plan : Plan{};
}

std::string errorOf(const PlanRequest& wanted)
{
    const Result<Plan> plan = plannerOf(readModel("transformer")).solve(wanted);
    if (plan.ok()) {
        ADD_FAILURE() << "the request was accepted";
        return {};
    }
    EXPECT_EQ(plan.error().kind, ErrorKind::badInput);
    return plan.error().message;
}

/// sac_milp's memory and time of given decisions, written down as in sac_ilp.py.
struct Checked
{
    double peak = 0;
    double ms = 0;
};

Checked check(const ModuleInfo& info, const Plan& plan)
{
    Checked checked;
    std::map<std::string_view, std::size_t> position;
    for (std::size_t i = 0; i < info.fwPostOrder.size(); ++i)
        position.emplace(info.fwPostOrder[i], i);
    std::vector<double> discarded(info.fwPostOrder.size());
    for (const auto& [fqn, ratio] : plan.decisions) {
        const ModuleStats& stats = *std::ranges::find(info.stats, fqn, &ModuleStats::fqn);
        EXPECT_FALSE(stats.isLeaf) << fqn;
        const auto kept = static_cast<double>(stats.activationForward);
        const double all = std::max(static_cast<double>(stats.sacMemory), kept);
        EXPECT_GE(ratio, (all - kept) / all) << fqn;
        EXPECT_LE(ratio, 1) << fqn;
        discarded[position.at(fqn)] = all * ratio - (all - kept);
        double share = 0;
        for (std::size_t i = 0; i < stats.slopes.size(); ++i)
            share = std::max(share, stats.slopes[i] * ratio + stats.intercepts[i]);
        checked.ms += share * stats.sacRuntimeMs;
        for (const auto& [other, unused] : plan.decisions)
            EXPECT_FALSE(other.starts_with(fqn + ".")) << other << " is inside " << fqn;
    }
    for (const ModuleStats& stats : info.stats) {
        double memory = static_cast<double>(stats.activationTotal + stats.activationGrad)
            + static_cast<double>(info.stats.front().paramBytes + stats.gradTotal) / plan.worldSize;
        const auto end = discarded.begin() + static_cast<std::ptrdiff_t>(position.at(stats.fqn));
        memory = std::accumulate(discarded.begin(), end, memory, std::minus<>());
        checked.peak = std::max(checked.peak, memory);
    }
    return checked;
}

void expectConsistent(const ModuleInfo& info, const Plan& plan)
{
    const Checked checked = check(info, plan);
    EXPECT_LE(plan.peak, plan.budget);
    EXPECT_NEAR(checked.peak, static_cast<double>(plan.peak), 1) << "the peak of the decisions";
    EXPECT_NEAR(checked.ms, plan.recomputeMs, 1e-9 + 1e-4 * plan.recomputeMs) << "the time of the decisions";
    EXPECT_LE(plan.boundMs, plan.recomputeMs);
    EXPECT_GE(plan.leastBudget, 0);
    EXPECT_LE(plan.leastBudget, plan.budget);
}

TEST(PiecewisePlanner, seedsCaseOfOneAndAHalfGiB)
{
    const Plan plan = solved(readModel("transformer"), request(1.6, 4));
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_EQ(plan.gap, 0);
    EXPECT_NEAR(plan.recomputeMs, 6.92412270, 1e-6);
    EXPECT_EQ(plan.boundMs, plan.recomputeMs);
    EXPECT_EQ(plan.budget, 1717986918);
    EXPECT_EQ(plan.peak, 1717986918);
    EXPECT_EQ(plan.baselinePeak, 2583888896);
    EXPECT_NEAR(plan.stepMs, 87.92345617183895, 1e-9);
    ASSERT_THAT(plan.decisions,
                UnorderedElementsAre(Key("Transformer.layers.0"), Key("Transformer.layers.1"),
                                     Key("Transformer.layers.2"), Key("Transformer.layers.3")));
    for (const char* layer : {"Transformer.layers.0", "Transformer.layers.1", "Transformer.layers.2"})
        EXPECT_NEAR(plan.decisions.at(layer), 0.5225, 5e-5) << layer;
    EXPECT_NEAR(plan.decisions.at("Transformer.layers.3"), 0.7984, 5e-5);
    EXPECT_EQ(plan.binding.module, "Transformer");
    EXPECT_EQ(plan.binding.phase, "backward");
}

TEST(PiecewisePlanner, nothingIsRecomputedWhereEverythingFits)
{
    const Plan plan = solved(readModel("transformer"), request(2.4, 4));
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_THAT(plan.decisions, IsEmpty());
    EXPECT_EQ(plan.recomputeMs, 0);
    EXPECT_EQ(plan.gap, 0);
    EXPECT_EQ(plan.peak, 2477633024) << "what the decisions take, not the budget";
}

TEST(PiecewisePlanner, anInfeasibleBudgetSaysTheLeastOneAndWhatBinds)
{
    const Plan plan = solved(readModel("transformer"), request(0.8, 4));
    EXPECT_EQ(plan.status, PlanStatus::infeasible);
    EXPECT_THAT(plan.decisions, IsEmpty());
    EXPECT_EQ(plan.recomputeMs, 0);
    EXPECT_EQ(plan.peak, -1);
    EXPECT_EQ(plan.leastBudget, 964995072);
    EXPECT_THAT(plan.reason,
                AllOf(HasSubstr("819.20 MiB"), HasSubstr("964,995,072 B"), HasSubstr(plan.binding.module)));
}

TEST(PiecewisePlanner, theReasonNamesWhatWasTriedAndHelps)
{
    PlanRequest narrow = request(1.2, 4);
    narrow.acUnits = {"Transformer.layers.3"};
    EXPECT_THAT(solved(readModel("transformer"), narrow).reason, HasSubstr("without pins and AC units"));
    // At world size 1 the parameters and gradients weigh more.
    EXPECT_THAT(solved(readModel("transformer"), request(0.9, 1)).reason, HasSubstr("over 4 GPUs"));
    EXPECT_THAT(solved(readModel("transformer"), request(0.2, 1)).reason, HasSubstr("smaller batch"));
}

struct Optimum
{
    std::string model;
    int worldSize;
    double gib;
    std::optional<double> ms;
};

void PrintTo(const Optimum& optimum, std::ostream* out)
{
    *out << optimum.model << " at " << optimum.gib << " GiB, world size " << optimum.worldSize;
}

std::vector<Optimum> provenOptima()
{
    std::vector<Optimum> optima;
    for (const nlohmann::json& row : nlohmann::json::parse(std::ifstream(references / "sac_milp_optima.json"))) {
        const nlohmann::json& ms = row["recompute_ms"];
        optima.push_back({row["model"], row["world_size"], row["budget_gib"],
                          ms.is_null() ? std::nullopt : std::optional<double>(ms.get<double>())});
    }
    return optima;
}

class ProvenOptimum : public testing::TestWithParam<Optimum>
{
};

TEST_P(ProvenOptimum, isReachedAndProven)
{
    const ModuleInfoPtr info = readModel(GetParam().model);
    const Plan plan = solved(info, request(GetParam().gib, GetParam().worldSize));
    if (!GetParam().ms) {
        EXPECT_EQ(plan.status, PlanStatus::infeasible);
        return;
    }
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_EQ(plan.gap, 0);
    EXPECT_NEAR(plan.recomputeMs, *GetParam().ms, 1e-4);
    expectConsistent(*info, plan);
}

INSTANTIATE_TEST_SUITE_P(SacMilp, ProvenOptimum, testing::ValuesIn(provenOptima()));

struct Model
{
    const char* name;
    int worldSize;
};

void PrintTo(const Model& model, std::ostream* out)
{
    *out << model.name << ", world size " << model.worldSize;
}

class WholeRange : public testing::TestWithParam<Model>
{
};

// From the least budget to no checkpointing: always proven, never over the budget, and less memory never costs less.
TEST_P(WholeRange, isProvenAtEveryBudget)
{
    const ModuleInfoPtr info = readModel(GetParam().name);
    const PiecewisePlanner planner = plannerOf(info);
    PlanRequest wanted;
    wanted.worldSize = GetParam().worldSize;
    wanted.budget = 1;
    const Bytes least = planner.solve(wanted)->leastBudget;
    wanted.budget = least - 1;
    EXPECT_EQ(planner.solve(wanted)->status, PlanStatus::infeasible) << "one byte below the least budget";
    wanted.budget = Bytes{1} << 50;
    const Bytes most = planner.solve(wanted)->peak;

    constexpr int steps = 100;
    double before = std::numeric_limits<double>::infinity();
    for (int step = 0; step <= steps; ++step) {
        wanted.budget = least + (most - least) / steps * step;
        if (step == steps)
            wanted.budget = most;
        const Plan plan = *planner.solve(wanted);
        SCOPED_TRACE(groupedDigits(wanted.budget));
        ASSERT_EQ(plan.status, PlanStatus::optimal);
        EXPECT_EQ(plan.gap, 0);
        EXPECT_LE(plan.recomputeMs, before);
        expectConsistent(*info, plan);
        before = plan.recomputeMs;
    }
    EXPECT_EQ(before, 0);

    // A few bytes more or less than what some whole layers have.
    const ModuleStats& layer = *std::ranges::find_if(info->stats, [](const ModuleStats& stats) {
        return !stats.isLeaf && stats.fqn.find('.') != std::string::npos;
    });
    for (const Bytes layers : {0, 1, 2, 3, 5})
        for (const Bytes more : {1, 30, 1000, 10000, -1, -1000}) {
            wanted.budget = most - layers * layer.activationForward - more;
            if (wanted.budget < least || wanted.budget > most)
                continue;
            const Plan plan = *planner.solve(wanted);
            SCOPED_TRACE(groupedDigits(wanted.budget));
            EXPECT_EQ(plan.status, PlanStatus::optimal);
            EXPECT_EQ(plan.gap, 0);
            expectConsistent(*info, plan);
        }
}

INSTANTIATE_TEST_SUITE_P(Models, WholeRange,
                         testing::Values(Model{"transformer", 1}, Model{"transformer", 4},
                                         Model{"transformer_clean", 1}, Model{"gpt2_small_12L", 4},
                                         Model{"gpt2_medium_24L", 1}, Model{"resnet50", 1}, Model{"gpt3_175b_96L", 64},
                                         Model{"gpt3_175b_96L", 8}));

TEST(PiecewisePlanner, onlyAcUnitsAreCheckpointed)
{
    PlanRequest wanted = request(2.2, 1);
    wanted.acUnits = {"Transformer.layers.2", "Transformer.layers.0.feed_forward"};
    const Plan plan = solved(readModel("transformer"), wanted);
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_THAT(plan.decisions,
                UnorderedElementsAre(Key("Transformer.layers.2"), Key("Transformer.layers.0.feed_forward")));
    expectConsistent(*readModel("transformer"), plan);
}

TEST(PiecewisePlanner, noUnitContainsAnFsdpUnit)
{
    PlanRequest wanted = request(1.9, 4);
    wanted.fsdpUnits = {"Transformer.layers.0.attention", "Transformer.layers.1.attention",
                        "Transformer.layers.2.attention", "Transformer.layers.3.attention"};
    const Plan plan = solved(readModel("transformer"), wanted);
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_THAT(plan.decisions, testing::Not(IsEmpty()));
    for (const auto& [fqn, ratio] : plan.decisions)
        EXPECT_TRUE(fqn.ends_with(".attention") || fqn.ends_with(".feed_forward")) << fqn;
    EXPECT_GT(plan.recomputeMs, solved(readModel("transformer"), request(1.9, 4)).recomputeMs);
}

TEST(PiecewisePlanner, pinsAreKept)
{
    const ModuleInfoPtr info = readModel("transformer");
    PlanRequest wanted = request(1.9, 4);
    wanted.pins = {{"Transformer.layers.1", Pin::save}, {"Transformer.layers.2.feed_forward", Pin::recompute}};
    const Plan plan = solved(info, wanted);
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_TRUE(plan.decisions.contains("Transformer.layers.2.feed_forward"));
    EXPECT_FALSE(plan.decisions.contains("Transformer.layers.2"));
    for (const auto& [fqn, ratio] : plan.decisions)
        EXPECT_FALSE(fqn.starts_with("Transformer.layers.1")) << "nothing of a saved module is recomputed";
    EXPECT_GT(plan.recomputeMs, solved(info, request(1.9, 4)).recomputeMs);
    expectConsistent(*info, plan);

    // Also where the budget asks for nothing.
    wanted.budget = 4 * GiB;
    EXPECT_THAT(solved(info, wanted).decisions, ElementsAre(Key("Transformer.layers.2.feed_forward")));
}

TEST(PiecewisePlanner, refusesWhatNamesNothingOrCannotBe)
{
    PlanRequest wanted = request(1.6, 4);
    wanted.acUnits = {"Transformer.layers.9"};
    EXPECT_THAT(errorOf(wanted), AllOf(HasSubstr("AC unit"), HasSubstr("Transformer.layers.9")));
    wanted = request(1.6, 4);
    wanted.fsdpUnits = {"layers.0"};
    EXPECT_THAT(errorOf(wanted), AllOf(HasSubstr("FSDP unit"), HasSubstr("layers.0")));
    wanted = request(1.6, 4);
    wanted.pins = {{"Transformer.mlp", Pin::save}};
    EXPECT_THAT(errorOf(wanted), AllOf(HasSubstr("pin"), HasSubstr("Transformer.mlp")));
    wanted.pins = {{"Transformer.output", Pin::recompute}};
    EXPECT_THAT(errorOf(wanted), AllOf(HasSubstr("Transformer.output"), HasSubstr("only modules with submodules")));
    wanted.pins = {{"Transformer.layers.0", Pin::recompute}, {"Transformer.layers.0.attention", Pin::recompute}};
    EXPECT_THAT(errorOf(wanted), HasSubstr("Transformer.layers.0"));
    wanted.pins = {{"Transformer.layers.0", Pin::recompute}};
    wanted.acUnits = {"Transformer.layers.1"};
    EXPECT_THAT(errorOf(wanted), AllOf(HasSubstr("Transformer.layers.0"), HasSubstr("AC unit")));
    EXPECT_THAT(errorOf(request(1.6, 0)), HasSubstr("world size 0"));
    EXPECT_THAT(errorOf(request(0, 1)), HasSubstr("budget 0"));
}

TEST(PiecewisePlanner, refusesModuleInfoWithoutOrder)
{
    ModuleInfo info = *readModel("transformer");
    info.fwPostOrder.pop_back();
    const Result<PiecewisePlanner> planner = PiecewisePlanner::create(std::make_shared<const ModuleInfo>(info));
    ASSERT_FALSE(planner.ok());
    EXPECT_THAT(planner.error().message, AllOf(HasSubstr("fw_post_order"), HasSubstr("`Transformer`")));
    EXPECT_FALSE(PiecewisePlanner::create(std::make_shared<const ModuleInfo>()).ok());
}

TEST(PiecewisePlanner, aStopEndsTheSolve)
{
    std::stop_source source;
    source.request_stop();
    const Result<Plan> plan = plannerOf(readModel("resnet50")).solve(request(1.5, 1), source.get_token());
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->status, PlanStatus::stopped);
}

TEST(PiecewisePlanner, isDeterministicAndThreadSafe)
{
    const PiecewisePlanner planner = plannerOf(readModel("resnet50"));
    const Plan expected = *planner.solve(request(1.7, 1));
    std::vector<std::jthread> threads;
    std::vector<Plan> plans(4);
    for (Plan& plan : plans)
        threads.emplace_back([&] {
            for (int i = 0; i < 3; ++i)
                plan = *planner.solve(request(1.7, 1));
        });
    threads.clear();
    for (const Plan& plan : plans) {
        EXPECT_EQ(plan.decisions, expected.decisions);
        EXPECT_EQ(plan.peak, expected.peak);
        EXPECT_EQ(plan.recomputeMs, expected.recomputeMs);
    }
}

} // namespace
} // namespace headroom
