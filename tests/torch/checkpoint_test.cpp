// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/checkpoint.h"

#include "core/device/simulated_device.h"
#include "core/model/autocast_scope.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

/// Checkpoints of callables on the CPU and on the simulated device: what PyTorch's tests of its composable checkpoint
/// (test/distributed/_composable/test_checkpoint.py) and of the non-reentrant one ask for.
namespace headroom {
namespace {

using at::Tensor;
using ::testing::HasSubstr;
using Function = std::function<Tensor(const Tensor&)>;

Tensor leaf(std::vector<std::int64_t> sizes)
{
    return at::randn(sizes).set_requires_grad(true);
}

Values checkpoint(const RegionFunction& function, const Values& inputs, const CheckpointOptions& options = {})
{
    CheckpointScope scope(function, inputs, options);
    Values outputs = function(inputs);
    scope.complete();
    return outputs;
}

Tensor run(const Function& function, const Tensor& input, const CheckpointOptions& options = {})
{
    return checkpoint([function](const Values& in) { return Values{function(in[0].toTensor())}; }, {input}, options)[0]
        .toTensor();
}

/// The loss and the gradients of a step that starts from the same random numbers each time.
struct Step
{
    Tensor loss;
    std::vector<Tensor> gradients;
};
Step step(std::vector<Tensor> leaves, const std::function<Tensor()>& forward)
{
    for (Tensor& tensor : leaves)
        tensor.mutable_grad() = Tensor();
    at::manual_seed(7);
    Step result;
    const Tensor loss = forward();
    loss.backward();
    result.loss = loss.detach();
    for (const Tensor& tensor : leaves)
        result.gradients.push_back(tensor.grad());
    return result;
}

void expectEqual(const Step& plain, const Step& checkpointed)
{
    EXPECT_TRUE(plain.loss.equal(checkpointed.loss));
    ASSERT_EQ(plain.gradients.size(), checkpointed.gradients.size());
    for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
        ASSERT_TRUE(plain.gradients[i].defined() && checkpointed.gradients[i].defined()) << i;
        EXPECT_TRUE(plain.gradients[i].equal(checkpointed.gradients[i])) << "gradient " << i;
    }
}

std::string messageOf(const std::function<void()>& work)
{
    try {
        work();
    } catch (const CheckpointError& error) {
        return error.what();
    }
    return "no CheckpointError";
}

/// ToyModel of the seed test: relu, linear, relu after a linear layer.
struct Toy
{
    Tensor w1 = leaf({100, 100});
    Tensor w2 = leaf({100, 100});
    Tensor b2 = leaf({100});
    Tensor x = leaf({20, 100});
    int runs = 0;

    Tensor sequence(const Tensor& in)
    {
        ++runs;
        return at::relu(at::linear(at::relu(in), w2, b2));
    }
    Tensor forward(bool checkpointed)
    {
        const Tensor h = at::linear(x, w1);
        const Function rest = [this](const Tensor& in) { return sequence(in); };
        return (checkpointed ? run(rest, h) : rest(h)).sum();
    }
    std::vector<Tensor> leaves() const { return {w1, w2, b2, x}; }
};

TEST(Checkpoint, GivesTheGradientsOfThePlainStep)
{
    at::manual_seed(0);
    Toy toy;
    const Step plain = step(toy.leaves(), [&] { return toy.forward(false); });
    EXPECT_EQ(toy.runs, 1);
    const Step checkpointed = step(toy.leaves(), [&] { return toy.forward(true); });
    EXPECT_EQ(toy.runs, 3); // forward, and one recomputation
    expectEqual(plain, checkpointed);
}

TEST(Checkpoint, RandomNumbersAreDrawnAgainAsTheyWere)
{
    at::manual_seed(0);
    const Tensor p = leaf({100, 3});
    const Tensor x = leaf({30, 100});
    const auto forward = [&](bool checkpointed) {
        const Function region = [&](const Tensor& in) {
            const Tensor noise = at::randn({3, 50});
            return at::dropout(at::sigmoid(in).matmul(p), 0.5, true).matmul(noise).exp();
        };
        const Tensor y = checkpointed ? run(region, x) : region(x);
        return at::dropout(y, 0.5, true).logsumexp(-1).sum();
    };
    const Step plain = step({p, x}, [&] { return forward(false); });
    const Tensor after = at::rand({4});
    expectEqual(plain, step({p, x}, [&] { return forward(true); }));
    // The recomputation leaves the generator as it found it.
    EXPECT_TRUE(after.equal(at::rand({4})));
}

TEST(Checkpoint, SeveralAndNestedInputsAndOutputs)
{
    at::manual_seed(0);
    const Tensor w1 = leaf({10, 10});
    const Tensor w2 = leaf({10, 10});
    const Tensor x = leaf({4, 10});
    // MultiOutputModel and MultiInputModel of the seed test; the latter takes its tensors as one list, beside keywords.
    const RegionFunction twoOut = [&](const Values& in) {
        const Tensor z = at::relu(in[0].toTensor().matmul(w1));
        return Values{z, z.sin()};
    };
    const RegionFunction twoIn = [&](const Values& in) {
        const auto tensors = in[0].toTensorList();
        const auto keywords = in[1].toGenericDict();
        return Values{at::sigmoid(tensors.get(0) + tensors.get(1)).matmul(w2) * keywords.at("scale").toDouble()
                      + keywords.at("bias").toTensor()};
    };
    const auto keywords = [](double scale, const Tensor& bias) {
        c10::impl::GenericDict dictionary(c10::StringType::get(), c10::AnyType::get());
        dictionary.insert("scale", scale);
        dictionary.insert("bias", bias);
        return dictionary;
    };
    const Tensor bias = leaf({10});
    const auto forward = [&](bool checkpointed) {
        const auto call = [&](const RegionFunction& region, const Values& inputs) {
            return checkpointed ? checkpoint(region, inputs) : region(inputs);
        };
        Tensor y = x;
        for (int i = 0; i < 2; ++i) {
            const Values two = call(twoOut, {y});
            const std::vector<Tensor> list{two[0].toTensor(), two[1].toTensor()};
            y = call(twoIn, {c10::IValue(list), c10::IValue(keywords(0.5, bias))})[0].toTensor();
        }
        return y.square().sum();
    };
    const Step plain = step({w1, w2, x, bias}, [&] { return forward(false); });
    expectEqual(plain, step({w1, w2, x, bias}, [&] { return forward(true); }));
}

TEST(Checkpoint, NestedCheckpointsRecomputeWhatIsAroundThem)
{
    at::manual_seed(0);
    const Tensor w = leaf({8, 8});
    const Tensor x = leaf({4, 8});
    int innerRuns = 0;
    int outerRuns = 0;
    const Function inner = [&](const Tensor& in) {
        ++innerRuns;
        return at::dropout(in.matmul(w).tanh(), 0.3, true).sin();
    };
    const Function outer = [&](const Tensor& in) {
        ++outerRuns;
        return run(inner, run(inner, in.exp())).cos();
    };
    const Function outerPlain = [&](const Tensor& in) { return inner(inner(in.exp())).cos(); };
    const Step plain = step({w, x}, [&] { return outerPlain(x).sum(); });
    innerRuns = outerRuns = 0;
    expectEqual(plain, step({w, x}, [&] { return run(outer, x).sum(); }));
    EXPECT_EQ(outerRuns, 2);
    EXPECT_EQ(innerRuns, 6); // forward, the outer recomputation, and one of each inner region
}

TEST(Checkpoint, EarlyStopEndsAfterTheLastTensorThatIsNeeded)
{
    const Tensor x = leaf({3});
    int finished = 0;
    const Function region = [&](const Tensor& in) {
        const Tensor y = in.sin().cos(); // cos saves its argument before it runs
        ++finished;
        return y + 1;
    };
    run(region, x).sum().backward();
    EXPECT_EQ(finished, 1);
}

TEST(Checkpoint, WithoutGradientsNothingHappens)
{
    const Tensor x = leaf({3});
    const at::NoGradGuard off;
    CheckpointOptions options;
    int asked = 0;
    options.save = [&](std::string_view, int) { return ++asked > 0; };
    EXPECT_FALSE(run([](const Tensor& in) { return in.sin(); }, x, options).requires_grad());
    EXPECT_EQ(asked, 0);
}

TEST(Checkpoint, ASecondBackwardRecomputesAgain)
{
    at::manual_seed(0);
    Toy toy;
    const Tensor loss = toy.forward(true);
    loss.backward({}, /*retain_graph=*/true);
    const Tensor first = toy.w2.grad().clone();
    loss.backward();
    EXPECT_EQ(toy.runs, 3);
    EXPECT_TRUE(toy.w2.grad().equal(first + first));
}

TEST(Checkpoint, BackwardInsideOfARegion)
{
    const Tensor x = leaf({3});
    const Function region = [](const Tensor& in) {
        const Tensor y = in.sin();
        const Tensor z = y.cos();
        const Tensor gradient = torch::autograd::grad({z.sum()}, {in}, {}, /*retain_graph=*/true)[0];
        return in.cos() * gradient + z;
    };
    const Step plain = step({x}, [&] { return region(x).sum(); });
    expectEqual(plain, step({x}, [&] { return run(region, x).sum(); }));
}

TEST(Checkpoint, AForwardThatThrowsLeavesNothingBehind)
{
    const Tensor x = leaf({3});
    const auto kept = std::make_shared<int>();
    CheckpointOptions options;
    options.save = [](std::string_view op, int) { return op == "aten.exp.default"; };
    const Function region = [kept](const Tensor& in) -> Tensor {
        const Tensor y = in.exp().sin();
        throw std::domain_error("broken layer");
    };
    EXPECT_THROW(run(region, x, options), std::domain_error);
    // What is saved now is saved as usual, nothing is cached, and nothing holds the region.
    const Tensor y = x.sin();
    y.sum().backward();
    EXPECT_TRUE(x.grad().equal(x.detach().cos()));
    EXPECT_EQ(kept.use_count(), 2); // here and in `region`
}

TEST(Checkpoint, ARegionThatRecomputesOtherShapesIsRefused)
{
    const Tensor x = leaf({4, 6});
    int runs = 0;
    const Function region = [&](const Tensor& in) { return in.slice(0, runs++ == 0 ? 0 : 1).exp().sum(0).sin(); };
    EXPECT_EQ(messageOf([&] { run(region, x).sum().backward(); }),
              "saved tensor 0 of a checkpointed region was 4 x 6 of Float on cpu in forward and is 3 x 6 of Float on "
              "cpu when recomputed: a region must do the same each time");
}

TEST(Checkpoint, ARegionThatRecomputesFewerTensorsIsRefused)
{
    const Tensor x = leaf({4});
    int runs = 0;
    const Function fewer = [&](const Tensor& in) { return runs++ == 0 ? in.sin().cos() : in.sin(); };
    EXPECT_EQ(messageOf([&] { run(fewer, x).sum().backward(); }),
              "the recomputation of a checkpointed region saved 1 tensors, the forward 2: a region must do the same "
              "each time");
    runs = 0;
    const Function more = [&](const Tensor& in) { return runs++ == 0 ? in.sin() : in.sin().cos(); };
    EXPECT_EQ(messageOf([&] { run(more, x).sum().backward(); }), "no CheckpointError"); // early stop does not see it
}

TEST(Checkpoint, AnInputThatIsChangedInPlaceIsRefused)
{
    const Tensor x = leaf({4});
    const Function region = [](const Tensor& in) {
        Tensor same = in;
        return at::relu_(same).sin();
    };
    EXPECT_EQ(messageOf([&] { run(region, x + 0).sum().backward(); }),
              "input 0 of a checkpointed region was changed in place after the region began, so the region cannot run "
              "again; checkpoint a larger region or change a copy");
}

TEST(Checkpoint, AutocastIsAsItWas)
{
    const Tensor w = leaf({8, 8});
    const Tensor x = leaf({4, 8});
    std::vector<at::ScalarType> types;
    const Function region = [&](const Tensor& in) {
        const Tensor y = in.matmul(w);
        types.push_back(y.scalar_type());
        return y.tanh().sin();
    };
    const auto forward = [&](const std::function<Tensor()>& work) {
        const AutocastScope bfloat16({at::kCPU, at::kBFloat16});
        return work();
    };
    const Step plain = step({w, x}, [&] { return forward([&] { return region(x).sum(); }); });
    expectEqual(plain, step({w, x}, [&] { return forward([&] { return run(region, x).sum(); }); }));
    EXPECT_EQ(types, (std::vector{at::kBFloat16, at::kBFloat16, at::kBFloat16}));
    EXPECT_EQ(x.matmul(w).scalar_type(), at::kFloat);
}

/// Ops of a region, in order, as the policy is asked for them.
struct Asked
{
    std::vector<std::string> ops;
    std::set<std::pair<std::string, int>> saved;

    CheckpointOptions options()
    {
        CheckpointOptions options;
        options.save = [this](std::string_view op, int index) {
            ops.push_back(std::string(op) + ' ' + std::to_string(index));
            return saved.contains({std::string(op), index});
        };
        return options;
    }
};

TEST(SelectiveCheckpoint, SavedOpsDoNotRunAgain)
{
    at::manual_seed(0);
    const Tensor w = leaf({8, 8});
    const Tensor x = leaf({4, 8});
    const Function region = [&](const Tensor& in) {
        return at::linear(at::linear(in, w).sigmoid(), w).sigmoid().detach() + at::linear(in, w).sigmoid();
    };
    const Step plain = step({w, x}, [&] { return region(x).sum(); });
    Asked asked;
    asked.saved = {{"aten.mm.default", 0}, {"aten.mm.default", 2}, {"aten.sigmoid.default", 1}};
    expectEqual(plain, step({w, x}, [&] { return run(region, x, asked.options()).sum(); }));
    // In forward every op is asked for, detach excepted; again in the recomputation, which ends with the last sigmoid.
    const std::vector<std::string> forward{"aten.t.default 0", "aten.mm.default 0", "aten.sigmoid.default 0",
                                           "aten.t.default 1", "aten.mm.default 1", "aten.sigmoid.default 1",
                                           "aten.t.default 2", "aten.mm.default 2", "aten.sigmoid.default 2"};
    std::vector<std::string> both = forward;
    both.emplace_back("aten.add.Tensor 0");
    both.insert(both.end(), forward.begin(), forward.end());
    EXPECT_EQ(asked.ops, both);
}

TEST(SelectiveCheckpoint, EveryOpMayBeSavedAndMultipleResultsToo)
{
    at::manual_seed(0);
    const Tensor w = leaf({6});
    const Tensor b = leaf({6});
    const Tensor x = leaf({4, 6});
    const Function region = [&](const Tensor& in) {
        const Tensor y = at::layer_norm(in, {6}, w, b);
        const auto [values, indices] = at::max(y, 1, true);
        return (y - values).exp().softmax(-1) * y;
    };
    const Step plain = step({w, b, x}, [&] { return region(x).sum(); });
    int executed = 0;
    CheckpointOptions options;
    options.save = [&](std::string_view, int) { return ++executed > 0; };
    expectEqual(plain, step({w, b, x}, [&] { return run(region, x, options).sum(); }));
}

TEST(SelectiveCheckpoint, MisuseIsRefusedWithOneSentence)
{
    const Tensor x = leaf({4});
    Asked inPlace;
    inPlace.saved = {{"aten.relu_.default", 0}};
    EXPECT_EQ(
        messageOf([&] { run([](const Tensor& in) { return in.sin().relu_().cos(); }, x, inPlace.options()); }),
        "op `aten.relu_.default` with index 0 changes an argument, so the result cannot be saved; recompute the op");
    Asked changed;
    changed.saved = {{"aten.exp.default", 0}};
    EXPECT_EQ(messageOf([&] {
                  run([](const Tensor& in) { return in.exp().detach().add_(in.sin()) * in.cos(); }, x,
                      changed.options())
                      .sum()
                      .backward();
              }),
              "the saved result of op `aten.exp.default` with index 0 was changed in place after saving: recompute the "
              "op instead");
    Asked twice;
    twice.saved = {{"aten.exp.default", 0}};
    const Tensor loss = run([](const Tensor& in) { return in.exp().sin().cos(); }, x, twice.options()).sum();
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(messageOf([&] { loss.backward(); }),
              "a region with saved ops can go through backward once: the saved result of op `aten.exp.default` with "
              "index 0 was used already");
    int runs = 0;
    Asked other;
    other.saved = {{"aten.exp.default", 0}};
    EXPECT_EQ(messageOf([&] {
                  run([&](const Tensor& in) { return runs++ == 0 ? in.sin().cos() : in.exp().cos(); }, x,
                      other.options())
                      .sum()
                      .backward();
              }),
              "the recomputation of a checkpointed region calls op `aten.exp.default` with index 0, but the forward "
              "did not: a region must call the same ops each time");
}

TEST(SelectiveCheckpoint, NestedPoliciesEachCountTheirOwnOps)
{
    at::manual_seed(0);
    const Tensor x = leaf({5});
    Asked outer;
    Asked inner;
    outer.saved = {{"aten.exp.default", 1}};
    inner.saved = {{"aten.exp.default", 0}};
    const Function innerRegion = [](const Tensor& in) { return in.exp().sin(); };
    const auto region = [&](bool checkpointed) -> Function {
        return [&, checkpointed](const Tensor& in) {
            const Tensor y = in.exp();
            return (checkpointed ? run(innerRegion, y, inner.options()) : innerRegion(y)).cos();
        };
    };
    const Step plain = step({x}, [&] { return region(false)(x).sum(); });
    expectEqual(plain, step({x}, [&] { return run(region(true), x, outer.options()).sum(); }));
    ASSERT_GE(outer.ops.size(), 4U);
    EXPECT_EQ(outer.ops[1], "aten.exp.default 1"); // the inner region's ops are the outer's too
    EXPECT_EQ(inner.ops[0], "aten.exp.default 0");
}

/// A region that runs on the simulated device, where lifetimes are seen as bytes.
class SimulatedCheckpoint : public ::testing::Test
{
protected:
    static void SetUpTestSuite() { sim::initialize(*findDeviceSpec("a100-80gb")); }

    static Tensor onDevice(std::vector<std::int64_t> sizes, bool trained)
    {
        return at::empty(sizes, at::TensorOptions().device(sim::device())).set_requires_grad(trained);
    }
    /// Bytes that forward leaves on the device, its result included.
    static Bytes afterForward(const std::function<Tensor()>& forward)
    {
        const Bytes before = sim::memoryStats().live;
        const Tensor result = forward();
        const Bytes delta = sim::memoryStats().live - before;
        result.sum().backward();
        return delta;
    }
};

TEST_F(SimulatedCheckpoint, HoldsLessAfterForward)
{
    constexpr Bytes unit = 512;
    const Tensor w = onDevice({128, 128}, true);
    const Tensor x = onDevice({128, 128}, false); // 64 KiB
    const Function region = [&](const Tensor& in) { return at::relu(at::linear(at::relu(at::linear(in, w)), w)); };
    const auto block = 128 * unit;
    EXPECT_EQ(afterForward([&] { return region(x); }), 2 * block); // each relu's result
    EXPECT_EQ(afterForward([&] { return run(region, x); }), block);
    CheckpointOptions selective;
    selective.save = [](std::string_view op, int index) { return op == "aten.mm.default" && index == 0; };
    EXPECT_EQ(afterForward([&] { return run(region, x, selective); }), 2 * block); // the result and the first product
    // The argument of a region is held by it.
    EXPECT_EQ(afterForward([&] { return run(region, x + 1); }), 2 * block);
    EXPECT_EQ(sim::memoryStats().live, 3 * block); // w, its gradient, x
}

TEST_F(SimulatedCheckpoint, TheDevicesGeneratorIsPreserved)
{
    const Tensor x = onDevice({4}, true);
    const Tensor result = run([](const Tensor& in) { return at::dropout(in.sin(), 0.1, true).sin(); }, x);
    auto generator = at::globalContext().defaultGenerator(sim::device());
    generator.set_current_seed(5);
    result.sum().backward();
    EXPECT_EQ(generator.current_seed(), 5U);
}

TEST_F(SimulatedCheckpoint, ErrorsArriveFromTheDevicesThread)
{
    const Tensor x = onDevice({4, 6}, true);
    int runs = 0;
    const Function region = [&](const Tensor& in) { return in.slice(0, runs++ == 0 ? 0 : 1).exp().sum(0).sin(); };
    EXPECT_THAT(messageOf([&] { run(region, x).sum().backward(); }), HasSubstr("is 3 x 6 of Float on sim:0"));
}

} // namespace
} // namespace headroom
