// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Live bytes, rebuilt from the recorded step's holders, are those of the same step without a recorder, to the byte.
#include "tests/torch/recorded_model.h"
#include "tests/torch/replay.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <ostream>
#include <string>
#include <vector>

namespace headroom {
namespace {

using at::Tensor;
using ::testing::ElementsAreArray;

/// A model's step: what it builds outlives the steps.
struct Scenario
{
    std::string name;
    std::function<Forward(Model&)> build; ///< the function runs forward and gives the loss
    int accumulate = 1; ///< forward and backward passes a step
};

void PrintTo(const Scenario& scenario, std::ostream* out)
{
    *out << scenario.name;
}

class LiveBytes : public ::testing::Test, public ::testing::WithParamInterface<Scenario>
{
protected:
    static void SetUpTestSuite() { sim::initialize(card()); }
};

/// One training step with Adam as torch.optim computes it for all parameters at once.
class Trainer
{
public:
    Trainer(Model& model, Forward forward, int accumulate)
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
    Forward forward_;
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
        recorder.addState(tensor);
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

INSTANTIATE_TEST_SUITE_P(Models, LiveBytes,
                         ::testing::Values(Scenario{"Mlp", mlp}, Scenario{"AccumulatedGradients", mlp, 3},
                                           Scenario{"Transformer", [](Model& m) { return transformer(m, at::kFloat); }},
                                           Scenario{"BFloat16", [](Model& m) { return transformer(m, at::kBFloat16); }},
                                           Scenario{"Residual", residual}),
                         [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace headroom
