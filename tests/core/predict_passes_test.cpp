// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Checkpointed regions that more than one backward pass goes through, casts that autocast keeps, and modules that
// cannot be checkpointed.

#include "core/policy/step_planner.h"
#include "core/predict/step_model.h"
#include "tests/core/hand_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace headroom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr Bytes unit = allocationGranularity;
constexpr ModuleId blockId = HandStep::block;

/// A region that saves its results a and b; the program lets go of both.
struct TwoSaved
{
    HandStep step;
    PackId pa, pb;

    TwoSaved()
    {
        step.enter(blockId, {step.batch});
        const StorageId a = step.make("A", 16);
        pa = step.pack(a);
        const StorageId b = step.make("B", 32);
        pb = step.pack(b);
        step.free({a, b});
        step.exit();
    }

    void pass(std::uint32_t number, std::initializer_list<PackId> packs)
    {
        for (const PackId pack : packs) {
            step.builder.unpack(pack, number);
            step.builder.unpackEnd(pack);
        }
    }
};

std::string refusal(const StepTracePtr& trace, const CheckpointPlan& plan)
{
    const Result<Timeline> timeline = predict(*trace, plan);
    return timeline ? "" : timeline.error().message;
}

} // namespace

TEST(PredictPasses, EachBackwardPassRunsTheRegionAgain)
{
    TwoSaved region;
    region.pass(0, {region.pb, region.pa});
    region.pass(1, {region.pb, region.pa});
    region.step.release({region.pb, region.pa});
    const StepTracePtr trace = region.step.finish();
    const Timeline t = predicted(trace, {{blockId, {}}});
    EXPECT_EQ(t.recomputeMs, 4);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 30, 62, 46, 14, // a and b die
                            30, 62, 30, 14, // the first pass
                            30, 62, 30, 14)); // the second
}

TEST(PredictPasses, WhatAPassDoesNotAskForLivesUntilItsRelease)
{
    TwoSaved region;
    region.pass(0, {region.pb});
    region.pass(1, {region.pb, region.pa});
    region.step.release({region.pb, region.pa});
    const Timeline t = predicted(region.step.finish(), {{blockId, {}}});
    EXPECT_EQ(t.recomputeMs, 4);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 30, 62, 46, 14, //
                            30, 62, 30, // the a of the first pass stays
                            46, 78, 46, 30, // a and b of the second come and go
                            14)); // released
}

// What there is just before a call and just after it, and at the unpack that makes it run again: of several the most.
TEST(HeldBytes, AreThoseAtTheBoundariesOfEachCall)
{
    const auto heldOf = [](TwoSaved& region, const std::vector<bool>& save) {
        region.step.release({region.pb, region.pa});
        const auto held = StepModel(region.step.finish()).heldBytes({{blockId, save}});
        EXPECT_TRUE(held.ok()) << held.error().message;
        return held->at(0);
    };
    TwoSaved twice;
    twice.pass(0, {twice.pb});
    twice.pass(1, {twice.pb, twice.pa});
    EXPECT_THAT(heldOf(twice, {}), ElementsAre(HeldBytes{14 * unit, 14 * unit, 30 * unit}));

    TwoSaved once;
    once.pass(7, {once.pb, once.pa});
    EXPECT_THAT(heldOf(once, {false, true}), ElementsAre(HeldBytes{14 * unit, 46 * unit, 46 * unit}));
}

TEST(HeldBytes, OfAStepThatEndsInsideOfACall)
{
    TwoSaved twoCalls;
    twoCalls.step.enter(blockId, {twoCalls.step.batch});
    twoCalls.step.make("A", 16);
    const StepModel model(twoCalls.step.finish());
    const auto held = model.heldBytes({{blockId, {}}});
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_THAT(held->at(0), ElementsAre(HeldBytes{14 * unit, 14 * unit, 0}, HeldBytes{14 * unit, 0, 0}));
    EXPECT_FALSE(model.heldBytes({{ModuleId(7), {}}}).ok());
}

TEST(PredictPasses, NothingCanBeKeptForSeveralPasses)
{
    TwoSaved twice;
    twice.pass(0, {twice.pb});
    twice.pass(1, {twice.pa});
    twice.step.release({twice.pb, twice.pa});
    EXPECT_THAT(StepModel(twice.step.finish()).savableOps(blockId), ElementsAre(false, false));

    TwoSaved once;
    once.pass(7, {once.pb, once.pa});
    once.step.release({once.pb, once.pa});
    EXPECT_THAT(StepModel(once.step.finish()).savableOps(blockId), ElementsAre(true, true));
}

TEST(PredictPasses, NothingCanBeKeptWhereOpsRunInSubclasses)
{
    HandStep step;
    for (const ModuleId module : {HandStep::other, HandStep::block, HandStep::block}) {
        step.enter(module, {step.batch});
        const StorageId made = step.make("aten.mm.default", 4);
        step.exit();
        step.free({made});
    }
    // In the last call of the block something runs inside of a subclass.
    step.enter(HandStep::block, {step.batch});
    StepTraceBuilder::Op product;
    product.name = step.builder.string("aten.mm.default");
    const OpId id = step.builder.beginOp(product);
    step.builder.endOp(id, {.flags = opInSubclass, .ms = 1});
    step.exit();
    const StepModel model(step.finish());
    EXPECT_THAT(model.savableOps(HandStep::other), ElementsAre(true));
    EXPECT_THAT(model.savableOps(blockId), ElementsAre(false));
    EXPECT_FALSE(model.isWholeOnly(HandStep::other));
    EXPECT_TRUE(model.isWholeOnly(blockId));
    const Result<ModuleInfo> info = modulesToPlan(model);
    ASSERT_TRUE(info.ok()) << info.error().message;
    for (const ModuleStats& stats : info->stats)
        EXPECT_EQ(stats.obstacleToOffload.find("tensor subclasses") != std::string::npos, stats.isWholeOnly)
            << stats.fqn;
}

namespace {

/// Two calls of a block under one autocast: the first casts the weight, the second finds the cast in autocast's cache.
struct CastStep
{
    HandStep step;
    StorageId cast;
    std::vector<PackId> packs;

    /// `castsInput`: the input of the second call has another type, and 3 units in the weight's.
    explicit CastStep(bool castsInput = false)
    {
        call(true, false);
        call(false, castsInput);
    }

    void call(bool first, bool castsInput = false)
    {
        step.enter(blockId, {step.batch});
        if (first) {
            StepTraceBuilder::Op op;
            op.name = step.builder.string("aten._to_copy.default");
            op.module = blockId;
            const OpId id = step.builder.beginOp(op);
            cast = step.builder.alloc(5 * allocationGranularity, Category::activation, id);
            const StorageId outputs[] = {cast};
            step.builder.endOp(id, {.flags = opAutocastCast, .ms = 1, .outputs = outputs});
        }
        StorageId input = step.batch;
        if (castsInput) {
            StepTraceBuilder::Op op;
            op.name = step.builder.string("aten._to_copy.default");
            op.module = blockId;
            const StorageId inputs[] = {step.batch};
            const OpId id = step.builder.beginOp(op);
            input = step.builder.alloc(3 * allocationGranularity, Category::activation, id);
            const StorageId outputs[] = {input};
            step.builder.endOp(id, {.ms = 1, .inputs = inputs, .outputs = outputs});
        }
        StepTraceBuilder::Op op;
        op.name = step.builder.string("aten.mm.default");
        op.module = blockId;
        const StorageId inputs[] = {input, cast};
        packs.push_back(step.pack(cast));
        const OpId id = step.builder.beginOp(op);
        const StorageId result = step.builder.alloc(16 * allocationGranularity, Category::activation, id);
        const StorageId outputs[] = {result};
        step.builder.endOp(id, {.ms = 10, .inputs = inputs, .outputs = outputs});
        packs.push_back(step.pack(result));
        step.free({result});
        if (castsInput)
            step.free({input});
        step.exit();
    }

    void backward()
    {
        for (std::size_t i = packs.size(); i-- > 0;) {
            step.unpack({packs[i]});
            step.unpackEnd({packs[i]});
            step.release({packs[i]});
        }
    }
};

} // namespace

TEST(PredictCasts, ACallThatFoundACastMakesItInItsRecomputation)
{
    CastStep autocast;
    autocast.step.free({autocast.cast}); // autocast is left
    autocast.backward();
    const Timeline t = predicted(autocast.step.finish(), {{blockId, {}}});
    EXPECT_EQ(t.recomputeMs, 22);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 19, 35, 19, 35, 19, 14, // the forwards; the cast goes with autocast
                            19, 35, 19, 14, // the second call: cast, product
                            19, 35, 19, 14));
}

// A shared block, whose first input came from autocast and needed no cast: nothing beside the weight's cast says which
// of the two comes first.
TEST(PredictCasts, AWeightIsCastBeforeTheInput)
{
    CastStep autocast(true);
    autocast.step.free({autocast.cast});
    autocast.backward();
    const Timeline t = predicted(autocast.step.finish(), {{blockId, {}}});
    EXPECT_THAT(totals(t, 8, 12), ElementsAre(14, 19, 22, 38)); // the weight's cast, the input's, the product
}

// Backward inside of autocast: the first recomputation empties the cache.
TEST(PredictCasts, ARecomputationEmptiesAutocastsCache)
{
    CastStep autocast;
    autocast.backward();
    autocast.step.free({autocast.cast});
    const Timeline t = predicted(autocast.step.finish(), {{blockId, {}}});
    EXPECT_EQ(t.recomputeMs, 22);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 19, 35, 19, 35, 19, 14, // the cast goes when the first recomputation begins
                            19, 35, 19, 14, 19, 35, 19, 14));
}

TEST(PredictCasts, ACastHasNoIndexAndIsNeverKept)
{
    CastStep autocast;
    autocast.step.free({autocast.cast});
    autocast.backward();
    const StepTracePtr trace = autocast.step.finish();
    const std::vector<OpId> ops = StepModel(trace).regionOps(blockId);
    ASSERT_EQ(ops.size(), 1U);
    EXPECT_EQ(trace->opName(ops[0]), "aten.mm.default");
}

TEST(PredictObstacles, AnArgumentThatIsChangedInPlace)
{
    for (const bool inside : {true, false}) {
        HandStep step;
        const StorageId x = step.make("X", 8);
        step.enter(blockId, {x});
        const StorageId a = step.make("A", 16);
        const PackId saved = step.pack(a);
        if (inside)
            step.op("aten.add_.Tensor", {}, {x});
        step.exit();
        if (!inside)
            step.op("aten.add_.Tensor", {}, {x});
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        step.op("aten.zero_.default", {}, {x}); // backward is over: this one is in nobody's way
        EXPECT_THAT(refusal(step.finish(), {{blockId, {}}}),
                    HasSubstr("Net.block cannot be checkpointed: an argument of the module is changed in place"));
    }
}

TEST(PredictObstacles, AnArgumentThatIsChangedAfterBackwardIsNone)
{
    HandStep step;
    const StorageId x = step.make("X", 8);
    step.enter(blockId, {x});
    const PackId saved = step.pack(step.make("A", 16));
    step.exit();
    step.unpack({saved});
    step.unpackEnd({saved});
    step.release({saved});
    step.op("aten.zero_.default", {}, {x});
    EXPECT_EQ(refusal(step.finish(), {{blockId, {}}}), "");
}

namespace {

/// An op that reads `inputs` and changes `mutated`; returns its result of so many units.
StorageId reading(HandStep& step, const char* name, std::span<const StorageId> inputs, Bytes units,
                  std::span<const StorageId> mutated = {})
{
    StepTraceBuilder::Op op;
    op.name = step.builder.string(name);
    const OpId id = step.builder.beginOp(op);
    const StorageId outputs[] = {step.builder.alloc(units * allocationGranularity, Category::activation, id)};
    step.builder.endOp(id, {.ms = 1, .inputs = inputs, .outputs = outputs, .mutated = mutated});
    return outputs[0];
}

} // namespace

TEST(PredictObstacles, AStateThatIsReadAndChanged)
{
    const auto run = [](bool reads) {
        HandStep step;
        const StorageId buffer = step.make("running_mean", 2);
        step.enter(blockId, {step.batch});
        const StorageId inputs[] = {step.batch, buffer};
        const PackId saved = step.pack(reading(step, "aten.mul.Tensor", std::span(inputs).first(reads ? 2 : 1), 16));
        step.op("aten.add_.Tensor", {}, {buffer});
        step.exit();
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        return refusal(step.finish(), {{blockId, {}}});
    };
    EXPECT_THAT(run(true),
                HasSubstr("Net.block cannot be checkpointed: the module reads a tensor that is changed in place"));
    EXPECT_EQ(run(false), "");
}

// A fake quantization that updates its range and quantizes with it; batch normalisation does not use what it updates.
TEST(PredictObstacles, AnOpThatComputesWithTheStateItChanges)
{
    const auto run = [](const char* name) {
        HandStep step;
        const StorageId range = step.make("range", 2);
        step.enter(blockId, {step.batch});
        const StorageId inputs[] = {step.batch, range};
        const PackId saved = step.pack(reading(step, name, inputs, 16, std::span(inputs).last(1)));
        step.exit();
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        return refusal(step.finish(), {{blockId, {}}});
    };
    EXPECT_THAT(run("aten._fused_moving_avg_obs_fq_helper.default"),
                HasSubstr("an op of the module computes with a state that the op itself changes"));
    EXPECT_THAT(run("library.scaled.default"), HasSubstr("a state that the op itself changes"));
    EXPECT_EQ(run("aten.native_batch_norm.default"), "");
}

// A counter of a module scales what another module saves, in this step after backward or in each one.
TEST(PredictObstacles, AStateThatIsReadElsewhere)
{
    enum class Read { never, asView, byAnother, byBroadcast };
    const auto run = [](Read read) {
        HandStep step;
        const StorageId count = step.make("count", 2);
        step.enter(blockId, {step.batch});
        const PackId saved = step.pack(step.make("A", 16));
        step.op("aten.add_.Tensor", {}, {count});
        step.exit();
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        const StorageId inputs[] = {step.batch, count};
        if (read == Read::asView) {
            StepTraceBuilder::Op view;
            view.name = step.builder.string("aten.select.int");
            step.builder.endOp(step.builder.beginOp(view),
                               {.ms = 0, .inputs = std::span(inputs).last(1), .outputs = std::span(inputs).last(1)});
        } else if (read == Read::byAnother) {
            step.release({step.pack(reading(step, "aten.mul.Tensor", inputs, 4))});
        } else if (read == Read::byBroadcast) {
            const StorageId flat[] = {reading(step, "aten.cat.default", std::span(inputs).last(1), 4), count};
            StepTraceBuilder::Op copy;
            copy.name = step.builder.string("aten.copy_.default");
            step.builder.endOp(step.builder.beginOp(copy),
                               {.ms = 1, .inputs = flat, .mutated = std::span(flat).last(1)});
        }
        return refusal(step.finish(), {{blockId, {}}});
    };
    EXPECT_THAT(run(Read::byAnother), HasSubstr("the module changes a tensor in place that the step reads elsewhere"));
    EXPECT_EQ(run(Read::never), "");
    EXPECT_EQ(run(Read::asView), "");
    EXPECT_EQ(run(Read::byBroadcast), "") << "DistributedDataParallel's of buffers";
}

// self.memory is read and then replaced by the call's own: run again, the module would read that one.
TEST(PredictObstacles, AStateThatIsReadAndReplaced)
{
    const auto run = [](bool reads, bool replaced) {
        HandStep step;
        const StorageId memory = step.make("memory", 2);
        step.enter(blockId, {step.batch});
        const StorageId inputs[] = {step.batch, memory};
        const PackId saved = step.pack(reading(step, "aten.cat.default", std::span(inputs).first(reads ? 2 : 1), 16));
        if (replaced)
            step.free({memory});
        step.exit();
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        if (!replaced)
            step.free({memory}); // after backward
        return refusal(step.finish(), {{blockId, {}}});
    };
    EXPECT_THAT(run(true, true), HasSubstr("the module reads a tensor that the program replaces before backward"));
    EXPECT_EQ(run(false, true), "");
    EXPECT_EQ(run(true, false), "");
}

// A gather begins in a module, or it began before and the module copies a parameter out of its buffer.
TEST(PredictObstacles, ModulesInWhichZeroGathers)
{
    const auto run = [](bool zero, bool begins, bool ends) {
        HandStep step;
        if (zero)
            step.builder.info.settings = {{"parameters gathered by", "ZeRO-3"}};
        const StorageId buffer = step.make("aten.empty.memory_format", 2);
        step.builder.retype(buffer, Category::communication);
        const StorageId parameter = step.make("aten.empty.memory_format", 2);
        step.builder.retype(parameter, Category::unshardedParameter);
        step.enter(blockId, {step.batch});
        if (begins)
            step.op("c10d.allgather_.default", {}, {parameter});
        const StorageId inputs[] = {parameter, buffer};
        const PackId saved = step.pack(reading(step, "aten.cat.default", std::span(inputs).first(ends ? 2 : 1), 16));
        step.exit();
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        step.free({buffer, parameter});
        return refusal(step.finish(), {{blockId, {}}});
    };
    EXPECT_THAT(run(true, true, false), HasSubstr("ZeRO-3 gathers parameters inside of the module"));
    EXPECT_THAT(run(true, false, true), HasSubstr("ZeRO-3 gathers parameters inside of the module"));
    EXPECT_EQ(run(true, false, false), "");
    EXPECT_THAT(run(false, true, false), HasSubstr("are gathered in turn: checkpoint the submodules"));
    EXPECT_EQ(run(false, false, true), "");
}

// self.mean = 0.9 * self.mean + …: nothing of it is in the module's result or in what autograd saves.
TEST(PredictObstacles, AStateThatOnlyTheNextOneIsMadeOfIsNone)
{
    HandStep step;
    const StorageId mean = step.make("mean", 2);
    step.enter(blockId, {step.batch});
    const StorageId inputs[] = {mean};
    reading(step, "aten.mul.Tensor", inputs, 2);
    step.free({mean});
    const PackId saved = step.pack(step.make("aten.exp.default", 16));
    step.exit();
    step.unpack({saved});
    step.unpackEnd({saved});
    step.release({saved});
    EXPECT_EQ(refusal(step.finish(), {{blockId, {}}}), "");
}

TEST(PredictObstacles, ABackwardPassInsideOfTheForward)
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const PackId saved = step.pack(step.make("A", 16));
    step.builder.unpack(saved, 0);
    step.unpackEnd({saved});
    step.exit();
    step.builder.unpack(saved, 1);
    step.unpackEnd({saved});
    step.release({saved});
    EXPECT_THAT(refusal(step.finish(), {{blockId, {}}}),
                HasSubstr("the module's forward runs a backward pass, or reads what autograd has saved"));
}

// A weight that autocast cast before a backward pass is used after it: recomputations would have emptied the cache.
TEST(PredictObstacles, AutocastThatStaysOpenOverABackwardPass)
{
    CastStep autocast;
    autocast.backward();
    autocast.call(false);
    autocast.step.free({autocast.cast});
    EXPECT_THAT(refusal(autocast.step.finish(), {{blockId, {}}}), HasSubstr("torch.autocast stays open"));
}

// Its own graph: after it autograd's order depends on how many nodes were made before.
TEST(PredictObstacles, ABackwardPassThatBuildsAGraph)
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const PackId saved = step.pack(step.make("A", 16));
    step.exit();
    StepTraceBuilder::Op op;
    op.name = step.builder.string("aten.mul.Tensor");
    op.node = step.builder.string("TanhBackward0");
    op.phase = Phase::backward;
    const OpId id = step.builder.beginOp(op);
    step.builder.endOp(id, {.ms = 1});
    step.builder.release(step.builder.pack(step.batch, id));
    step.unpack({saved});
    step.unpackEnd({saved});
    step.release({saved});
    EXPECT_THAT(refusal(step.finish(), {{blockId, {}}}), HasSubstr("create_graph"));
}

TEST(PredictObstacles, ACheckpointOfTheProgramsOwnInside)
{
    HandStep step;
    const auto callOther = [&](bool again) {
        step.enter(HandStep::other, {step.batch});
        StepTraceBuilder::Op op;
        op.name = step.builder.string("aten.mm.default");
        op.call = CallId(again ? 2 : 1);
        op.module = HandStep::other;
        const OpId id = step.builder.beginOp(op);
        step.builder.endOp(id, {.flags = static_cast<std::uint16_t>(again ? opRecomputed : 0), .ms = 1});
        step.exit();
    };
    step.enter(blockId, {step.batch});
    const PackId saved = step.pack(step.batch);
    callOther(false);
    step.exit();
    step.unpack({saved});
    callOther(true);
    step.unpackEnd({saved});
    step.release({saved});
    EXPECT_THAT(refusal(step.finish(), {{blockId, {}}}),
                HasSubstr("the program already checkpoints a part of the module"));
}
