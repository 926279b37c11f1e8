// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What CUDA's kernels allocate and save where the CPU's do something else, so that no comparison with it can say.
#include "core/device/simulated_state.h"
#include "tests/torch/device_fixture.h"

#include <torch/csrc/autograd/function.h>

#include <utility>

namespace headroom {
namespace {

/// Bytes that live because of what `run` returns.
template <class Run>
Bytes kept(Run&& run, Tensors& results)
{
    const Bytes before = sim::memoryStats().live;
    results = run();
    return sim::memoryStats().live - before;
}

struct Recurrent
{
    Tensors weights;
    explicit Recurrent(std::int64_t gates, std::int64_t input, std::int64_t hidden, at::ScalarType type = at::kFloat)
    {
        for (const std::int64_t columns : {input, hidden})
            weights.push_back(
                at::empty({gates * hidden, columns}, at::device(sim::device()).dtype(type)).set_requires_grad(true));
        for (int i = 0; i < 2; ++i)
            weights.push_back(
                at::empty({gates * hidden}, at::device(sim::device()).dtype(type)).set_requires_grad(true));
    }
};

TEST_F(Device, AnLstmIsOneCallOfCudnn)
{
    const Recurrent lstm(4, 32, 64);
    const Tensor input = leaf({2, 10, 32}); // batch first
    const Tensor state = empty({1, 2, 64});
    Tensors results;
    const Bytes bytes = kept(
        [&]() -> Tensors {
            auto [output, h, c]
                = at::lstm(input, {state, state}, lstm.weights, true, 1, 0.0, true, false, /*batch_first=*/true);
            return {output, h, c};
        },
        results);
    EXPECT_EQ(results[0].grad_fn()->name(), "CudnnRnnBackward0");
    EXPECT_EQ(results[0].sizes(), at::IntArrayRef({2, 10, 64}));
    EXPECT_EQ(results[0].strides(), at::IntArrayRef({64, 128, 1})); // steps first in memory
    // Output, both states, and the reserve space: four gates, cell and output of each step in floats.
    EXPECT_EQ(bytes, 20 * 64 * 4 + 2 * (2 * 64 * 4) + 6 * 20 * 64 * 4);
    results[0].sum().backward();
    EXPECT_EQ(input.grad().sizes(), input.sizes());
    // cuDNN writes all gradients of weights into one buffer.
    EXPECT_TRUE(lstm.weights[0].grad().storage().is_alias_of(lstm.weights[3].grad().storage()));
    EXPECT_EQ(lstm.weights[0].grad().storage().nbytes(), (256 * 32 + 256 * 64 + 2 * 256) * 4U);
}

/// cuDNN has kernels in bfloat16 from Ampere on.
TEST_F(Device, AnLstmInBfloat16RunsStepByStepOnOlderCards)
{
    for (const bool isNew : {true, false}) {
        const Recurrent lstm(4, 32, 64, at::kBFloat16);
        const Tensor state = empty({1, 2, 64}, at::kBFloat16);
        const int capability = std::exchange(sim::simulatedState().spec.computeCapability, isNew ? 80 : 75);
        const auto [output, h, c] = at::lstm(leaf({10, 2, 32}, at::kBFloat16), {state, state}, lstm.weights, true, 1,
                                             0.0, true, false, /*batch_first=*/false);
        sim::simulatedState().spec.computeCapability = capability;
        EXPECT_EQ(output.sizes(), at::IntArrayRef({10, 2, 64}));
        EXPECT_EQ(output.grad_fn()->name(), isNew ? "CudnnRnnBackward0" : "StackBackward0");
        output.sum().backward();
        EXPECT_EQ(lstm.weights[1].grad().sizes(), lstm.weights[1].sizes());
    }
}

TEST_F(Device, APackedGruTakesItsLengthsFromTheCpu)
{
    const Recurrent gru(3, 8, 16);
    const Tensor lengths = at::tensor({3, 2, 1}, at::kLong);
    const auto [output, h] = at::gru(leaf({6, 8}), lengths, empty({1, 3, 16}), gru.weights, true, 1, 0.0, true, false);
    EXPECT_EQ(output.sizes(), at::IntArrayRef({6, 16}));
    EXPECT_EQ(h.sizes(), at::IntArrayRef({1, 3, 16}));
    output.sum().backward();
    EXPECT_EQ(gru.weights[0].grad().sizes(), gru.weights[0].sizes());
}

TEST_F(Device, CellsOfRecurrentNetworksAreFused)
{
    const Recurrent lstm(4, 8, 16);
    const Recurrent gru(3, 8, 16);
    const Tensor input = empty({5, 8});
    const Tensor state = empty({5, 16});
    const auto [h, c]
        = at::lstm_cell(input, {state, state}, lstm.weights[0], lstm.weights[1], lstm.weights[2], lstm.weights[3]);
    EXPECT_EQ(h.grad_fn()->name(), "ThnnFusedLstmCellBackward0");
    (h.sum() + c.sum()).backward();
    EXPECT_EQ(lstm.weights[2].grad().sizes(), at::IntArrayRef({64}));
    const Tensor g = at::gru_cell(input, state, gru.weights[0], gru.weights[1], gru.weights[2], gru.weights[3]);
    EXPECT_EQ(g.grad_fn()->name(), "ThnnFusedGruCellBackward0");
    g.sum().backward();
    EXPECT_EQ(gru.weights[1].grad().sizes(), at::IntArrayRef({48, 16}));
}

TEST_F(Device, CtcLossKeepsAllPaths)
{
    const Tensor logits = leaf({50, 4, 30}); // steps, batch, labels
    const Tensor targets = empty({4, 12}, at::kLong);
    const std::vector<std::int64_t> steps(4, 50);
    const std::vector<std::int64_t> lengths{12, 5, 7, 9};
    Tensors results;
    const Bytes bytes = kept(
        [&]() -> Tensors { return {at::ctc_loss(logits, targets, steps, lengths, 0, at::Reduction::None)}; }, results);
    // A loss for each sequence, the lengths of the targets, and 2 · 12 + 1 places at each step.
    EXPECT_EQ(results[0].sizes(), at::IntArrayRef({4}));
    EXPECT_EQ(bytes, roundedToBlock(4 * 4) + roundedToBlock(4 * 50 * 25 * 4));
    const Bytes before = sim::memoryStats().live;
    sim::resetPeak();
    results[0].sum().backward();
    EXPECT_EQ(logits.grad().sizes(), logits.sizes());
    // The backward's own table of paths lives beside the gradient.
    EXPECT_GE(sim::memoryStats().peak - before, roundedToBlock(4 * 50 * 25 * 4) + roundedToBlock(50 * 4 * 30 * 4));
}

TEST_F(Device, GroupedProductsAlignRowsTo16Bytes)
{
    const Tensor tokens = leaf({100, 32}, at::kBFloat16);
    const Tensor experts = leaf({4, 32, 12}, at::kBFloat16);
    const Tensor output = at::_grouped_mm(tokens, experts, empty({4}, at::kInt));
    EXPECT_EQ(output.sizes(), at::IntArrayRef({100, 12}));
    EXPECT_EQ(output.strides(), at::IntArrayRef({16, 1}));
    output.sum().backward();
    EXPECT_EQ(experts.grad().sizes(), experts.sizes());
}

TEST_F(Device, AScaledProductHasTheTypeThatIsAskedFor)
{
    const Tensor scale = empty({});
    const Tensor left = empty({32, 64}, at::kFloat8_e4m3fn);
    const Tensor right = empty({48, 64}, at::kFloat8_e4m3fn).t();
    const Tensor output = at::_scaled_mm(left, right, scale, scale, {}, {}, at::kBFloat16);
    EXPECT_EQ(output.sizes(), at::IntArrayRef({32, 48}));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
}

TEST_F(Device, WeightNormKeepsItsNormsInFloat)
{
    const Tensor v = leaf({16, 8, 3}, at::kHalf);
    const Tensor g = leaf({16, 1, 1}, at::kHalf);
    const auto [weight, norms] = at::_weight_norm_interface(v, g, 0);
    EXPECT_EQ(norms.scalar_type(), at::kFloat);
    at::_weight_norm(v, g, 0).sum().backward();
    EXPECT_EQ(v.grad().sizes(), v.sizes());
    EXPECT_EQ(g.grad().sizes(), g.sizes());
}

TEST_F(Device, CompositesTakeTheBranchesOfCuda)
{
    const Tensor input = leaf({2, 8, 4, 4});
    const Tensor last = input.contiguous(at::MemoryFormat::ChannelsLast);
    EXPECT_TRUE(at::group_norm(last, 2, empty({8}), empty({8})).is_contiguous());
    const Tensor scores = leaf({4, 8}, at::kHalf);
    for (const Tensor& result : {at::softmax(scores, 1, at::kFloat), at::log_softmax(scores, 1, at::kFloat)}) {
        EXPECT_EQ(result.scalar_type(), at::kFloat);
        EXPECT_EQ(result.grad_fn()->next_edge(0).function->name(), "torch::autograd::AccumulateGrad"); // no conversion
    }
    EXPECT_EQ(at::softmax(leaf({4, 8}, at::kBFloat16), 1, at::kFloat).grad_fn()->next_edge(0).function->name(),
              "ToCopyBackward0");
}

TEST_F(Device, AMaskSelectsAllOfATensor)
{
    const Tensor input = leaf({3, 4, 5});
    const Tensor mask = empty({3, 4}, at::kBool);
    const std::int64_t before = sim::placeholderValues();
    const Tensor selected = input.index({mask});
    EXPECT_EQ(selected.sizes(), at::IntArrayRef({12, 5}));
    EXPECT_EQ(sim::placeholderValues() - before, 1);
    selected.sum().backward();
    EXPECT_EQ(input.grad().sizes(), input.sizes());
}

TEST_F(Device, RmsNormIsOneKernel)
{
    const Tensor input = leaf({4, 64}, at::kBFloat16);
    const Tensor weight = leaf({64}, at::kBFloat16);
    const Tensor output = at::rms_norm(input, {64}, weight);
    EXPECT_EQ(output.grad_fn()->name(), "FusedRmsNormBackward0");
    output.sum().backward();
    EXPECT_EQ(weight.grad().sizes(), weight.sizes());
}

} // namespace
} // namespace headroom
