// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The recorder: a small step event by event, and larger ones whose live bytes, rebuilt from the trace, are those of the
// same step without a recorder, to the byte.
#include "core/device/simulated_device.h"
#include "core/record/recorder.h"
#include "core/record/saved_tensor_hooks.h"
#include "tests/torch/replay.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace headroom {
namespace {

using at::Tensor;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;

const DeviceSpec& card()
{
    static const DeviceSpec spec = *findDeviceSpec("a100-80gb");
    return spec;
}

Tensor empty(Sizes sizes, at::ScalarType type = at::kFloat)
{
    return at::empty(sizes, at::TensorOptions().device(sim::device()).dtype(type));
}

/// Modules and parameters of a test's model.
class Model
{
public:
    explicit Model(const std::string& name) { tree_.modules.push_back({name, name, ModuleId()}); }

    ModuleId add(const std::string& fqn, ModuleId parent = ModuleId(0))
    {
        tree_.modules.push_back({fqn, "Module", parent});
        return ModuleId(static_cast<std::uint32_t>(tree_.modules.size() - 1));
    }
    Tensor parameter(ModuleId module, const std::string& name, Sizes sizes, at::ScalarType type = at::kFloat)
    {
        Tensor tensor = empty(std::move(sizes), type).set_requires_grad(true);
        tree_.registered.push_back({module, name, tensor, Category::parameter});
        parameters_.push_back(tensor);
        return tensor;
    }
    Tensor buffer(ModuleId module, const std::string& name, Sizes sizes)
    {
        Tensor tensor = empty(std::move(sizes));
        tree_.registered.push_back({module, name, tensor, Category::buffer});
        return tensor;
    }
    const ModelTree& tree() const { return tree_; }
    const std::vector<Tensor>& parameters() const { return parameters_; }
    void clearGradients()
    {
        for (Tensor& parameter : parameters_)
            parameter.mutable_grad() = Tensor();
    }

    static Tensor call(ModuleId module, const Tensor& input, const std::function<Tensor(const Tensor&)>& forward)
    {
        const CallId call = Recorder::enter(module, {input});
        Tensor output = forward(input);
        Recorder::exit(call, {output});
        return output;
    }

private:
    ModelTree tree_;
    std::vector<Tensor> parameters_;
};

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
    Tensor input = empty({2, 4});

    Tensor loss()
    {
        return Model::call(ModuleId(0), input,
                           [&](const Tensor& x) {
                               return Model::call(fc, x, [&](const Tensor& y) { return at::linear(y, weight); }).relu();
                           })
            .sum();
    }
};

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

// --- the live bytes of larger steps

/// A model's step: what it builds outlives the steps.
struct Scenario
{
    std::string name;
    std::function<std::function<Tensor()>(Model&)> build; ///< the function runs forward and gives the loss
    int accumulate = 1; ///< forward and backward passes a step
};

void PrintTo(const Scenario& scenario, std::ostream* out)
{
    *out << scenario.name;
}

class LiveBytes : public RecorderTest, public ::testing::WithParamInterface<Scenario>
{
};

/// One training step with Adam as torch.optim computes it for all parameters at once.
class Trainer
{
public:
    Trainer(Model& model, std::function<Tensor()> forward, int accumulate)
        : model_(model)
        , forward_(std::move(forward))
        , accumulate_(accumulate)
    {
        for (const Tensor& parameter : model_.parameters()) {
            first_.push_back(at::zeros_like(parameter.detach()));
            second_.push_back(at::zeros_like(parameter.detach()));
        }
    }

    std::vector<Tensor> state() const
    {
        std::vector<Tensor> all = first_;
        all.insert(all.end(), second_.begin(), second_.end());
        return all;
    }

    /// Live bytes at the marks.
    std::vector<Bytes> step(Recorder* recorder)
    {
        std::vector<Bytes> live{sim::memoryStats().live};
        const auto mark = [&](Mark instant) {
            live.push_back(sim::memoryStats().live);
            if (recorder)
                recorder->mark(instant);
        };
        for (int pass = 0; pass < accumulate_; ++pass) {
            Tensor loss = forward_();
            mark(Mark::forwardEnd);
            loss.backward();
            loss = Tensor();
            mark(Mark::backwardEnd);
        }
        if (recorder)
            recorder->beginOptimizer();
        optimize();
        live.push_back(sim::memoryStats().live);
        if (recorder) {
            recorder->endOptimizer(state());
            recorder->beginZeroGrad();
        }
        model_.clearGradients();
        live.push_back(sim::memoryStats().live);
        return live;
    }

private:
    void optimize()
    {
        const at::NoGradGuard noGrad;
        std::vector<Tensor> gradients;
        for (const Tensor& parameter : model_.parameters())
            gradients.push_back(parameter.grad());
        at::_foreach_lerp_(first_, gradients, 0.1);
        at::_foreach_mul_(second_, 0.999);
        at::_foreach_addcmul_(second_, gradients, gradients, 0.001);
        const std::vector<Tensor> denominators = at::_foreach_sqrt(second_);
        at::_foreach_add_(denominators, 1e-8);
        at::_foreach_addcdiv_(model_.parameters(), first_, denominators, -1e-3);
    }

    Model& model_;
    std::function<Tensor()> forward_;
    int accumulate_;
    std::vector<Tensor> first_, second_;
};

TEST_P(LiveBytes, RebuiltFromTheTraceAreThoseWithoutARecorder)
{
    Model model("Net");
    Trainer trainer(model, GetParam().build(model), GetParam().accumulate);
    trainer.step(nullptr);
    sim::resetPeak();
    const std::vector<Bytes> expected = trainer.step(nullptr);
    const Bytes expectedPeak = sim::memoryStats().peak;

    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    for (const Tensor& tensor : trainer.state())
        recorder.addOptimizerState(tensor);
    recorder.begin();
    trainer.step(&recorder);
    const Result<StepTracePtr> trace = recorder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    const Replay rebuilt = replay(**trace);
    EXPECT_EQ(rebuilt.peak, expectedPeak);
    EXPECT_THAT(rebuilt.atMarks, ElementsAreArray(expected));
    EXPECT_EQ(rebuilt.end, sim::memoryStats().live);
    EXPECT_TRUE(sim::fallbacks().empty()) << sim::fallbacks().front().op << " ran on zero CPU tensors";
}

std::function<Tensor()> mlp(Model& model)
{
    const Tensor w1 = model.parameter(ModuleId(0), "w1", {64, 32});
    const Tensor b1 = model.parameter(ModuleId(0), "b1", {64});
    const Tensor w2 = model.parameter(ModuleId(0), "w2", {16, 64});
    const Tensor x = empty({100, 32});
    const Tensor y = empty({100, 16});
    return [=] {
        return Model::call(ModuleId(0), x, [&](const Tensor& input) {
            Tensor h = at::gelu(at::linear(input, w1, b1));
            h = at::dropout(h, 0.1, true);
            return at::mse_loss(at::relu(at::linear(h, w2)), y);
        });
    };
}

/// Layer norm, attention from one projection, residual, logits over tokens.
std::function<Tensor()> transformer(Model& model, at::ScalarType type)
{
    constexpr std::int64_t width = 64;
    constexpr std::int64_t heads = 4;
    constexpr std::int64_t vocabulary = 200;
    const ModuleId block = model.add("Net.block");
    const ModuleId attention = model.add("Net.block.attention", block);
    const Tensor embedding = model.parameter(ModuleId(0), "embedding", {vocabulary, width}, type);
    const Tensor norm = model.parameter(block, "norm", {width}, type);
    const Tensor qkv = model.parameter(attention, "qkv", {3 * width, width}, type);
    const Tensor out = model.parameter(attention, "out", {width, width}, type);
    const Tensor tokens = empty({3, 50}, at::kLong);
    return [=] {
        const Tensor logits = Model::call(ModuleId(0), tokens, [&](const Tensor& ids) {
            Tensor x = at::embedding(embedding, ids);
            x = Model::call(block, x, [&](const Tensor& in) {
                const Tensor normed = at::layer_norm(in, {width}, norm);
                return in + Model::call(attention, normed, [&](const Tensor& y) {
                           const auto parts = at::linear(y, qkv)
                                                  .view({3, 50, 3, heads, width / heads})
                                                  .permute({2, 0, 3, 1, 4})
                                                  .unbind(0);
                           Tensor o = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.1, true);
                           o = o.transpose(1, 2).reshape({3, 50, width});
                           return at::dropout(at::linear(o, out), 0.1, true);
                       });
            });
            return at::linear(x, embedding); // tied
        });
        return at::cross_entropy_loss(logits.view({-1, vocabulary}), tokens.view({-1}));
    };
}

/// Convolution, batch norm, in-place relu and residual, pooling.
std::function<Tensor()> residual(Model& model)
{
    const Tensor w1 = model.parameter(ModuleId(0), "w1", {8, 3, 3, 3});
    const Tensor w2 = model.parameter(ModuleId(0), "w2", {8, 8, 3, 3});
    const Tensor scale = model.parameter(ModuleId(0), "scale", {8});
    const Tensor shift = model.parameter(ModuleId(0), "shift", {8});
    const Tensor head = model.parameter(ModuleId(0), "head", {10, 8});
    const Tensor mean = model.buffer(ModuleId(0), "mean", {8});
    const Tensor var = model.buffer(ModuleId(0), "var", {8});
    const Tensor images = empty({4, 3, 32, 32});
    const Tensor classes = empty({4}, at::kLong);
    return [=] {
        Tensor x = at::max_pool2d(at::conv2d(images, w1, {}, 1, 1), 2);
        Tensor y = at::batch_norm(at::conv2d(x, w2, {}, 1, 1), scale, shift, mean, var, true, 0.1, 1e-5, true);
        y.add_(x);
        y.relu_();
        x = at::adaptive_avg_pool2d(y, {1, 1}).flatten(1);
        return at::cross_entropy_loss(at::linear(x, head), classes);
    };
}

INSTANTIATE_TEST_SUITE_P(Models, LiveBytes,
                         ::testing::Values(Scenario{"Mlp", mlp}, Scenario{"AccumulatedGradients", mlp, 3},
                                           Scenario{"Transformer", [](Model& m) { return transformer(m, at::kFloat); }},
                                           Scenario{"BFloat16", [](Model& m) { return transformer(m, at::kBFloat16); }},
                                           Scenario{"Residual", residual}),
                         [](const auto& instance) { return instance.param.name; });

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

TEST_F(RecorderTest, OpsOfAnAttentionLayerAreThoseOfPyTorch)
{
    // As torch.distributed._tools.sac_estimator lists them for the same layer (biasless projection, dropout).
    Model model("Net");
    const Tensor w = model.parameter(ModuleId(0), "w", {8, 8});
    const Tensor x = empty({2, 4, 8});
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
    const Tensor input = empty({4});
    const Tensor state = empty({4});
    const Tensor held = empty({4});
    const Tensor unknown = empty({4});
    weight.mutable_grad() = empty({4});
    Recorder recorder({}, card());
    recorder.setModel(model.tree());
    recorder.addInput(input);
    recorder.addOptimizerState(state);
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
    const Tensor early = empty({4});
    recorder.beginOptimizer();
    const Tensor state = empty({4});
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
    Tensor tensor = empty({128});
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
    EXPECT_THAT(refused.error().message, HasSubstr("while another one is"));
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
    EXPECT_THROW(at::mm(empty({2, 3}), empty({4, 5})), c10::Error);
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
