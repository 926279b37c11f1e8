// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/ops_verification.h"
#include "core/checkpoint/ops_execution.h"
#include "core/device/hosted_memory.h"
#include "core/device/simulated_device.h"
#include "core/model/source.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <optional>

/// Plans for the ops of whole steps, followed: on the simulated device and on the CPU.
namespace headroom {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

struct Case
{
    std::string name; ///< of the test
    std::string model; ///< a demo model, or a file of the tests' data
    Settings settings{};
    std::int64_t batch = 0;
    bool autocast = false;
    std::vector<InputShape> inputs{};
};

void PrintTo(const Case& testCase, std::ostream* stream)
{
    *stream << testCase.name;
}

const Settings smallTransformer{{"n_layers", "2"},    {"dim", "32"},         {"n_heads", "4"},
                                {"vocab_size", "50"}, {"max_seq_len", "16"}, {"dropout_p", "0.1"}};

std::vector<Case> cases()
{
    return {{.name = "mlp", .model = "demo:mlp", .settings = {{"dim", "64"}, {"n_layers", "4"}}, .batch = 4},
            {.name = "mlp_autocast",
             .model = "demo:mlp",
             .settings = {{"dim", "64"}, {"n_layers", "4"}},
             .batch = 4,
             .autocast = true},
            {.name = "transformer", .model = "demo:transformer", .settings = smallTransformer, .batch = 4},
            {.name = "transformer_autocast",
             .model = "demo:transformer",
             .settings = smallTransformer,
             .batch = 4,
             .autocast = true},
            {.name = "resnet18", .model = "demo:resnet", .settings = {{"image_size", "32"}}, .batch = 4},
            {.name = "exported_mlp", .model = "exported/mlp_gelu.pt2"},
            {.name = "exported_gpt2", .model = "exported/gpt2_tiny_nodrop.pt2"},
            {.name = "exported_bert", .model = "exported/bert_tiny_nodrop.pt2"},
            {.name = "exported_llama", .model = "exported/llama_tiny.pt2"},
            {.name = "exported_toy", .model = "exported/toy.pt2"},
            {.name = "exported_random", .model = "exported/random.pt2"},
            {.name = "exported_twice", .model = "exported/twice.pt2"},
            {.name = "exported_several_arguments", .model = "exported/multi_args.pt2"},
            {.name = "traced_gpt2", .model = "models/torchscript/ts_trace_gpt2_tiny.pt"},
            {.name = "traced_transformer", .model = "models/torchscript/ts_trace_transformer_tiny.pt"},
            {.name = "scripted_toy", .model = "models/torchscript/ts_script_toy.pt", .inputs = {{"x", {8, 100}, {}}}}};
}

std::unique_ptr<ModelSource> open(const Case& testCase, at::Device device)
{
    const bool demo = testCase.model.starts_with("demo:");
    auto source = openModel({.name = demo ? testCase.model : HEADROOM_TEST_DATA "/" + testCase.model,
                             .batch = testCase.batch,
                             .dtype = {},
                             .lifetimes = {},
                             .device = device,
                             .settings = testCase.settings,
                             .inputs = testCase.inputs});
    if (!source)
        throw std::runtime_error(source.error().message);
    return std::move(*source);
}

StepRunner::Options optionsOf(const Case& testCase)
{
    StepRunner::Options options;
    options.autocast = testCase.autocast;
    return options;
}

const DeviceSpec& card()
{
    static const DeviceSpec spec = *findDeviceSpec("a100-80gb");
    return spec;
}

/// The step of a model, ready to be planned.
struct PlannedModel
{
    PlannedModel(const Case& testCase, at::Device device)
        : options(optionsOf(testCase))
        , model(open(testCase, device))
    {
        const auto trace = StepRunner(*model, options).record({}, card(), {});
        if (!trace)
            throw std::runtime_error(trace.error().message);
        auto made = OpsPlanner::create(*trace);
        if (!made)
            throw std::runtime_error(made.error().message);
        planner.emplace(*std::move(made));
    }

    StepRunner::Options options;
    std::unique_ptr<ModelSource> model;
    std::optional<OpsPlanner> planner;
};

constexpr double fractions[]{0, 0.25, 0.5, 0.75, 1};

void expectExecutedAsPlanned(PlannedModel& step, const OpsPlan& plan)
{
    SCOPED_TRACE("fraction " + std::to_string(plan.fraction));
    const auto verified = verifyOps(*step.model, step.options, *step.planner, plan);
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(verified->firstDifference, "");
    EXPECT_EQ(verified->executedPeak, plan.peak);
    EXPECT_EQ(verified->executed.savedBytes, plan.savedBytes);
    EXPECT_EQ(verified->executed.repeatedOps, plan.recomputed.size());
    EXPECT_DOUBLE_EQ(verified->executed.recomputeFlops, plan.recomputeFlops);
}

class FollowedOps : public ::testing::TestWithParam<Case>
{
protected:
    static void SetUpTestSuite()
    {
        sim::initialize(card());
        at::set_num_threads(1); // small tensors: threads cost more than they give
    }
};

TEST_P(FollowedOps, TakeThePlannedBytesOnTheSimulatedDevice)
{
    PlannedModel step(GetParam(), sim::device());
    for (const double fraction : fractions) {
        const auto plan = step.planner->plan({.fraction = fraction, .measuredMs = {}});
        ASSERT_TRUE(plan) << plan.error().message;
        expectExecutedAsPlanned(step, *plan);
    }
}

TEST_P(FollowedOps, GiveTheValuesOfThePlainStepOnTheCpu)
{
    const sim::HostedMemory hosted;
    PlannedModel step(GetParam(), at::kCPU);
    for (const double fraction : fractions) {
        const auto plan = step.planner->plan({.fraction = fraction, .measuredMs = {}});
        ASSERT_TRUE(plan) << plan.error().message;
        SCOPED_TRACE("fraction " + std::to_string(fraction));
        const auto compared = compareValues(*step.model, step.options, *step.planner, *plan);
        ASSERT_TRUE(compared) << compared.error().message;
        EXPECT_EQ(compared->parameter, "") << compared->largestDifference;
        EXPECT_EQ(compared->buffer, "");
        EXPECT_GT(compared->parameters, 0U);
        expectExecutedAsPlanned(step, *plan);
    }
}

TEST_P(FollowedOps, NeverTakeMoreForASmallerFractionOfTheFrontier)
{
    PlannedModel step(GetParam(), sim::device());
    const auto plans = step.planner->frontier({.measuredMs = {}}, 11);
    ASSERT_TRUE(plans) << plans.error().message;
    Bytes smaller = 0;
    for (const OpsPlan& plan : *plans) {
        const auto verified = verifyOps(*step.model, step.options, *step.planner, plan);
        ASSERT_TRUE(verified) << verified.error().message;
        EXPECT_EQ(verified->firstDifference, "");
        EXPECT_GE(verified->executedPeak, smaller) << "fraction " << plan.fraction;
        smaller = verified->executedPeak;
    }
}

TEST(RepeatedCall, PutsBackWhatItChangedWhereTheOpThrows)
{
    torch::Library ops(torch::Library::FRAGMENT, "headroom_test", std::nullopt, __FILE__, __LINE__);
    bool fails = false;
    ops.def("add_one(Tensor(a!) x) -> ()");
    ops.impl("add_one", torch::dispatch(c10::DispatchKey::CPU, [&fails](at::Tensor x) {
                 x.add_(1);
                 TORCH_CHECK(!fails, "no memory");
             }));
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("headroom_test::add_one", "");
    const OpFacts facts = opFacts(op);
    const at::Tensor buffer = at::zeros({2});
    const RepeatedCall call(op, facts, {buffer}, false, [](const at::Tensor&) { return ValueId(); });
    double flops = 0;
    call.runAgain({}, flops);
    fails = true;
    EXPECT_THROW(call.runAgain({}, flops), c10::Error);
    EXPECT_EQ(buffer.sum().item<double>(), 0.0);
}

INSTANTIATE_TEST_SUITE_P(Models, FollowedOps, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

} // namespace
} // namespace headroom
