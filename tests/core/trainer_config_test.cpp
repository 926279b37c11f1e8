// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/trainer_plan.h"

#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>

using namespace headroom;
using ::testing::HasSubstr;

namespace {

/// A module of the synthetic step, its products kept (all, or all but the last) or not.
Policy::Module module(const std::string& fqn, int productsKept = 0, bool gelu = false)
{
    Policy::Module result{fqn, 0.5, {}};
    for (int i = 0; i < 4; ++i)
        result.ops.push_back({"aten.mm.default", i, i < productsKept});
    result.ops.push_back({"aten.gelu.default", 0, gelu});
    return result;
}

std::string layer(int index)
{
    return "Transformer.layers." + std::to_string(index);
}

/// Of a Transformer with six layers.
Result<std::string> config(Trainer trainer, std::vector<Policy::Module> modules)
{
    SyntheticOptions options;
    options.blocks = 6;
    static const StepTracePtr step = makeSyntheticStep(options);
    Policy policy;
    policy.modules = std::move(modules);
    return trainerConfig(*step, policy, trainer);
}

std::vector<Policy::Module> layers(std::vector<int> indices, int productsKept = 0)
{
    std::vector<Policy::Module> modules;
    for (const int index : indices)
        modules.push_back(module(layer(index), productsKept));
    return modules;
}

std::string refusal(Trainer trainer, std::vector<Policy::Module> modules)
{
    const Result<std::string> result = config(trainer, std::move(modules));
    EXPECT_FALSE(result) << *result;
    return result ? std::string() : result.error().message;
}

} // namespace

namespace {

std::string titan(const std::string& lines)
{
    return "# torchtitan 0.2; 0.3 has no early_stop and takes more memory\n[activation_checkpoint]\n" + lines;
}

} // namespace

TEST(TrainerConfig, TorchtitanHasModesForNothingAllAndEveryNthBlock)
{
    EXPECT_EQ(*config(Trainer::torchtitan, {}), titan("mode = \"none\"\n"));
    EXPECT_EQ(*config(Trainer::torchtitan, layers({0, 1, 2, 3, 4, 5})), titan("mode = \"full\"\nearly_stop = true\n"));
    // torchtitan counts from 1: every second are the layers 1, 3 and 5.
    EXPECT_EQ(*config(Trainer::torchtitan, layers({1, 3, 5})),
              titan("mode = \"selective\"\nselective_ac_option = \"2\"\nearly_stop = true\n"));
    EXPECT_EQ(*config(Trainer::torchtitan, layers({3})),
              titan("mode = \"selective\"\nselective_ac_option = \"4\"\nearly_stop = true\n"));
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 2, 4})), HasSubstr("nor every n-th"));
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({1, 3})), HasSubstr("nor every n-th"));
}

TEST(TrainerConfig, TorchtitanKeepsAllCallsOfAnOpOrNoneAndEverySecondProduct)
{
    std::vector<Policy::Module> gelus = layers({0, 1, 2, 3, 4, 5});
    for (Policy::Module& layer : gelus)
        layer.ops.back().save = true;
    const std::string ops = "mode = \"selective\"\nselective_ac_option = \"op\"\nearly_stop = true\n\n"
                            "# In the model's parallelize.py, for apply_ac():\n# _op_sac_save_list = {\n";
    EXPECT_EQ(*config(Trainer::torchtitan, gelus), titan(ops + "#     torch.ops.aten.gelu.default,\n# }\n"));
    for (Policy::Module& layer : gelus)
        layer.ops[0].save = layer.ops[2].save = true;
    EXPECT_EQ(*config(Trainer::torchtitan, gelus),
              titan(ops + "#     torch.ops.aten.gelu.default,\n#     torch.ops.aten.mm.default,\n# }\n"));
    // Products that torchtitan would not keep, whatever its list says.
    const char* const second = "torchtitan keeps every second call, the first included, or none";
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 1, 2, 3, 4, 5}, 4)), HasSubstr(second));
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 1, 2, 3, 4, 5}, 1)),
                HasSubstr("the policy keeps aten.mm.default in Transformer.layers.5 but not everywhere"));
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 1, 2}, 4)), HasSubstr("does not checkpoint other blocks"));
    std::vector<Policy::Module> uneven = gelus;
    uneven[3].ops.back().save = false;
    EXPECT_THAT(
        refusal(Trainer::torchtitan, uneven),
        HasSubstr("the policy keeps aten.gelu.default in Transformer.layers.5 but not everywhere, and torchtitan keeps "
                  "all calls of an op or none"));
}

TEST(TrainerConfig, TorchtitanKnowsOnlyTheBlocksOfLayers)
{
    EXPECT_THAT(refusal(Trainer::torchtitan, {module("Transformer.layers.0.attention")}),
                HasSubstr("Transformer.layers.0.attention, and that is no block"));
    EXPECT_THAT(
        refusal(Trainer::torchtitan, {module(layer(0)), module("Transformer.layers.1.attention")}),
        HasSubstr(
            "Transformer.layers.0 and Transformer.layers.1.attention, and the two are not blocks of the same list"));
    EXPECT_THAT(refusal(Trainer::torchtitan, {module("Transformer")}), HasSubstr("Transformer, and that is no block"));
}

TEST(TrainerConfig, HuggingFaceRecomputesAllLayersEveryNthOrNone)
{
    EXPECT_EQ(*config(Trainer::huggingFace, {}), "TrainingArguments(gradient_checkpointing=False)\n");
    EXPECT_EQ(*config(Trainer::huggingFace, layers({0, 1, 2, 3, 4, 5})),
              "TrainingArguments(gradient_checkpointing=True, gradient_checkpointing_kwargs={\"use_reentrant\": "
              "False})\n");
    const auto every = [](const std::string& n) {
        return "# every_n_layers is there in transformers 5.23\nTrainingArguments(activation_checkpointing=True, "
               "activation_checkpointing_kwargs={\"use_reentrant\": False, \"every_n_layers\": "
            + n + "})\n";
    };
    EXPECT_EQ(*config(Trainer::huggingFace, layers({0, 2, 4})), every("2"));
    EXPECT_EQ(*config(Trainer::huggingFace, layers({0, 4})), every("4"));
    EXPECT_EQ(*config(Trainer::huggingFace, layers({0})), every("6"));
    EXPECT_THAT(refusal(Trainer::huggingFace, layers({0, 1, 2, 3, 4})), HasSubstr("5 of 6 layers"));
    EXPECT_THAT(refusal(Trainer::huggingFace, layers({1, 3, 5})), HasSubstr("3 of 6 layers"));
    EXPECT_THAT(refusal(Trainer::huggingFace, layers({0, 1, 2, 3, 4, 5}, 4)),
                HasSubstr("keeps ops inside of Transformer.layers.0"));
    EXPECT_THAT(refusal(Trainer::huggingFace, {module("Transformer")}), HasSubstr("torch_headroom.apply()"));
    std::vector<Policy::Module> attentions;
    for (int i = 0; i < 6; ++i)
        attentions.push_back(module(layer(i) + ".attention"));
    EXPECT_THAT(refusal(Trainer::huggingFace, attentions), HasSubstr("and the Trainer only layers of a single type"));
}

namespace {

/// Of a model with two lists of two layers each; parts of a layer are in a list, too.
Result<std::string> configOfTwoLists(const std::string& decoderType, const std::vector<std::string>& names)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Model", "Model", ModuleId());
    for (const std::string name : {"Model.encoder", "Model.decoder"}) {
        const ModuleId list = builder.addModule(name, "ModuleList", root);
        for (const char* place : {".0", ".1"}) {
            const bool decodes = name == "Model.decoder";
            const ModuleId block = builder.addModule(name + place, decodes ? decoderType : "Block", list);
            const ModuleId parts = builder.addModule(name + place + ".parts", "ModuleList", block);
            builder.addModule(name + place + ".parts.0", "Part", parts);
        }
    }
    builder.mark(Mark::stepBegin);
    const Result<StepTracePtr> trace = builder.finish();
    if (!trace)
        return trace.error();
    Policy policy;
    for (const std::string& name : names)
        policy.modules.push_back(module("Model." + name));
    return trainerConfig(**trace, policy, Trainer::huggingFace);
}

} // namespace

TEST(TrainerConfig, HuggingFaceCountsTheLayersOfAllLists)
{
    const auto all = configOfTwoLists("Block", {"decoder.0", "decoder.1", "encoder.0", "encoder.1"});
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_THAT(*all, HasSubstr("gradient_checkpointing=True"));
    const auto everySecond = configOfTwoLists("Block", {"encoder.0", "decoder.0"});
    ASSERT_TRUE(everySecond) << everySecond.error().message;
    EXPECT_THAT(*everySecond, HasSubstr("\"every_n_layers\": 2}"));
    EXPECT_THAT(configOfTwoLists("Block", {"encoder.0", "encoder.1"}).error().message, HasSubstr("2 of 4 layers"));
    EXPECT_THAT(configOfTwoLists("Other", {"encoder.0", "encoder.1"}).error().message,
                HasSubstr("the policy does not checkpoint Model.decoder, and the Trainer would checkpoint the layers "
                          "of that list, too"));
    EXPECT_THAT(
        configOfTwoLists("Block", {"encoder.0.parts.0", "encoder.1.parts.0", "decoder.0.parts.0", "decoder.1.parts.0"})
            .error()
            .message,
        HasSubstr("only layers of a single type"));
}

TEST(TrainerConfig, TrainersHaveNames)
{
    EXPECT_EQ(*parseTrainer("torchtitan"), Trainer::torchtitan);
    EXPECT_EQ(*parseTrainer("huggingface"), Trainer::huggingFace);
    EXPECT_THAT(parseTrainer("deepspeed").error().message, HasSubstr("known are torchtitan, huggingface"));
}
