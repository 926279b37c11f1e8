// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The statistics of recorded demo models against those that PyTorch's own tools computed of the same models.
#include "core/device/simulated_device.h"
#include "core/model/step_runner.h"
#include "core/sac/step_statistics.h"
#include "tests/core/module_info_differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

namespace headroom {
namespace {

using ::testing::IsEmpty;

std::filesystem::path referencePath(const std::string& name)
{
    return std::filesystem::path(HEADROOM_TEST_DATA) / "pytorch" / name;
}

StepTracePtr record(const std::string& name, bool holdOutput,
                    std::vector<std::pair<std::string, std::string>> settings = {}, std::int64_t batch = 0)
{
    const DeviceSpec device = *findDeviceSpec("a100-80gb");
    sim::initialize(device);
    ModelRequest request;
    request.name = name;
    request.batch = batch;
    request.settings = std::move(settings);
    request.device = sim::device();
    auto model = openModel(request);
    EXPECT_TRUE(model) << model.error().message;
    StepRunner::Options options;
    options.holdOutput = holdOutput;
    StepInfo info;
    info.model = request.name;
    info.gpu = device.name;
    auto trace = StepRunner(**model, options).record(info, device, {});
    EXPECT_TRUE(trace) << trace.error().message;
    return trace ? *trace : nullptr;
}

nlohmann::ordered_json parse(const std::string& name)
{
    return nlohmann::ordered_json::parse(std::ifstream(referencePath(name)));
}

/// The document without what RuntimeEstimator counts for `prim.device` (README of the reference files).
ModuleInfo withoutDeviceQueries(ModuleInfo info, const std::string& runtimes)
{
    const auto modules = parse(runtimes);
    for (ModuleStats& stats : info.stats) {
        EXPECT_GT(stats.forwardMs, modules[stats.fqn]["fw"]) << stats.fqn;
        EXPECT_GT(stats.backwardMs, modules[stats.fqn]["bw"]) << stats.fqn;
        stats.forwardMs = modules[stats.fqn]["fw"];
        stats.backwardMs = modules[stats.fqn]["bw"];
    }
    return info;
}

void expectModuleInfo(const StepTrace& trace, const std::string& file)
{
    const auto document = readModuleInfo(referencePath(file));
    ASSERT_TRUE(document) << document.error().message;
    const ModuleInfo expected = withoutDeviceQueries(*document, "transformer_runtimes.json");
    const auto info = moduleInfo(trace);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_THAT(moduleInfoDifferences(*info, expected), IsEmpty());
    const Baseline ours = baseline(*info);
    const Baseline theirs = baseline(expected);
    EXPECT_EQ(ours.peak, theirs.peak);
    EXPECT_NEAR(ours.computeMs, theirs.computeMs, 1e-9);
}

/// All but the times of modules, which hold device queries in the document.
void expectMemory(const StepTrace& trace, const std::string& file,
                  const std::function<void(ModuleStats&)>& correct = {})
{
    auto expected = readModuleInfo(referencePath(file));
    ASSERT_TRUE(expected) << expected.error().message;
    if (correct)
        std::ranges::for_each(expected->stats, correct);
    const auto info = moduleInfo(trace);
    ASSERT_TRUE(info) << info.error().message;
    for (ModuleStats& stats : expected->stats) {
        const auto ours = std::ranges::find(info->stats, stats.fqn, &ModuleStats::fqn);
        ASSERT_NE(ours, info->stats.end()) << stats.fqn;
        EXPECT_GE(stats.forwardMs, ours->forwardMs - 1e-9) << stats.fqn;
        EXPECT_GE(stats.backwardMs, ours->backwardMs - 1e-9) << stats.fqn;
        stats.forwardMs = ours->forwardMs;
        stats.backwardMs = ours->backwardMs;
    }
    EXPECT_THAT(moduleInfoDifferences(*info, *expected), IsEmpty());
    EXPECT_EQ(baseline(*info).peak, baseline(*expected).peak);
}

void expectSacStats(const StepTrace& trace, const std::string& file)
{
    const auto document = parse(file);
    const auto ours = sacStats(trace);
    EXPECT_EQ(ours.size(), document.size());
    for (const auto& [fqn, json] : document.items()) {
        const auto theirs = parseSacStats(json.dump(), fqn);
        ASSERT_TRUE(theirs) << theirs.error().message;
        ASSERT_TRUE(ours.contains(fqn)) << fqn;
        const SacStats& stats = ours.at(fqn);
        EXPECT_EQ(stats.funcNames, theirs->funcNames) << fqn;
        EXPECT_EQ(stats.runtimes, theirs->runtimes) << fqn;
        EXPECT_EQ(stats.memory, theirs->memory) << fqn;
        EXPECT_EQ(stats.viewLikeOps, theirs->viewLikeOps) << fqn;
        EXPECT_EQ(stats.randOps, theirs->randOps) << fqn;
        EXPECT_EQ(stats.savedAutogradOps, theirs->savedAutogradOps) << fqn;
        EXPECT_EQ(stats.inplaceOps, theirs->inplaceOps) << fqn;
        EXPECT_EQ(stats.forceStoreRandom, theirs->forceStoreRandom) << fqn;
    }
}

TEST(StatisticsOfRecordedModels, transformerWhoseOutputIsHeld)
{
    const StepTracePtr trace = record("demo:transformer", true);
    ASSERT_TRUE(trace);
    expectModuleInfo(*trace, "transformer_modinfo.json");
    expectSacStats(*trace, "transformer_sacstats.json");
    const auto info = moduleInfo(*trace);
    EXPECT_EQ(baseline(*info).peak, 2583888896);
    EXPECT_NEAR(baseline(*info).computeMs, 73.82252357610648, 1e-9); // PyTorch: 87.92 with its device queries
}

TEST(StatisticsOfRecordedModels, transformer)
{
    const StepTracePtr trace = record("demo:transformer", false);
    ASSERT_TRUE(trace);
    expectModuleInfo(*trace, "transformer_clean_modinfo.json");
    EXPECT_EQ(baseline(*moduleInfo(*trace)).peak, 2315453440);
}

TEST(StatisticsOfRecordedModels, gpt2)
{
    const StepTracePtr trace
        = record("demo:transformer", true, {{"n_layers", "12"}, {"vocab_size", "50304"}, {"max_seq_len", "1024"}});
    ASSERT_TRUE(trace);
    expectMemory(*trace, "gpt2_small_12L_modinfo.json");
    expectSacStats(*trace, "gpt2_small_12L_sacstats.json");
}

TEST(StatisticsOfRecordedModels, resnet50)
{
    const StepTracePtr trace = record("demo:resnet", true, {{"depth", "50"}}, 32);
    ASSERT_TRUE(trace);
    // A block's first convolution shares its argument with the residual connection: two gradients are added. Under a
    // dispatch mode, as MemTracker is, autograd adds them into a new tensor; without, and so here, into the older one.
    // The new one is there after the gradient of the convolution's result has gone, and then is the peak.
    const auto addInPlace = [](ModuleStats& stats) {
        if (stats.fqn.starts_with("ResNet.layer") && stats.fqn.ends_with(".conv1"))
            stats.activationGrad -= stats.inputBytes - stats.outputBytes;
    };
    expectMemory(*trace, "resnet50_modinfo.json", addInPlace);
    expectSacStats(*trace, "resnet50_sacstats.json");
}

} // namespace
} // namespace headroom
