// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/verification.h"

#include "core/checkpoint/module_checkpoints.h"
#include "core/device/simulated_device.h"
#include "core/model/source.h"
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/predict/predict.h"
#include "tests/torch/plans_at_budgets.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

/// Plans for the demo models, executed: the promise of predict() is kept to the byte.
namespace headroom {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Case
{
    std::string name; ///< of the test
    std::string model;
    Settings settings;
    std::int64_t batch = 2;
    at::ScalarType dtype = at::kFloat;
    bool autocast = false;
    bool holdOutput = false;
};

void PrintTo(const Case& testCase, std::ostream* stream)
{
    *stream << testCase.name;
}

const Settings smallTransformer{{"n_layers", "4"},    {"dim", "64"},          {"n_heads", "4"},
                                {"vocab_size", "96"}, {"max_seq_len", "128"}, {"dropout_p", "0.1"}};

std::vector<Case> cases()
{
    return {
        {.name = "transformer", .model = "demo:transformer", .settings = smallTransformer},
        {.name = "transformer_bfloat16",
         .model = "demo:transformer",
         .settings = smallTransformer,
         .dtype = at::kBFloat16},
        {.name = "transformer_autocast", .model = "demo:transformer", .settings = smallTransformer, .autocast = true},
        {.name = "transformer_hold_output",
         .model = "demo:transformer",
         .settings = smallTransformer,
         .holdOutput = true},
        {.name = "mlp", .model = "demo:mlp", .settings = {{"dim", "128"}, {"n_layers", "6"}}, .batch = 64},
        {.name = "mlp_autocast", .model = "demo:mlp", .settings = {{"dim", "128"}}, .batch = 64, .autocast = true},
        {.name = "resnet18", .model = "demo:resnet", .settings = {}, .batch = 32},
        {.name = "resnet50_autocast",
         .model = "demo:resnet",
         .settings = {{"depth", "50"}},
         .batch = 32,
         .autocast = true,
         .holdOutput = true}};
}

std::unique_ptr<ModelSource> open(const Case& testCase, at::Device device)
{
    // A policy does not depend on the batch: on the CPU a small one will do.
    Settings settings = testCase.settings;
    if (device.is_cpu() && testCase.model == "demo:resnet")
        settings.emplace_back("image_size", "64");
    auto source = openModel({.name = testCase.model,
                             .batch = device.is_cpu() ? 2 : testCase.batch,
                             .dtype = testCase.dtype,
                             .lifetimes = {},
                             .device = device,
                             .settings = settings});
    if (!source)
        throw std::runtime_error(source.error().message);
    return std::move(*source);
}

StepRunner::Options optionsOf(const Case& testCase)
{
    return {.optimizer = {},
            .loss = Loss::sum,
            .autocast = testCase.autocast,
            .holdOutput = testCase.holdOutput,
            .moduleCalls = nullptr};
}

const DeviceSpec& card()
{
    static const DeviceSpec spec = *findDeviceSpec("a100-80gb");
    return spec;
}

class Verify : public ::testing::TestWithParam<Case>
{
protected:
    static void SetUpTestSuite()
    {
        sim::initialize(card());
        at::set_num_threads(1); // small tensors: threads cost more than they give
    }
};

TEST_P(Verify, ExecutedPlansMeetTheirBudgetAndTheirPredictionToTheByte)
{
    const auto model = open(GetParam(), sim::device());
    const StepRunner::Options options = optionsOf(GetParam());
    const auto trace = StepRunner(*model, options).record({}, card(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    for (const PlanAnswer& planned : plansAtTenBudgets(*trace)) {
        SCOPED_TRACE("budget " + std::to_string(planned.plan.budget));
        const auto verified = verifyMemory(*model, options, planned.policy(*trace), {}, card(), {});
        ASSERT_TRUE(verified) << verified.error().message;
        EXPECT_EQ(verified->firstDifference, "");
        EXPECT_EQ(verified->largestDifference, 0);
        EXPECT_GT(verified->allocations, 0U);
        EXPECT_LE(verified->executedPeak, planned.plan.budget);
        EXPECT_EQ(verified->executedPeak, planned.plan.peak);
        EXPECT_LT(verified->executedPeak, verified->baselinePeak);
        EXPECT_NEAR(verified->executedRecomputeMs, verified->predictedRecomputeMs, 1e-9);
    }
}

/// Modules that do not contain one another, each with some of its savable ops; nothing that a planner would choose.
Policy randomPolicy(const StepTracePtr& trace, std::mt19937& random)
{
    const StepModel model(trace);
    const auto chance = [&](double share) { return std::uniform_real_distribution<>(0, 1)(random) < share; };
    std::vector<bool> covered(trace->modules.size(), false);
    Policy policy;
    policy.model = trace->info.model;
    const double saves = std::uniform_real_distribution<>(0, 1)(random);
    for (std::uint32_t id = 1; id < trace->modules.size(); ++id) {
        const ModuleId module(id);
        const ModuleId parent = trace->modules.parent[module];
        const std::vector<OpId> ops = model.regionOps(module);
        // A module that changes its argument in place cannot be checkpointed.
        const bool inPlace = trace->strings[trace->modules.type[module]] == "ReLU";
        covered[id] = covered[parent.value];
        if (covered[id] || ops.empty() || inPlace || chance(0.6))
            continue;
        covered[id] = true;
        Policy::Module entry{std::string(trace->moduleFqn(module)), 1, {}};
        const std::vector<bool> savable = model.savableOps(module);
        const std::vector<RegionOpName> names = regionOpNames(*trace, ops);
        for (std::size_t op = 0; op < ops.size(); ++op)
            entry.ops.push_back(
                {std::string(trace->strings[names[op].op]), names[op].index, savable[op] && chance(saves)});
        policy.modules.push_back(std::move(entry));
    }
    return policy;
}

TEST_P(Verify, AnyPolicyIsPredictedToTheByte)
{
    const auto model = open(GetParam(), sim::device());
    const StepRunner::Options options = optionsOf(GetParam());
    const auto trace = StepRunner(*model, options).record({}, card(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    std::mt19937 random(5);
    for (int i = 0; i < 20; ++i) {
        const Policy policy = randomPolicy(*trace, random);
        const auto verified = verifyMemory(*model, options, policy, {}, card(), {});
        ASSERT_TRUE(verified) << verified.error().message << toJson(policy);
        ASSERT_EQ(verified->firstDifference, "") << toJson(policy);
        EXPECT_NEAR(verified->executedRecomputeMs, verified->predictedRecomputeMs, 1e-9);
    }
}

TEST(Verification, SaysWhereExecutedAndPredictedMemoryPart)
{
    const Case small{.name = "mlp", .model = "demo:mlp", .settings = {{"dim", "64"}, {"n_layers", "2"}}};
    sim::initialize(card());
    const auto model = open(small, sim::device());
    const auto trace = StepRunner(*model, optionsOf(small)).record({}, card(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    const Timeline recorded = *predict(**trace, {});
    const MemoryLevels right = levelsOf(recorded);
    const auto compared = [&](const MemoryLevels& executed) { return compareLevels(**trace, recorded, executed); };
    EXPECT_EQ(compared(right).firstDifference, "");
    EXPECT_EQ(compared(right).executedPeak, recorded.peak);

    MemoryLevels higher = right;
    higher.allocations[0].live += 512;
    higher.allocations[3].live -= 1024;
    const LevelComparison parts = compared(higher);
    EXPECT_THAT(
        parts.firstDifference,
        ::testing::StartsWith("allocation 0 (`aten.addmm.default` of `MLP.mlp_blocks.0.mlp_block.0` in forward) "
                              "takes "));
    EXPECT_EQ(parts.unequalAllocations, 2U);
    EXPECT_EQ(parts.largestDifference, 1024);

    MemoryLevels shorter = right;
    shorter.allocations.pop_back();
    EXPECT_THAT(compared(shorter).firstDifference, ::testing::HasSubstr(" times, predicted were "));
    MemoryLevels leaking = right;
    leaking.end += 512;
    EXPECT_THAT(compared(leaking).firstDifference, ::testing::StartsWith("the step ends with "));
    MemoryLevels late = right;
    late.start += 512;
    EXPECT_THAT(compared(late).firstDifference, ::testing::StartsWith("the step starts with "));
}

TEST_P(Verify, GradientsAreThoseOfThePlainStepToTheBit)
{
    const auto simulated = open(GetParam(), sim::device());
    const auto trace = StepRunner(*simulated, optionsOf(GetParam())).record({}, card(), {});
    ASSERT_TRUE(trace) << trace.error().message;
    const auto plans = plansAtTenBudgets(*trace);
    const auto model = open(GetParam(), at::kCPU);
    for (const std::size_t i : {0U, 4U, 9U}) {
        const auto compared = compareGradients(*model, optionsOf(GetParam()), plans[i].policy(*trace));
        ASSERT_TRUE(compared) << compared.error().message;
        EXPECT_EQ(compared->parameter, "") << compared->largestDifference;
        EXPECT_GT(compared->parameters, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(Demos, Verify, ::testing::ValuesIn(cases()), [](const auto& test) { return test.param.name; });

} // namespace
} // namespace headroom
