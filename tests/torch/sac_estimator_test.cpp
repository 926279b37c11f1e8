// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// PyTorch's test of its SACEstimator (test/distributed/_tools/test_sac_estimator.py): a layer whose result is changed
// in place three times, in both of its modes, `operator-level-cost-model` and `operator-level-benchmark`.
#include "core/sac/module_records.h"
#include "core/sac/step_sac.h"
#include "tests/torch/recorded_model.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace headroom {
namespace {

/// The model on any device.
class Foo
{
public:
    explicit Foo(const at::TensorOptions& device)
        : weight_(at::zeros({10, 5}, device).set_requires_grad(true))
        , bias_(at::zeros({10}, device).set_requires_grad(true))
        , x_(at::zeros({10, 5}, device))
    {
        tree_.modules
            = {{"Foo", "Foo", ModuleId()}, {"Foo.fc1", "Linear", ModuleId(0)}, {"Foo.relu1", "ReLU", ModuleId(0)}};
        tree_.registered = {{ModuleId(1), "weight", weight_, Category::parameter},
                            {ModuleId(1), "bias", bias_, Category::parameter}};
    }

    at::Tensor forward() const
    {
        return Model::call(ModuleId(0), x_, [&](const at::Tensor& in) {
            at::Tensor y
                = Model::call(ModuleId(1), in, [&](const at::Tensor& z) { return at::linear(z, weight_, bias_); });
            y = Model::call(ModuleId(2), y, [](at::Tensor z) { return at::relu_(z); });
            return y.cos_().sin_();
        });
    }

    Result<StepTracePtr> record(const DeviceSpec& spec, std::shared_ptr<RealDevice> real) const
    {
        Recorder recorder({}, spec, std::move(real));
        recorder.setModel(tree_);
        recorder.addInput(x_);
        recorder.begin();
        const at::Tensor loss = forward();
        recorder.mark(Mark::forwardEnd);
        return recorder.finish();
    }

private:
    at::Tensor weight_;
    at::Tensor bias_;
    at::Tensor x_;
    ModelTree tree_;
};

nlohmann::json pyTorchsDocument()
{
    return nlohmann::json::parse(
        std::ifstream(std::string(HEADROOM_TEST_DATA) + "/pytorch/seed001_foo_sacstats.json"))["Foo"];
}

SacStats statsOf(const StepTrace& trace)
{
    const ModuleRecords records = recordModules(trace);
    return StepSac(trace, records).stats(ModuleId(0), StepSac::Names::with);
}

/// What PyTorch's test asks for in either mode.
void expectGroups(const SacStats& stats)
{
    EXPECT_EQ(stats.viewLikeOps, (std::vector<int>{0}));
    EXPECT_EQ(stats.randOps, std::vector<int>{});
    EXPECT_EQ(stats.inplaceOps, (std::vector<std::pair<int, int>>{{2, 1}, {3, 1}, {4, 1}}));
    EXPECT_EQ(stats.funcNames, pyTorchsDocument()["func_names"].get<std::vector<std::string>>());
}

TEST(SacEstimator, FooHasTheStatisticsOfPyTorch)
{
    sim::initialize(card());
    const auto trace = Foo(at::TensorOptions().device(sim::device())).record(card(), nullptr);
    ASSERT_TRUE(trace) << trace.error().message;
    const SacStats stats = statsOf(**trace);
    expectGroups(stats);
    // The rest of the document that PyTorch wrote.
    const auto document = pyTorchsDocument();
    EXPECT_EQ(stats.memory, document["memory"].get<std::vector<Bytes>>());
    EXPECT_EQ(stats.savedAutogradOps, document["saved_autograd_ops"].get<std::vector<int>>());
    ASSERT_EQ(stats.runtimes.size(), document["runtimes"].size());
    for (std::size_t op = 0; op < stats.runtimes.size(); ++op)
        EXPECT_NEAR(stats.runtimes[op], document["runtimes"][op].get<double>(), 1e-18) << op;
}

/// The benchmark mode: the ops run, here on the CPU, and have the times that they took.
TEST(SacEstimator, FooHasTheSameGroupsWithMeasuredTimes)
{
    const std::shared_ptr<RealDevice> cpu = openCpu();
    cpu->startTracing();
    const Foo foo{at::TensorOptions(at::kCPU)};
    static_cast<void>(foo.forward()); // the first call of an op is not what it takes
    static_cast<void>(cpu->takeTrace());
    const auto trace = foo.record(cpu->spec(), cpu);
    cpu->stopTracing();
    ASSERT_TRUE(trace) << trace.error().message;
    const SacStats stats = statsOf(**trace);
    expectGroups(stats);
    ASSERT_EQ(stats.runtimes.size(), 5U);
    for (std::size_t op = 1; op < stats.runtimes.size(); ++op)
        EXPECT_GT(stats.runtimes[op], 0) << stats.funcNames[op];
    for (std::uint32_t op = 0; op < (*trace)->ops.size(); ++op)
        EXPECT_TRUE((*trace)->ops.flags[OpId(op)] & opMeasured) << (*trace)->opName(OpId(op));
}

} // namespace
} // namespace headroom
