// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/shard_options.h"

#include "core/allocator/replay.h"
#include "core/cost/card_memory.h"
#include "core/predict/predict.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace headroom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// A step whose card is known.
StepTracePtr stepOn(const char* gpu, Bytes activation = 4 * MiB)
{
    SyntheticOptions options;
    options.activation = activation;
    options.blocks = 12;
    auto step = std::make_shared<StepTrace>(*makeSyntheticStep(options));
    step->info.gpu = gpu;
    step->info.batch = 8;
    return step;
}

} // namespace

TEST(ShardOptions, EveryMeshOfAllCardsIsTried)
{
    ShardChoices choices;
    choices.cards = 16;
    choices.tensor = {1, 8};
    choices.replicate = {1, 2};
    choices.reshard = {true, false};
    const auto options = shardOptions(choices);
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_THAT(*options,
                ElementsAre(ShardOption{1, 16, 1, true}, ShardOption{1, 16, 1, false}, ShardOption{2, 8, 1, true},
                            ShardOption{2, 8, 1, false}, ShardOption{1, 2, 8, true}, ShardOption{1, 2, 8, false},
                            ShardOption{2, 1, 8, true}))
        << "one rank has nothing to reshard";
    choices.tensor = {3};
    EXPECT_THAT(shardOptions(choices).error().message, HasSubstr("--tp 3 does not divide 16 cards"));
    choices.cards = 24;
    choices.tensor = {1, 3};
    EXPECT_THAT(shardOptions(choices).error().message, HasSubstr("no mesh of 24 cards with 8 a node has --tp 3"))
        << "three ranks do not divide a node of 8 cards: a group would lie in two nodes";
    choices.cards = 12;
    EXPECT_THAT(shardOptions(choices).error().message, HasSubstr("12 cards do not fill nodes of 8"));
    choices.cards = 6;
    choices.tensor = {3};
    EXPECT_EQ(shardOptions(choices)->front().tensor, 3) << "six cards are a single node";
    choices.cards = 16;
    choices.tensor = {16};
    EXPECT_THAT(shardOptions(choices).error().message, HasSubstr("no mesh of 16 cards with 8 a node has --tp 16"))
        << "tensor parallelism stays in a node";
    choices.tensor = {1, 2};
    choices.replicate = {1, 16};
    EXPECT_TRUE(shardOptions(choices)) << "each degree is in a mesh";
}

TEST(ShardOptions, WordsAreFilledIn)
{
    EXPECT_EQ(filledIn("--dp {replicate}x{shard} --tp={tp} --reshard {reshard} --bs {batch}", {2, 4, 8, false, 3}),
              "--dp 2x4 --tp=8 --reshard never --bs 3");
}

TEST(ShardOptions, WhatFitsComesFirstAndTheFastestOfIt)
{
    ShardRow slow;
    slow.fits = true;
    slow.samplesPerSecond = 10;
    ShardRow fast = slow;
    fast.samplesPerSecond = 20;
    ShardRow large = fast;
    large.fits = false;
    large.samplesPerSecond = 30;
    ShardRow failed;
    failed.failure = "it ended";
    ShardRow unknown = fast; // without a batch; its step is the shortest
    unknown.samplesPerSecond = 0;
    unknown.stepMs = -1;
    std::vector<ShardRow> rows{failed, large, unknown, slow, fast};
    sortRows(rows);
    EXPECT_EQ(rows[2].samplesPerSecond, 0) << "a rate that is not known is behind all that are";
    rows.erase(rows.begin() + 2);
    EXPECT_EQ(rows[0].samplesPerSecond, 20);
    EXPECT_EQ(rows[1].samplesPerSecond, 10);
    EXPECT_FALSE(rows[2].fits);
    EXPECT_EQ(rows[3].failure, "it ended");
}

TEST(ShardRow, AStepThatFitsNeedsNoPlanAndOneThatDoesNotGetsOne)
{
    const auto fits = shardRow(stepOn("a100-80gb"), {1, 8, 1});
    ASSERT_TRUE(fits) << fits.error().message;
    EXPECT_TRUE(fits->fits);
    EXPECT_FALSE(fits->plan);
    EXPECT_GT(fits->stepMs, 0);
    EXPECT_NEAR(fits->samplesPerSecond, 8 * 8 / fits->stepMs * 1e3, 1e-6);

    const StepTracePtr large = stepOn("rtx-4060-8gb", 100 * MiB);
    const auto planned = shardRow(large, {1, 8, 1, true, 4});
    ASSERT_TRUE(planned) << planned.error().message;
    ASSERT_TRUE(planned->fits);
    ASSERT_TRUE(planned->plan);
    EXPECT_LE(planned->peak, planned->usable);
    EXPECT_THAT(torchtitanConfig(large, *planned), HasSubstr("local_batch_size = 4"));
    EXPECT_THAT(torchtitanConfig(large, *planned), HasSubstr("data_parallel_shard_degree = 8"));

    const auto sharded = shardRow(stepOn("a100-80gb"), {1, 8, 1}, 8);
    ASSERT_TRUE(sharded);
    EXPECT_TRUE(sharded->calculated);
    EXPECT_LT(sharded->peak, fits->peak);
    EXPECT_THAT(shardRow(stepOn("abacus"), {}).error().message, HasSubstr("unknown GPU 'abacus'"));
}

/// What a step allocates takes more in segments: a peak just below what the card gives does not fit.
TEST(ShardRow, TheAllocatorOfTheCardDecides)
{
    const auto peakOf = [](Bytes activation) { return predict(*stepOn("rtx-4060-8gb", activation), {})->peak; };
    const Bytes usable = shardRow(stepOn("rtx-4060-8gb"), {})->usable;
    Bytes fits = MiB;
    Bytes tooMuch = GiB;
    while (tooMuch - fits > 4 * KiB) {
        const Bytes middle = (fits + tooMuch) / 2;
        (peakOf(middle) <= usable ? fits : tooMuch) = middle;
    }
    const StepTracePtr step = stepOn("rtx-4060-8gb", fits);
    const DeviceSpec card = *findDeviceSpec("rtx-4060-8gb");
    AllocatorRules rules;
    rules.capacity = cardMemory(card, *step).allocators();
    const Workspaces workspaces = workspacesOf(*step, card);
    ASSERT_TRUE(simulateAllocator(*step, *predict(*step, {}), rules, workspaces).failure) << "the case is none";
    const auto row = shardRow(step, {});
    ASSERT_TRUE(row) << row.error().message;
    ASSERT_TRUE(row->fits) << row->shortage;
    ASSERT_TRUE(row->plan) << "the plain step is said to fit";
    EXPECT_LT(row->peak, usable);
    EXPECT_FALSE(simulateAllocator(*step, *row->plan->timeline, rules, workspaces).failure);
    EXPECT_LE(row->reserved, rules.capacity);
}
