// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/step_comparison.h"

#include "core/predict/predict.h"
#include "core/snapshot/import.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/measured_step.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace headroom {
namespace {

using testing::HasSubstr;

/// A step whose ops are called by the letters of a text, each of 1 ms.
StepTracePtr stepOf(const std::string& letters, const std::string& root = "Net")
{
    StepTraceBuilder builder;
    const ModuleId module = builder.addModule(root, root, ModuleId());
    builder.mark(Mark::stepBegin);
    for (const char letter : letters) {
        StepTraceBuilder::Op op;
        op.name = builder.string(std::string(1, letter));
        op.module = module;
        StepTraceBuilder::OpResult result;
        result.ms = 1;
        builder.endOp(builder.beginOp(op), result);
    }
    return builder.finish().value();
}

std::size_t longestCommon(const std::string& a, const std::string& b)
{
    std::vector<std::vector<std::size_t>> best(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
    for (std::size_t i = 1; i <= a.size(); ++i)
        for (std::size_t j = 1; j <= b.size(); ++j)
            best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : std::max(best[i - 1][j], best[i][j - 1]);
    return best.back().back();
}

StepComparisonPtr compared(const StepTracePtr& predicted, const StepTracePtr& measured)
{
    const Result<StepComparisonPtr> made = compareSteps(*predicted, *predict(*predicted, {}), measured, "run.hrs");
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? *made : nullptr;
}

TEST(OpPairs, AreAsManyAsThereCanBe)
{
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        const auto letters = [&] {
            std::string text(random() % 30, ' ');
            for (char& letter : text)
                letter = static_cast<char>('a' + random() % (2 + round % 6));
            return text;
        };
        const std::string a = letters();
        const std::string b = letters();
        const OpPairs pairs = pairOps(*stepOf(a), *stepOf(b));
        EXPECT_EQ(pairs.count, longestCommon(a, b)) << a << ' ' << b;
        std::size_t count = 0;
        std::int64_t last = -1;
        for (std::size_t i = 0; i < a.size(); ++i) {
            if (!pairs.second[i])
                continue;
            const std::uint32_t j = pairs.second[i].value;
            EXPECT_EQ(a[i], b[j]);
            EXPECT_GT(static_cast<std::int64_t>(j), last) << "order";
            last = j;
            ++count;
        }
        EXPECT_EQ(count, pairs.count);
    }
}

TEST(OpPairs, NameTheModuleBelowTheRoot)
{
    EXPECT_EQ(belowRoot("Transformer.layers.0"), "layers.0");
    EXPECT_EQ(belowRoot("Transformer"), "");
    EXPECT_EQ(pairOps(*stepOf("abc", "Net"), *stepOf("abc", "DistributedDataParallel")).count, 3U);
}

TEST(OpPairs, LeaveOutTheNamesOfWrappers)
{
    EXPECT_EQ(belowRoot("DistributedDataParallel.module.layers.0"), "layers.0");
    EXPECT_EQ(belowRoot("DistributedDataParallel.module._orig_mod.layers.0"), "layers.0");
    EXPECT_EQ(belowRoot("OptimizedModule._orig_mod"), "");
    EXPECT_EQ(belowRoot("PeftModelForCausalLM.base_model.model.lm_head"), "lm_head");
    EXPECT_EQ(belowRoot("PeftModelForCausalLM.base_model"), "");
    EXPECT_EQ(belowRoot("Net.base_model.layers"), "base_model.layers") << "a name of the model itself";
    EXPECT_EQ(belowRoot("Net.modules.0"), "modules.0");
    EXPECT_EQ(belowRoot("Net.layers.module.0"), "layers.module.0");
    EXPECT_EQ(belowRoot("PeftModel.base_model.model.layers.0.q_proj.base_layer"), "layers.0.q_proj");
    EXPECT_EQ(belowRoot("Net.q_proj.lora_A.default"), "q_proj.lora_A.default") << "the adapter's own";
    EXPECT_EQ(belowRoot("Net.base_layer"), "base_layer");
}

TEST(StepComparison, OpsBeginWhereThePredictionSays)
{
    const StepTracePtr step = makeSyntheticStep();
    const Timeline predicted = *predict(*step, {});
    const StepTracePtr measured = makeMeasuredStep(
        step, "cuda:0", [&](OpId op) { return step->ops.ms[op] * (op.value % 2 == 0 ? 3 : 0.5) + 0.001; });
    const StepComparisonPtr made = compared(step, measured);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->axis, StepComparison::Axis::ops);
    EXPECT_EQ(made->note, "");
    EXPECT_EQ(made->pairs, step->ops.size());
    // The same allocations at the same instants of one axis, whatever the ops took.
    ASSERT_EQ(made->aligned->changes.size(), predicted.changes.size());
    for (std::size_t i = 0; i < predicted.changes.size(); ++i) {
        EXPECT_EQ(made->aligned->changes[i].delta, predicted.changes[i].delta);
        EXPECT_NEAR(made->aligned->changes[i].ms, predicted.changes[i].ms, 1e-9) << "change " << i;
    }
    EXPECT_NEAR(made->aligned->durationMs, predicted.durationMs, 1e-9);
    EXPECT_EQ(made->measuredPeak, predicted.peak);
    EXPECT_EQ(made->predictedPeak, predicted.peak);
    EXPECT_EQ(made->aligned->peakChange, predicted.peakChange);
    EXPECT_EQ(made->aligned->atPeak, predicted.atPeak);
    for (std::uint32_t i = 0; i < step->ops.size(); ++i)
        EXPECT_EQ(made->measuredMsOf(OpId(i)), measured->ops.ms[OpId(i)]);
}

TEST(StepComparison, SumsTimesOfModulesAndWhatIsInside)
{
    const StepTracePtr step = makeSyntheticStep();
    const StepTracePtr measured = makeMeasuredStep(step, "cuda:0", [&](OpId op) { return 2 * step->ops.ms[op]; });
    const StepComparisonPtr made = compared(step, measured);
    ASSERT_TRUE(made);
    for (std::uint32_t i = 0; i < step->modules.size(); ++i) {
        double sum = 0;
        for (std::uint32_t op = 0; op < step->ops.size(); ++op) {
            for (ModuleId m = step->ops.module[OpId(op)]; m.valid(); m = step->modules.parent[m])
                sum += m.value == i ? step->ops.ms[OpId(op)] : 0;
        }
        EXPECT_NEAR(made->modules[i].predictedMs, sum, 1e-9) << step->moduleFqn(ModuleId(i));
        EXPECT_NEAR(made->modules[i].measuredMs, 2 * sum, 1e-9) << step->moduleFqn(ModuleId(i));
    }
    EXPECT_NEAR(made->measuredMs, 2 * made->predictedMs, 1e-9);
}

TEST(StepComparison, OtherOpsInBetweenStretchTheTimeAroundThem)
{
    const StepTracePtr step = makeSyntheticStep();
    const StepTracePtr measured = makeMeasuredStep(
        step, "cpu", [&](OpId op) { return step->ops.ms[op]; }, [](OpId op) { return op.value % 7 == 3; });
    const StepComparisonPtr made = compared(step, measured);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->axis, StepComparison::Axis::ops);
    EXPECT_LT(made->pairs, step->ops.size());
    EXPECT_LT(made->measuredMsOf(OpId(3)), 0) << "it has no counterpart";
    EXPECT_NEAR(made->aligned->durationMs, predict(*step, {})->durationMs, 1e-9);
    EXPECT_TRUE(std::ranges::is_sorted(made->aligned->changes, {}, &MemoryChange::ms));
}

TEST(StepComparison, WithFewCommonOpsTheMarksAreAligned)
{
    const StepTracePtr step = makeSyntheticStep();
    const StepTracePtr measured = makeMeasuredStep(
        step, "cpu", [&](OpId op) { return 5 * step->ops.ms[op]; }, [](OpId op) { return op.value % 4 != 0; });
    const StepComparisonPtr made = compared(step, measured);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->axis, StepComparison::Axis::marks);
    EXPECT_THAT(made->note, HasSubstr("% of the ops are the same on cpu"));
    const Timeline predicted = *predict(*step, {});
    ASSERT_EQ(made->aligned->phases.size(), predicted.phases.size());
    for (std::size_t i = 0; i < predicted.phases.size(); ++i)
        EXPECT_NEAR(made->aligned->phases[i].endMs, predicted.phases[i].endMs, 1e-6) << "phase " << i;
}

TEST(StepComparison, ASnapshotHasMemoryAndNoTimes)
{
    const StepTracePtr step = makeSyntheticStep();
    const Result<StepTracePtr> snapshot = readStepOrSnapshot(HEADROOM_TEST_DATA "/snapshots/protocol4.pickle");
    ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
    const StepComparisonPtr made = compared(step, *snapshot);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->axis, StepComparison::Axis::marks);
    EXPECT_THAT(made->note, HasSubstr("A memory snapshot has no ops"));
    EXPECT_FALSE(made->hasTimes);
    EXPECT_LT(made->measuredMsOf(OpId(0)), 0);
    EXPECT_EQ(made->measuredPeak, predict(**snapshot, {})->peak);
}

/// A run with a longer backward lies over the first one op by op; one with other ops from begin to end.
TEST(StepComparison, AnyOtherStepLiesOnTheAxis)
{
    const auto made = [](const std::string& letters, double ms, Bytes bytes) {
        StepTraceBuilder builder;
        builder.mark(Mark::stepBegin);
        for (const char letter : letters) {
            StepTraceBuilder::Op op;
            op.name = builder.string(std::string(1, letter));
            const OpId id = builder.beginOp(op);
            builder.alloc(bytes, Category::activation, id);
            StepTraceBuilder::OpResult result;
            result.ms = ms;
            builder.endOp(id, result);
        }
        return builder.finish().value();
    };
    const StepTracePtr step = made("abcd", 1, 512);
    for (const char* letters : {"abcd", "wxyz"}) {
        const StepTracePtr other = made(letters, 3, 1024);
        const Timeline over = onAxisOf(*step, *other, *predict(*other, {}));
        EXPECT_EQ(over.durationMs, 4);
        EXPECT_EQ(over.peak, 4096);
        ASSERT_EQ(over.changes.size(), 4U);
        for (std::size_t i = 0; i < 4; ++i)
            EXPECT_NEAR(over.changes[i].ms, static_cast<double>(i), 1e-9) << letters;
    }
}

TEST(StepComparison, RefusesWhatCannotBeCompared)
{
    const StepTracePtr step = makeSyntheticStep();
    const auto refused = [&](const StepTracePtr& measured) {
        const auto made = compareSteps(*step, *predict(*step, {}), measured, "run.hrs");
        return made.ok() ? std::string() : made.error().message;
    };
    EXPECT_THAT(refused(step), HasSubstr("run.hrs is simulated"));
    const auto same = [](OpId) { return 1.0; };
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Other", "Other", ModuleId());
    builder.addModule("Other.encoder", "Encoder", root);
    builder.mark(Mark::stepBegin);
    StepTraceBuilder::Op op;
    op.name = builder.string("aten.conv2d.default");
    op.module = root;
    builder.endOp(builder.beginOp(op), {});
    EXPECT_THAT(refused(makeMeasuredStep(builder.finish().value(), "cuda:0", same)), HasSubstr("of another model"));
}

TEST(StepComparison, LeavesOutWhatPyTorchDoesNotKnow)
{
    const StepTracePtr measured = makeStepBesideOthers();
    StepTrace simulated = *measured;
    simulated.info.simulated = true;
    simulated.info.measured.reset();
    const Result<StepComparisonPtr> both = compareSteps(simulated, *predict(simulated, {}), measured, "run.hrs");
    ASSERT_TRUE(both.ok()) << both.error().message;
    EXPECT_EQ((*both)->measuredPeak, 10 * MiB);
    EXPECT_EQ((*both)->nonPyTorch, 300 * MiB);
}

} // namespace
} // namespace headroom
