// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"
#include "core/model/source.h"
#include "core/model/step_runner.h"
#include "core/model/torchscript_file.h"
#include "core/trace/source_lines.h"
#include "tests/torch/opened_model.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/remainder.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace headroom {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string pathOf(const std::string& name)
{
    return HEADROOM_TEST_DATA "/models/torchscript/" + name + ".pt";
}

ModelRequest requestOf(const std::string& name, std::vector<InputShape> inputs = {})
{
    ModelRequest request;
    request.name = pathOf(name);
    request.inputs = std::move(inputs);
    return request;
}

/// What a model needs to know that its file does not say, and the formula of its inputs.
struct Case
{
    const char* name;
    std::vector<InputShape> inputs;
    std::int64_t words = 0; ///< of tokens
};

const std::vector<Case>& cases()
{
    static const std::vector<Case> all{
        {"attributes", {{"x", {4, 3}, {}}}},
        {"scripted", {{"tokens", {2, 3}, at::kLong}}, 5},
        {"traced", {}, 5},
        {"several", {}},
        {"ts_script_toy", {{"x", {8, 100}, {}}}},
        {"ts_trace_transformer_tiny", {}, 64},
        {"ts_trace_gpt2_tiny", {}, 512},
    };
    return all;
}

struct Run
{
    at::Tensor output;
    std::map<std::string, at::Tensor> gradients;
    std::map<std::string, at::Tensor> buffers;
};

/// Forward, loss and backward with the inputs of tests/data/models/torchscript_cpu.py.
Run run(const Case& which)
{
    at::set_num_threads(1);
    const auto source = open(requestOf(which.name, which.inputs));
    for (const at::Tensor& input : source->inputs()) {
        const at::Tensor i = at::arange(input.numel());
        const bool tokens = at::isIntegralType(input.scalar_type(), false);
        const at::Tensor values
            = tokens ? at::remainder(i * 7 + 3, which.words) : (at::remainder(i * 37 + 11, 101) - 50) / 64.0;
        input.copy_(values.view_as(input));
    }
    Run result;
    result.output = source->forward().front();
    (result.output * (at::remainder(at::arange(result.output.numel()).view_as(result.output), 13) - 6))
        .sum()
        .backward();
    const ModelTree& tree = source->tree();
    const std::size_t root = tree.modules.front().fqn.size();
    for (const ModelTree::Registered& registered : tree.registered) {
        const std::string name = (tree.modules[registered.module.value].fqn + "." + registered.name).substr(root + 1);
        if (registered.category == Category::parameter)
            result.gradients[name] = registered.tensor.grad();
        else if (registered.tensor.scalar_type() == at::kFloat)
            result.buffers[name] = registered.tensor;
    }
    return result;
}

/// Compares with the bit patterns that the script wrote; `tolerance` 0 means the same bits.
void expectEqual(const at::Tensor& actual, const nlohmann::json& bits, double tolerance, const std::string& what)
{
    const at::Tensor flat = actual.detach().contiguous().view(-1);
    ASSERT_EQ(flat.numel(), static_cast<std::int64_t>(bits.size())) << what;
    const float* values = flat.const_data_ptr<float>();
    for (std::size_t i = 0; i < bits.size(); ++i) {
        const float expected = std::bit_cast<float>(bits[i].get<std::int32_t>());
        if (tolerance == 0)
            ASSERT_EQ(std::bit_cast<std::int32_t>(values[i]), bits[i].get<std::int32_t>())
                << what << '[' << i << "]: " << values[i] << ", torch.jit " << expected;
        else
            ASSERT_NEAR(values[i], expected, tolerance * std::max(1.0F, std::abs(expected))) << what << '[' << i << ']';
    }
}

void expectEqual(const std::filesystem::path& path, double tolerance)
{
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const nlohmann::json models = nlohmann::json::parse(file)["models"];
    for (const Case& which : cases()) {
        if (!models.contains(which.name))
            continue;
        SCOPED_TRACE(which.name);
        const Run result = run(which);
        const nlohmann::json& expected = models[which.name];
        expectEqual(result.output, expected["output"], tolerance, "output");
        // named_parameters() of Python leaves out the second name of a tied weight.
        EXPECT_GE(result.gradients.size(), expected["gradients"].size());
        for (const auto& [name, bits] : expected["gradients"].items())
            expectEqual(result.gradients.at(name), bits, tolerance, name);
        for (const auto& [name, bits] : expected["buffers"].items())
            expectEqual(result.buffers.at(name), bits, tolerance, name);
    }
}

// Stored on another machine, whose vector units may round a sum in another order.
TEST(TorchScript, ComputesWhatTorchJitDoes)
{
    expectEqual(HEADROOM_TEST_DATA "/models/torchscript_cpu.json", 1e-5);
}

TEST(TorchScript, EqualsTorchJitBitForBitOnThisMachine)
{
    if (!std::filesystem::exists(HEADROOM_TORCH_PYTHON))
        GTEST_SKIP() << "libtorch is not that of a Python environment";
    if (std::system("'" HEADROOM_TORCH_PYTHON "' -c 'import torch' >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "this Python cannot import torch: only the wheels that linking needs are installed";
    const auto path = std::filesystem::path(testing::TempDir()) / "headroom_torchscript_cpu.json";
    const std::string command = "'" HEADROOM_TORCH_PYTHON "' '" HEADROOM_TEST_DATA "/models/torchscript_cpu.py' '"
        + path.string() + "' 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    expectEqual(path, 0);
    std::filesystem::remove(path);
}

std::vector<std::string> modulesOf(const ModelTree& tree)
{
    std::vector<std::string> names;
    for (const auto& module : tree.modules)
        names.push_back(module.fqn + ":" + module.type);
    return names;
}

TEST(TorchScript, ModulesHaveTheirFullNames)
{
    const std::vector<std::string> expected{"Tied:Tied",
                                            "Tied.embedding:Embedding",
                                            "Tied.blocks:ModuleList",
                                            "Tied.blocks.0:Linear",
                                            "Tied.blocks.1:Linear",
                                            "Tied.head:Linear"};
    EXPECT_EQ(modulesOf(open(requestOf("scripted", {{"tokens", {2, 3}, at::kLong}}))->tree()), expected);
    EXPECT_EQ(modulesOf(open(requestOf("traced"))->tree()), expected);
}

TEST(TorchScript, TiedWeightIsTrainedOnce)
{
    const auto scripted = open(requestOf("scripted", {{"tokens", {2, 3}, at::kLong}}));
    EXPECT_EQ(scripted->tree().registered.size(), 6U); // both names of the tied weight
    EXPECT_EQ(trainableParameters(scripted->tree()).size(), 5U);
    EXPECT_EQ(trainableParameters(open(requestOf("traced"))->tree()).size(), 5U);
}

TEST(TorchScript, ATraceSaysItsInputsAndRunsAtOtherSizes)
{
    const auto source = open(requestOf("ts_trace_gpt2_tiny"));
    ASSERT_EQ(source->inputs().size(), 1U);
    EXPECT_EQ(source->inputs()[0].sizes(), (at::IntArrayRef{2, 64}));
    EXPECT_EQ(source->inputs()[0].scalar_type(), at::kLong);
    EXPECT_EQ(source->batch(), 2);
    EXPECT_EQ(source->sequence(), 64);
    const std::vector<StepInfo::Dimension> dimensions{{"batch", 2, 1, 0}, {"sequence", 64, 1, 0}};
    EXPECT_EQ(source->dimensions(), dimensions);

    ModelRequest other = requestOf("ts_trace_gpt2_tiny");
    other.batch = 3;
    other.sequence = 16;
    const auto resized = open(other);
    EXPECT_EQ(resized->inputs()[0].sizes(), (at::IntArrayRef{3, 16}));
    EXPECT_EQ(resized->forward().front().numel(), 1);
}

TEST(TorchScript, InputsMayBeTuplesAndDictionaries)
{
    const auto source = open(requestOf("several"));
    ASSERT_EQ(source->inputs().size(), 3U);
    EXPECT_EQ(source->inputs()[1].sizes(), (at::IntArrayRef{2, 3}));
    EXPECT_EQ(source->inputs()[2].dim(), 0);
    EXPECT_EQ(source->forward().front().sizes(), (at::IntArrayRef{2, 3}));
}

TEST(TorchScript, WhatIsNotKnownIsAskedForInOneSentence)
{
    EXPECT_EQ(errorOf(requestOf("ts_script_toy")),
              pathOf("ts_script_toy")
                  + " was scripted, not traced, and states no size for the input 'x'; pass --input x=SHAPE[:DTYPE], "
                    "for example --input x=8x128 or --input x=8x128:int64");
    EXPECT_EQ(errorOf(requestOf("ts_script_toy", {{"y", {2}, {}}})),
              "--input y: forward of " + pathOf("ts_script_toy") + " has no such argument, but x");
    EXPECT_EQ(errorOf(requestOf("attributes", {{"x", {2, 3}, {}}, {"scale", {2}, {}}})),
              "--input scale: this argument of " + pathOf("attributes")
                  + " is of the type Optional[float], not a tensor");
    ModelRequest images = requestOf("ts_script_toy", {{"x", {8, 100}, {}}});
    images.sequence = 4;
    EXPECT_THAT(errorOf(images), HasSubstr("have no known sequence dimension"));
    ModelRequest huge = requestOf("ts_script_toy", {{"x", {std::int64_t(1) << 40, std::int64_t(1) << 40}, {}}});
    EXPECT_THAT(errorOf(huge), HasSubstr("this step needs more than 2^60 bytes"));
    ModelRequest demo;
    demo.name = "demo:mlp";
    demo.inputs = {{"x", {8}, {}}};
    EXPECT_EQ(errorOf(demo), "--input is for TorchScript files; demo:mlp states all inputs");
}

TEST(TorchScript, SizesThatTheModelCannotRunWithAreBadInput)
{
    const auto source = open(requestOf("ts_script_toy", {{"x", {8, 128}, {}}}));
    const Status run = StepRunner(*source, {}).run();
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().kind, ErrorKind::badInput);
    EXPECT_EQ(
        run.error().message,
        pathOf("ts_script_toy")
            + " does not run with x=8x128:float32: mat1 and mat2 shapes cannot be multiplied (8x128 and 100x100)");
    ModelRequest half = requestOf("traced");
    half.dtype = at::kHalf;
    EXPECT_EQ(errorOf(half),
              "--dtype float16: " + half.name
                  + " states its own types, float32 first; leave --dtype out, or save the model in the other type");
    ModelRequest frame = requestOf("traced");
    frame.lifetimes = Lifetimes::frame;
    EXPECT_EQ(errorOf(frame),
              "--lifetimes frame: " + frame.name
                  + " runs in TorchScript, and TorchScript frees a value at the last use; leave --lifetimes out");
}

TEST(TorchScript, InputShapesAreRead)
{
    const auto tokens = parseInputShape("ids=8x128:int64");
    ASSERT_TRUE(tokens);
    EXPECT_EQ(tokens->name, "ids");
    EXPECT_EQ(tokens->sizes, (std::vector<std::int64_t>{8, 128}));
    EXPECT_EQ(tokens->dtype, at::kLong);
    const auto number = parseInputShape("t=scalar");
    ASSERT_TRUE(number);
    EXPECT_TRUE(number->sizes.empty());
    EXPECT_FALSE(number->dtype.has_value());
    for (const char* wrong : {"x", "=8", "x=", "x=8x", "x=8y3", "x=0", "x=-1", "x=8:int3", "x=99999999999999999999"})
        EXPECT_THAT(parseInputShape(wrong).error().message, HasSubstr("--input " + std::string(wrong) + ": expected "));
}

/// A step of the model on the simulated device.
StepTracePtr record(const std::string& name, const std::vector<InputShape>& inputs = {})
{
    const DeviceSpec gpu = *findDeviceSpec("a100-80gb");
    sim::initialize(gpu);
    ModelRequest request = requestOf(name, inputs);
    request.device = sim::device();
    const auto source = open(request);
    if (!source)
        return nullptr;
    for (const ModelTree::Registered& registered : source->tree().registered)
        EXPECT_EQ(registered.tensor.device(), sim::device()) << registered.name;
    StepRunner::Options options;
    auto trace = StepRunner(*source, options).record({}, gpu, {});
    EXPECT_TRUE(trace) << (trace ? "" : trace.error().message);
    return trace ? *trace : nullptr;
}

TEST(TorchScriptOnTheSimulatedDevice, EveryFileRecords)
{
    for (const Case& which : cases()) {
        SCOPED_TRACE(which.name);
        const StepTracePtr trace = record(which.name, which.inputs);
        ASSERT_TRUE(trace);
        EXPECT_GT(trace->ops.size(), 0U);
    }
    EXPECT_EQ(sim::placeholderValues(), 0);
}

TEST(TorchScriptOnTheSimulatedDevice, OpsBelongToTheModuleWhoseForwardCalledThem)
{
    const StepTracePtr trace = record("ts_trace_transformer_tiny");
    ASSERT_TRUE(trace);
    std::map<std::string, int> forward;
    int backward = 0;
    int backwardOutside = 0;
    for (std::uint32_t i = 0; i < trace->ops.size(); ++i) {
        const OpId op(i);
        const std::string module(trace->moduleFqn(trace->ops.module[op]));
        if (trace->ops.phase[op] == Phase::forward)
            ++forward[module + " " + std::string(trace->opName(op))];
        if (trace->ops.phase[op] == Phase::backward) {
            ++backward;
            backwardOutside += module == "SumLoss" ? 1 : 0;
        }
    }
    EXPECT_GT(backward, 50);
    EXPECT_LT(backwardOutside, 5); // of the sum, and the first gradient
    EXPECT_EQ(forward["SumLoss.model.layers.1.attention.wq aten.mm.default"], 1);
    EXPECT_EQ(forward["SumLoss.model.layers.1.feed_forward.w1 aten.addmm.default"], 1);
    EXPECT_EQ(forward["SumLoss.model.norm aten.native_layer_norm.default"], 1);
    EXPECT_EQ(forward["SumLoss.model.output aten.mm.default"], 1);
}

/// The lines of a step's ops, of backward too.
std::set<std::string> linesOf(const StepTracePtr& trace)
{
    const SourceLines lines(*trace);
    std::set<std::string> found;
    for (std::uint32_t op = 0; op < trace->ops.size(); ++op)
        if (trace->ops.phase[OpId(op)] != Phase::optimizer)
            found.insert(lines.text(OpId(op)));
    found.erase(""); // such as the gradient of the loss
    return found;
}

TEST(TorchScriptOnTheSimulatedDevice, OpsHaveThePythonLinesOfTheFile)
{
    const StepTracePtr traced = record("traced");
    ASSERT_TRUE(traced);
    EXPECT_THAT(linesOf(traced),
                ElementsAre("make_models.py:58 forward", "make_models.py:60 forward", "make_models.py:61 forward"));
    const FrameId frame = frameOf(*traced, OpId(0));
    EXPECT_EQ(frameText(*traced, stackOf(*traced, frame).back()), "make_models.py:78 <module>");
    EXPECT_THAT(linesOf(record("scripted", {{"tokens", {2, 3}, at::kLong}})),
                ElementsAre("make_models.py:58 forward", "make_models.py:60 forward", "make_models.py:61 forward"));
}

TEST(TorchScriptOnTheSimulatedDevice, AFileWithoutDebugRecordsHasLinesOfItsOwnCode)
{
    EXPECT_THAT(linesOf(record("ts_script_toy", {{"x", {8, 100}, {}}})),
                Contains(testing::StartsWith("TorchScript of exp4.py:")));
}

TEST(TorchScriptLines, OtherRecordsAreNotUsed)
{
    TorchScriptLines lines;
    const auto add = [&](std::string_view pickle) {
        const Result<Pickle> record = Pickle::read(std::as_bytes(std::span(pickle)), "record");
        ASSERT_TRUE(record) << record.error().message;
        lines.add("code", *record);
        EXPECT_TRUE(lines.at("code", 10).empty());
    };
    add("\x80\x02K\x01."sv); // 1
    add("\x80\x02(X\x01\x00\x00\x00\x61]]t."sv); // ("a", [], [])
    const auto tupleWith = [&](const std::string& entries) {
        return "\x80\x02("s + "X\x18\x00\x00\x00"s + "FORMAT_WITH_STRING_TABLE]" + entries + "t.";
    };
    add(tupleWith("]")); // no entries
    add(tupleWith("}(K\x01K\x02u")); // a dictionary in place of entries
    add(tupleWith("(K\x01t")); // an entry that is no tuple
    add(tupleWith("((K\x00((]K\x09K\x05tK\x00K\x00tK\x01tt"s)); // a text that is not there
    EXPECT_TRUE(lines.at("other", 0).empty());
}

} // namespace
} // namespace headroom
