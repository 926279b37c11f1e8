// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/roofline.h"

#include <gtest/gtest.h>

#include <set>

namespace headroom {
namespace {

/// A contiguous tensor.
TensorShape shape(std::vector<std::int64_t> sizes, DType dtype = DType::float32, int itemSize = 4)
{
    std::vector<std::int64_t> strides(sizes.size());
    std::int64_t stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= sizes[i];
    }
    return {std::move(sizes), std::move(strides), dtype, itemSize};
}

DeviceSpec a100()
{
    auto spec = findDeviceSpec("a100-80gb");
    EXPECT_TRUE(spec.ok());
    return *spec;
}

/// The time of an op whose tensors and name are given, as the recorder works it out.
double opMs(std::string_view name, std::vector<TensorShape> inputs, const std::vector<TensorShape>& outputs)
{
    const double count = flops(name, inputs, outputs);
    std::vector<TensorShape> all = std::move(inputs);
    all.insert(all.end(), outputs.begin(), outputs.end());
    return rooflineMs(a100(), transferBytes(all), count, DType::float32, 0);
}

// The figures that PyTorch derives from the device's clocks.
TEST(DeviceSpecs, a100HasTheFiguresThatPyTorchComputes)
{
    const DeviceSpec spec = a100();
    EXPECT_EQ(spec.title, "NVIDIA A100-SXM4-80GB");
    EXPECT_EQ(spec.gigabytesPerSecond, 1593e3 * 5120 * 2 / 1e6 / 8);
    EXPECT_EQ(spec.float32Flops, 108 * 4 * 1410 * 32 * 1e6);
    EXPECT_EQ(spec.tensorFloat32Flops, 108 * 4 * 1410 * 256 * 1e6);
    EXPECT_EQ(spec.halfFlops, 108 * 4 * 1410 * 512 * 1e6);
    EXPECT_EQ(spec.computeCapability, 80);
}

TEST(DeviceSpecs, everyEntryIsCompleteAndNamedOnce)
{
    std::set<std::string> names;
    for (const DeviceSpec& spec : deviceSpecs()) {
        EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
        EXPECT_FALSE(spec.title.empty()) << spec.name;
        EXPECT_GT(spec.memory, 7 * GiB) << spec.name;
        EXPECT_LT(spec.memory, 180 * GiB) << spec.name;
        EXPECT_GT(spec.gigabytesPerSecond, 270) << spec.name;
        EXPECT_GT(spec.float32Flops, 8e12) << spec.name;
        EXPECT_GE(spec.tensorFloat32Flops, spec.float32Flops) << spec.name;
        EXPECT_GT(spec.halfFlops, spec.float32Flops) << spec.name;
        EXPECT_GE(spec.float8Flops, spec.halfFlops) << spec.name;
        EXPECT_GT(spec.float64Flops, 0) << spec.name;
        EXPECT_GE(spec.computeCapability, 70) << spec.name;
    }
    for (const char* name : {"a100-80gb", "a100-40gb", "h100-80gb", "h200-141gb", "b200-180gb", "l40s-48gb", "l4-24gb",
                             "rtx-4090-24gb", "rtx-3090-24gb", "rtx-6000-ada-48gb", "v100-32gb", "t4-16gb"})
        EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_EQ(deviceSpecs().front().name, defaultDeviceName);
}

TEST(DeviceSpecs, unknownNameListsTheKnownOnes)
{
    const auto spec = findDeviceSpec("a1000");
    ASSERT_FALSE(spec.ok());
    EXPECT_EQ(spec.error().kind, ErrorKind::badInput);
    EXPECT_NE(spec.error().message.find("unknown GPU 'a1000': expected h100-80gb, "), std::string::npos)
        << spec.error().message;
    EXPECT_NE(spec.error().message.find("a100-80gb"), std::string::npos) << spec.error().message;
}

TEST(TransferBytes, countsEveryTensorAndExpandedDimensionsOnce)
{
    EXPECT_EQ(transferBytes({}), 0);
    const std::vector<TensorShape> tensors{shape({8, 1024, 768}), shape({3}, DType::int64, 8), shape({})};
    EXPECT_EQ(transferBytes(tensors), 25165824 + 24 + 4);
    const std::vector<TensorShape> expanded{{{8, 1024, 768}, {0, 768, 1}, DType::float32, 4}};
    EXPECT_EQ(transferBytes(expanded), 1024 * 768 * 4);
    const std::vector<TensorShape> empty{shape({8, 0, 768})};
    EXPECT_EQ(transferBytes(empty), 0);
}

// Expected values: flop_registry of torch 2.11 on meta tensors of these shapes.
TEST(Flops, matrixProducts)
{
    const std::vector<TensorShape> out{shape({1})};
    EXPECT_EQ(flops("aten.mm", std::vector{shape({8192, 768}), shape({768, 768})}, out), 9663676416);
    EXPECT_EQ(flops("aten.mm.default", std::vector{shape({8192, 768}), shape({768, 768})}, out), 9663676416);
    EXPECT_EQ(flops("aten._scaled_mm", std::vector{shape({8192, 768}), shape({768, 768}), shape({}), shape({})}, out),
              9663676416);
    EXPECT_EQ(flops("aten.addmm", std::vector{shape({3072}), shape({8192, 768}), shape({768, 3072})}, out),
              38654705664);
    EXPECT_EQ(flops("aten.bmm", std::vector{shape({6, 5, 7}), shape({6, 7, 9})}, out), 3780);
    EXPECT_EQ(flops("aten.baddbmm", std::vector{shape({6, 5, 9}), shape({6, 5, 7}), shape({6, 7, 9})}, out), 3780);
}

TEST(Flops, convolutions)
{
    const std::vector x{shape({32, 64, 56, 56}), shape({128, 64, 3, 3})};
    const std::vector out{shape({32, 128, 28, 28})};
    EXPECT_EQ(flops("aten.convolution", x, out), 3699376128);
    EXPECT_EQ(flops("aten._convolution.deprecated", x, out), 3699376128);
    EXPECT_EQ(flops("aten.cudnn_convolution", x, out), 3699376128);
    const std::vector transposed{shape({4, 16, 10, 10}), shape({16, 8, 4, 4})};
    EXPECT_EQ(flops("aten.convolution", transposed, std::vector{shape({4, 8, 20, 20})}, {.transposed = true}), 1638400);
}

TEST(Flops, convolutionBackwardFollowsTheOutputMask)
{
    const std::vector inputs{shape({32, 128, 28, 28}), shape({32, 64, 56, 56}), shape({128, 64, 3, 3})};
    EXPECT_EQ(flops("aten.convolution_backward", inputs, {}), 7398752256);
    EXPECT_EQ(flops("aten.convolution_backward", inputs, {}, {.gradInput = false}), 3699376128);
    EXPECT_EQ(flops("aten.convolution_backward", inputs, {}, {.gradWeight = false}), 3699376128);
    // A transposed convolution from [4, 16, 10, 10] to [4, 8, 20, 20].
    const std::vector transposed{shape({4, 8, 20, 20}), shape({4, 16, 10, 10}), shape({16, 8, 4, 4})};
    EXPECT_EQ(flops("aten.convolution_backward", transposed, {}, {.transposed = true}), 3276800);
    EXPECT_EQ(flops("aten.convolution_backward", transposed, {}, {.transposed = true, .gradInput = false}), 1638400);
}

TEST(Flops, attention)
{
    const TensorShape query = shape({8, 12, 1024, 64});
    const TensorShape key = shape({8, 12, 512, 64});
    const TensorShape value = shape({8, 12, 512, 32});
    const TensorShape gradOut = shape({8, 12, 1024, 32});
    for (const char* name : {"aten._scaled_dot_product_efficient_attention", "aten._scaled_dot_product_flash_attention",
                             "aten._scaled_dot_product_cudnn_attention", "aten._efficient_attention_forward",
                             "aten._flash_attention_forward"})
        EXPECT_EQ(flops(name, std::vector{query, key, value}, {}), 9663676416) << name;
    for (const char* name :
         {"aten._scaled_dot_product_efficient_attention_backward", "aten._scaled_dot_product_flash_attention_backward",
          "aten._scaled_dot_product_cudnn_attention_backward", "aten._efficient_attention_backward",
          "aten._flash_attention_backward"})
        EXPECT_EQ(flops(name, std::vector{gradOut, query, key, value}, {}), 25769803776) << name;
}

// bitsandbytes' gemm_4bit, int8_scaled_mm, and a dense product that a program registered.
TEST(Flops, opsOfOtherLibrariesCountWhereTheirShapesAreThoseOfAProduct)
{
    const auto typed = [](std::vector<std::int64_t> sizes, DType dtype) {
        TensorShape result = shape(std::move(sizes));
        result.dtype = dtype;
        return result;
    };
    const std::vector out{shape({4, 512, 11008})};
    const double expected = 2.0 * 4 * 512 * 4096 * 11008;
    const TensorShape x = shape({4, 512, 4096});
    const TensorShape packed = typed({4096 * 11008 / 2, 1}, DType::uint8);
    EXPECT_EQ(flops("bitsandbytes.gemm_4bit.default", std::vector{x, packed, shape({704512})}, out), expected);
    EXPECT_EQ(flops("bitsandbytes.int8_scaled_mm", std::vector{x, typed({11008, 4096}, DType::int8)}, out), expected);
    EXPECT_EQ(flops("mylib.linear", std::vector{x, shape({11008, 4096}), shape({11008})}, out), expected);
    // Neither a table of positions, nor an elementwise op, nor one of PyTorch's without a formula.
    EXPECT_EQ(flops("mylib.gather", std::vector{x, typed({4096 * 11008}, DType::int64)}, out), 0);
    const TensorShape square = shape({64, 64});
    EXPECT_EQ(flops("mylib.gate", std::vector{square, square}, std::vector{square}), 0);
    EXPECT_EQ(flops("mylib.norm", std::vector{x, shape({4096})}, std::vector{x}), 0);
    EXPECT_EQ(flops("aten.linear_like", std::vector{x, shape({11008, 4096})}, out), 0);
}

// Three sequences in one jagged tensor count as three of the longest.
TEST(Flops, nestedAttention)
{
    const std::vector jagged{shape({300, 12, 64}), shape({300, 12, 64}), shape({300, 12, 64})};
    const NestedAttention nested{.sequences = 3, .maxQuery = 128, .maxKey = 128};
    const std::vector dense{shape({3, 12, 128, 64}), shape({3, 12, 128, 64}), shape({3, 12, 128, 64})};
    const double expected = flops("aten._flash_attention_forward", dense, {});
    EXPECT_EQ(expected, 4.0 * 3 * 12 * 128 * 128 * 64);
    EXPECT_EQ(flops("aten._flash_attention_forward", jagged, {}, {}, nested), expected);
    const std::vector jagged4{shape({1, 300, 12, 64}), shape({1, 300, 12, 64}), shape({1, 300, 12, 64})};
    EXPECT_EQ(flops("aten._efficient_attention_forward", jagged4, {}, {}, nested), expected);
}

TEST(Flops, otherOpsAndUnfitShapesHaveNone)
{
    EXPECT_EQ(flops("aten.gelu.default", std::vector{shape({8, 8})}, {}), 0);
    EXPECT_EQ(flops("aten.mm", {}, {}), 0);
    EXPECT_EQ(flops("", {}, {}), 0);
    EXPECT_EQ(flops("aten.convolution", std::vector{shape({4}), shape({4})}, std::vector{shape({4})}), 0);
}

// Expected values: runtimes of RuntimeEstimator for one layer of the reference Transformer (batch 8, sequence 1024,
// width 768, 12 heads, float32) on an A100.
TEST(Roofline, equalsRuntimeEstimatorToTheLastBit)
{
    const TensorShape x = shape({8, 1024, 768});
    const TensorShape rows = shape({8192, 768});
    EXPECT_EQ(opMs("aten.mm.default", {rows, shape({768, 768})}, {rows}), 0.3305204097714736);
    EXPECT_EQ(opMs("aten.addmm.default", {shape({3072}), rows, shape({768, 3072})}, {shape({8192, 3072})}),
              1.3220816390858945);
    const TensorShape heads = shape({8, 12, 1024, 64});
    EXPECT_EQ(opMs("aten._scaled_dot_product_efficient_attention.default", {heads, heads, heads},
                   {heads, shape({8, 12, 1024}), shape({}, DType::int64, 8), shape({}, DType::int64, 8)}),
              0.8813877593905963);
    EXPECT_EQ(opMs("aten.native_layer_norm.default", {x, shape({768}), shape({768})},
                   {x, shape({8, 1024, 1}), shape({8, 1024, 1})}),
              0.024719146264908978);
    EXPECT_EQ(opMs("aten.gelu.default", {shape({8, 1024, 3072})}, {shape({8, 1024, 3072})}), 0.09873596986817325);
    EXPECT_EQ(opMs("aten.native_dropout.default", {x}, {x, shape({8, 1024, 768}, DType::boolean, 1)}),
              0.02776949152542373);
    EXPECT_EQ(opMs("aten.add.Tensor", {x, x}, {x}), 0.03702598870056497);
    EXPECT_EQ(opMs("aten.embedding.default", {shape({8192, 768}), shape({8, 1024}, DType::int64, 8)}, {x}),
              0.024716133082234776);
}

TEST(Roofline, viewsAndFreeFactoriesTakeNoTime)
{
    EXPECT_EQ(rooflineMs(a100(), GiB, 1e12, DType::float32, opView), 0);
    EXPECT_EQ(rooflineMs(a100(), GiB, 0, DType::int64, opCreate | opNoTensorInput), 0);
    EXPECT_GT(rooflineMs(a100(), GiB, 0, DType::float32, opInPlace), 0.5);
}

TEST(Roofline, dtypeDecidesThePeak)
{
    const double count = 1e15;
    const DeviceSpec device = a100();
    EXPECT_DOUBLE_EQ(rooflineMs(device, 0, count, DType::bfloat16, 0), count / 2 / (0.75 * 311.86944e12) * 1e3);
    EXPECT_DOUBLE_EQ(rooflineMs(device, 0, count, DType::float32, 0), count / 2 / (0.75 * 19.49184e12) * 1e3);
    const DeviceSpec volta = *findDeviceSpec("v100-32gb");
    EXPECT_EQ(peakFlops(volta, DType::float16), volta.halfFlops);
    EXPECT_EQ(peakFlops(volta, DType::bfloat16), volta.float32Flops);
    EXPECT_EQ(peakFlops(*findDeviceSpec("h100-80gb"), DType::float8), 1978.9e12);
    EXPECT_EQ(peakFlops(device, DType::float64), device.float64Flops);
}

} // namespace
} // namespace headroom
