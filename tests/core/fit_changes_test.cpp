// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/changes.h"

#include "core/fit/changed_step.h"
#include "core/policy/card_planner.h"
#include "core/predict/step_model.h"
#include "core/trace/step_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace headroom {
namespace {

using testing::Contains;
using testing::HasSubstr;

StepTracePtr gpt2()
{
    return *readStepTrace(HEADROOM_TEST_DATA "/steps/gpt2_small.hrs");
}

Bytes peakOf(const StepTracePtr& step)
{
    return StepModel(step).recorded()->peak;
}

Bytes bytesIn(const StepTrace& step, Category category)
{
    return StepModel(step).recorded()->start[static_cast<std::size_t>(category)];
}

TEST(ChangedStep, EightBitsAreAByteAnElementAndFourForEachBlock)
{
    const StepTracePtr step = gpt2();
    const StepTracePtr changed = withEightBitOptimizer(step);
    ASSERT_TRUE(changed);
    Bytes expected = 0;
    for (std::uint32_t id = 0; id < step->storages.size(); ++id) {
        const StorageId storage(id);
        if (step->storages.category[storage] != Category::optimizer || step->storages.creator[storage].valid())
            continue;
        const Bytes elements = step->storages.requested[storage] / 4;
        expected += roundedToBlock(elements < 4096 ? 4 * elements : elements + 4 * ((elements + 255) / 256));
    }
    EXPECT_EQ(bytesIn(*changed, Category::optimizer), expected);
    EXPECT_LT(expected, bytesIn(*step, Category::optimizer) / 3);
    EXPECT_EQ(bytesIn(*changed, Category::parameter), bytesIn(*step, Category::parameter));
    EXPECT_TRUE(validate(*changed));
}

TEST(ChangedStep, AFusedOptimizerMakesNothing)
{
    const StepTracePtr step = gpt2();
    const StepTracePtr changed = withFusedOptimizer(step);
    ASSERT_TRUE(changed);
    EXPECT_TRUE(validate(*changed));
    for (std::uint32_t id = 0; id < step->storages.size(); ++id) {
        const OpId creator = step->storages.creator[StorageId(id)];
        const bool isScratch = creator.valid() && step->ops.phase[creator] == Phase::optimizer;
        EXPECT_EQ(changed->storages.requested[StorageId(id)], isScratch ? 0 : step->storages.requested[StorageId(id)]);
    }
}

TEST(ChangedStep, AChunkedLossHasAChunkOfTheLogits)
{
    const StepTracePtr step = gpt2();
    const StepTracePtr changed = withChunkedLoss(step, 8);
    ASSERT_TRUE(changed);
    // 8 × 1,024 tokens of 50,257 words in float32: of several copies at the peak at least two have an eighth.
    const Bytes logits = Bytes{8} * 1024 * 50257 * 4;
    EXPECT_LE(peakOf(changed), peakOf(step) - 2 * (logits - logits / 8));
    EXPECT_FALSE(withChunkedLoss(*readStepTrace(HEADROOM_TEST_DATA "/steps/demo_mlp.hrs"), 8)) << "no cross entropy";
}

TEST(ChangedStep, GradientsThatAreClearedToNoneFreeNothing)
{
    const StepTracePtr step = gpt2();
    EXPECT_EQ(gradientsKeptAtPeak(*step, *StepModel(step).recorded()), 0);
}

TEST(Changes, AreInOrderOfCostAndFreeSomething)
{
    const StepTracePtr step = gpt2();
    const Card card = *cardFor(std::to_string(peakOf(step) * 3 / 4), *step, "");
    const Result<Changes> found = changesThatHelp(step, card);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_FALSE(found->before.run.runs);
    EXPECT_TRUE(std::ranges::is_sorted(found->list, {}, &Change::cost));
    std::vector<std::string> names;
    for (const Change& change : found->list) {
        names.push_back(change.what);
        EXPECT_EQ(change.freed, found->before.peak - change.peak) << change.what;
        EXPECT_FALSE(change.isRecorded) << change.what;
    }
    EXPECT_THAT(names, Contains("loss in 8 chunks"));
    EXPECT_THAT(names, Contains("activation checkpointing, as planned"));
    EXPECT_THAT(names, Contains("8-bit optimizer"));
    EXPECT_THAT(names, Contains(HasSubstr("FSDP over 2 GPUs")));
    const nlohmann::ordered_json json = toJson(*found);
    EXPECT_EQ(json["changes"].size(), names.size());
    EXPECT_EQ(json["changes"][0]["source"], "calculated");
}

TEST(Changes, AKnownPlanIsNotMadeAgain)
{
    const StepTracePtr step = gpt2();
    const auto card = std::make_shared<const Card>(*cardFor(std::to_string(peakOf(step) * 3 / 4), *step, ""));
    const auto planned = std::make_shared<const PlanAnswer>(*planForCard(*StepPlanner::create(step), {}, card));
    ASSERT_TRUE(planned->runs());
    const Result<Changes> found = changesThatHelp(step, *card, {}, {}, planned);
    ASSERT_TRUE(found) << found.error().message;
    const auto change = std::ranges::find(found->list, ChangeCost::time, &Change::cost);
    ASSERT_NE(change, found->list.end());
    EXPECT_EQ(change->plan, planned);
    EXPECT_EQ(change->peak, planned->plan.peak);
}

TEST(Changes, VariantsOfTheProgramAreRecorded)
{
    const StepTracePtr step = *readStepTrace(HEADROOM_TEST_DATA "/steps/transformer_12L.hrs");
    const Card card = *cardFor(std::to_string(peakOf(step) * 3 / 4), *step, "");
    std::vector<std::vector<std::string>> asked;
    const RecordVariant record = [&](const std::vector<std::string>& options) -> Result<StepTracePtr> {
        asked.push_back(options);
        if (options.front() != "--autocast")
            return badInput("it cannot");
        return withEightBitOptimizer(step); // a step that takes less
    };
    const Result<Changes> found = changesThatHelp(step, card, record);
    ASSERT_TRUE(found);
    EXPECT_THAT(asked, Contains(std::vector<std::string>{"--autocast"}));
    const auto autocast = std::ranges::find(found->list, "autocast in bfloat16", &Change::what);
    ASSERT_NE(autocast, found->list.end());
    EXPECT_TRUE(autocast->isRecorded);
    EXPECT_EQ(autocast->cost, ChangeCost::numerics);
    EXPECT_EQ(std::ranges::count_if(found->list, &Change::isRecorded), 1) << "a variant that fails is left out";
}

} // namespace
} // namespace headroom
