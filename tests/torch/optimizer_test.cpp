// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/remainder.h>

#include <bit>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace headroom {
namespace {

at::Tensor formula(std::int64_t count, std::int64_t factor)
{
    return (at::remainder(at::arange(count) * factor, 101) - 50) / 256.0;
}

void expectEqual(const std::vector<at::Tensor>& actual, const nlohmann::json& expected, const std::string& what)
{
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (std::size_t tensor = 0; tensor < actual.size(); ++tensor) {
        ASSERT_EQ(actual[tensor].numel(), static_cast<std::int64_t>(expected[tensor].size())) << what;
        const float* values = actual[tensor].const_data_ptr<float>();
        for (std::size_t i = 0; i < expected[tensor].size(); ++i)
            EXPECT_FLOAT_EQ(values[i], std::bit_cast<float>(expected[tensor][i].get<std::int32_t>()))
                << what << ' ' << tensor << '[' << i << ']';
    }
}

class OptimizerOnCpu : public testing::TestWithParam<std::pair<const char*, OptimizerChoice>>
{
};

// Two steps of each, against torch.optim (tests/data/models/optimizers_cpu.py).
TEST_P(OptimizerOnCpu, UpdatesAsPyTorchDoes)
{
    const auto& [name, choice] = GetParam();
    const std::vector<at::Tensor> parameters{formula(12, 37), formula(5, 11), formula(3, 5)};
    for (const at::Tensor& parameter : parameters)
        parameter.set_requires_grad(true);
    const auto optimizer = Optimizer::make(choice, parameters);
    EXPECT_TRUE(optimizer->state().empty()); // the first step creates it
    for (const std::int64_t factor : {13, 29}) {
        parameters[0].mutable_grad() = formula(12, factor);
        parameters[1].mutable_grad() = formula(5, factor);
        optimizer->step();
        optimizer->zeroGrad();
        EXPECT_FALSE(parameters[0].grad().defined());
    }
    std::ifstream file(HEADROOM_TEST_DATA "/models/optimizers_cpu.json");
    ASSERT_TRUE(file);
    const nlohmann::json expected = nlohmann::json::parse(file)[name];
    std::vector<at::Tensor> values;
    for (const at::Tensor& parameter : parameters)
        values.push_back(parameter.detach());
    expectEqual(values, expected["parameters"], "parameter");
    expectEqual(optimizer->state(), expected["state"], "state");
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerOnCpu,
                         testing::Values(std::pair("sgd", OptimizerChoice{OptimizerChoice::Algorithm::sgd, 0}),
                                         std::pair("sgd_momentum",
                                                   OptimizerChoice{OptimizerChoice::Algorithm::sgd, 0.9}),
                                         std::pair("adam", OptimizerChoice{OptimizerChoice::Algorithm::adam, 0}),
                                         std::pair("adamw", OptimizerChoice{OptimizerChoice::Algorithm::adamw, 0})),
                         [](const auto& test) { return std::string(test.param.first); });

TEST(Optimizer, UnknownNameListsTheKnown)
{
    EXPECT_EQ(parseOptimizer("lion").error().message, "unknown optimizer 'lion'; known are sgd, adam, adamw");
}

} // namespace
} // namespace headroom
