// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"
#include "core/model/step_runner.h"
#include "core/predict/predict.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_file.h"
#include "tests/torch/opened_model.h"

#include <array>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

// Ops, module statistics and times of the same models: module_statistics_test.
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
    return open(request);
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

TEST(RecordTransformer, PhasesAreMemTrackers)
{
    expectPhases(*record(transformer(false)), reference("memtracker_phases.json")["transformer"], 65'536);
}

// GPT-3 175B in bfloat16: 1350 modules, each memory field as PyTorch's tools have it (97 s there).
TEST(RecordGpt3, ModuleMemoryIsPyTorchs)
{
    StepSetup setup{
        .model = "demo:transformer",
        .batch = 1,
        .dtype = at::kBFloat16,
        .settings
        = {{"n_layers", "96"}, {"n_heads", "96"}, {"dim", "12288"}, {"vocab_size", "50304"}, {"max_seq_len", "2048"}}};
    setup.step.holdOutput = true;
    const auto info = moduleInfo(*record(setup));
    ASSERT_TRUE(info) << info.error().message;
    const auto expected = readModuleInfo(HEADROOM_TEST_DATA "/pytorch/gpt3_175b_96L_modinfo.json");
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(baseline(*info).peak, baseline(*expected).peak);
    std::map<std::string, const ModuleStats*> byName;
    for (const ModuleStats& stats : expected->stats)
        byName[stats.fqn] = &stats;
    ASSERT_EQ(info->stats.size(), byName.size());
    const auto memory = [](const ModuleStats& stats) {
        return std::array{stats.paramBytes,        stats.gradBytes,          stats.gradTotal,
                          stats.activationForward, stats.activationBackward, stats.activationGrad,
                          stats.activationTotal,   stats.inputBytes,         stats.outputBytes,
                          stats.sacMemory};
    };
    for (const ModuleStats& stats : info->stats)
        EXPECT_EQ(memory(stats), memory(*byName.at(stats.fqn))) << stats.fqn;
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
    const Case cases[]{{{OptimizerChoice::Algorithm::sgd, 0}, 0},
                       {{OptimizerChoice::Algorithm::sgd, 0.9}, parameters},
                       {{OptimizerChoice::Algorithm::adam, 0}, 2 * parameters},
                       {{OptimizerChoice::Algorithm::adamw, 0}, 2 * parameters}};
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
              "--loss output needs a model that returns a single number; this model returns 2 x 1024 x 1024; use "
              "--loss sum or mean");
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
    EXPECT_EQ(trace->info.placeholderValues, 0);
}

} // namespace
} // namespace headroom
