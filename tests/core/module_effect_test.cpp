// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/module_memory.h"

#include "core/trace/step_trace_builder.h"
#include "tests/core/hand_step.h"
#include "tests/core/synthetic_step.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headroom {
namespace {

ModuleId moduleNamed(const StepTrace& trace, std::string_view fqn)
{
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        if (trace.moduleFqn(ModuleId(i)) == fqn)
            return ModuleId(i);
    }
    ADD_FAILURE() << "no module " << fqn;
    return {};
}

Bytes activationsAfterForward(const Timeline& timeline)
{
    const auto snapshot
        = std::find_if(timeline.snapshots.begin(), timeline.snapshots.end(),
                       [](const Timeline::Snapshot& candidate) { return candidate.mark == Mark::forwardEnd; });
    return snapshot->bytes[static_cast<std::size_t>(Category::activation)];
}

/// Every second savable op of a module is kept.
CheckpointRegion halfSaved(const StepTrace& trace, ModuleId module)
{
    CheckpointRegion region{module, StepModel(trace).savableOps(module)};
    for (std::size_t i = 0; i < region.save.size(); i += 2)
        region.save[i] = false;
    return region;
}

std::vector<ModuleEffect> effectsOf(const StepTracePtr& trace, const CheckpointPlan& plan)
{
    return ModuleEffects(StepModel(trace)).of(plan).value();
}

class ModuleEffectTest : public testing::Test
{
protected:
    void open(const SyntheticOptions& options)
    {
        trace_ = makeSyntheticStep(options);
        block_ = moduleNamed(*trace_, "Transformer.layers.1");
        attention_ = moduleNamed(*trace_, "Transformer.layers.2.attention");
        feedForward_ = moduleNamed(*trace_, "Transformer.layers.3.feed_forward");
    }
    void SetUp() override { open({.blocks = 4}); }

    void expectAgreesWithPrediction(const CheckpointPlan& plan)
    {
        const std::vector<ModuleEffect> effects = effectsOf(trace_, plan);
        const Result<Timeline> recorded = predict(*trace_, {});
        const Result<Timeline> planned = predict(*trace_, plan);
        ASSERT_TRUE(planned) << planned.error().message;
        EXPECT_GT(effects[0].recomputeMs, 0);
        EXPECT_NEAR(effects[0].recomputeMs, planned->recomputeMs, 1e-9);
        EXPECT_EQ(effects[0].recorded - effects[0].kept,
                  activationsAfterForward(*recorded) - activationsAfterForward(*planned));
        double outermost = 0;
        for (const CheckpointRegion& region : plan)
            outermost += effects[region.module.value].recomputeMs;
        EXPECT_NEAR(outermost, planned->recomputeMs, 1e-9);
    }

    void expectPlansAgreeWithPrediction()
    {
        expectAgreesWithPrediction({{block_, {}}});
        expectAgreesWithPrediction({halfSaved(*trace_, block_)});
        expectAgreesWithPrediction({{block_, {}}, {attention_, {}}, halfSaved(*trace_, feedForward_)});
    }

    StepTracePtr trace_;
    ModuleId block_;
    ModuleId attention_;
    ModuleId feedForward_;
};

TEST_F(ModuleEffectTest, NothingIsRecomputedWithoutAPlan)
{
    for (const ModuleEffect& effect : effectsOf(trace_, {})) {
        EXPECT_EQ(effect.kept, effect.recorded);
        EXPECT_EQ(effect.recomputeMs, 0);
    }
}

TEST_F(ModuleEffectTest, PlansAgreeWithPrediction)
{
    expectPlansAgreeWithPrediction();
}

TEST_F(ModuleEffectTest, PlansOfSeveralMicroBatchesAgreeWithPrediction)
{
    open({.blocks = 4, .microBatches = 3});
    expectPlansAgreeWithPrediction();
}

TEST_F(ModuleEffectTest, PlansWithCastsAndAdaptersAgreeWithPrediction)
{
    open({.blocks = 4, .adapter = MiB, .microBatches = 2});
    expectPlansAgreeWithPrediction();
}

TEST_F(ModuleEffectTest, MicroBatchesTakeTheirTimeEachAndTheirMemoryOneAfterTheOther)
{
    const std::vector<ModuleEffect> one = effectsOf(trace_, {halfSaved(*trace_, block_)});
    const StepTracePtr several = makeSyntheticStep({.blocks = 4, .microBatches = 4});
    const std::vector<ModuleEffect> four = effectsOf(several, {halfSaved(*several, block_)});
    EXPECT_EQ(four[block_.value].recorded, one[block_.value].recorded);
    EXPECT_EQ(four[block_.value].kept, one[block_.value].kept);
    EXPECT_NEAR(four[block_.value].recomputeMs, 4 * one[block_.value].recomputeMs, 1e-9);
}

TEST_F(ModuleEffectTest, PlansThatPredictRefusesAreRefused)
{
    const Result<std::vector<ModuleEffect>> effects = ModuleEffects(StepModel(trace_)).of({{block_, {}}, {block_, {}}});
    ASSERT_FALSE(effects);
    EXPECT_EQ(effects.error().message, predict(*trace_, {{block_, {}}, {block_, {}}}).error().message);
}

TEST_F(ModuleEffectTest, ModuleSumsUpItsChildrenAndItsOwnOps)
{
    const std::vector<ModuleEffect> effects = effectsOf(trace_, {{block_, {}}});
    Bytes children = 0;
    for (std::uint32_t i = 0; i < trace_->modules.size(); ++i) {
        if (trace_->modules.parent[ModuleId(i)] == block_)
            children += effects[i].recorded;
    }
    EXPECT_GT(children, 0);
    EXPECT_GE(effects[block_.value].recorded, children);
    EXPECT_LE(effects[block_.value].kept, effects[block_.value].recorded);
}

TEST_F(ModuleEffectTest, OtherBlocksAreNotTouched)
{
    const std::vector<ModuleEffect> before = effectsOf(trace_, {});
    const std::vector<ModuleEffect> after = effectsOf(trace_, {{block_, {}}});
    const ModuleId last = moduleNamed(*trace_, "Transformer.layers.3");
    EXPECT_EQ(after[last.value].kept, before[last.value].kept);
    EXPECT_EQ(after[last.value].recomputeMs, 0);
}

/// Two models that are trained one after the other, as those of a GAN: each has its turn.
TEST(ModuleEffect, CountsEachModuleWhereItHoldsMost)
{
    HandStep step;
    const auto train = [&](ModuleId module, Bytes units, double ms) {
        step.enter(module, {step.batch});
        const StorageId made = step.make("A", units, ms);
        const PackId pack = step.pack(made);
        step.free({made});
        step.exit();
        step.builder.mark(Mark::forwardEnd);
        step.unpack({pack});
        step.unpackEnd({pack});
        step.release({pack});
        step.builder.mark(Mark::backwardEnd);
    };
    train(HandStep::block, 16, 3);
    train(HandStep::other, 8, 5);
    train(HandStep::block, 32, 7);
    const std::vector<ModuleEffect> effects = effectsOf(step.finish(), {{HandStep::block, {}}});
    const auto is = [&](ModuleId module, Bytes recorded, Bytes kept, double ms) {
        EXPECT_EQ(effects[module.value].recorded, recorded * allocationGranularity);
        EXPECT_EQ(effects[module.value].kept, kept * allocationGranularity);
        EXPECT_EQ(effects[module.value].recomputeMs, ms);
    };
    is(HandStep::block, 32, 0, 10);
    is(HandStep::other, 8, 8, 0);
    is(HandStep::net, 32, 0, 10);
}

/// Root with one module: y = a(x) saves x and its output; z = b(y) saves y. Recomputation stops at the last pack, which
/// comes before b: only a runs again. The program holds z.
TEST(ModuleEffect, RecomputationStopsAtTheLastPack)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Net", "Net", {});
    const ModuleId block = builder.addModule("Net.block", "Block", root);
    const StorageId x = builder.alloc(1000, Category::input, {});
    builder.mark(Mark::stepBegin);
    const CallId outer = builder.enter(root, std::span(&x, 1));
    const CallId inner = builder.enter(block, std::span(&x, 1));
    const auto op = [&](const char* name, double ms, StorageId input, PackId& before, Bytes bytes) {
        before = builder.pack(input, {});
        StepTraceBuilder::Op begun;
        begun.name = builder.string(name);
        begun.module = block;
        begun.call = inner;
        const OpId id = builder.beginOp(begun);
        const StorageId output = builder.alloc(bytes, Category::activation, id);
        StepTraceBuilder::OpResult result;
        result.ms = ms;
        result.inputs = std::span(&input, 1);
        result.outputs = std::span(&output, 1);
        builder.endOp(id, result);
        return output;
    };
    PackId packX;
    PackId packY;
    const StorageId y = op("aten.a.default", 3, x, packX, 2000);
    const StorageId z = op("aten.b.default", 5, y, packY, 4000);
    builder.free(y);
    builder.exit(inner, std::span(&z, 1));
    builder.exit(outer, std::span(&z, 1));
    builder.mark(Mark::forwardEnd);
    builder.unpack(packY);
    builder.unpackEnd(packY);
    builder.release(packY);
    builder.release(packX);
    builder.free(z);
    builder.mark(Mark::backwardEnd);
    builder.mark(Mark::stepEnd);
    builder.mark(Mark::zeroGradEnd);
    const Result<StepTracePtr> trace = builder.finish();
    ASSERT_TRUE(trace) << trace.error().message;

    const std::vector<ModuleEffect> effects = effectsOf(*trace, {{block, {}}});
    EXPECT_EQ(effects[block.value].recorded, 2048 + 4096); // y and z in blocks of 512
    EXPECT_EQ(effects[block.value].kept, 4096);
    EXPECT_DOUBLE_EQ(effects[block.value].recomputeMs, 3);
    EXPECT_DOUBLE_EQ(effects[root.value].recomputeMs, 3);
}

} // namespace
} // namespace headroom
