// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/trainer_config.h"

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

TEST(TrainerConfig, TorchtitanHasModesForNothingAllAndEveryNthBlock)
{
    EXPECT_EQ(*config(Trainer::torchtitan, {}), "[activation_checkpoint]\nmode = \"none\"\n");
    EXPECT_EQ(*config(Trainer::torchtitan, layers({0, 1, 2, 3, 4, 5})), "[activation_checkpoint]\nmode = \"full\"\n");
    // torchtitan counts from 1: every second are the layers 1, 3 and 5.
    EXPECT_EQ(*config(Trainer::torchtitan, layers({1, 3, 5})),
              "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"2\"\n");
    EXPECT_EQ(*config(Trainer::torchtitan, layers({3})),
              "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"4\"\n");
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 2, 4})), HasSubstr("nor every n-th"));
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({1, 3})), HasSubstr("nor every n-th"));
}

TEST(TrainerConfig, TorchtitanKeepsAllCallsOfAnOpOrNone)
{
    EXPECT_EQ(*config(Trainer::torchtitan, layers({0, 1, 2, 3, 4, 5}, 4)),
              "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n\n"
              "# The ops to save, as a set in the model's parallelize.py that goes to apply_ac():\n"
              "# {\n#     torch.ops.aten.mm.default,\n# }\n");
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 1, 2, 3, 4, 5}, 3)),
                HasSubstr("it keeps aten.mm.default in Transformer.layers.5 but not everywhere"));
    EXPECT_THAT(refusal(Trainer::torchtitan, layers({0, 1, 2}, 4)), HasSubstr("leaves others alone"));
    std::vector<Policy::Module> uneven = layers({0, 1, 2, 3, 4, 5}, 4);
    uneven[3] = module(layer(3), 4, true);
    EXPECT_THAT(refusal(Trainer::torchtitan, uneven),
                HasSubstr("it keeps aten.gelu.default in Transformer.layers.3 but not everywhere"));
}

TEST(TrainerConfig, TorchtitanKnowsOnlyTheBlocksOfLayers)
{
    EXPECT_THAT(refusal(Trainer::torchtitan, {module("Transformer.layers.0.attention")}),
                HasSubstr("Transformer.layers.0.attention, which is no block"));
    EXPECT_THAT(refusal(Trainer::torchtitan, {module(layer(0)), module("Transformer.layers.1.attention")}),
                HasSubstr("Transformer.layers.0 and Transformer.layers.1.attention, which are not blocks of one list"));
    EXPECT_THAT(refusal(Trainer::torchtitan, {module("Transformer")}), HasSubstr("Transformer, which is no block"));
}

TEST(TrainerConfig, HuggingFaceRecomputesAllBlocksOrNone)
{
    EXPECT_EQ(*config(Trainer::huggingFace, {}), "TrainingArguments(gradient_checkpointing=False)\n");
    EXPECT_EQ(*config(Trainer::huggingFace, layers({0, 1, 2, 3, 4, 5})),
              "TrainingArguments(gradient_checkpointing=True, gradient_checkpointing_kwargs={\"use_reentrant\": "
              "False})\n");
    EXPECT_THAT(refusal(Trainer::huggingFace, layers({0, 1, 2, 3, 4})), HasSubstr("5 of 6 blocks"));
    EXPECT_THAT(refusal(Trainer::huggingFace, layers({0, 1, 2, 3, 4, 5}, 4)), HasSubstr("keeps ops inside of blocks"));
    EXPECT_THAT(refusal(Trainer::huggingFace, {module("Transformer")}), HasSubstr("headroom.apply()"));
}

TEST(TrainerConfig, TrainersHaveNames)
{
    EXPECT_EQ(*parseTrainer("torchtitan"), Trainer::torchtitan);
    EXPECT_EQ(*parseTrainer("huggingface"), Trainer::huggingFace);
    EXPECT_THAT(parseTrainer("deepspeed").error().message, HasSubstr("known are torchtitan, huggingface"));
}
