// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/torch/opened_model.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/remainder.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace headroom {
namespace {

using Settings = decltype(ModelRequest::settings);

ModelRequest requestWith(const std::string& name, const Settings& settings)
{
    ModelRequest request;
    request.name = name;
    request.settings = settings;
    return request;
}

std::unique_ptr<ModelSource> open(const std::string& name, std::int64_t batch, const Settings& settings)
{
    ModelRequest request = requestWith(name, settings);
    request.batch = batch;
    return open(request);
}

/// Forward, loss and backward of the Transformer with the weights and tokens of tests/data/models/transformer_cpu.py.
struct TransformerRun
{
    at::Tensor output;
    at::Tensor loss;
    std::map<std::string, at::Tensor> gradients;
};

TransformerRun runTransformer()
{
    at::set_num_threads(1);
    const auto source = open("demo:transformer", 3,
                             {{"n_layers", "2"},
                              {"vocab_size", "16"},
                              {"max_seq_len", "6"},
                              {"dim", "8"},
                              {"n_heads", "2"},
                              {"dropout_p", "0"}});
    std::map<std::string, at::Tensor> parameters;
    std::int64_t index = 0;
    for (const at::Tensor& parameter : trainableParameters(source->tree())) {
        const auto owner = std::ranges::find_if(
            source->tree().registered, [&](const auto& registered) { return registered.tensor.is_same(parameter); });
        const std::string name
            = (source->tree().modules[owner->module.value].fqn + "." + owner->name).substr(sizeof("Transformer"));
        const at::Tensor i = at::arange(parameter.numel());
        const double shift = name.ends_with("norm.weight") ? 1 : 0;
        const at::Tensor values = (at::remainder(i * 37 + index * 11, 101) - 50) / 256.0 + shift;
        parameter.detach().copy_(values.view_as(parameter));
        parameters[name] = parameter;
        ++index;
    }
    const at::Tensor& tokens = source->inputs().front();
    tokens.copy_(at::remainder(at::arange(tokens.numel()) * 7 + 3, 16).view_as(tokens));

    TransformerRun run;
    run.output = source->forward().front();
    run.loss = (run.output * (at::remainder(at::arange(run.output.numel()).view_as(run.output), 13) - 6)).sum();
    run.loss.backward();
    for (const auto& [name, parameter] : parameters)
        run.gradients[name] = parameter.grad();
    return run;
}

/// Compares with the bit patterns that the script wrote; `tolerance` 0 means the same bits.
void expectEqual(const at::Tensor& actual, const nlohmann::json& bits, double tolerance, const std::string& what)
{
    const at::Tensor flat = actual.detach().contiguous().view(-1);
    ASSERT_EQ(flat.numel(), static_cast<std::int64_t>(bits.size())) << what;
    const float* values = flat.const_data_ptr<float>();
    float largest = 0;
    for (const auto& pattern : bits)
        largest = std::max(largest, std::abs(std::bit_cast<float>(pattern.get<std::int32_t>())));
    for (std::size_t i = 0; i < bits.size(); ++i) {
        const float expected = std::bit_cast<float>(bits[i].get<std::int32_t>());
        if (tolerance == 0)
            EXPECT_EQ(std::bit_cast<std::int32_t>(values[i]), bits[i].get<std::int32_t>())
                << what << '[' << i << "]: " << values[i] << ", PyTorch " << expected;
        else
            EXPECT_NEAR(values[i], expected, tolerance * largest) << what << '[' << i << ']';
    }
}

void expectEqual(const TransformerRun& run, const std::filesystem::path& path, double tolerance)
{
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const nlohmann::json document = nlohmann::json::parse(file);
    expectEqual(run.output, document["output"], tolerance, "output");
    expectEqual(run.loss.view(1), document["loss"], tolerance, "loss");
    ASSERT_EQ(run.gradients.size(), document["gradients"].size());
    for (const auto& [name, gradient] : run.gradients)
        expectEqual(gradient, document["gradients"].at(name), tolerance, name);
}

// Stored on another machine, whose vector units may round a sum in another order: within a few float32 roundings.
TEST(DemoModelsCpu, TransformerComputesWhatPyTorchsDoes)
{
    expectEqual(runTransformer(), HEADROOM_TEST_DATA "/models/transformer_cpu.json", 2e-6);
}

// The same, bit for bit, against the Python beside the libtorch in use.
TEST(DemoModelsCpu, TransformerEqualsPyTorchsBitForBitOnThisMachine)
{
    if (!std::filesystem::exists(HEADROOM_TORCH_PYTHON))
        GTEST_SKIP() << "libtorch is not that of a Python environment";
    // packaging/dependencies installs what linking needs; `import torch` needs every CUDA wheel.
    if (std::system("'" HEADROOM_TORCH_PYTHON "' -c 'import torch' >/dev/null 2>&1") != 0)
        GTEST_SKIP() << "this Python cannot import torch: only the wheels that linking needs are installed";
    const auto path = std::filesystem::path(testing::TempDir()) / "headroom_transformer_cpu.json";
    const std::string command = "'" HEADROOM_TORCH_PYTHON "' '" HEADROOM_TEST_DATA "/models/transformer_cpu.py' '"
        + path.string() + "' 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    expectEqual(runTransformer(), path, 0);
    std::filesystem::remove(path);
}

TEST(DemoModelsCpu, TransformerTreeIsPythons)
{
    const auto source = open("demo:transformer", 1, {{"n_layers", "1"}, {"dim", "8"}, {"n_heads", "2"}});
    std::vector<std::string> names;
    for (const auto& module : source->tree().modules)
        names.push_back(module.fqn + ":" + module.type);
    const std::string layer = "Transformer.layers.0";
    const std::vector<std::string> expected{"Transformer:Transformer",
                                            "Transformer.tok_embeddings:Embedding",
                                            "Transformer.pos_embeddings:Embedding",
                                            "Transformer.dropout:Dropout",
                                            "Transformer.layers:ModuleList",
                                            layer + ":TransformerBlock",
                                            layer + ".attention_norm:LayerNorm",
                                            layer + ".attention:Attention",
                                            layer + ".attention.resid_dropout:Dropout",
                                            layer + ".attention.wq:Linear",
                                            layer + ".attention.wk:Linear",
                                            layer + ".attention.wv:Linear",
                                            layer + ".attention.wo:Linear",
                                            layer + ".ffn_norm:LayerNorm",
                                            layer + ".feed_forward:FeedForward",
                                            layer + ".feed_forward.w1:Linear",
                                            layer + ".feed_forward.gelu:GELU",
                                            layer + ".feed_forward.w2:Linear",
                                            layer + ".feed_forward.resid_dropout:Dropout",
                                            "Transformer.norm:LayerNorm",
                                            "Transformer.output:Linear"};
    EXPECT_EQ(names, expected);
}

TEST(DemoModelsCpu, TiedWeightHasTwoOwnersAndIsTrainedOnce)
{
    const Settings tiny{{"n_layers", "1"}, {"dim", "8"}, {"n_heads", "2"}, {"vocab_size", "10"}};
    const auto tied = open("demo:transformer", 1, tiny);
    EXPECT_EQ(tied->tree().registered.size(), 17U);
    EXPECT_EQ(trainableParameters(tied->tree()).size(), 16U);
    Settings untied = tiny;
    untied.emplace_back("weight_tying", "false");
    EXPECT_EQ(trainableParameters(open("demo:transformer", 1, untied)->tree()).size(), 17U);
}

TEST(DemoModelsCpu, ResnetsHaveTorchvisionsParametersAndBuffers)
{
    const std::map<std::string, std::pair<std::int64_t, std::size_t>> expected{
        {"18", {11'689'512, 62}}, {"34", {21'797'672, 110}}, {"50", {25'557'032, 161}}};
    for (const auto& [depth, figures] : expected) {
        const auto source = open("demo:resnet", 1, {{"depth", depth}, {"image_size", "32"}});
        std::int64_t elements = 0;
        for (const at::Tensor& parameter : trainableParameters(source->tree()))
            elements += parameter.numel();
        EXPECT_EQ(elements, figures.first) << depth;
        EXPECT_EQ(trainableParameters(source->tree()).size(), figures.second) << depth;
    }
    const auto resnet = open("demo:resnet", 2, {{"image_size", "32"}});
    const auto buffers = std::ranges::count_if(
        resnet->tree().registered, [](const auto& registered) { return registered.category == Category::buffer; });
    EXPECT_EQ(buffers, 60); // running_mean, running_var, num_batches_tracked of 20 layers
    EXPECT_EQ(resnet->forward().front().sizes(), (at::IntArrayRef{2, 1000}));
}

TEST(DemoModelsCpu, MlpRunsInEveryDtype)
{
    for (const char* name : {"float32", "bfloat16", "float16"}) {
        ModelRequest request = requestWith("demo:mlp", {{"dim", "16"}, {"n_layers", "2"}});
        request.dtype = *parseDType(name);
        request.batch = 2;
        request.sequence = 3;
        const auto source = openModel(request);
        ASSERT_TRUE(source) << source.error().message;
        const std::vector<at::Tensor> outputs = (*source)->forward();
        EXPECT_EQ(outputs.front().sizes(), (at::IntArrayRef{2, 3, 16}));
        EXPECT_EQ(outputs.front().scalar_type(), request.dtype);
    }
    EXPECT_EQ(parseDType("int8").error().message, "unknown dtype 'int8'; known are float32, bfloat16, float16");
}

TEST(DemoModelsCpu, WrongRequestsGetOneSentence)
{
    EXPECT_EQ(errorOf(requestWith("demo:gpt", {})),
              "unknown model 'demo:gpt'; known are demo:mlp, demo:resnet, demo:transformer");
    EXPECT_EQ(errorOf(requestWith("demo:transformer", {{"layers", "2"}})),
              "demo:transformer has no setting 'layers'; it has n_layers, vocab_size, max_seq_len, dim, n_heads, "
              "dropout_p, use_attn_mask, weight_tying");
    EXPECT_EQ(errorOf(requestWith("demo:transformer", {{"n_layers", "two"}})),
              "--set n_layers=two: demo:transformer expects a whole number from 1 to 1024");
    EXPECT_EQ(errorOf(requestWith("demo:transformer", {{"dropout_p", "1"}})),
              "--set dropout_p=1: demo:transformer expects a number from 0 to below 1");
    EXPECT_EQ(errorOf(requestWith("demo:transformer", {{"weight_tying", "yes"}})),
              "--set weight_tying=yes: demo:transformer expects true or false");
    EXPECT_EQ(errorOf(requestWith("demo:transformer", {{"n_heads", "7"}})),
              "demo:transformer: dim 768 is not a multiple of n_heads 7; every head gets dim / n_heads columns");
    EXPECT_EQ(errorOf(requestWith("demo:transformer", {{"dim", "8"}, {"dim", "16"}})),
              "--set dim is given twice for demo:transformer; expected a single value");
    EXPECT_EQ(errorOf(requestWith("demo:resnet", {{"depth", "19"}})),
              "--set depth=19: demo:resnet expects one of 18, 34, 50");
    ModelRequest longer = requestWith("demo:transformer", {});
    longer.sequence = 2048;
    EXPECT_EQ(
        errorOf(longer),
        "--seq 2048 is longer than max_seq_len 1024 of demo:transformer; raise the limit with --set max_seq_len=2048");
    ModelRequest images = requestWith("demo:resnet", {});
    images.sequence = 8;
    EXPECT_EQ(errorOf(images), "--seq: demo:resnet has images, not sequences; leave --seq out");
    ModelRequest huge
        = requestWith("demo:transformer", {{"max_seq_len", "1048576"}, {"dim", "65536"}, {"n_heads", "64"}});
    huge.batch = 65'536;
    EXPECT_EQ(errorOf(huge), "demo:transformer: this step needs more than 2^60 bytes; choose a smaller model or batch");
    ModelRequest wide = requestWith("demo:mlp", {{"dim", "65536"}, {"n_layers", "1024"}});
    wide.batch = 65'536;
    wide.sequence = 65'536;
    EXPECT_EQ(errorOf(wide), "demo:mlp: this step needs more than 2^60 bytes; choose a smaller model or batch");
}

} // namespace
} // namespace headroom
