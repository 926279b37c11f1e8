// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The recorder: a small step event by event, where ops belong, categories, saved tensors.
#include "core/record/saved_tensor_hooks.h"
#include "core/record/step_recording.h"
#include "tests/torch/recorded_model.h"
#include "tests/torch/replay.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_matrix_exp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace headroom {
namespace {

using at::Tensor;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class RecorderTest : public ::testing::Test
{
protected:
    static void SetUpTestSuite() { sim::initialize(card()); }

    /// forward → loss → backward, no optimizer.
    static StepTracePtr record(Model& model, const std::vector<Tensor>& inputs, const std::function<Tensor()>& forward)
    {
        Recorder recorder({}, card());
        recorder.setModel(model.tree());
        for (const Tensor& input : inputs)
            recorder.addInput(input);
        recorder.begin();
        Tensor loss = forward();
        recorder.mark(Mark::forwardEnd);
        loss.backward();
        loss = Tensor();
        recorder.mark(Mark::backwardEnd);
        recorder.beginZeroGrad();
        model.clearGradients();
        Result<StepTracePtr> trace = recorder.finish();
        EXPECT_TRUE(trace.ok()) << trace.error().message;
        return trace.ok() ? *trace : nullptr;
    }

    static std::vector<std::string> opNames(const StepTrace& trace)
    {
        std::vector<std::string> names;
        for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
            names.emplace_back(trace.opName(OpId(i)));
        return names;
    }

    /// What autograd did with the tensors that it saved.
    static std::vector<std::string> savedIn(const StepTrace& trace)
    {
        std::vector<std::string> events = listing(trace);
        std::erase_if(events, [](const std::string& event) {
            return event.find("pack") == std::string::npos && event.find("release") == std::string::npos;
        });
        return events;
    }

    static OpId find(const StepTrace& trace, const std::string& name, Phase phase)
    {
        for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
            if (trace.opName(OpId(i)) == name && trace.ops.phase[OpId(i)] == phase)
                return OpId(i);
        }
        ADD_FAILURE() << "no op " << name;
        return {};
    }
};

/// relu(x · wᵀ), summed: small enough to know every event.
struct SmallStep
{
    Model model{"Net"};
    ModuleId fc = model.add("Net.fc");
    Tensor weight = model.parameter(fc, "weight", {4, 4});
    Tensor input = emptyOnCard({2, 4});

    Tensor loss()
    {
        return Model::call(ModuleId(0), input,
                           [&](const Tensor& x) {
                               return Model::call(fc, x, [&](const Tensor& y) { return at::linear(y, weight); }).relu();
                           })
            .sum();
    }
};

// ThreadSanitizer sees it (HEADROOM_SANITIZE_THREADS): other threads of the program ask with each of their ops.
TEST_F(RecorderTest, ThreadsAskForTheActiveRecordingWhileItChanges)
{
    std::atomic<bool> ends{false};
    std::atomic<int> seen{0};
    std::thread other([&] {
        while (!ends)
            seen += StepRecording::active() ? 1 : 0;
    });
    const auto recording = std::make_shared<StepRecording>(StepInfo{}, card(), nullptr);
    while (seen < 100) {
        StepRecording::activate(recording);
        StepRecording::activate(nullptr);
    }
    ends = true;
    other.join();
    EXPECT_EQ(recording.use_count(), 1);
}

TEST_F(RecorderTest, EveryEventOfASmallStep)
{
    SmallStep step;
    const StepTracePtr trace = record(step.model, {step.input}, [&] { return step.loss(); });
    ASSERT_TRUE(trace);
    const std::vector<std::string> expected{"alloc 0 parameter 512",
                                            "alloc 1 input 512",
                                            "mark start",
                                            "enter Net",
                                            "enter Net.fc",
                                            "op aten.t.default in Net.fc",
                                            "end",
                                            "pack 0 of 1 by aten.mm.default",
                                            "op aten.mm.default in Net.fc",
                                            "alloc 2 activation 512",
                                            "end",
                                            "exit Net.fc",
                                            "op aten.relu.default in Net",
                                            "alloc 3 activation 512",
                                            "end",
                                            "pack 1 of 3 by aten.relu.default",
                                            "free 2",
                                            "exit Net",
                                            "op aten.sum.default in Net",
                                            "alloc 4 activation 512",
                                            "end",
                                            "free 3",
                                            "mark after_forward",
                                            "op aten.ones_like.default in Net",
                                            "alloc 5 activation 512",
                                            "end",
                                            "op aten.expand.default in Net of SumBackward0",
                                            "end",
                                            "backwardEnter Net",
                                            "unpack 1",
                                            "op aten.threshold_backward.default in Net of ReluBackward0",
                                            "alloc 6 temporary 512",
                                            "end",
                                            "unpackEnd 1",
                                            "release 1",
                                            "backwardEnter Net.fc",
                                            "unpack 0",
                                            "unpackEnd 0",
                                            "op aten.t.default in Net.fc of MmBackward0",
                                            "end",
                                            "op aten.mm.default in Net.fc of MmBackward0",
                                            "alloc 7 temporary 512",
                                            "end",
                                            "op aten.t.default in Net.fc of MmBackward0",
                                            "end",
                                            "free 6",
                                            "release 0",
                                            "op aten.t.default in Net.fc of TBackward0",
                                            "end",
                                            "retype 7 gradient",
                                            "op aten.detach.default in Net.fc of AccumulateGrad",
                                            "end",
                                            "backwardExit Net.fc",
                                            "backwardExit Net",
                                            "free 5",
                                            "free 4",
                                            "mark after_backward",
                                            "free 7",
                                            "mark after_zero_grad"};
    EXPECT_THAT(listing(*trace), ElementsAreArray(expected));
}

TEST_F(RecorderTest, ColumnsOfASmallStep)
{
    SmallStep step;
    const StepTracePtr trace = record(step.model, {step.input}, [&] { return step.loss(); });
    ASSERT_TRUE(trace);
    const OpId forward = find(*trace, "aten.mm.default", Phase::forward);
    EXPECT_EQ(trace->ops.bytes[forward], 4 * (8 + 16 + 8));
    EXPECT_EQ(trace->ops.flops[forward], 2.0 * 2 * 4 * 4);
    EXPECT_DOUBLE_EQ(trace->ops.ms[forward], 4 * (8 + 16 + 8) / card().gigabytesPerSecond / 1e6);
    EXPECT_EQ(trace->ops.dtype[forward], DType::float32);
    EXPECT_THAT(trace->ops.inputs[forward], ElementsAre(StorageId(1), StorageId(0)));
    EXPECT_THAT(trace->ops.outputs[forward], ElementsAre(StorageId(2)));
    EXPECT_EQ(trace->ops.call[forward], CallId(1));

    const OpId backward = find(*trace, "aten.mm.default", Phase::backward);
    EXPECT_EQ(trace->ops.forwardOp[backward], forward);
    EXPECT_FALSE(trace->ops.call[backward].valid());
    // The saved input is passed on as it is; of the saved result of relu the op saw a shadow.
    EXPECT_THAT(trace->ops.inputs[backward], ElementsAre(StorageId(6), StorageId(1)));
    const OpId threshold = find(*trace, "aten.threshold_backward.default", Phase::backward);
    EXPECT_THAT(trace->ops.inputs[threshold], ElementsAre(StorageId(5), StorageId(3)));
    EXPECT_EQ(trace->ops.flags[find(*trace, "aten.t.default", Phase::forward)], opView);
    EXPECT_EQ(trace->ops.flags[find(*trace, "aten.detach.default", Phase::backward)], opView | opSacIgnored);

    EXPECT_EQ(trace->registered.size(), 1U);
    EXPECT_EQ(trace->registered.storage[0], StorageId(0));
    EXPECT_EQ(trace->info.gpu, "a100-80gb");
    EXPECT_EQ(trace->info.device, "sim");
    EXPECT_EQ(trace->info.torch, "2.11.0");
}

// --- where ops belong

TEST_F(RecorderTest, OpsBelongToModulesInForwardAndBackward)
{
    Model model("Net");
    const std::function<Tensor()> forward = transformer(model, at::kFloat);
    const StepTracePtr trace = record(model, {}, forward);
    ASSERT_TRUE(trace);
    const auto moduleOf = [&](const std::string& name, Phase phase) {
        return std::string(trace->moduleFqn(trace->ops.module[find(*trace, name, phase)]));
    };
    EXPECT_EQ(moduleOf("aten.embedding.default", Phase::forward), "Net");
    EXPECT_EQ(moduleOf("aten.embedding_dense_backward.default", Phase::backward), "Net");
    EXPECT_EQ(moduleOf("aten.native_layer_norm.default", Phase::forward), "Net.block");
    EXPECT_EQ(moduleOf("aten.native_layer_norm_backward.default", Phase::backward), "Net.block");
    EXPECT_EQ(moduleOf("aten._scaled_dot_product_efficient_attention.default", Phase::forward), "Net.block.attention");
    EXPECT_EQ(moduleOf("aten._scaled_dot_product_efficient_attention_backward.default", Phase::backward),
              "Net.block.attention");
    EXPECT_EQ(moduleOf("aten.native_dropout_backward.default", Phase::backward), "Net.block.attention");
    EXPECT_TRUE(trace->ops.flags[find(*trace, "aten.native_dropout.default", Phase::forward)] & opRandom);
    // The pieces of composite kernels belong to their op.
    EXPECT_THAT(opNames(*trace), ::testing::Not(Contains(HasSubstr("index_select"))));
    EXPECT_THAT(opNames(*trace), ::testing::Not(Contains(HasSubstr("empty"))));
}

TEST_F(RecorderTest, AnOpThatCannotBeSimulatedNamesItsModule)
{
    Model model("Net");
    const Tensor w = model.parameter(ModuleId(0), "w", {1 << 14, 1 << 14}); // 1 GiB
    try {
        record(model, {}, [&] { return at::linalg_matrix_exp(w).sum(); });
        FAIL() << "expected a refusal";
    } catch (const c10::Error& error) {
        EXPECT_EQ(std::string(error.what_without_backtrace()),
                  "The simulated device has no kernel for aten::linalg_matrix_exp and would have to run the op on 1.00 "
                  "GiB of zeros in main memory to learn shapes; at most 256.00 MiB are allowed (in Net). Record this "
                  "model with smaller sizes, or measure the model on a GPU.");
    }
}

TEST_F(RecorderTest, AttentionIsRandomWithDropoutOnly)
{
    for (const double dropout : {0.0, 0.1}) {
        Model model("Net");
        const Tensor w = model.parameter(ModuleId(0), "w", {2, 4, 8, 8});
        const StepTracePtr trace
            = record(model, {}, [&] { return at::scaled_dot_product_attention(w, w, w, {}, dropout, false).sum(); });
        ASSERT_TRUE(trace);
        const OpId attention = find(*trace, "aten._scaled_dot_product_efficient_attention.default", Phase::forward);
        EXPECT_EQ((trace->ops.flags[attention] & opRandom) != 0, dropout > 0);
    }
}

TEST_F(RecorderTest, OpsOfAnAttentionLayerAreThoseOfPyTorch)
{
    // As torch.distributed._tools.sac_estimator lists them for the same layer (biasless projection, dropout).
    Model model("Net");
    const Tensor w = model.parameter(ModuleId(0), "w", {8, 8});
    const Tensor x = emptyOnCard({2, 4, 8});
    const StepTracePtr trace = record(model, {x}, [&] {
        const Tensor q = at::linear(x, w).view({2, 4, 2, 4}).transpose(1, 2);
        const Tensor o = at::scaled_dot_product_attention(q, q, q, {}, 0.1, false).transpose(1, 2).reshape({2, 4, 8});
        return at::dropout(at::linear(o, w), 0.1, true).sum();
    });
    ASSERT_TRUE(trace);
    std::vector<std::string> names = opNames(*trace);
    names.resize(14);
    EXPECT_THAT(names,
                ElementsAre("aten.t.default", "aten.view.default", "aten.mm.default", "aten._unsafe_view.default",
                            "aten.view.default", "aten.transpose.int",
                            "aten._scaled_dot_product_efficient_attention.default", "aten.transpose.int",
                            "aten.view.default", "aten.t.default", "aten.view.default", "aten.mm.default",
                            "aten._unsafe_view.default", "aten.native_dropout.default"));
}

// --- categories

TEST_F(RecorderTest, CategoriesOfStartState)
{
    Model model("Net");
    Tensor weight = model.parameter(ModuleId(0), "weight", {4});
    const Tensor buffer = model.buffer(ModuleId(0), "buffer", {4});
    const Tensor input = emptyOnCard({4});
    const Tensor state = emptyOnCard({4});
    const Tensor held = emptyOnCard({4});
    const Tensor unknown = emptyOnCard({4});
    weight.mutable_grad() = emptyOnCard({4});
    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    recorder.addInput(input);
    recorder.addState(state);
    recorder.addHeldResult(held);
    recorder.begin();
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_THAT((*trace)->storages.category.rows,
                ElementsAre(Category::parameter, Category::buffer, Category::input, Category::optimizer,
                            Category::activation, Category::other, Category::gradient));
}

TEST_F(RecorderTest, NewOptimizerStateIsOfCategoryOptimizer)
{
    Model model("Net");
    model.parameter(ModuleId(0), "weight", {4});
    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    recorder.begin();
    const Tensor early = emptyOnCard({4});
    recorder.beginOptimizer();
    const Tensor state = emptyOnCard({4});
    recorder.endOptimizer({early, state});
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_THAT(listing(**trace),
                ElementsAre("alloc 0 parameter 512", "mark start", "op aten.empty.memory_format in Net",
                            "alloc 1 activation 512", "end", "op aten.empty.memory_format in Net",
                            "alloc 2 optimizer 512", "end", "retype 1 optimizer", "mark after_step"));
    EXPECT_EQ((*trace)->ops.phase[OpId(1)], Phase::optimizer);
}

TEST_F(RecorderTest, ResizingKeepsTheStorage)
{
    Tensor tensor = emptyOnCard({128});
    Recorder recorder({}, card());
    recorder.begin();
    sim::resetPeak();
    const Bytes before = sim::memoryStats().live;
    tensor.resize_({256});
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_THAT(listing(**trace),
                ElementsAre("alloc 0 other 512", "mark start", "op aten.resize_.default in ", "alloc 1 activation 1024",
                            "free 1", "resize 0", "end"));
    EXPECT_EQ(replay(**trace).peak, sim::memoryStats().peak - before + 512);
}

// --- saved tensors

TEST_F(RecorderTest, GradientsAreThoseOfARecordedStepToo)
{
    // Shadows must be what the nodes expect: the gradients have sizes and strides as without a recorder.
    Model model("Net");
    const std::function<Tensor()> forward = transformer(model, at::kFloat);
    const auto shapes = [&] {
        std::string text;
        for (const Tensor& parameter : model.parameters())
            text += c10::str(parameter.grad().sizes(), parameter.grad().strides());
        model.clearGradients();
        return text;
    };
    forward().backward();
    const std::string expected = shapes();
    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    recorder.begin();
    forward().backward();
    EXPECT_TRUE(recorder.finish().ok());
    EXPECT_EQ(shapes(), expected);
}

TEST_F(RecorderTest, TensorsOfTheCpuArePackedWithoutAStorage)
{
    Model model("Net");
    const Tensor weight = at::ones({4}).set_requires_grad(true);
    const StepTracePtr trace = record(model, {}, [&] { return (weight * weight).sum(); });
    ASSERT_TRUE(trace);
    ASSERT_EQ(trace->packs.size(), 2U);
    EXPECT_FALSE(trace->packs.storage[PackId(0)].valid());
    EXPECT_TRUE(at::equal(weight.grad(), at::full({4}, 2.0)));
}

/// x · w, of two leaves.
struct Product
{
    Model model{"Net"};
    Tensor weight = model.parameter(ModuleId(0), "weight", {4, 4});
    Tensor input = emptyOnCard({2, 4}).set_requires_grad(true);
    std::vector<std::string> packs{"pack 0 of 0 by aten.mm.default", "pack 1 of 1 by aten.mm.default"};
};

TEST_F(RecorderTest, ALeafIsUnpackedAsItIs)
{
    Product step;
    const StepTracePtr trace = record(step.model, {step.input}, [&] {
        const Tensor product = at::mm(step.input, step.weight);
        const auto& node = static_cast<const torch::autograd::generated::MmBackward0&>(*product.grad_fn());
        EXPECT_TRUE(node.mat2_.unpack(product.grad_fn()).is_same(step.weight));
        EXPECT_TRUE(node.self_.unpack(product.grad_fn()).is_same(step.input));
        return product.sum();
    });
    ASSERT_TRUE(trace);
    step.packs.insert(step.packs.end(),
                      {"unpack 0", "unpackEnd 0", "unpack 1", "unpackEnd 1", "release 0", "release 1"});
    EXPECT_THAT(savedIn(*trace), ElementsAreArray(step.packs));
}

TEST_F(RecorderTest, LeavesAreReleasedWithTheirGraph)
{
    Product step;
    Recorder recorder({}, card());
    recorder.setModel(step.model.tree());
    recorder.addInput(step.input);
    recorder.begin();
    at::mm(step.input, step.weight).sum();
    at::ones({2}, step.input.options());
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    step.packs.insert(step.packs.end(), {"release 0", "release 1"});
    EXPECT_THAT(savedIn(**trace), ElementsAreArray(step.packs));
}

TEST_F(RecorderTest, DataThatALeafNoLongerHasIsNotHeld)
{
    Product step;
    const Tensor data = step.weight.data();
    step.weight.set_data(emptyOnCard({0}));
    Tensor loss;
    Recorder recorder({}, card());
    recorder.setModel(step.model.tree());
    recorder.begin();
    step.weight.set_data(at::ones({4, 4}, step.input.options()));
    loss = at::mm(step.input, step.weight).sum();
    step.weight.set_data(data);
    loss.backward();
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    ASSERT_EQ((*trace)->packs.size(), 2U);
    EXPECT_FALSE((*trace)->packs.storage[PackId(0)].valid());
    EXPECT_TRUE((*trace)->packs.storage[PackId(1)].valid());
}

TEST_F(RecorderTest, ASavedTensorThatWasChangedIsAnErrorAsWithoutARecording)
{
    Product step;
    Recorder recorder({}, card());
    recorder.begin();
    const Tensor result = at::mm(step.input, step.weight).relu();
    const Tensor loss = result.add_(1).sum();
    try {
        loss.backward();
        ADD_FAILURE() << "nothing was raised";
    } catch (const c10::Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("has been modified by an inplace operation: ["));
        EXPECT_THAT(error.what(), HasSubstr("is at version 1; expected version 0 instead"));
    }
    EXPECT_TRUE(recorder.finish().ok());
}

TEST_F(RecorderTest, AGraphMayOutliveItsRecording)
{
    SmallStep step;
    Recorder recorder({}, card());
    recorder.setModel(step.model.tree());
    recorder.begin();
    const Tensor loss = step.loss();
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    loss.backward();
    EXPECT_EQ(step.weight.grad().sizes(), step.weight.sizes());
}

TEST_F(RecorderTest, TheInnermostHooksOfSavedTensorsCount)
{
    class Counting final : public torch::autograd::SavedVariableHooks
    {
    public:
        explicit Counting(int& packs)
            : packs_(packs)
        {
        }
        void call_pack_hook(const Tensor& tensor) override
        {
            ++packs_;
            kept_ = tensor.detach();
        }
        Tensor call_unpack_hook() override { return kept_; }

    private:
        int& packs_;
        Tensor kept_;
    };
    Model model("Net");
    const Tensor weight = model.parameter(ModuleId(0), "weight", {4});
    int packs = 0;
    const StepTracePtr trace = record(model, {}, [&] {
        const Tensor y = weight.exp(); // saves its result
        const SavedTensorHooksScope scope([&] { return std::make_unique<Counting>(packs); });
        return y.exp().sum();
    });
    ASSERT_TRUE(trace);
    EXPECT_EQ(packs, 1);
    EXPECT_EQ(trace->packs.size(), 1U);
}

// --- using the recorder

TEST_F(RecorderTest, OnlyOneRecordsAtATime)
{
    Recorder first({}, card());
    first.begin();
    Recorder second({}, card());
    second.begin();
    const Result<StepTracePtr> refused = second.finish();
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("Another step is being recorded"));
    EXPECT_TRUE(first.finish().ok());
}

TEST_F(RecorderTest, FinishWithoutBeginFails)
{
    Recorder recorder({}, card());
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_FALSE(trace.ok());
    EXPECT_THAT(trace.error().message, HasSubstr("call begin()"));
}

TEST_F(RecorderTest, AStepThatThrowsStillGivesATrace)
{
    Model model("Net");
    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    recorder.begin();
    const CallId call = Recorder::enter(ModuleId(0), {});
    EXPECT_THROW(at::mm(emptyOnCard({2, 3}), emptyOnCard({4, 5})), c10::Error);
    Recorder::exit(call, {});
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_THAT(opNames(**trace), Contains("aten.mm.default"));
}

TEST_F(RecorderTest, NothingIsLeftBehind)
{
    SmallStep step;
    const sim::MemoryStats before = sim::memoryStats();
    record(step.model, {step.input}, [&] { return step.loss(); });
    EXPECT_EQ(sim::memoryStats().live, before.live);
    EXPECT_EQ(sim::memoryStats().blocks, before.blocks);
    EXPECT_TRUE(torch::autograd::impl::hooks(step.weight).empty());
    EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(step.weight), nullptr);
    EXPECT_FALSE(Recorder::enter(ModuleId(0), {step.input}).valid());
}

TEST_F(RecorderTest, StepsAreRecordedAlike)
{
    SmallStep step;
    const StepTracePtr first = record(step.model, {step.input}, [&] { return step.loss(); });
    const StepTracePtr second = record(step.model, {step.input}, [&] { return step.loss(); });
    ASSERT_TRUE(first && second);
    EXPECT_EQ(listing(*first), listing(*second));
}

} // namespace
} // namespace headroom
