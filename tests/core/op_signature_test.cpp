// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/op_signature.h"
#include "core/cost/time_model.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/signature_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace headroom {
namespace {

using testing::DoubleNear;
using Value = OpSignature::Value;

OpSignature everything()
{
    OpSignature signature;
    signature.modes = matmulTF32 | deterministicKernels;
    TensorShape host = tensor({3, 4});
    host.onHost = true;
    signature.arguments = {given(host),
                           {},
                           numbers({1, -1, 7}),
                           {Value::ValueType::tensors, {tensor({2}), tensor({5, 0}, DType::bfloat16)}, {}},
                           {Value::ValueType::manyTensors, {tensor({1 << 20})}, {300}},
                           numbers({})};
    signature.results = {given(tensor({}, DType::int64)), {}};
    return signature;
}

TEST(OpSignature, IsTheSameAfterItWasEncoded)
{
    EXPECT_EQ(decodedSignature(encoded(everything())), everything());
    EXPECT_EQ(decodedSignature(encoded(OpSignature())), OpSignature());
}

TEST(OpSignature, ValuesThatNoEncoderWroteEndIt)
{
    const std::vector<std::int64_t> good = encoded(everything());
    for (std::size_t length = 0; length < good.size(); ++length) {
        const OpSignature part = decodedSignature(std::span(good).first(length));
        EXPECT_LE(part.arguments.size(), everything().arguments.size());
    }
    std::mt19937 random(1);
    std::uniform_int_distribution<std::int64_t> any(std::numeric_limits<std::int64_t>::min());
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::int64_t> broken = good;
        broken[random() % broken.size()] = i % 2 == 0 ? any(random) : static_cast<std::int64_t>(random() % 3000);
        const OpSignature decoded = decodedSignature(broken);
        workOf("aten.convolution_backward.default", decoded, 0, 0);
        workOf("aten._flash_attention_forward.default", decoded, 0, 0);
        workOf("aten._foreach_add_.List", decoded, 0, 0);
    }
}

TEST(OpSignature, CallsOfTheSameShapesShareARow)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    const auto run = [&](const std::vector<std::int64_t>& signature) {
        StepTraceBuilder::Op op;
        op.name = builder.string("aten.mm.default");
        StepTraceBuilder::OpResult result;
        result.signature = signature;
        builder.endOp(builder.beginOp(op), result);
    };
    run({0, 1, 2});
    run({0, 1, 3});
    run({0, 1, 2});
    run({});
    const StepTracePtr step = *builder.finish();
    EXPECT_EQ(step->signatures.size(), 2U);
    EXPECT_EQ(step->ops.signature[OpId(0)], step->ops.signature[OpId(2)]);
    EXPECT_THAT(step->signatureOf(OpId(1)), testing::ElementsAre(0, 1, 3));
    EXPECT_TRUE(step->signatureOf(OpId(3)).empty());
}

OpWork workOfCall(const char* op, std::vector<Value> arguments, std::vector<Value> results, std::uint16_t flags = 0)
{
    return workOf(op, OpSignature{0, std::move(arguments), std::move(results)}, flags, 0);
}

TEST(OpWork, AMatrixProductIsItsSizes)
{
    const OpWork work
        = workOfCall("aten.addmm.default", {given(tensor({70})), given(tensor({30, 50})), given(tensor({50, 70}))},
                     {given(tensor({30, 70}))});
    EXPECT_EQ(work.kind, WorkClass::matmul);
    EXPECT_EQ(work.product.m, 30);
    EXPECT_EQ(work.product.n, 70);
    EXPECT_EQ(work.product.k, 50);
    EXPECT_EQ(work.product.alignment, 8) << "rows of 50 and of 70 floats";
    EXPECT_EQ(work.flops, 2.0 * 30 * 50 * 70);
    const OpWork batched = workOfCall("aten.bmm.default", {given(tensor({8, 16, 64})), given(tensor({8, 64, 32}))}, {});
    EXPECT_EQ(batched.product.batch, 8);
    EXPECT_EQ(batched.product.m, 16);
    EXPECT_EQ(batched.product.alignment, 16);
}

std::vector<Value> convolutionCall(std::int64_t groups)
{
    return {given(tensor({2, 32, 10, 10})),
            given(tensor({64, 32 / groups, 3, 3})),
            {},
            numbers({1, 1}),
            numbers({1, 1}),
            numbers({1, 1}),
            numbers({0}),
            numbers({0, 0}),
            numbers({groups})};
}

TEST(OpWork, AGroupedConvolutionHasItsOwnFlopsForwardAndBackward)
{
    constexpr double whole = 2.0 * 2 * 100 * 64 * 32 * 9;
    const std::vector<Value> result{given(tensor({2, 64, 10, 10}))};
    EXPECT_EQ(workOfCall("aten.convolution.default", convolutionCall(1), result).flops, whole);
    EXPECT_EQ(workOfCall("aten.convolution.default", convolutionCall(32), result).flops, whole / 32);
    const OpWork backward
        = workOfCall("aten.convolution_backward.default",
                     {given(tensor({2, 64, 10, 10})), given(tensor({2, 32, 10, 10})), given(tensor({64, 1, 3, 3})),
                      numbers({64}), numbers({1, 1}), numbers({1, 1}), numbers({1, 1}), numbers({0}), numbers({0, 0}),
                      numbers({32}), numbers({1, 1, 0})},
                     {});
    EXPECT_EQ(backward.flops, 2 * whole / 32);
    EXPECT_EQ(backward.convolution.inputChannels, 1);
    EXPECT_EQ(backward.convolution.outputChannels, 2);
}

TEST(OpWork, ACausalMaskHalvesAttention)
{
    const auto call = [](bool causal) {
        const TensorShape x = tensor({2, 8, 1024, 64}, DType::bfloat16);
        return workOfCall("aten._scaled_dot_product_flash_attention.default",
                          {given(x), given(x), given(x), numbers({0}), numbers({causal})}, {given(x)});
    };
    EXPECT_EQ(call(false).flops, 4.0 * 16 * 1024 * 1024 * 64);
    EXPECT_NEAR(call(true).flops / call(false).flops, 0.5, 0.001);
    EXPECT_TRUE(call(true).attention.causal);
}

TEST(OpWork, OpsCountTheBytesThatTheyMove)
{
    const TensorShape x = tensor({1024, 1024});
    const double bytes = 4.0 * 1024 * 1024;
    // copy_ and zero_ do not read what they overwrite.
    const OpWork copied = workOfCall("aten.copy_.default", {given(x), given(x)}, {given(x)});
    EXPECT_EQ(copied.read + copied.written, 2 * bytes);
    const OpWork zeroed = workOfCall("aten.zero_.default", {given(x)}, {given(x)});
    EXPECT_EQ(zeroed.read + zeroed.written, bytes);
    // An embedding reads the rows that it picks, not the table.
    const OpWork picked = workOfCall("aten.embedding.default", {given(tensor({50'000, 64})), given(tensor({8, 16}))},
                                     {given(tensor({8, 16, 64}))});
    EXPECT_EQ(picked.written, 4.0 * 8 * 16 * 64);
    EXPECT_LT(picked.read, 2 * picked.written);
    TensorShape host = x;
    host.onHost = true;
    EXPECT_EQ(workOfCall("aten._to_copy.default", {given(host)}, {given(x)}).kind, WorkClass::transfer);
    EXPECT_EQ(workOfCall("aten.view.default", {given(x)}, {given(x)}, opView).kind, WorkClass::none);
    // Nothing is known of another library's op but its bytes.
    EXPECT_EQ(workOfCall("mine.fused.default", {given(x)}, {given(x)}).kind, WorkClass::opaque);
    TensorShape turned = x;
    std::swap(turned.strides[0], turned.strides[1]);
    EXPECT_TRUE(workOfCall("aten.clone.default", {given(turned)}, {given(x)}).strided);
    EXPECT_FALSE(workOfCall("aten.clone.default", {given(turned)}, {given(turned)}).strided);
}

} // namespace
} // namespace headroom
