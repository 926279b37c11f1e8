// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The simulated device: memory is counted as the CUDA allocator counts it, values are not there, and what CUDA's
// kernels allocate beside their results is allocated.
#include "core/model/autocast_scope.h"
#include "tests/torch/device_fixture.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace headroom {
namespace {

using ::testing::HasSubstr;

// --- memory

TEST_F(Device, CountsInBlocksOf512)
{
    const sim::MemoryStats before = sim::memoryStats();
    {
        const Tensor one = empty({1});
        const Tensor two = empty({129});
        const Tensor none = empty({0});
        EXPECT_EQ(sim::memoryStats().live - before.live, 512 + 1024);
        EXPECT_EQ(sim::memoryStats().blocks - before.blocks, 2);
    }
    EXPECT_EQ(sim::memoryStats().live, before.live);
}

TEST_F(Device, PeakIsTheHighestSinceReset)
{
    sim::resetPeak();
    const Bytes before = sim::memoryStats().live;
    empty({1024});
    empty({256});
    EXPECT_EQ(sim::memoryStats().peak - before, 4096);
    sim::resetPeak();
    EXPECT_EQ(sim::memoryStats().peak, before);
}

TEST_F(Device, ResizingHoldsBothStoragesForAMoment)
{
    Tensor tensor = empty({256});
    const Bytes before = sim::memoryStats().live;
    sim::resetPeak();
    tensor.resize_({1024});
    EXPECT_EQ(sim::memoryStats().peak - before, 4096);
    EXPECT_EQ(sim::memoryStats().live - before, 4096 - 1024);
}

TEST_F(Device, AddressesAreUniqueAndCannotBeRead)
{
    const Tensor a = empty({4});
    const Tensor b = empty({4});
    EXPECT_NE(a.data_ptr(), b.data_ptr());
    EXPECT_DEATH(std::printf("%f", static_cast<double>(*static_cast<const float*>(a.data_ptr()))), "");
}

TEST_F(Device, HoldsMoreThanAnyGpu)
{
    const Tensor tensor = empty({1 << 20, 1 << 20}); // 4 TiB
    EXPECT_EQ(sim::memoryStats().live >> 42, 1);
}

TEST_F(Device, FactoriesWithoutADeviceUseTheDefaultOne)
{
    EXPECT_TRUE(at::ones({2}).device().is_cpu());
    const sim::DefaultDevice device;
    EXPECT_EQ(at::ones({2}).device(), sim::device());
    EXPECT_EQ(at::randn({2}).device(), sim::device());
    EXPECT_EQ(at::arange(3).device(), sim::device());
    EXPECT_TRUE(at::ones({2}, at::kCPU).device().is_cpu());
    EXPECT_EQ(at::zeros_like(at::ones({2})).device(), sim::device());
    {
        const sim::DefaultDevice inner;
    }
    EXPECT_EQ(at::ones({2}).device(), sim::device());
}

TEST_F(Device, ReadingGivesPlaceholdersThatCount)
{
    const std::int64_t before = sim::placeholderValues();
    EXPECT_EQ(empty({}).item<float>(), 1.0F);
    EXPECT_FALSE(empty({}, at::kBool).item<bool>());
    EXPECT_EQ(sim::placeholderValues() - before, 2);
    EXPECT_TRUE(at::equal(empty({3}).cpu(), at::zeros({3})));
    EXPECT_EQ(sim::placeholderValues() - before, 3);
}

// --- the last resort

TEST_F(Device, AnOpWithoutAKernelRunsOnZerosAndIsCounted)
{
    const Tensor result = at::linalg_matrix_exp(empty({3, 4, 4}));
    EXPECT_EQ(result.sizes(), at::IntArrayRef({3, 4, 4}));
    EXPECT_EQ(result.device(), sim::device());
    const auto fallbacks = sim::fallbacks();
    const auto found = std::find_if(fallbacks.begin(), fallbacks.end(),
                                    [](const auto& f) { return f.op == "aten::linalg_matrix_exp"; });
    ASSERT_NE(found, fallbacks.end());
    EXPECT_EQ(found->count, 1);
}

TEST_F(Device, TheLastResortIsRefusedWhereItWouldTakeTooMuch)
{
    const Tensor input = empty({1 << 14, 1 << 14}); // 1 GiB
    try {
        at::linalg_matrix_exp(input);
        FAIL() << "expected a refusal";
    } catch (const c10::Error& error) {
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("no kernel for aten::linalg_matrix_exp"));
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("1.00 GiB"));
    }
}

TEST_F(Device, WhatDependsOnValuesGetsItsUpperBound)
{
    const Tensor input = empty({3, 4});
    const std::int64_t before = sim::placeholderValues();
    EXPECT_EQ(at::nonzero(input).sizes(), at::IntArrayRef({12, 2}));
    EXPECT_EQ(at::masked_select(input, empty({4}, at::kBool)).sizes(), at::IntArrayRef({12}));
    EXPECT_EQ(std::get<0>(at::_unique2(input)).sizes(), at::IntArrayRef({12}));
    EXPECT_EQ(sim::placeholderValues() - before, 3);
}

TEST_F(Device, SparseGradientsAreRefusedByName)
{
    const Tensor weight = leaf({10, 4});
    const Tensor rows = at::embedding(weight, empty({3}, at::kLong), -1, false, /*sparse=*/true);
    try {
        rows.sum().backward();
        FAIL() << "expected a refusal";
    } catch (const c10::Error& error) {
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("dense tensors only"));
    }
}

// --- kernels of CUDA that the CPU does not have

TEST_F(Device, BatchNormTakesCudnn)
{
    const Tensor input = leaf({4, 64, 10, 10});
    const Tensor weight = leaf({64});
    const Tensor bias = leaf({64});
    const Tensor mean = empty({64});
    const Tensor var = empty({64});
    const Bytes before = sim::memoryStats().live;
    const Tensor output = at::batch_norm(input, weight, bias, mean, var, true, 0.1, 1e-5, true);
    EXPECT_EQ(output.grad_fn()->name(), "CudnnBatchNormBackward0");
    EXPECT_EQ(sim::memoryStats().live - before, 4 * 64 * 100 * 4 + 512 + 512); // result, mean, variance
    output.sum().backward();
    EXPECT_EQ(input.grad().sizes(), input.sizes());
    EXPECT_EQ(weight.grad().sizes(), weight.sizes());
    EXPECT_EQ(bias.grad().sizes(), bias.sizes());
    const Tensor half = leaf({4, 64, 10, 10}, at::kBFloat16);
    EXPECT_EQ(at::batch_norm(half, weight, bias, mean, var, true, 0.1, 1e-5, true).grad_fn()->name(),
              "NativeBatchNormBackward0");
}

TEST_F(Device, RmsNormIsFused)
{
    const Tensor input = leaf({2, 3, 8}, at::kBFloat16);
    const Tensor weight = leaf({8}, at::kBFloat16);
    const Bytes before = sim::memoryStats().live;
    const Tensor output = at::rms_norm(input, {8}, weight);
    EXPECT_EQ(output.grad_fn()->name(), "FusedRmsNormBackward0");
    EXPECT_EQ(sim::memoryStats().live - before, 512 + 512); // result, and 6 reciprocal deviations in float32
    output.sum().backward();
    EXPECT_EQ(weight.grad().sizes(), weight.sizes());
}

TEST_F(Device, DropoutKeepsAMask)
{
    const Tensor input = leaf({1024});
    const Bytes before = sim::memoryStats().live;
    const Tensor output = at::dropout(input, 0.1, true);
    EXPECT_EQ(output.grad_fn()->name(), "NativeDropoutBackward0");
    EXPECT_EQ(sim::memoryStats().live - before, 4096 + 1024);
}

TEST_F(Device, OptimizerOpsInPlaceAllocateNothing)
{
    const Tensors parameters{empty({1024}), empty({2048})};
    const Tensors gradients{empty({1024}), empty({2048})};
    const Tensors first{empty({1024}), empty({2048})};
    const Tensors second{empty({1024}), empty({2048})};
    const Tensors steps{empty({}), empty({})};
    sim::resetPeak();
    const Bytes before = sim::memoryStats().peak;
    at::_foreach_lerp_(first, gradients, 0.1);
    at::_foreach_addcmul_(second, gradients, gradients, 0.1);
    at::_fused_adamw_(parameters, gradients, first, second, {}, steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false);
    EXPECT_EQ(sim::memoryStats().peak, before);
    const Tensors roots = at::_foreach_sqrt(second);
    EXPECT_EQ(sim::memoryStats().peak - before, 4096 + 8192);
}

TEST_F(Device, AutocastLowersPrecision)
{
    const Tensor a = empty({4, 4});
    const AutocastScope bfloat16({at::kPrivateUse1, at::kBFloat16});
    const Tensor product = at::mm(a, a);
    const Tensor probabilities = at::softmax(product, -1);
    EXPECT_EQ(product.scalar_type(), at::kBFloat16);
    EXPECT_EQ(probabilities.scalar_type(), at::kFloat);
}

} // namespace
} // namespace headroom
