// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Attention takes the kernel that CUDA takes on the card, and saves what that kernel saves.
#include "core/device/attention_choice.h"
#include "tests/torch/device_fixture.h"

#include <torch/csrc/autograd/function.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace headroom {
namespace {

struct Choice
{
    std::string name;
    std::string gpu;
    at::ScalarType type;
    std::vector<std::int64_t> sizes;
    bool mask;
    double dropout;
    at::SDPBackend expected;
};

void PrintTo(const Choice& choice, std::ostream* out)
{
    *out << choice.name;
}

class AttentionChoice : public Device, public ::testing::WithParamInterface<Choice>
{
};

TEST_P(AttentionChoice, IsThatOfCuda)
{
    const Choice& c = GetParam();
    const Tensor tensor = leaf(c.sizes, c.type);
    std::optional<Tensor> mask;
    if (c.mask)
        mask = empty({c.sizes[2], c.sizes[2]}, c.type);
    const sdp::sdp_params parameters{tensor, tensor, tensor, mask, c.dropout, !c.mask, false};
    const int capability = c.gpu.empty() ? 75 : findDeviceSpec(c.gpu)->computeCapability;
    EXPECT_EQ(sim::attentionBackend(parameters, capability), c.expected);
}

using at::SDPBackend;
INSTANTIATE_TEST_SUITE_P(
    Cards, AttentionChoice,
    ::testing::Values(
        Choice{"HalfTakesFlash", "a100-80gb", at::kBFloat16, {2, 4, 128, 64}, false, 0.1, SDPBackend::flash_attention},
        Choice{"FloatTakesEfficient",
               "a100-80gb",
               at::kFloat,
               {2, 4, 128, 64},
               false,
               0.1,
               SDPBackend::efficient_attention},
        Choice{
            "MaskTakesEfficient", "a100-80gb", at::kHalf, {2, 4, 128, 64}, true, 0.0, SDPBackend::efficient_attention},
        Choice{"DoubleTakesMath", "a100-80gb", at::kDouble, {2, 4, 128, 64}, false, 0.0, SDPBackend::math},
        Choice{"OddHeadTakesMath", "a100-80gb", at::kFloat, {2, 4, 128, 63}, false, 0.0, SDPBackend::math},
        Choice{"WideHeadTakesEfficient",
               "a100-80gb",
               at::kHalf,
               {2, 4, 128, 264},
               false,
               0.0,
               SDPBackend::efficient_attention},
        Choice{
            "HopperTakesCudnn", "h100-80gb", at::kBFloat16, {2, 4, 128, 64}, false, 0.0, SDPBackend::cudnn_attention},
        Choice{"HopperWithOddDropoutTakesFlash",
               "h100-80gb",
               at::kBFloat16,
               {2, 4, 128, 64},
               false,
               0.1,
               SDPBackend::flash_attention},
        Choice{"HopperFloatTakesEfficient",
               "h100-80gb",
               at::kFloat,
               {2, 4, 128, 64},
               false,
               0.0,
               SDPBackend::efficient_attention},
        Choice{"TuringHalfTakesEfficient", "", at::kHalf, {2, 4, 128, 64}, false, 0.0, SDPBackend::efficient_attention},
        Choice{"TuringBfloat16TakesMath", "", at::kBFloat16, {2, 4, 128, 64}, false, 0.0, SDPBackend::math}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(Device, EfficientAttentionSavesALogsumexpPaddedTo32Rows)
{
    const Tensor query = leaf({2, 4, 100, 64});
    const Bytes before = sim::memoryStats().live;
    const Tensor output = at::scaled_dot_product_attention(query, query, query, {}, 0.0, true);
    EXPECT_EQ(output.grad_fn()->name(), "ScaledDotProductEfficientAttentionBackward0");
    EXPECT_EQ(output.strides(), at::IntArrayRef({100 * 256, 64, 256, 1}));
    // output, logsumexp of 128 rows, seed and offset
    EXPECT_EQ(sim::memoryStats().live - before, 2 * 4 * 100 * 64 * 4 + 2 * 4 * 128 * 4 + 512 + 512);
    output.sum().backward();
    EXPECT_EQ(query.grad().sizes(), query.sizes());
}

TEST_F(Device, FlashAttentionKeepsTheQuerysLayout)
{
    const Tensor query = leaf({2, 100, 4, 64}, at::kBFloat16);
    const Tensor heads = query.transpose(1, 2);
    const Tensor output = at::scaled_dot_product_attention(heads, heads, heads, {}, 0.0, true);
    EXPECT_EQ(output.grad_fn()->name(), "ScaledDotProductFlashAttentionBackward0");
    EXPECT_EQ(output.strides(), heads.strides());
    output.sum().backward();
    EXPECT_EQ(query.grad().sizes(), query.sizes());
}

TEST_F(Device, FlashAttentionPadsHeadsToAMultipleOf8)
{
    const Tensor query = leaf({2, 4, 100, 60}, at::kBFloat16);
    const Tensor output = at::scaled_dot_product_attention(query, query, query, {}, 0.0, true);
    EXPECT_EQ(output.sizes(), query.sizes());
    EXPECT_EQ(output.strides(), at::IntArrayRef({4 * 100 * 64, 100 * 64, 64, 1}));
    output.sum().backward();
    EXPECT_EQ(query.grad().sizes(), query.sizes());
}

TEST_F(Device, HopperRunsCudnnAttention)
{
    sim::initialize(*findDeviceSpec("h100-80gb"));
    const Tensor query = leaf({2, 100, 4, 64}, at::kBFloat16);
    const Tensor heads = query.transpose(1, 2);
    const Bytes before = sim::memoryStats().live;
    const Tensor output = at::scaled_dot_product_attention(heads, heads, heads, {}, 0.0, true);
    sim::initialize(*findDeviceSpec("a100-80gb"));
    EXPECT_EQ(output.grad_fn()->name(), "ScaledDotProductCudnnAttentionBackward0");
    EXPECT_EQ(output.strides(), heads.strides());
    // output, logsumexp, seed and offset
    EXPECT_EQ(sim::memoryStats().live - before, 2 * 100 * 4 * 64 * 2 + roundedToBlock(2 * 4 * 100 * 4) + 512 + 512);
    output.sum().backward();
    EXPECT_EQ(query.grad().sizes(), query.sizes());
}

TEST_F(Device, GroupedQueriesTakeFlash)
{
    const Tensor query = leaf({2, 8, 100, 64}, at::kBFloat16);
    const Tensor key = leaf({2, 2, 100, 64}, at::kBFloat16);
    const Tensor output = at::scaled_dot_product_attention(query, key, key, {}, 0.0, true, {}, /*enable_gqa=*/true);
    EXPECT_EQ(output.grad_fn()->name(), "ScaledDotProductFlashAttentionBackward0");
    output.sum().backward();
    EXPECT_EQ(key.grad().sizes(), key.sizes());
}

TEST_F(Device, ABooleanMaskIsMadeAdditive)
{
    const Tensor query = leaf({2, 4, 100, 64});
    const Tensor output
        = at::scaled_dot_product_attention(query, query, query, empty({100, 100}, at::kBool), 0.0, false);
    EXPECT_EQ(output.grad_fn()->name(), "ScaledDotProductEfficientAttentionBackward0");
    output.sum().backward();
    EXPECT_EQ(query.grad().sizes(), query.sizes());
}

} // namespace
} // namespace headroom
