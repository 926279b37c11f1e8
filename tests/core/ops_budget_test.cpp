// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Op-level plans of the models of PyTorch's own tests (test/functorch/test_ac.py), recorded as steps, against what
// PyTorch 2.11.0 makes of them: tests/data/functorch/budgets.json has its saved MiB and backward flops for every model,
// fraction and solver, and where ours are better, ours and the reason.

#include "core/joint/ops_planner.h"
#include "core/trace/step_file.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace headroom {
namespace {

using Json = nlohmann::json;

const std::filesystem::path data = std::filesystem::path(HEADROOM_TEST_DATA) / "functorch";
constexpr double matmulFlops = 2.0 * 512 * 512 * 512; ///< of two 512 square matrices: the tests' unit

StepTracePtr readStep(const std::string& name)
{
    const Result<StepTracePtr> trace = readStepTrace(data / (name + ".hrs"));
    if (!trace)
        throw std::runtime_error(trace.error().message);
    return *trace;
}

/// The step with attention as PyTorch has it on the CPU: another op, whose flops its counter knows or does not know.
StepTracePtr withAttentionOfTheCpu(const StepTracePtr& recorded, bool counted)
{
    struct Columns
    {
        StepTracePtr recorded;
        std::vector<char> text;
        std::vector<std::uint32_t> first;
        std::vector<StringId> names;
        std::vector<double> flops;
    };
    const auto columns = std::make_shared<Columns>();
    columns->recorded = recorded;
    columns->text.assign(recorded->strings.text.begin(), recorded->strings.text.end());
    columns->first.assign(recorded->strings.first.begin(), recorded->strings.first.end());
    columns->names.assign(recorded->ops.name.begin(), recorded->ops.name.end());
    columns->flops.assign(recorded->ops.flops.begin(), recorded->ops.flops.end());
    const std::string name = "aten._scaled_dot_product_flash_attention_for_cpu.default";
    columns->text.insert(columns->text.end(), name.begin(), name.end());
    columns->first.push_back(static_cast<std::uint32_t>(columns->text.size()));
    for (std::uint32_t i = 0; i < recorded->ops.size(); ++i) {
        if (recorded->opName(OpId(i)).find("attention") == std::string_view::npos)
            continue;
        columns->names[i] = StringId(static_cast<std::uint32_t>(columns->first.size() - 2));
        columns->flops[i] *= counted ? 1 : 0;
    }
    auto step = std::make_shared<StepTrace>(*recorded);
    step->strings.text = columns->text;
    step->strings.first = columns->first;
    step->ops.name.rows = columns->names;
    step->ops.flops.rows = columns->flops;
    step->memory = columns;
    return step;
}

StepTracePtr stepOf(const Json& row)
{
    const StepTracePtr recorded = readStep(row["step"]);
    const std::string attention = row.value("attention", "recorded");
    return attention == "recorded" ? recorded : withAttentionOfTheCpu(recorded, attention == "cpu_attention");
}

OpsPlanner plannerOf(const StepTracePtr& trace)
{
    Result<OpsPlanner> planner = OpsPlanner::create(trace);
    if (!planner)
        throw std::runtime_error(planner.error().message);
    return *planner;
}

OpsPlan planOf(const OpsPlanner& planner, const OpsRequest& request)
{
    Result<OpsPlan> plan = planner.plan(request);
    if (!plan)
        throw std::runtime_error(plan.error().message);
    return *std::move(plan);
}

OpsPlan planOf(const OpsPlanner& planner, double fraction)
{
    OpsRequest request;
    request.fraction = fraction;
    return planOf(planner, request);
}

double mibOf(const OpsPlan& plan)
{
    return static_cast<double>(plan.savedBytes) / static_cast<double>(MiB);
}

/// Backward's own flops and those of what runs again, in matmuls.
double backwardFlops(const StepTrace& trace, const OpsPlan& plan)
{
    double flops = plan.recomputeFlops;
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        if (trace.ops.phase[OpId(i)] == Phase::backward)
            flops += trace.ops.flops[OpId(i)];
    return flops / matmulFlops;
}

std::multiset<std::string> names(const StepTrace& trace, const std::vector<OpId>& ops)
{
    std::multiset<std::string> found;
    for (const OpId op : ops)
        found.emplace(trace.opName(op));
    return found;
}

TEST(OpsBudget, everyRowOfPyTorchIsReachedOrBeaten)
{
    const Json rows = Json::parse(std::ifstream(data / "budgets.json"));
    ASSERT_EQ(rows.size(), 197U);
    int better = 0;
    for (const Json& row : rows) {
        SCOPED_TRACE(row.dump());
        const StepTracePtr trace = stepOf(row);
        OpsRequest request;
        request.fraction = row["budget"];
        const std::string solver = row["solver"];
        if (solver == "greedy" || solver == "ilp")
            request.solver = solver == "greedy" ? OpsSolver::greedy : OpsSolver::ilp;
        const OpsPlan plan = planOf(plannerOf(trace), request);
        EXPECT_LE(plan.savedBytes, plan.cap);
        const Json& expected = row.contains("ours") ? row["ours"] : row;
        // The reference is rounded to 0.1 MiB by PyTorch's test: rows of statistics, generators' states.
        EXPECT_NEAR(mibOf(plan), expected["saved_mib"].get<double>(), 0.01);
        EXPECT_DOUBLE_EQ(backwardFlops(*trace, plan), expected["backward_flops"].get<double>());
        EXPECT_LE(backwardFlops(*trace, plan), row["backward_flops"].get<double>());
        better += row.contains("ours") ? 1 : 0;
    }
    EXPECT_EQ(better, 19);
}

TEST(OpsBudget, thePartitionersOwnPlansAreReachedOrBeaten)
{
    // PyTorch's partitioner on the same ops that the steps have (make_partitioner.py): to the byte and to the flop.
    const Json rows = Json::parse(std::ifstream(data / "partitioner.json"));
    ASSERT_EQ(rows.size(), 66U);
    int equal = 0;
    for (const Json& row : rows) {
        SCOPED_TRACE(row.dump());
        const StepTracePtr trace = readStep(row["step"]);
        OpsRequest request;
        request.fraction = row["budget"];
        request.solver = row["solver"] == "greedy" ? OpsSolver::greedy : OpsSolver::dp;
        const OpsPlan plan = planOf(plannerOf(trace), request);
        EXPECT_LE(plan.savedBytes, plan.cap);
        const double flops = backwardFlops(*trace, plan) * matmulFlops;
        const auto theirs = row["backward_flops"].get<double>();
        if (plan.savedBytes == row["saved_bytes"].get<Bytes>() && flops == theirs)
            ++equal;
        else
            EXPECT_LT(flops, theirs); // what was left of the cap is spent
    }
    EXPECT_EQ(equal, 62);
}

TEST(OpsBudget, rematerializesCheapOpsFirst)
{
    const StepTracePtr trace = readStep("rematerializes_cheap");
    const OpsPlanner planner = plannerOf(trace);
    const OpsPlan whole = planOf(planner, 1);
    EXPECT_EQ(whole.savedBytes, MiB);
    EXPECT_TRUE(whole.recomputed.empty());
    const OpsPlan half = planOf(planner, 0.5);
    EXPECT_EQ(half.savedBytes, 0);
    EXPECT_EQ(names(*trace, half.recomputed), (std::multiset<std::string>{"aten.cos.default"}));
    EXPECT_EQ(half.recomputeFlops, 0);
}

TEST(OpsBudget, evenChainSavesOneMoreMatmulForEachTenth)
{
    const StepTracePtr trace = readStep("matmul_even_chain");
    const OpsPlanner planner = plannerOf(trace);
    for (int tenth = 0; tenth <= 10; ++tenth) {
        SCOPED_TRACE(tenth);
        const OpsPlan plan = planOf(planner, tenth / 10.0);
        EXPECT_EQ(plan.savedBytes, (tenth == 10 ? 10 : std::min(tenth, 5)) * MiB);
        EXPECT_EQ(plan.recomputeFlops, std::max(0, 5 - tenth) * matmulFlops);
    }
}

TEST(OpsBudget, unevenChainsAreSolvedExactly)
{
    // The largest sum of sizes under the cap is reached, to the byte.
    const std::vector<std::pair<std::string, std::vector<Bytes>>> chains{
        {"matmul_uneven_0", {18, 17, 16, 15, 14, 13, 11, 7, 6, 5, 3}},
        {"matmul_uneven_1", {42, 30, 19, 8, 3}},
        {"matmul_uneven_2", {0, 50, 69, 45, 112, 120, 162, 206, 223, 247}},
    };
    for (const auto& [name, sums] : chains) {
        const OpsPlanner planner = plannerOf(readStep(name));
        for (const Bytes sum : sums) {
            SCOPED_TRACE(name + ", " + std::to_string(sum));
            const double all = static_cast<double>(planner.defaultSavedBytes()) / static_cast<double>(MiB);
            const OpsPlan plan = planOf(planner, static_cast<double>(sum) / all);
            EXPECT_EQ(plan.cap, sum * MiB);
            EXPECT_EQ(plan.savedBytes, sum * MiB);
        }
    }
}

TEST(OpsBudget, theCheaperMatmulIsRepeated)
{
    const StepTracePtr trace = readStep("prioritize_cheaper_matmul");
    const OpsPlan plan = planOf(plannerOf(trace), 0.5);
    EXPECT_EQ(plan.savedBytes, 4 * MiB);
    EXPECT_EQ(plan.recomputeFlops, 4 * matmulFlops); // not the 8 of the other one

    const StepTracePtr three = readStep("prioritize_cheaper_matmul2");
    EXPECT_EQ(planOf(plannerOf(three), 28.0 / 40).recomputeFlops, 2 * 2 * 6 * matmulFlops);
    const OpsPlan least = planOf(plannerOf(three), 16.0 / 40);
    EXPECT_EQ(least.savedBytes, 12 * MiB); // the densest, 72 for 12 MiB, rather than 64 for 16
    EXPECT_EQ(least.recomputeFlops, (2 * 2 * 6 + 4 * 4 * 4) * matmulFlops);
}

TEST(OpsBudget, attentionOrLinearByWhatAByteCosts)
{
    const auto repeated = [](const std::string& name) {
        const StepTracePtr trace = readStep(name);
        const OpsPlan plan = planOf(plannerOf(trace), 0.6);
        const auto ops = names(*trace, plan.recomputed);
        return std::pair(ops.contains("aten.mm.default"),
                         ops.contains("aten._scaled_dot_product_efficient_attention.default"));
    };
    for (const char* size : {"S1_D1", "S2_D2", "S2_D1", "S4_D7"})
        EXPECT_EQ(repeated(std::string("attention_vs_linear_") + size), std::pair(true, false)) << size;
    for (const char* size : {"S1_D3", "S2_D5", "S4_D9"})
        EXPECT_EQ(repeated(std::string("attention_vs_linear_") + size), std::pair(false, true)) << size;
}

TEST(OpsBudget, measuredTimesChangeTheChoice)
{
    const StepTracePtr trace = readStep("prioritize_cheaper_matmul");
    const OpsPlanner planner = plannerOf(trace);
    OpsRequest request;
    request.fraction = 0.5;
    request.runtime = OpsRuntime::measured;
    request.measuredMs.assign(trace->ops.size(), 0.001);
    std::vector<OpId> matmuls;
    for (std::uint32_t i = 0; i < trace->ops.size(); ++i)
        if (trace->ops.phase[OpId(i)] == Phase::forward && trace->opName(OpId(i)) == "aten.mm.default")
            matmuls.push_back(OpId(i));
    ASSERT_EQ(matmuls.size(), 2U);
    // The one with half the flops is the slower one here.
    request.measuredMs[matmuls[0].value] = 3;
    request.measuredMs[matmuls[1].value] = 1;
    const OpsPlan plan = planOf(planner, request);
    EXPECT_EQ(plan.savedBytes, 4 * MiB);
    EXPECT_EQ(plan.recomputed, std::vector<OpId>{matmuls[1]});
    EXPECT_EQ(plan.recomputeFlops, 8 * matmulFlops);
    EXPECT_DOUBLE_EQ(plan.cost, 1);
    EXPECT_EQ(planOf(planner, 0.5).recomputed, std::vector<OpId>{matmuls[0]});
}

TEST(OpsBudget, requestsThatCannotBeAnswered)
{
    const OpsPlanner planner = plannerOf(readStep("rematerializes_cheap"));
    for (const double fraction : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
        OpsRequest request;
        request.fraction = fraction;
        const Result<OpsPlan> plan = planner.plan(request);
        ASSERT_FALSE(plan.ok());
        EXPECT_EQ(plan.error().kind, ErrorKind::badInput);
    }
    OpsRequest request;
    request.measuredMs = {1, 2};
    EXPECT_FALSE(planner.plan(request).ok());
}

} // namespace
} // namespace headroom
