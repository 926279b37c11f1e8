// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// PyTorch's test of its SACEstimator (test/distributed/_tools/test_sac_estimator.py): a layer whose result is changed
// in place three times.
#include "core/sac/module_records.h"
#include "core/sac/step_sac.h"
#include "tests/torch/recorded_model.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace headroom {
namespace {

TEST(SacEstimator, FooHasTheStatisticsOfPyTorch)
{
    sim::initialize(card());
    Model model("Foo");
    const ModuleId fc1 = model.add("Foo.fc1");
    const ModuleId relu1 = model.add("Foo.relu1");
    const at::Tensor weight = model.parameter(fc1, "weight", {10, 5});
    const at::Tensor bias = model.parameter(fc1, "bias", {10});
    const at::Tensor x = emptyOnCard({10, 5});
    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    recorder.addInput(x);
    recorder.begin();
    const at::Tensor loss = Model::call(ModuleId(0), x, [&](const at::Tensor& in) {
        at::Tensor y = Model::call(fc1, in, [&](const at::Tensor& z) { return at::linear(z, weight, bias); });
        y = Model::call(relu1, y, [](at::Tensor z) { return at::relu_(z); });
        return y.cos_().sin_();
    });
    recorder.mark(Mark::forwardEnd);
    const auto trace = recorder.finish();
    ASSERT_TRUE(trace) << trace.error().message;

    const ModuleRecords records = recordModules(**trace);
    const SacStats stats = StepSac(**trace, records).stats(ModuleId(0), StepSac::Names::with);
    EXPECT_EQ(stats.viewLikeOps, (std::vector<int>{0}));
    EXPECT_EQ(stats.randOps, std::vector<int>{});
    EXPECT_EQ(stats.inplaceOps, (std::vector<std::pair<int, int>>{{2, 1}, {3, 1}, {4, 1}}));
    // The rest of the document that PyTorch wrote.
    const auto document = nlohmann::json::parse(
        std::ifstream(std::string(HEADROOM_TEST_DATA) + "/pytorch/seed001_foo_sacstats.json"))["Foo"];
    EXPECT_EQ(stats.funcNames, document["func_names"].get<std::vector<std::string>>());
    EXPECT_EQ(stats.memory, document["memory"].get<std::vector<Bytes>>());
    EXPECT_EQ(stats.savedAutogradOps, document["saved_autograd_ops"].get<std::vector<int>>());
    ASSERT_EQ(stats.runtimes.size(), document["runtimes"].size());
    for (std::size_t op = 0; op < stats.runtimes.size(); ++op)
        EXPECT_NEAR(stats.runtimes[op], document["runtimes"][op].get<double>(), 1e-18) << op;
}

} // namespace
} // namespace headroom
