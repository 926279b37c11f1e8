// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"
#include "core/predict/predict.h"
#include "core/record/step_runner.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_file.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace headroom {
namespace {

struct StepSetup
{
    std::string model;
    std::int64_t batch = 0;
    at::ScalarType dtype = at::kFloat;
    decltype(ModelRequest::settings) settings = {};
    StepRunner::Options step = {};
};

const DeviceSpec& a100()
{
    static const DeviceSpec spec = *findDeviceSpec("a100-80gb");
    return spec;
}

std::unique_ptr<ModelSource> open(const StepSetup& setup)
{
    sim::initialize(a100());
    ModelRequest request;
    request.name = setup.model;
    request.batch = setup.batch;
    request.dtype = setup.dtype;
    request.settings = setup.settings;
    request.device = sim::device();
    auto source = openModel(request);
    EXPECT_TRUE(source) << (source ? "" : source.error().message);
    return source ? std::move(*source) : nullptr;
}

StepTracePtr record(const StepSetup& setup)
{
    const auto source = open(setup);
    StepInfo info;
    info.model = setup.model;
    info.gpu = a100().name;
    auto trace = StepRunner(*source, setup.step).record(std::move(info), a100(), {});
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message);
    if (!trace)
        return nullptr;
    const Status valid = validate(**trace);
    EXPECT_TRUE(valid) << (valid ? "" : valid.error().message);
    return *trace;
}

StepSetup transformer(bool holdOutput)
{
    StepSetup setup{.model = "demo:transformer"};
    setup.step.holdOutput = holdOutput;
    return setup;
}

nlohmann::json reference(const std::string& name)
{
    std::ifstream file(HEADROOM_TEST_DATA "/pytorch/" + name);
    EXPECT_TRUE(file) << name;
    return nlohmann::json::parse(file);
}

/// Categories that MemTracker knows; the batch is apart (Category::input): MemTracker does not see it where the
/// script did not announce it.
nlohmann::json withoutBatch(const CategoryBytes& bytes)
{
    nlohmann::json object;
    for (const Category category : {Category::parameter, Category::buffer, Category::gradient, Category::activation,
                                    Category::temporary, Category::optimizer, Category::other})
        object[std::string(categoryName(category))] = bytes[static_cast<std::size_t>(category)];
    return object;
}

void expectPhases(const StepTrace& trace, const nlohmann::json& expected, Bytes batch)
{
    const auto timeline = predict(trace, {});
    ASSERT_TRUE(timeline) << timeline.error().message;
    const std::map<Mark, std::string> names{{Mark::stepBegin, "start"},
                                            {Mark::forwardEnd, "after_forward"},
                                            {Mark::backwardEnd, "after_backward"},
                                            {Mark::stepEnd, "after_step"},
                                            {Mark::zeroGradEnd, "after_zero_grad"}};
    ASSERT_EQ(timeline->snapshots.size(), names.size());
    for (const Timeline::Snapshot& snapshot : timeline->snapshots) {
        EXPECT_EQ(withoutBatch(snapshot.bytes), expected["phases"][names.at(snapshot.mark)]) << names.at(snapshot.mark);
        EXPECT_EQ(snapshot.bytes[static_cast<std::size_t>(Category::input)], batch);
    }
    EXPECT_EQ(timeline->peak - batch, expected["peak_bytes"].get<Bytes>());
}

// The lifetimes of the C++ models are those of Python: what the device really holds at the peak of a step, with no
// recorder, is MemTracker's figure and the batch.
TEST(StepOnSimulatedDevice, PeaksAtMemTrackersBytes)
{
    struct Case
    {
        StepSetup setup;
        Bytes peak;
    };
    const Case cases[]{
        {transformer(false), 2'416'347'136 + 65'536},
        // Peak of the whole device in transformer_memsnaps: 256 MiB of old logits more.
        {transformer(true), 2'684'782'592 + 65'536},
        // The batch (256 MiB) is among MemTracker's activations here.
        {{.model = "demo:mlp", .batch = 128, .dtype = at::kHalf}, 4'399'901'696},
        // MemTracker's has a batch of images and, for its cross entropy, of targets: 512 bytes that sum() has not.
        {{.model = "demo:resnet", .batch = 32, .settings = {{"depth", "50"}}}, 3'089'885'184 - 512},
    };
    for (const Case& known : cases) {
        const auto source = open(known.setup);
        StepRunner runner(*source, known.setup.step);
        ASSERT_TRUE(runner.run());
        sim::resetPeak();
        ASSERT_TRUE(runner.run());
        EXPECT_EQ(sim::memoryStats().peak, known.peak) << known.setup.model;
    }
    EXPECT_TRUE(sim::fallbacks().empty());
}

TEST(RecordTransformer, OpsOfEveryModuleAreThoseOfPyTorch)
{
    const StepTracePtr trace = record(transformer(true));
    ASSERT_TRUE(trace);
    const std::map<std::string, SacStats> stats = sacStats(*trace);
    const nlohmann::json expected = reference("transformer_sacstats.json");
    ASSERT_EQ(stats.size(), expected.size());
    for (const auto& [fqn, module] : stats) {
        SCOPED_TRACE(fqn);
        const nlohmann::json& pytorch = expected.at(fqn);
        EXPECT_EQ(module.funcNames, pytorch["func_names"].get<std::vector<std::string>>());
        EXPECT_EQ(module.memory, pytorch["memory"].get<std::vector<Bytes>>());
        EXPECT_EQ(module.viewLikeOps, pytorch["view_like_ops"].get<std::vector<int>>());
        EXPECT_EQ(module.randOps, pytorch["rand_ops"].get<std::vector<int>>());
        EXPECT_EQ(module.savedAutogradOps, pytorch["saved_autograd_ops"].get<std::vector<int>>());
        EXPECT_EQ(module.forceStoreRandom, pytorch["force_store_random"].get<bool>());
        ASSERT_EQ(module.runtimes.size(), pytorch["runtimes"].size());
        for (std::size_t op = 0; op < module.runtimes.size(); ++op)
            EXPECT_NEAR(module.runtimes[op], pytorch["runtimes"][op].get<double>(), 1e-9) << op;
    }
}

TEST(RecordTransformer, BaselinePeakIsPyTorchs)
{
    const auto held = moduleInfo(*record(transformer(true)));
    ASSERT_TRUE(held) << held.error().message;
    EXPECT_EQ(baseline(*held).peak, 2'583'888'896);
    const auto clean = moduleInfo(*record(transformer(false)));
    ASSERT_TRUE(clean) << clean.error().message;
    EXPECT_EQ(baseline(*clean).peak, 2'315'453'440);
}

// PyTorch's RuntimeEstimator says 87.92 ms for forward and backward. 14.1 of these are calls of prim.device, which is
// how a fake tensor answers `.device`: the estimator takes each for an op that reads the tensor. Without them the ops
// of this step take these times (RuntimeEstimator on the same model, summed by op, both phases).
TEST(RecordTransformer, TimesAreThoseOfPyTorchsOps)
{
    const StepTracePtr trace = record(transformer(false));
    std::map<std::string, double> byOp;
    double forward = 0;
    double total = 0;
    for (std::uint32_t index = 0; index < trace->ops.size(); ++index) {
        const OpId op(index);
        if (trace->ops.phase[op] != Phase::forward && trace->ops.phase[op] != Phase::backward)
            continue;
        byOp[std::string(trace->opName(op))] += trace->ops.ms[op];
        (trace->ops.call[op].valid() ? forward : total) += trace->ops.ms[op];
    }
    total += forward;
    EXPECT_NEAR(byOp["aten.mm.default"], 47.5949, 1e-4);
    EXPECT_NEAR(byOp["aten.addmm.default"], 10.5767, 1e-4);
    EXPECT_NEAR(byOp["aten.gelu.default"], 0.3949, 1e-4);
    EXPECT_NEAR(byOp["aten.gelu_backward.default"], 0.5924, 1e-4);
    EXPECT_NEAR(byOp["aten.native_layer_norm.default"], 0.2225, 1e-4);
    EXPECT_NEAR(byOp["aten.native_layer_norm_backward.default"], 0.3336, 1e-4);
    EXPECT_NEAR(byOp["aten.sum.dim_IntList"], 0.2608, 1e-4);
    EXPECT_NEAR(byOp["aten.embedding.default"], 0.0278, 1e-4);
    EXPECT_NEAR(byOp["aten.embedding_dense_backward.default"], 0.0278, 1e-4);
    // SACEstimator, which counts no prim.device, on the whole forward.
    EXPECT_NEAR(forward, 24.13366366505946, 1e-9);

    const auto info = moduleInfo(*trace);
    ASSERT_TRUE(info);
    EXPECT_NEAR(info->stats.front().forwardMs, forward, 1e-9);
    // The loss is outside of the model, its backward (an expand) takes no time.
    EXPECT_NEAR(baseline(*info).computeMs, total - byOp["aten.sum.default"], 1e-9);
    EXPECT_NEAR(baseline(*info).computeMs, 73.8225, 1e-4);
}

void expectModuleMemory(bool holdOutput, const std::string& file)
{
    const auto info = moduleInfo(*record(transformer(holdOutput)));
    ASSERT_TRUE(info) << info.error().message;
    const auto expected = readModuleInfo(HEADROOM_TEST_DATA "/pytorch/" + file);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(info->fwPreOrder, expected->fwPreOrder);
    EXPECT_EQ(info->fwPostOrder, expected->fwPostOrder);
    EXPECT_EQ(info->bwPreOrder, expected->bwPreOrder);
    EXPECT_EQ(info->bwPostOrder, expected->bwPostOrder);
    std::map<std::string, ModuleStats> byName;
    for (const ModuleStats& stats : expected->stats)
        byName[stats.fqn] = stats;
    ASSERT_EQ(info->stats.size(), byName.size());
    for (const ModuleStats& stats : info->stats) {
        SCOPED_TRACE(stats.fqn);
        const ModuleStats& pytorch = byName.at(stats.fqn);
        EXPECT_EQ(stats.paramBytes, pytorch.paramBytes);
        EXPECT_EQ(stats.gradBytes, pytorch.gradBytes);
        EXPECT_EQ(stats.gradTotal, pytorch.gradTotal);
        EXPECT_EQ(stats.activationForward, pytorch.activationForward);
        EXPECT_EQ(stats.activationBackward, pytorch.activationBackward);
        EXPECT_EQ(stats.activationGrad, pytorch.activationGrad);
        EXPECT_EQ(stats.activationTotal, pytorch.activationTotal);
        EXPECT_EQ(stats.inputBytes, pytorch.inputBytes);
        EXPECT_EQ(stats.outputBytes, pytorch.outputBytes);
        EXPECT_EQ(stats.isLeaf, pytorch.isLeaf);
        EXPECT_EQ(stats.sacMemory, pytorch.sacMemory);
        EXPECT_NEAR(stats.sacRuntimeMs, pytorch.sacRuntimeMs, 1e-9);
    }
}

TEST(RecordTransformer, ModuleMemoryIsPyTorchs)
{
    expectModuleMemory(false, "transformer_clean_modinfo.json");
}

TEST(RecordTransformer, ModuleMemoryIsPyTorchsWhileTheLoopHoldsTheOutput)
{
    expectModuleMemory(true, "transformer_modinfo.json");
}

TEST(RecordTransformer, PhasesAreMemTrackers)
{
    expectPhases(*record(transformer(false)), reference("memtracker_phases.json")["transformer"], 65'536);
}

TEST(RecordMlp, PhasesAreMemTrackers)
{
    nlohmann::json expected = reference("memtracker_phases.json")["mlp"];
    // MemTracker counts this script's batch among the activations.
    const Bytes batch = Bytes{128} * 1024 * 1024 * 2;
    for (auto& [phase, categories] : expected["phases"].items())
        categories["activation"] = categories["activation"].get<Bytes>() - batch;
    expected["peak_bytes"] = expected["peak_bytes"].get<Bytes>() - batch;
    expectPhases(*record({.model = "demo:mlp", .batch = 128, .dtype = at::kHalf}), expected, batch);
}

TEST(RecordResnet, PhasesAreMemTrackers)
{
    nlohmann::json expected = reference("memtracker_phases.json")["resnet50"];
    // MemTracker's step ends in a cross entropy, which saves the log-softmax of 32 x 1000 logits and a weight of one
    // number; sum() saves nothing.
    auto& afterForward = expected["phases"]["after_forward"]["activation"];
    afterForward = afterForward.get<Bytes>() - 32 * 1000 * 4 - 512;
    // MemTracker was told of the batch, as "other": images, and targets of the cross entropy, which sum() has not.
    const Bytes images = Bytes{32} * 3 * 224 * 224 * 4;
    const Bytes targets = 512;
    for (auto& [phase, categories] : expected["phases"].items())
        categories["other"] = categories["other"].get<Bytes>() - images - targets;
    expected["peak_bytes"] = expected["peak_bytes"].get<Bytes>() - images - targets;
    expectPhases(*record({.model = "demo:resnet", .batch = 32, .settings = {{"depth", "50"}}}), expected, images);
}

TEST(RecordOptimizers, StateIsWhatTheOptimizerKeeps)
{
    struct Case
    {
        OptimizerChoice choice;
        Bytes states;
    };
    const Bytes parameters = 33'579'008; // of the MLP in float16
    const Case cases[]{{{OptimizerChoice::Kind::sgd, 0}, 0},
                       {{OptimizerChoice::Kind::sgd, 0.9}, parameters},
                       {{OptimizerChoice::Kind::adam, 0}, 2 * parameters},
                       {{OptimizerChoice::Kind::adamw, 0}, 2 * parameters}};
    for (const Case& known : cases) {
        StepSetup setup{.model = "demo:mlp", .dtype = at::kHalf};
        setup.step.optimizer = known.choice;
        const auto timeline = predict(*record(setup), {});
        ASSERT_TRUE(timeline);
        for (const Timeline::Snapshot& snapshot : timeline->snapshots)
            EXPECT_EQ(snapshot.bytes[static_cast<std::size_t>(Category::optimizer)], known.states);
    }
}

TEST(RecordAutocast, CopiesInBfloat16LiveAsLongAsBackwardNeedsThem)
{
    StepSetup setup{.model = "demo:mlp", .settings = {{"n_layers", "1"}, {"dim", "64"}}};
    setup.step.autocast = true;
    const StepTracePtr trace = record(setup);
    EXPECT_TRUE(trace->info.autocast);
    const auto timeline = predict(*trace, {});
    ASSERT_TRUE(timeline);
    const auto afterForward = std::ranges::find(timeline->snapshots, Mark::forwardEnd, &Timeline::Snapshot::mark);
    ASSERT_NE(afterForward, timeline->snapshots.end());
    const Bytes tokens = 8 * 1024;
    const Bytes saved = tokens * 64 * 2 // the batch in bfloat16
        + tokens * 128 * 2 // result of the ReLU
        + 64 * 128 * 2 // the second weight; the batch needs no gradient, so nobody needs the first
        + 512; // the loss
    // The other copies, of biases and of the first weight, die with autocast's cache.
    EXPECT_EQ(afterForward->bytes[static_cast<std::size_t>(Category::activation)], saved);
    EXPECT_EQ(afterForward->bytes[static_cast<std::size_t>(Category::temporary)], 0);
}

TEST(RecordLoss, AnOutputThatIsNoLossIsRefused)
{
    StepSetup setup{.model = "demo:mlp", .batch = 2};
    setup.step.loss = Loss::output;
    const auto source = open(setup);
    const Status run = StepRunner(*source, setup.step).run();
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().kind, ErrorKind::badInput);
    EXPECT_EQ(run.error().message,
              "--loss output needs a model that returns one number; this one returns "
              "2 x 1024 x 1024; use --loss sum or mean");
}

TEST(RecordStep, InfoSaysHowItWasRecorded)
{
    StepSetup setup{.model = "demo:mlp", .batch = 4};
    setup.step.holdOutput = true;
    const StepTracePtr trace = record(setup);
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->info.batch, 4);
    EXPECT_EQ(trace->info.sequence, 1024);
    EXPECT_EQ(trace->info.steps, 2);
    EXPECT_TRUE(trace->info.holdOutput);
    EXPECT_EQ(trace->info.inventedValues, 0);
}

} // namespace
} // namespace headroom
