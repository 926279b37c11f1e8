// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/memory_levels.h"

#include "core/trace/phase_times.h"
#include "tests/core/hand_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr Bytes unit = allocationGranularity;

/// Ten ops of one module, one after the other; `before` may add others in front of number `i`.
StepTracePtr chainOfOps(const std::function<void(HandStep&, int)>& before = [](HandStep&, int) {})
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    for (int i = 0; i < 10; ++i) {
        before(step, i);
        step.make("aten.mm.default", i % 2 == 0 ? 8 : 2);
    }
    step.exit();
    return step.finish();
}

LevelComparison compared(const StepTracePtr& executed, const StepTracePtr& recorded)
{
    return compareLevels(*recorded, predicted(recorded), *executed, predicted(executed));
}

TEST(CompareLevels, anAllocationThatWasNotPredictedDoesNotMoveTheOthers)
{
    const LevelComparison more = compared(chainOfOps([](HandStep& step, int i) {
                                              if (i == 3)
                                                  step.free({step.make("aten.clone.default", 5)});
                                          }),
                                          chainOfOps());
    EXPECT_EQ(more.allocations, 11U);
    EXPECT_EQ(more.unequalAllocations, 1U);
    EXPECT_EQ(more.largestDifference, 5 * unit);
    EXPECT_THAT(more.firstDifference, StartsWith("allocation 3 (`aten.clone.default` of `"));
    EXPECT_THAT(more.firstDifference,
                HasSubstr("takes 2,560 bytes that were not predicted; the step allocates 11 times, "
                          "predicted were 10"));
}

TEST(CompareLevels, allocationsThatWereNotMadeCountToo)
{
    HandStep none;
    none.enter(HandStep::net, {none.batch});
    none.exit();
    const LevelComparison less = compared(none.finish(), chainOfOps());
    EXPECT_EQ(less.allocations, 10U);
    EXPECT_EQ(less.unequalAllocations, 10U);
}

/// Ten ops; before number `at` a module's parameters are gathered for three ops.
StepTracePtr gatheringAt(int at, Category category)
{
    StorageId gathered;
    return chainOfOps([&](HandStep& step, int i) {
        if (i == at) {
            gathered = step.make("aten.empty.memory_format", 3);
            step.builder.retype(gathered, category);
        } else if (i == at + 3) {
            step.free({gathered});
        }
    });
}

TEST(CompareLevels, whatWasGatheredElsewhereIsSaidApart)
{
    const LevelComparison moved
        = compared(gatheringAt(2, Category::unshardedParameter), gatheringAt(1, Category::unshardedParameter));
    EXPECT_TRUE(moved.timelinesAgree());
    EXPECT_GT(moved.unequalAllocations, 0U);
    EXPECT_THAT(moved.gatherDifference, HasSubstr("`aten.empty.memory_format`"));
    const LevelComparison other = compared(gatheringAt(2, Category::activation), gatheringAt(1, Category::activation));
    EXPECT_FALSE(other.timelinesAgree());
    // The peak is at the end: what is gathered there counts.
    const LevelComparison higher
        = compared(gatheringAt(8, Category::unshardedParameter), gatheringAt(1, Category::unshardedParameter));
    EXPECT_FALSE(higher.timelinesAgree());
}

TEST(CompareLevels, whatStaysIsADifferenceOfAllLevelsAfterIt)
{
    const LevelComparison more = compared(chainOfOps([](HandStep& step, int i) {
                                              if (i == 3)
                                                  step.make("aten.clone.default", 5);
                                          }),
                                          chainOfOps());
    EXPECT_EQ(more.unequalAllocations, 1U + 7U);
    EXPECT_EQ(more.largestDifference, 5 * unit);
}

TEST(CompareLevels, anAllocationThatIsMissingIsTheFirstDifference)
{
    const LevelComparison less = compared(chainOfOps(), chainOfOps([](HandStep& step, int i) {
                                              if (i == 6)
                                                  step.free({step.make("aten.clone.default", 5)});
                                          }));
    EXPECT_EQ(less.unequalAllocations, 1U);
    EXPECT_EQ(less.largestDifference, 5 * unit);
    EXPECT_THAT(less.firstDifference, StartsWith("2,560 bytes (`aten.clone.default` of `"));
    EXPECT_THAT(less.firstDifference, HasSubstr(") were predicted and not allocated; the step allocates 10 times"));
}

TEST(CompareLevels, anOtherOpOfTheSameSizeIsNoDifference)
{
    const auto named = [](const char* name) {
        return chainOfOps([=](HandStep& step, int i) {
            if (i == 4)
                step.make(name, 3);
        });
    };
    EXPECT_EQ(compared(named("aten.addmm.default"), named("aten.linear.default")).firstDifference, "");
}

TEST(CompareLevels, anOtherSizeIsSaidForBothSides)
{
    const auto sized = [](Bytes units) {
        return chainOfOps([=](HandStep& step, int i) {
            if (i == 4)
                step.free({step.make("aten.gelu.default", units)});
        });
    };
    const LevelComparison other = compared(sized(7), sized(3));
    EXPECT_EQ(other.unequalAllocations, 1U);
    EXPECT_EQ(other.largestDifference, 4 * unit);
    EXPECT_THAT(other.firstDifference, StartsWith("allocation 4 (`aten.gelu.default` of `"));
    EXPECT_THAT(other.firstDifference, HasSubstr(" takes 3,584 bytes and makes "));
    EXPECT_THAT(other.firstDifference, HasSubstr(" live, predicted were 1,536 bytes and "));
}

TEST(PhaseTimes, countForwardAndBackwardInWhateverModule)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("models", "Models", {});
    const ModuleId shared = builder.addModule("models.SiLU", "SiLU", root);
    builder.mark(Mark::stepBegin);
    const auto op = [&](ModuleId module, Phase phase, double ms, std::uint16_t flags = 0) {
        StepTraceBuilder::Op description;
        description.name = builder.string("aten.mul.Tensor");
        description.module = module;
        description.phase = phase;
        const OpId id = builder.beginOp(description);
        StepTraceBuilder::OpResult result;
        result.ms = ms;
        result.flags = flags;
        builder.endOp(id, result);
    };
    op(shared, Phase::forward, 1);
    op(root, Phase::forward, 2);
    op(shared, Phase::backward, 4, opRecomputed);
    op(root, Phase::backward, 8);
    op(root, Phase::optimizer, 16);
    op(root, Phase::zeroGrad, 32);
    const auto trace = builder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_DOUBLE_EQ(forwardBackwardMs(**trace), 15);
    EXPECT_DOUBLE_EQ(recomputedMs(**trace), 4);
}

} // namespace
} // namespace headroom
