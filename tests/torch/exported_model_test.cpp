// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Exported models of tests/data/exported, run on the CPU and recorded on the simulated device.
#include "core/checkpoint/verification.h"
#include "core/device/simulated_device.h"
#include "core/model/autocast_scope.h"
#include "core/model/exported/exported_model.h"
#include "core/model/step_runner.h"
#include "core/policy/policy_maker.h"
#include "core/predict/predict.h"
#include "core/predict/step_model.h"
#include "core/trace/source_lines.h"
#include "core/trace/step_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <ranges>

namespace headroom {
namespace {

using exported::ExportedModel;
using testing::ElementsAre;

ModelRequest requestFor(const std::string& name, at::Device device = at::kCPU)
{
    ModelRequest request;
    request.name = HEADROOM_TEST_DATA "/exported/" + name + ".pt2";
    request.device = device;
    return request;
}

std::unique_ptr<ExportedModel> open(const ModelRequest& request)
{
    auto program = exported::readExportedProgram(std::filesystem::path(request.name));
    EXPECT_TRUE(program) << program.error().message;
    auto model = ExportedModel::open(std::move(*program), request);
    EXPECT_TRUE(model) << model.error().message;
    return std::move(*model);
}

std::string refusal(const ModelRequest& request)
{
    const auto model = openModel(request);
    if (model)
        return "opened";
    EXPECT_EQ(model.error().kind, ErrorKind::badInput);
    return model.error().message.substr(model.error().message.find("tests/data/exported/") + 20);
}

const DeviceSpec& gpu()
{
    static const DeviceSpec spec = *findDeviceSpec("h100-80gb");
    return spec;
}

StepTracePtr record(ModelRequest request)
{
    sim::initialize(gpu());
    request.device = sim::device();
    const auto model = openModel(request);
    EXPECT_TRUE(model) << model.error().message;
    const auto trace = StepRunner(**model, {}).record({}, gpu(), {});
    EXPECT_TRUE(trace) << trace.error().message;
    if (!trace)
        return nullptr;
    const Status valid = validate(**trace);
    EXPECT_TRUE(valid) << valid.error().message;
    return *trace;
}

Bytes peakOf(const StepTrace& trace)
{
    const auto timeline = predict(trace, {});
    EXPECT_TRUE(timeline);
    return timeline->peak;
}

TEST(ExportedModel, ModulesAreThoseOfThePythonModel)
{
    const StepTracePtr trace = record(requestFor("twice"));
    ASSERT_TRUE(trace);
    std::vector<std::string> modules;
    for (std::uint32_t module = 0; module < trace->modules.size(); ++module)
        modules.push_back(std::string(trace->moduleFqn(ModuleId(module))) + ":"
                          + std::string(trace->strings[trace->modules.type[ModuleId(module)]]));
    EXPECT_THAT(modules,
                ElementsAre("Twice:Twice", "Twice.linear:Linear", "Twice.drop:Dropout", "Twice.head:Sequential",
                            "Twice.head.0:Linear", "Twice.head.1:ReLU"));
    std::map<std::string, int> calls;
    for (const ModuleId module : trace->calls.module)
        ++calls[std::string(trace->moduleFqn(module))];
    EXPECT_EQ(calls["Twice.linear"], 2);
    EXPECT_EQ(calls["Twice.head.1"], 1);
    // The first call is given the batch, the second one the first one's result.
    EXPECT_EQ(trace->calls.results[CallId(1)].size(), 1U);
    EXPECT_EQ(trace->calls.arguments[CallId(2)].front(), trace->calls.results[CallId(1)].front());
}

TEST(ExportedModel, TheLossIsTheSumOfTheFirstResultThatHasOne)
{
    // Its first result is an index, its last one a number.
    const auto model = open(requestFor("twice"));
    EXPECT_EQ(model->forward().size(), 2U);
    EXPECT_EQ(record(requestFor("twice"))->info.loss, "sum");
    EXPECT_EQ(record(requestFor("scopes"))->info.loss, "output");
}

TEST(ExportedModel, InnerGraphsRunInTheirScopes)
{
    const auto model = open(requestFor("scopes"));
    const at::Tensor loss = model->forward().front();
    EXPECT_TRUE(at::GradMode::is_enabled());
    const at::Tensor ones = at::ones({2, 2});
    EXPECT_EQ(at::mm(ones, ones).scalar_type(), at::kFloat);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    loss.backward();
    EXPECT_TRUE(model->tensors().at("linear.weight").grad().defined());
    const StepTracePtr trace = record(requestFor("scopes"));
    bool inBfloat16 = false;
    for (std::uint32_t op = 0; op < trace->ops.size(); ++op)
        inBfloat16 = inBfloat16
            || (trace->moduleFqn(trace->ops.module[OpId(op)]) == "Scopes.linear"
                && trace->opName(OpId(op)) == "aten.addmm.default" && trace->ops.dtype[OpId(op)] == DType::bfloat16);
    EXPECT_TRUE(inBfloat16);
}

TEST(ExportedModel, DynamicSizesAreChosenInTheRangeOfTheFile)
{
    ModelRequest request = requestFor("dynamic");
    const auto standard = open(request);
    EXPECT_EQ(standard->batch(), 4);
    EXPECT_EQ(standard->sequence(), 8);
    request.batch = 6;
    request.sequence = 5;
    const auto model = open(request);
    EXPECT_THAT(model->dimensions(),
                ElementsAre(StepInfo::Dimension{"batch", 6, 2, 64}, StepInfo::Dimension{"sequence", 5, 4, 0}));
    EXPECT_THAT(model->forward().front().sizes(), ElementsAre(6, 5, 8));
    request.batch = 65;
    EXPECT_EQ(refusal(request), "dynamic.pt2 was exported for a batch of 2 to 64");
    request = requestFor("toy");
    request.batch = 4;
    EXPECT_EQ(refusal(request),
              "toy.pt2 was exported for a batch of 20 only; export the model again with dynamic_shapes to choose "
              "another size");
    request = requestFor("toy");
    request.sequence = 4;
    EXPECT_EQ(refusal(request), "toy.pt2 has no sequence dimension; leave --seq out");
}

TEST(ExportedModel, TrainingChangesItsBuffers)
{
    const auto model = open(requestFor("dynamic"));
    const at::Tensor count = model->tensors().at("norm.num_batches_tracked");
    const at::Tensor mean = model->tensors().at("norm.running_mean").clone();
    model->forward();
    model->forward();
    EXPECT_EQ(count.item<std::int64_t>(), 2);
    EXPECT_FALSE(mean.equal(model->tensors().at("norm.running_mean")));
}

TEST(ExportedModel, WhatTheFileFixesIsNotChosen)
{
    ModelRequest request = requestFor("toy");
    request.dtype = at::kHalf;
    EXPECT_EQ(
        refusal(request),
        "toy.pt2 was exported in float32, and the graph fixes the type; leave --dtype out, or export the model again");
    request = requestFor("toy");
    request.settings = {{"layers", "4"}};
    EXPECT_EQ(refusal(request), "toy.pt2 has no settings; only demo models have settings");
    EXPECT_EQ(refusal(requestFor("tied_weightless")),
              "tied_weightless.pt2 was exported without weights; only --device sim can run such a model");
}

TEST(ExportedModel, TiedWeightsAreOneTensor)
{
    sim::initialize(gpu());
    const auto apart = open(requestFor("tied_weightless", sim::device()));
    EXPECT_EQ(trainableParameters(apart->tree()).size(), 2U);
    EXPECT_THAT(apart->notes(),
                ElementsAre(testing::HasSubstr("no weights, so that tied weights count once for each name")));
    const auto noted = open(requestFor("tied_weightless_noted", sim::device()));
    EXPECT_EQ(trainableParameters(noted->tree()).size(), 1U);
    EXPECT_EQ(noted->tree().registered.size(), 2U) << "one row for each owner";
    EXPECT_THAT(noted->notes(), testing::IsEmpty());
    const auto stored = open(requestFor("transformer_tiny_nodrop"));
    EXPECT_TRUE(
        stored->tensors().at("model.output.weight").is_same(stored->tensors().at("model.tok_embeddings.weight")));
}

TEST(ExportedModel, FramesHoldLongerThanUses)
{
    ModelRequest request = requestFor("transformer_tiny_dyn");
    request.lifetimes = Lifetimes::graph;
    const StepTracePtr graph = record(request);
    request.lifetimes = Lifetimes::frame;
    const StepTracePtr frame = record(request);
    EXPECT_EQ(graph->info.lifetimes, "graph");
    EXPECT_EQ(frame->info.lifetimes, "frame");
    EXPECT_EQ(graph->ops.size(), frame->ops.size());
    EXPECT_LE(peakOf(*graph), peakOf(*frame));
}

// Cross entropy of torchvision's ResNet-50 for 32 images and of its ViT-B/16 for 16: the peaks of the eager models'
// second step in PyTorch's MemTracker.
TEST(ExportedModel, VisionModelsPeakAtMemTrackersBytes)
{
    EXPECT_EQ(peakOf(*record(requestFor("resnet50_weightless"))), 3'089'885'184);
    EXPECT_EQ(peakOf(*record(requestFor("vit_base_weightless"))), 2'971'201'024);
}

/// The module's whole forward runs again in backward.
Policy::Module recomputed(const StepTracePtr& trace, const std::string& fqn)
{
    for (std::uint32_t id = 0; id < trace->modules.size(); ++id) {
        if (trace->moduleFqn(ModuleId(id)) != fqn)
            continue;
        Policy::Module module{fqn, 1, {}};
        for (const RegionOpName& name : regionOpNames(*trace, StepModel(trace).regionOps(ModuleId(id))))
            module.ops.push_back({std::string(trace->strings[name.op]), name.index, false});
        return module;
    }
    ADD_FAILURE() << "no module " << fqn;
    return {};
}

TEST(ExportedModel, PoliciesCheckpointItsModulesAsPredicted)
{
    const StepTracePtr trace = record(requestFor("transformer_tiny_nodrop"));
    Policy policy;
    for (const char* fqn : {"SumLoss.model.layers.0", "SumLoss.model.layers.1"})
        policy.modules.push_back(recomputed(trace, fqn));
    const auto simulated = open(requestFor("transformer_tiny_nodrop", sim::device()));
    const auto verified = verifyMemory(*simulated, {}, policy, {}, gpu(), {});
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(verified->firstDifference, "");
    EXPECT_GT(verified->executedRecomputeMs, 0);
    const auto onCpu = open(requestFor("transformer_tiny_nodrop"));
    const auto gradients = compareGradients(*onCpu, {}, policy);
    ASSERT_TRUE(gradients) << gradients.error().message;
    EXPECT_EQ(gradients->parameter, "") << "is the first one whose gradient differs";
}

TEST(ExportedModel, OpsHaveTheLinesOfTheFile)
{
    const StepTracePtr trace = record(requestFor("toy"));
    ASSERT_TRUE(trace);
    const SourceLines lines(*trace);
    std::map<std::string, int> count;
    for (std::uint32_t op = 0; op < trace->ops.size(); ++op)
        if (trace->ops.phase[OpId(op)] != Phase::optimizer)
            ++count[lines.text(OpId(op))];
    EXPECT_THAT(count,
                ElementsAre(testing::Key(""), testing::Key("exp4.py:36 forward"), testing::Key("exp4.py:51 forward")));
    const auto relu
        = std::ranges::find_if(std::views::iota(0U, static_cast<std::uint32_t>(trace->ops.size())),
                               [&](std::uint32_t op) { return trace->opName(OpId(op)) == "aten.relu.default"; });
    std::vector<std::string> stack;
    for (const FrameId frame : stackOf(*trace, frameOf(*trace, OpId(*relu))))
        stack.push_back(frameText(*trace, frame));
    EXPECT_THAT(stack,
                ElementsAre("activation.py:143 forward", "container.py:253 forward", "exp4.py:36 forward",
                            "exp4.py:51 forward"));
}

TEST(ExportedModel, EveryFileRecords)
{
    for (const auto& entry : std::filesystem::directory_iterator(HEADROOM_TEST_DATA "/exported")) {
        if (entry.path().extension() != ".pt2")
            continue;
        const StepTracePtr trace = record(requestFor(entry.path().stem().string()));
        ASSERT_TRUE(trace) << entry.path();
        EXPECT_EQ(std::ranges::count(trace->events.kind, EventKind::mark), 5) << entry.path();
        EXPECT_GT(trace->calls.size(), 1U) << entry.path();
    }
}

} // namespace
} // namespace headroom
