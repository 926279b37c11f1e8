// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The simulated device: results have the sizes, strides and aliasing that they have on the CPU, memory is counted as
// the CUDA allocator counts it, and attention takes the kernel that CUDA takes on the card.
#include "core/device/kernels/attention_choice.h"
#include "core/device/simulated_device.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <string>
#include <vector>

namespace headroom {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using ::testing::HasSubstr;

class Device : public ::testing::Test
{
protected:
    static void SetUpTestSuite() { sim::initialize(*findDeviceSpec("a100-80gb")); }

    static at::TensorOptions on(at::ScalarType type = at::kFloat)
    {
        return at::TensorOptions().device(sim::device()).dtype(type);
    }
    static Tensor empty(std::vector<std::int64_t> sizes, at::ScalarType type = at::kFloat)
    {
        return at::empty(sizes, on(type));
    }
    static Tensor leaf(std::vector<std::int64_t> sizes, at::ScalarType type = at::kFloat)
    {
        return empty(std::move(sizes), type).set_requires_grad(true);
    }
};

// --- shapes

/// Ops on tensors of one device; what they give is compared between CPU and the simulated device.
using Make = std::function<Tensor(std::vector<std::int64_t>)>;
struct Case
{
    std::string name;
    std::function<Tensors(const Make&)> run;
};

/// Shown by GoogleTest when a case fails.
void PrintTo(const Case& c, std::ostream* out)
{
    *out << c.name;
}

class ShapesOf : public Device, public ::testing::WithParamInterface<Case>
{
};

std::string describe(const Tensors& tensors)
{
    std::string text;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Tensor& t = tensors[i];
        if (!t.defined()) {
            text += "undefined\n";
            continue;
        }
        std::size_t alias = i;
        for (std::size_t j = i; j-- > 0;)
            alias = tensors[j].defined() && tensors[j].storage().is_alias_of(t.storage()) ? j : alias;
        text += c10::str(t.scalar_type(), " sizes ", t.sizes(), " strides ", t.strides(), " offset ",
                         t.storage_offset(), " storage of ", alias, " bytes ", t.storage().nbytes(), "\n");
    }
    return text;
}

TEST_P(ShapesOf, AreThoseOfTheCpu)
{
    const auto makeOn = [](at::Device device) {
        return [device](std::vector<std::int64_t> sizes) {
            return at::zeros(sizes, at::TensorOptions().device(device)).set_requires_grad(true);
        };
    };
    const std::size_t fallbacks = sim::fallbacks().size();
    const std::string expected = describe(GetParam().run(makeOn(at::kCPU)));
    EXPECT_EQ(describe(GetParam().run(makeOn(sim::device()))), expected);
    EXPECT_EQ(sim::fallbacks().size(), fallbacks) << "an op ran on zero CPU tensors";
}

/// Gradients of the sum of `result` by `leaves`, after them.
Tensors withGradients(Tensors leaves, const Tensor& result)
{
    result.sum().backward();
    leaves.push_back(result);
    const std::size_t count = leaves.size() - 1;
    for (std::size_t i = 0; i < count; ++i)
        leaves.push_back(leaves[i].grad());
    return leaves;
}

const Case cases[] = {
    {"Linear",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 5, 8});
         Tensor w = make({6, 8});
         Tensor b = make({6});
         return withGradients({x, w, b}, at::linear(x, w, b));
     }},
    {"LinearWithoutBias",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 5, 8});
         Tensor w = make({6, 8});
         return withGradients({x, w}, at::linear(x, w));
     }},
    {"Bmm",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 5, 8});
         Tensor y = make({3, 8, 4});
         return withGradients({x, y}, at::bmm(x, y));
     }},
    {"BroadcastArithmetic",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 1, 8});
         Tensor y = make({5, 1});
         return withGradients({x, y}, (x * y + x) / 2.0 - y);
     }},
    {"TransposedPointwise",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 5});
         return withGradients({x}, at::exp(x.t()));
     }},
    {"Gelu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::gelu(x));
     }},
    {"Relu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::relu(x));
     }},
    {"Silu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::silu(x));
     }},
    {"Softmax",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::softmax(x, -1));
     }},
    {"LogSoftmax",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::log_softmax(x, 1));
     }},
    {"LayerNorm",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8});
         Tensor w = make({8});
         Tensor b = make({8});
         return withGradients({x, w, b}, at::layer_norm(x, {8}, w, b));
     }},
    {"Embedding",
     [](const Make& make) -> Tensors {
         Tensor w = make({10, 4});
         const Tensor i = at::zeros({2, 3}, w.options().dtype(at::kLong).requires_grad(false));
         return withGradients({w}, at::embedding(w, i));
     }},
    {"MseLoss",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         Tensor y = make({4, 6});
         return withGradients({x, y}, at::mse_loss(x, y));
     }},
    {"CrossEntropy",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor t = at::zeros({4}, x.options().dtype(at::kLong).requires_grad(false));
         return withGradients({x}, at::cross_entropy_loss(x, t));
     }},
    {"BinaryCrossEntropy",
     [](const Make& make) -> Tensors {
         Tensor x = make({4});
         const Tensor t = at::zeros({4}, x.options().requires_grad(false));
         return withGradients({x}, at::binary_cross_entropy(at::sigmoid(x), t));
     }},
    {"Convolution",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9});
         Tensor w = make({4, 3, 3, 3});
         Tensor b = make({4});
         return withGradients({x, w, b}, at::conv2d(x, w, b, 2, 1));
     }},
    {"TransposedConvolution",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9});
         Tensor w = make({3, 4, 3, 3});
         return withGradients({x, w}, at::conv_transpose2d(x, w, {}, 2, 1, 1));
     }},
    {"GroupedConvolution1d",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 4, 9});
         Tensor w = make({8, 2, 3});
         return withGradients({x, w}, at::conv1d(x, w, {}, 1, at::IntArrayRef{1}, 1, 2));
     }},
    {"MaxPool",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8});
         return withGradients({x}, at::max_pool2d(x, 2));
     }},
    {"AdaptiveAveragePool",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8});
         return withGradients({x}, at::adaptive_avg_pool2d(x, {3, 3}));
     }},
    {"GlobalAveragePool",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8});
         return withGradients({x}, at::adaptive_avg_pool2d(x, {1, 1}));
     }},
    {"Where",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 1});
         Tensor y = make({6});
         return withGradients({x, y}, at::where(x > y, x, y));
     }},
    {"MaskedFill",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, x.masked_fill(x > 0, 0.0));
     }},
    {"Views",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor y = x * 2;
         return Tensors({x, y, y.t(), y.view({24}), y.slice(1, 2, 5), y.select(0, 1), y.unsqueeze(0).expand({3, 4, 6}),
                         y.t().reshape({24}), y.narrow(0, 1, 2).contiguous()});
     }},
    {"Unbind",
     [](const Make& make) -> Tensors {
         Tensor x = make({3, 4});
         Tensors parts = (x * 2).unbind(0);
         parts.insert(parts.begin(), x);
         return parts;
     }},
    {"SplitAndCat",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensors parts = x.split(2, 1);
         return withGradients({x}, at::cat({parts[2], parts[0]}, 1));
     }},
    {"InPlace",
     [](const Make& make) -> Tensors {
         const Tensor x = make({4, 6}) * 2;
         Tensor y = x.relu_();
         y.add_(1);
         return Tensors({x, y});
     }},
    {"Out",
     [](const Make& make) -> Tensors {
         const Tensor x = make({4, 6}).detach();
         Tensor out = at::empty({0}, x.options());
         at::mul_out(out, x, x);
         return Tensors({x, out});
     }},
    {"Resize",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6}).detach();
         x.resize_({10, 10});
         return Tensors({x});
     }},
    {"Reductions",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6, 2});
         return Tensors({x.sum(), x.sum(1), x.mean(at::IntArrayRef{0, 2}, true), x.amax(0), x.max(), x.min(),
                         x.argmax(1), std::get<1>(x.max(1)), x.var(1), x.std(), x.prod(), x.norm(), x.cumsum(0)});
     }},
    {"TypeConversion",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return Tensors({x, x.to(at::kHalf), x.to(at::kFloat), x.t().to(at::kDouble)});
     }},
    {"Indexing",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor i = at::zeros({3}, x.options().dtype(at::kLong).requires_grad(false));
         return withGradients({x}, x.index({i}) + x.index_select(0, i));
     }},
    {"GatherScatter",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         const Tensor i = at::zeros({4, 2}, x.options().dtype(at::kLong).requires_grad(false));
         return withGradients({x}, x.gather(1, i));
     }},
    {"Sorting",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         auto [values, indices] = x.topk(2);
         auto [sorted, order] = x.sort();
         return Tensors({x, values, indices, sorted, order});
     }},
    {"Factories",
     [](const Make& make) -> Tensors {
         const Tensor x = make({4}).detach();
         return Tensors({at::arange(5, x.options()), at::ones({2, 3}, x.options()), at::full({2}, 7, x.options()),
                         at::zeros_like(x), at::eye(3, x.options()), at::tril(at::ones({3, 3}, x.options()))});
     }},
    {"ChannelsLast",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8}).detach().contiguous(at::MemoryFormat::ChannelsLast);
         const Tensor w = make({4, 3, 3, 3}).detach();
         return Tensors({x, x.relu(), at::conv2d(x, w), at::max_pool2d(x, 2)});
     }},
    {"Hardtanh",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::hardtanh(x, 0, 6));
     }},
    {"HuberLoss",
     [](const Make& make) -> Tensors {
         Tensor x = make({4});
         const Tensor y = make({4}).detach();
         return withGradients({x}, at::huber_loss(x, y));
     }},
    {"Glu",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 6});
         return withGradients({x}, at::glu(x));
     }},
    {"Prelu",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4});
         Tensor w = make({3});
         return withGradients({x, w}, at::prelu(x, w));
     }},
    {"FloorDivide",
     [](const Make& make) -> Tensors {
         Tensor x = make({4, 1});
         return {x, at::floor_divide(x, make({6})), at::rsub(x, make({6}))};
     }},
    {"GroupNorm",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 4, 3, 3});
         Tensor w = make({4});
         Tensor b = make({4});
         return withGradients({x, w, b}, at::group_norm(x, 2, w, b));
     }},
    {"EmbeddingBag",
     [](const Make& make) -> Tensors {
         Tensor w = make({10, 4});
         const auto l = w.options().dtype(at::kLong).requires_grad(false);
         const Tensor i = at::zeros({6}, l);
         const Tensor o = at::zeros({2}, l);
         return withGradients({w}, std::get<0>(at::embedding_bag(w, i, o)));
     }},
    {"AdaptiveAveragePool3d",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 8, 8});
         return withGradients({x}, at::adaptive_avg_pool3d(x, {3, 3, 3}));
     }},
    {"MaxPool3d",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 9, 9, 9});
         return withGradients({x}, at::max_pool3d(x, 3, 2, 1, 1, true));
     }},
    {"Padding",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4, 5});
         return withGradients({x},
                              at::pad(x, {1, 2, 2, 1}, "reflect") + at::pad(x, {1, 2, 2, 1}, "replicate")
                                  + at::pad(x, {1, 2, 2, 1}));
     }},
    {"GridSampler",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4, 5});
         Tensor g = make({2, 6, 7, 2});
         return withGradients({x, g}, at::grid_sampler(x, g, 0, 0, false));
     }},
    {"FoldAndUnfold",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 8, 9});
         const Tensor columns = at::im2col(x, {3, 2}, {1, 1}, {1, 0}, {2, 1});
         return withGradients({x},
                              at::col2im(columns, {8, 9}, {3, 2}, {1, 1}, {1, 0}, {2, 1}) + x.unfold(2, 2, 2).sum());
     }},
    {"Interpolation",
     [](const Make& make) -> Tensors {
         Tensor x = make({2, 3, 4, 5});
         return withGradients({x}, at::upsample_bilinear2d(x, {8, 10}, false) + at::upsample_nearest2d(x, {8, 10}));
     }},
    {"Foreach",
     [](const Make& make) -> Tensors {
         const Tensors a{make({4}).detach(), make({2, 3}).detach()};
         Tensors roots = at::_foreach_sqrt(a);
         at::_foreach_add_(roots, 1.0);
         at::_foreach_addcdiv_(roots, a, a, 0.5);
         return roots;
     }},
};

INSTANTIATE_TEST_SUITE_P(Ops, ShapesOf, ::testing::ValuesIn(cases),
                         [](const auto& instance) { return instance.param.name; });

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

TEST_F(Device, ReadingIsInventedAndCounted)
{
    const std::int64_t before = sim::inventedValues();
    EXPECT_EQ(empty({}).item<float>(), 1.0F);
    EXPECT_FALSE(empty({}, at::kBool).item<bool>());
    EXPECT_EQ(sim::inventedValues() - before, 2);
    EXPECT_TRUE(at::equal(empty({3}).cpu(), at::zeros({3})));
    EXPECT_EQ(sim::inventedValues() - before, 3);
}

// --- the last resort

TEST_F(Device, AnOpWithoutAKernelRunsOnZerosAndIsCounted)
{
    const Tensor input = empty({3, 4, 5});
    const auto [values, indices] = at::mode(input, 1);
    EXPECT_EQ(values.sizes(), at::IntArrayRef({3, 5}));
    EXPECT_EQ(indices.scalar_type(), at::kLong);
    EXPECT_EQ(values.device(), sim::device());
    const auto fallbacks = sim::fallbacks();
    const auto mode
        = std::find_if(fallbacks.begin(), fallbacks.end(), [](const auto& f) { return f.op == "aten::mode"; });
    ASSERT_NE(mode, fallbacks.end());
    EXPECT_EQ(mode->count, 1);
}

TEST_F(Device, TheLastResortIsRefusedWhereItWouldTakeTooMuch)
{
    const Tensor input = empty({1 << 14, 1 << 14}); // 1 GiB
    try {
        at::mode(input, 1);
        FAIL() << "expected a refusal";
    } catch (const c10::Error& error) {
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("no kernel for aten::mode"));
        EXPECT_THAT(error.what_without_backtrace(), HasSubstr("1.00 GiB"));
    }
}

TEST_F(Device, WhatDependsOnValuesGetsItsUpperBound)
{
    const Tensor input = empty({3, 4});
    const std::int64_t before = sim::inventedValues();
    EXPECT_EQ(at::nonzero(input).sizes(), at::IntArrayRef({12, 2}));
    EXPECT_EQ(at::masked_select(input, empty({4}, at::kBool)).sizes(), at::IntArrayRef({12}));
    EXPECT_EQ(std::get<0>(at::_unique2(input)).sizes(), at::IntArrayRef({12}));
    EXPECT_EQ(sim::inventedValues() - before, 3);
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

// --- attention

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
    at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
    at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);
    const Tensor product = at::mm(a, a);
    const Tensor probabilities = at::softmax(product, -1);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
    EXPECT_EQ(product.scalar_type(), at::kBFloat16);
    EXPECT_EQ(probabilities.scalar_type(), at::kFloat);
}

} // namespace
} // namespace headroom
