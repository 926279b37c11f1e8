// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/trace/graph_ops.h"
#include "core/trace/step_trace_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

/// A step that starts with a 64 MiB parameter and the 30 MiB output of the step before, makes its own output and a
/// 100-byte temporary, and drops the old output only then.
StepTracePtr stepThatHoldsItsOutput()
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId old = builder.alloc(30 * MiB, Category::activation, {});
    builder.mark(Mark::stepBegin);
    const StorageId small = builder.alloc(100, Category::activation, {});
    builder.alloc(30 * MiB, Category::activation, {});
    builder.free(old);
    builder.mark(Mark::forwardEnd);
    builder.mark(Mark::backwardEnd);
    builder.mark(Mark::stepEnd);
    builder.free(small);
    builder.mark(Mark::zeroGradEnd);
    Result<StepTracePtr> trace = builder.finish();
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    return *trace;
}

TEST(AllocatorReplay, RepeatsTheStepOnTheCacheOfTheOneBefore)
{
    const StepTracePtr trace = stepThatHoldsItsOutput();
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;

    const CachingAllocator::Stats stats = simulateAllocator(*trace, *timeline, {}).stats;
    EXPECT_EQ(stats.requestedPeak, 124 * MiB + 100) << "parameter, both outputs, and the temporary as asked for";
    EXPECT_EQ(stats.allocatedPeak, 124 * MiB + 512) << "the same in blocks";
    EXPECT_EQ(stats.reservedPeak, 126 * MiB) << "segments of 64, 30, 30 and 2 MiB, each reused by the next step";
    EXPECT_EQ(stats.allocated, 94 * MiB) << "what the next step starts from";
}

TEST(AllocatorReplay, RetriesOfTheFirstRunDoNotCount)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.mark(Mark::stepBegin);
    for (const Bytes bytes : {6 * GiB, 7 * GiB})
        builder.free(builder.alloc(bytes, Category::temporary, {}));
    builder.mark(Mark::stepEnd);
    const StepTracePtr trace = *builder.finish();
    AllocatorRules rules;
    rules.capacity = 12 * GiB;
    const AllocatorRun run = simulateAllocator(*trace, *predict(*trace, {}), rules);
    ASSERT_FALSE(run.failure);
    EXPECT_EQ(run.stats.retries, 0) << "the segment of 7 GiB serves both from the second step on";
    EXPECT_EQ(run.stats.reservedPeak, 7 * GiB);
}

TEST(AllocatorReplay, WhatAutogradAloneHoldsIsThereAtTheStart)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    const StorageId saved = builder.alloc(30 * MiB, Category::activation, {});
    const PackId pack = builder.pack(saved, {});
    builder.free(saved);
    builder.mark(Mark::stepBegin);
    builder.release(pack);
    const Result<StepTracePtr> trace = builder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(simulateAllocator(**trace, *predict(**trace, {}), {}).start.active, 30 * MiB);
}

// All that the step reserves is reserved when it begins again: what is in use is told of where most of it is.
TEST(AllocatorReplay, ThePeakIsWhereMostOfWhatIsReservedIsInUse)
{
    const StepTracePtr trace = stepThatHoldsItsOutput();
    const AllocatorRun run = simulateAllocator(*trace, *predict(*trace, {}), {});
    EXPECT_EQ(run.start.reserved, 126 * MiB);
    EXPECT_EQ(run.start.active, 94 * MiB);
    EXPECT_EQ(run.atPeak.reserved, 126 * MiB);
    EXPECT_EQ(run.atPeak.active, 124 * MiB + 512) << "both outputs";
}

/// A graph takes 30 MiB of its pool, gives them back, and eager code takes 30 MiB.
StepTracePtr stepOfAGraph(std::vector<std::pair<std::string, std::string>> settings = {})
{
    StepTraceBuilder builder;
    builder.info.settings = std::move(settings);
    builder.addModule("Net", "Net", {});
    builder.mark(Mark::stepBegin);
    const StorageId inGraph = builder.alloc(30 * MiB, Category::activation, {});
    builder.setStream(inGraph, placeOf(1, 1));
    builder.free(inGraph);
    const StorageId eager = builder.alloc(30 * MiB, Category::activation, {});
    builder.free(eager);
    Result<StepTracePtr> trace = builder.finish();
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    return *trace;
}

TEST(AllocatorReplay, APrivatePoolKeepsItsSegments)
{
    const StepTracePtr trace = stepOfAGraph();
    const Timeline timeline = *predict(*trace, {});
    EXPECT_EQ(simulateAllocator(*trace, timeline, {}).stats.reservedPeak, 60 * MiB);
    AllocatorRules card;
    card.capacity = 50 * MiB;
    EXPECT_TRUE(simulateAllocator(*trace, timeline, card).failure) << "a full device releases no graph's memory";
}

TEST(AllocatorReplay, APrivatePoolHasTheSegmentsOfItsWarmUp)
{
    const StepTracePtr trace = stepOfAGraph({{"private pools", "65537:large:41943040 65537:small:2097152 nonsense"}});
    const AllocatorRun run = simulateAllocator(*trace, *predict(*trace, {}), {});
    EXPECT_EQ(run.stats.reservedPeak, 72 * MiB) << "40 MiB, of which the graph uses 30, 2 MiB, and eager's 30 MiB";
    EXPECT_EQ(run.stats.activePeak, 30 * MiB);
    EXPECT_EQ(run.mostHeld, 72 * MiB) << "nothing else can use the pool's 42 MiB";
}

TEST(AllocatorReplay, ARetypeMovesNoBlock)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.mark(Mark::stepBegin);
    const StorageId gradient = builder.alloc(12 * MiB, Category::temporary, {});
    builder.mark(Mark::forwardEnd);
    builder.retype(gradient, Category::gradient);
    builder.mark(Mark::backwardEnd);
    builder.mark(Mark::stepEnd);
    builder.free(gradient);
    builder.mark(Mark::zeroGradEnd);
    const Result<StepTracePtr> trace = builder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    const Result<Timeline> timeline = predict(**trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    EXPECT_EQ(simulateAllocator(**trace, *timeline, {}).stats.reservedPeak, 12 * MiB);
}

/// A step whose optimizer state of 12 MiB was made by an earlier step: 40 MiB of activations, then an optimizer's op
/// that updates the state. `inputs` of the op read the state.
TEST(AllocatorReplay, OptimizerStateLiesWhereTheFirstStepsActivationsWere)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId state = builder.alloc(12 * MiB, Category::optimizer, {});
    builder.mark(Mark::stepBegin);
    const StorageId activation = builder.alloc(40 * MiB, Category::activation, {});
    builder.mark(Mark::forwardEnd);
    builder.free(activation);
    builder.mark(Mark::backwardEnd);
    const OpId op = builder.beginOp({builder.string("aten._foreach_add_.Scalar"), {}, net, {}, {}, Phase::optimizer});
    const StorageId temporary = builder.alloc(2 * MiB, Category::temporary, op);
    StepTraceBuilder::OpResult result;
    const std::vector<StorageId> inputs{state};
    result.inputs = inputs;
    builder.endOp(op, result);
    builder.free(temporary);
    builder.mark(Mark::stepEnd);
    const StepTracePtr trace = *builder.finish();
    const AllocatorRun run = simulateAllocator(*trace, *predict(*trace, {}), {});
    // The first step reserves 64 and 40 MiB, and puts the state into the 40 MiB. The second needs 40 MiB anew.
    EXPECT_EQ(run.stats.reservedPeak, 144 * MiB);
    EXPECT_EQ(run.step, 3) << "the third step changes no segment";
    EXPECT_EQ(run.stats.activePeak, 116 * MiB);

    AllocatorRules card;
    card.capacity = 120 * MiB;
    const AllocatorRun full = simulateAllocator(*trace, *predict(*trace, {}), card);
    ASSERT_TRUE(full.failure) << "116 MiB are in use at most, and the 28 free ones beside the state are of no use";
    EXPECT_EQ(full.step, 2);
}

/// A step of a 64 MiB parameter, a 12 MiB batch that is there when it begins, and 40 MiB of activations.
StepTracePtr stepWithABatch(StepTraceBuilder::Outside beforeTraining, StepTraceBuilder::Outside betweenSteps)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    builder.alloc(12 * MiB, Category::input, {});
    builder.mark(Mark::stepBegin);
    const StorageId activation = builder.alloc(40 * MiB, Category::activation, {});
    builder.mark(Mark::forwardEnd);
    builder.free(activation);
    builder.mark(Mark::backwardEnd);
    builder.mark(Mark::stepEnd);
    builder.setOutside(std::move(beforeTraining), std::move(betweenSteps));
    const Result<StepTracePtr> trace = builder.finish();
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    return *trace;
}

AllocatorRun replayed(const StepTrace& trace, Bytes capacity = AllocatorRules::unlimited)
{
    AllocatorRules rules;
    rules.capacity = capacity;
    return simulateAllocator(trace, *predict(trace, {}), rules);
}

TEST(AllocatorReplay, WhatTheProgramDidBeforeTrainingIsReserved)
{
    using enum OutsideKind;
    EXPECT_EQ(replayed(*stepWithABatch({}, {})).stats.reservedPeak, 116 * MiB);
    // The parameter, an evaluation that takes 30 MiB and frees them, and the batch, which lies in these 30 MiB.
    const auto evaluation = [](OutsideKind last) -> StepTraceBuilder::Outside {
        return {{alloc, alloc, free, last, alloc},
                {64 * MiB, 30 * MiB, 30 * MiB, 0, 12 * MiB},
                {0, 0, 0, 0, 0},
                {0, 0, 1, 0, 0}};
    };
    EXPECT_EQ(replayed(*stepWithABatch(evaluation(alloc), {})).stats.reservedPeak, 134 * MiB);
    EXPECT_EQ(replayed(*stepWithABatch(evaluation(emptyCache), {})).stats.reservedPeak, 116 * MiB);
}

TEST(AllocatorReplay, WhatTheProgramDoesBetweenStepsIsReserved)
{
    using enum OutsideKind;
    // An evaluation takes 60 MiB while the last batch is there; then the batch is replaced.
    const StepTracePtr trace = stepWithABatch(
        {}, {{alloc, free, alloc, freeOlder}, {60 * MiB, 60 * MiB, 12 * MiB, 12 * MiB}, {0, 0, 0, 0}, {0, 0, 0, 0}});
    const AllocatorRun run = replayed(*trace);
    EXPECT_EQ(run.stats.reservedPeak, 176 * MiB) << "64, 12, 40 and 60 MiB, in which the second batch lies";
    EXPECT_EQ(run.stats.activePeak, 116 * MiB) << "of a step";

    const AllocatorRun full = replayed(*trace, 130 * MiB);
    ASSERT_TRUE(full.failure) << "the evaluation finds 54 MiB beside parameter and batch";
    EXPECT_EQ(full.failure->change, AllocatorRun::Failure::npos);
    EXPECT_THAT(
        outOfMemorySentence(*trace, *full.failure),
        ::testing::StartsWith("out of memory outside of forward, backward and optimizer: a block of 60.00 MiB"));
    EXPECT_FALSE(replayed(*trace, 176 * MiB).failure);
}

TEST(AllocatorReplay, ABlockThatNoStepKnowsLivesForOneStep)
{
    using enum OutsideKind;
    const AllocatorRun run = replayed(*stepWithABatch({}, {{alloc}, {100 * MiB}, {0}, {0}}));
    EXPECT_EQ(run.stats.reservedPeak, 216 * MiB);
    EXPECT_EQ(run.stats.activePeak, 216 * MiB) << "it is there during the step, and freed after it";
}

/// A step of a 64 MiB parameter that makes the batch of the next step, 12 MiB, beside the one with which it begins.
StepTracePtr stepThatFetchesABatch(bool usesItsOwn)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId batch = builder.alloc(12 * MiB, Category::input, {});
    builder.mark(Mark::stepBegin);
    const OpId op = builder.beginOp({builder.string("aten.sum.default"), {}, net, {}, {}, Phase::forward});
    StepTraceBuilder::OpResult result;
    const std::vector<StorageId> inputs{batch};
    if (usesItsOwn)
        result.inputs = inputs;
    builder.endOp(op, result);
    builder.mark(Mark::forwardEnd);
    builder.mark(Mark::backwardEnd);
    builder.alloc(12 * MiB, Category::input, {});
    builder.free(batch);
    builder.mark(Mark::stepEnd);
    return *builder.finish();
}

TEST(AllocatorReplay, ABlockThatTheStepUsesIsThereInTheFirstOne)
{
    const AllocatorRun used = replayed(*stepThatFetchesABatch(true), 80 * MiB);
    ASSERT_TRUE(used.failure);
    EXPECT_EQ(used.step, 1) << "a batch that an op uses exists, and the next one has no room beside it";
    const AllocatorRun unused = replayed(*stepThatFetchesABatch(false), 80 * MiB);
    ASSERT_TRUE(unused.failure);
    EXPECT_EQ(unused.step, 2) << "what no op uses is left by the step before";
    EXPECT_EQ(replayed(*stepThatFetchesABatch(true)).stats.reservedPeak, 88 * MiB);
}

TEST(AllocatorReplay, SaysWhetherTheStepsRepeat)
{
    EXPECT_TRUE(replayed(*stepThatFetchesABatch(true)).repeats);
    EXPECT_FALSE(replayed(*stepThatFetchesABatch(true), 80 * MiB).repeats);
}

/// A fused optimizer's ops work in place: no change of memory is theirs.
TEST(AllocatorReplay, OptimizerStateIsMadeBesideTheGradientsWhereItsOpsWorkInPlace)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId state = builder.alloc(30 * MiB, Category::optimizer, {});
    builder.mark(Mark::stepBegin);
    builder.mark(Mark::forwardEnd);
    const StorageId gradient = builder.alloc(40 * MiB, Category::gradient, {});
    builder.mark(Mark::backwardEnd);
    const OpId op = builder.beginOp({builder.string("aten._fused_adamw_.default"), {}, net, {}, {}, Phase::optimizer});
    StepTraceBuilder::OpResult result;
    const std::vector<StorageId> inputs{state};
    result.inputs = inputs;
    result.ms = 2;
    builder.endOp(op, result);
    builder.mark(Mark::stepEnd);
    builder.free(gradient);
    builder.mark(Mark::zeroGradEnd);
    const StepTracePtr trace = *builder.finish();
    const AllocatorRun run = simulateAllocator(*trace, *predict(*trace, {}), {});
    EXPECT_EQ(run.stats.reservedPeak, 134 * MiB) << "the state does not lie in what zero_grad() frees";
}

/// Runs an op that takes 1 ms. `created`: bytes of a temporary that the op allocates; 0: none, an invalid storage.
StorageId runOp(StepTraceBuilder& builder, ModuleId net, const char* name, Phase phase, std::vector<StorageId> inputs,
                Bytes created = 0)
{
    const OpId op = builder.beginOp({builder.string(name), {}, net, {}, {}, phase});
    const StorageId temporary = created > 0 ? builder.alloc(created, Category::temporary, op) : StorageId();
    StepTraceBuilder::OpResult result;
    result.inputs = inputs;
    result.ms = 1;
    builder.endOp(op, result);
    return temporary;
}

/// As clip_grad_norm_ does, whose ops run after backward and before the optimizer's step.
TEST(AllocatorReplay, OptimizerStateLiesWhereTheTemporariesOfAClipWere)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId state = builder.alloc(30 * MiB, Category::optimizer, {});
    builder.mark(Mark::stepBegin);
    builder.mark(Mark::forwardEnd);
    builder.mark(Mark::backwardEnd);
    builder.free(runOp(builder, net, "aten._foreach_norm.Scalar", Phase::forward, {}, 30 * MiB));
    runOp(builder, net, "aten._fused_adamw_.default", Phase::optimizer, {state});
    builder.mark(Mark::stepEnd);
    const AllocatorRun full = replayed(**builder.finish(), 100 * MiB);
    ASSERT_TRUE(full.failure) << "from the second step on the norms have a place beside the state";
    EXPECT_EQ(full.step, 2) << "in the first step the state lies where the norms were";
}

/// A step on a 64 MiB parameter with two parameter groups, whose optimizer makes a temporary of 30 MiB for the first
/// group, which has 12 MiB of state. The second group has 30 MiB of state, and another 12 MiB if `isMixed`: the state
/// of a group with two dtypes, whose ops run after each other.
StepTracePtr stepWithGroups(bool isMixed)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    StorageId second = isMixed ? builder.alloc(30 * MiB, Category::optimizer, {}) : StorageId();
    const StorageId first = builder.alloc(12 * MiB, Category::optimizer, {});
    if (!isMixed)
        second = builder.alloc(30 * MiB, Category::optimizer, {});
    builder.mark(Mark::stepBegin);
    builder.mark(Mark::forwardEnd);
    builder.mark(Mark::backwardEnd);
    builder.free(runOp(builder, net, "aten._foreach_sqrt.default", Phase::optimizer, {first}, 30 * MiB));
    runOp(builder, net, "aten._foreach_lerp_.Scalar", Phase::optimizer, {second});
    builder.mark(Mark::stepEnd);
    return *builder.finish();
}

TEST(AllocatorReplay, StateOfAParameterGroupLiesWhereTheTemporariesOfTheGroupBeforeWere)
{
    EXPECT_EQ(replayed(*stepWithGroups(false), 110 * MiB).step, 2) << "the first step has room for both in turn";
    EXPECT_EQ(replayed(*stepWithGroups(true), 110 * MiB).step, 1) << "the state of a group is made at once";
}

/// SGD's first step copies the gradients, to which weight decay was added, to the momentum.
TEST(AllocatorReplay, MomentumIsMadeBesideTheGradientsWithWeightDecay)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId momentum = builder.alloc(30 * MiB, Category::optimizer, {});
    builder.mark(Mark::stepBegin);
    const StorageId activation = builder.alloc(40 * MiB, Category::activation, {});
    builder.mark(Mark::forwardEnd);
    builder.free(activation);
    builder.mark(Mark::backwardEnd);
    const StorageId decayed = runOp(builder, net, "aten._foreach_add.List", Phase::optimizer, {}, 30 * MiB);
    runOp(builder, net, "aten._foreach_mul_.Scalar", Phase::optimizer, {momentum});
    runOp(builder, net, "aten._foreach_add_.List", Phase::optimizer, {momentum, decayed});
    builder.free(decayed);
    builder.mark(Mark::stepEnd);
    EXPECT_EQ(replayed(**builder.finish()).stats.reservedPeak, 134 * MiB)
        << "the momentum does not lie in the place of activations";
}

/// As GradScaler's scale and growth tracker, made when the scaler first scales a loss.
TEST(AllocatorReplay, WhatTheFirstStepMakesLiesWhereItsActivationsWere)
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId scale = builder.alloc(12 * MiB, Category::activation, {});
    const StorageId tracker = builder.alloc(12 * MiB, Category::activation, {});
    builder.mark(Mark::stepBegin);
    const StorageId activation = builder.alloc(40 * MiB, Category::activation, {});
    builder.free(activation);
    builder.free(runOp(builder, net, "aten.mul.Tensor", Phase::forward, {scale}, 28 * MiB));
    builder.mark(Mark::forwardEnd);
    builder.mark(Mark::backwardEnd);
    runOp(builder, net, "aten._amp_update_scale_.default", Phase::forward, {scale, tracker});
    builder.mark(Mark::stepEnd);
    using enum OutsideKind;
    builder.setOutside({{alloc}, {64 * MiB}, {0}, {0}}, {});
    EXPECT_EQ(replayed(**builder.finish()).stats.reservedPeak, 172 * MiB)
        << "64, 40 for both, 28 beside, and 40 for the second step's activation";
}

/// As CUDA's context on a real device, and what libraries take there while the step runs.
TEST(AllocatorReplay, WhatIsNotPyTorchsTakesNoSegment)
{
    StepTraceBuilder builder;
    builder.info.simulated = false;
    builder.info.measured = MeasuredStep();
    builder.addModule("Net", "Net", {});
    const StorageId context = builder.alloc(500 * MiB, Category::nonPyTorch, {});
    builder.mark(Mark::stepBegin);
    const StorageId made = builder.alloc(12 * MiB, Category::activation, {});
    builder.resize(context, 600 * MiB);
    builder.free(made);
    builder.mark(Mark::stepEnd);
    const Result<StepTracePtr> trace = builder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    const Result<Timeline> timeline = predict(**trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    const AllocatorRun run = simulateAllocator(**trace, *timeline, {});
    EXPECT_EQ(run.samples.size(), timeline->changes.size());
    EXPECT_EQ(run.stats.activePeak, 12 * MiB);
    EXPECT_EQ(run.stats.reservedPeak, 12 * MiB);
}

/// 12 MiB for the step, twice 30 MiB one after the other, 40 MiB in an op at the end.
StepTracePtr stepWithAnOp()
{
    StepTraceBuilder builder;
    const ModuleId net = builder.addModule("Net", "Net", {});
    const ModuleId head = builder.addModule("Net.head", "Linear", net);
    builder.alloc(12 * MiB, Category::parameter, {});
    builder.mark(Mark::stepBegin);
    const StorageId first = builder.alloc(30 * MiB, Category::activation, {});
    builder.free(first);
    const OpId op = builder.beginOp({builder.string("aten.mm.default"), {}, head, {}, {}, Phase::forward});
    const StorageId second = builder.alloc(40 * MiB, Category::activation, op);
    StepTraceBuilder::OpResult result;
    result.ms = 2.5;
    builder.endOp(op, result);
    builder.free(second);
    builder.mark(Mark::stepEnd);
    Result<StepTracePtr> trace = builder.finish();
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    return *trace;
}

TEST(AllocatorReplay, SamplesFollowTheTimeline)
{
    const StepTracePtr trace = stepWithAnOp();
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    const AllocatorRun run = simulateAllocator(*trace, *timeline, {});
    ASSERT_EQ(run.samples.size(), timeline->changes.size());
    // The step before left 30 and 40 MiB in the cache: 30 are taken as they are, 40 too.
    EXPECT_EQ(run.start, (AllocatorSample{12 * MiB, 12 * MiB, 12 * MiB, 82 * MiB, 0}));
    EXPECT_EQ(run.samples[0], (AllocatorSample{42 * MiB, 42 * MiB, 42 * MiB, 82 * MiB, 0}));
    EXPECT_EQ(run.samples[2].active, 52 * MiB);
    EXPECT_EQ(run.stats.reservedPeak, 82 * MiB);
    EXPECT_FALSE(run.failure.has_value());
}

TEST(AllocatorReplay, SaysWhereTheCardIsFull)
{
    const StepTracePtr trace = stepWithAnOp();
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    AllocatorRules rules;
    rules.capacity = 50 * MiB;
    const AllocatorRun run = simulateAllocator(*trace, *timeline, rules);
    ASSERT_TRUE(run.failure.has_value());
    EXPECT_EQ(run.failure->storage, StorageId(2));
    EXPECT_EQ(run.failure->op, OpId(0));
    EXPECT_EQ(run.samples.size(), run.failure->change);
    EXPECT_EQ(run.failure->memory.deviceFree, 38 * MiB) << "the cached 30 MiB went back first";
    EXPECT_EQ(outOfMemorySentence(*trace, *run.failure),
              "out of memory at 0.00 ms in aten.mm.default of Net.head: a block of 40.00 MiB finds no room; the "
              "allocator needs "
              "40.00 MiB from the device, 38.00 MiB are left, and of 12.00 MiB reserved all but 0 B are in use");
    rules.capacity = 52 * MiB;
    EXPECT_FALSE(simulateAllocator(*trace, *timeline, rules).failure.has_value());
    rules.capacity = 10 * MiB;
    const AllocatorRun never = simulateAllocator(*trace, *timeline, rules);
    ASSERT_TRUE(never.failure.has_value());
    EXPECT_EQ(never.failure->change, AllocatorRun::Failure::npos);
}

/// Two gathers of 30 MiB on stream 7, the first used and given up by stream 0, which computes 10 ms with it.
struct TwoStreams
{
    StepTraceBuilder builder;
    StorageId first;

    TwoStreams()
    {
        builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        first = gather();
        run(10, 0);
    }
    OpId run(double ms, std::uint32_t stream)
    {
        const OpId op = builder.beginOp({builder.string("aten.add.Tensor"), {}, {}, {}, {}, Phase::forward});
        builder.setStream(op, stream);
        const std::vector<std::int64_t> signature{0, 0, 0};
        builder.endOp(op, {.ms = ms, .signature = signature});
        return op;
    }
    StorageId gather()
    {
        const StorageId storage = builder.alloc(30 * MiB, Category::unshardedParameter, {});
        builder.setStream(storage, 7);
        run(1, 7);
        return storage;
    }
    void waitForStream(std::uint32_t stream)
    {
        builder.streamEvent(StreamEventKind::record, stream, 1);
        builder.streamEvent(StreamEventKind::synchronize, 0, 1);
    }
};

struct Delayed
{
    Timeline timeline;
    AllocatorRun run;
};

Delayed replayed(TwoStreams& step, Bytes capacity = 0)
{
    const Result<StepTracePtr> trace = step.builder.finish();
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    AllocatorRules rules;
    rules.capacity = capacity;
    Timeline timeline = *predict(**trace, {});
    AllocatorRun run = simulateAllocator(**trace, timeline, rules);
    return {std::move(timeline), std::move(run)};
}

// Made by hand from CUDACachingAllocator.cpp: free() records an event on each stream of the block's stream_uses,
// malloc() first asks which have passed. `allocated` counts until the free, `active` until then.
TEST(AllocatorReplay, ABlockThatAnotherStreamUsesIsActiveUntilItsWorkEnds)
{
    TwoStreams step;
    step.builder.use(step.first, 0);
    step.builder.free(step.first);
    step.builder.free(step.gather()); // the CPU is at some 0.1 ms, stream 0 works until 10 ms
    step.waitForStream(0);
    step.builder.free(step.gather());
    const auto [timeline, run] = replayed(step);
    ASSERT_EQ(timeline.delayed.size(), 1U);
    EXPECT_EQ(timeline.delayed[0].change, 1U);
    EXPECT_EQ(timeline.delayed[0].until, 4U) << "the third gather";
    EXPECT_EQ(run.stats.allocatedPeak, 30 * MiB);
    EXPECT_EQ(run.stats.activePeak, 60 * MiB);
    EXPECT_EQ(run.stats.reservedPeak, 60 * MiB);
    ASSERT_EQ(run.samples.size(), 6U);
    EXPECT_EQ(run.samples[1].allocated, 0);
    EXPECT_EQ(run.samples[1].active, 30 * MiB);
    EXPECT_EQ(run.samples[3].active, 30 * MiB);
    EXPECT_EQ(run.samples[5].active, 0);
    EXPECT_THAT(noteOnActive(timeline), testing::HasSubstr("by the time model"));
}

TEST(AllocatorReplay, ABlockWhoseUserIsDoneIsReusedAtOnce)
{
    TwoStreams step;
    step.builder.use(step.first, 0);
    step.waitForStream(0);
    step.builder.free(step.first);
    step.builder.free(step.gather());
    const auto [timeline, run] = replayed(step);
    ASSERT_EQ(timeline.delayed.size(), 1U);
    EXPECT_EQ(timeline.delayed[0].until, 2U);
    EXPECT_EQ(run.samples[1].active, 30 * MiB) << "until the next allocation asks";
    EXPECT_EQ(run.stats.activePeak, 30 * MiB);
    EXPECT_EQ(run.stats.reservedPeak, 30 * MiB);
}

TEST(AllocatorReplay, TheOrderOfAUseAndAFreeBetweenTwoOpsIsKept)
{
    TwoStreams step;
    step.builder.free(step.first);
    step.waitForStream(0);
    step.builder.use(step.first, 0); // too late
    step.builder.free(step.gather());
    EXPECT_TRUE(replayed(step).timeline.delayed.empty());
    TwoStreams other;
    other.builder.use(other.first, 0);
    other.builder.free(other.first);
    const StorageId second = other.gather();
    other.waitForStream(0); // after the allocation, in the same place between ops
    other.builder.free(second);
    EXPECT_EQ(replayed(other).run.stats.activePeak, 60 * MiB);
}

TEST(AllocatorReplay, AFullCardWaitsForTheStreamsThatUseFreedBlocks)
{
    TwoStreams step;
    step.builder.use(step.first, 0);
    step.builder.free(step.first);
    step.builder.free(step.gather());
    const auto [timeline, run] = replayed(step, 40 * MiB);
    EXPECT_FALSE(run.failure);
    EXPECT_EQ(run.stats.reservedPeak, 30 * MiB);
    EXPECT_GT(run.stats.retries, 0);
}

/// As FSDP's flat parameters, which the program makes on its stream and gathers on another.
TEST(AllocatorReplay, AResizedStorageTakesMemoryOfTheStreamThatResizesIt)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    const StorageId flat = builder.alloc(30 * MiB, Category::unshardedParameter, {});
    builder.mark(Mark::stepBegin);
    builder.resize(flat, 0);
    builder.resize(flat, 30 * MiB, 7);
    builder.resize(flat, 0);
    builder.resize(flat, 30 * MiB);
    const Result<StepTracePtr> trace = builder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    EXPECT_EQ(simulateAllocator(**trace, *predict(**trace, {}), {}).stats.reservedPeak, 60 * MiB);
}

TEST(AllocatorReplay, FragmentationIsAReasonOfItsOwn)
{
    CachingAllocator allocator([] {
        AllocatorRules rules;
        rules.capacity = 40 * MiB;
        return rules;
    }());
    std::vector<CachingAllocator::Block> blocks;
    for (int i = 0; i < 10; ++i)
        blocks.push_back(*allocator.allocate(4 * MiB));
    for (std::size_t i = 0; i < blocks.size(); i += 2)
        allocator.free(blocks[i]);
    ASSERT_FALSE(allocator.allocate(6 * MiB).has_value());
    EXPECT_EQ(outOfMemoryReason(allocator.outOfMemory()),
              "the allocator needs 20.00 MiB from the device, 0 B are left, and 20.00 MiB lie free in segments in use, "
              "but in "
              "pieces of at most 4.00 MiB for this pool and stream: fragmentation");
}

TEST(AllocatorReplay, FreePiecesAndTheDevicesRestAreFragmentationTogether)
{
    const auto isOne = [](Bytes unused, Bytes deviceFree) { return isFragmentation(300, unused, deviceFree, 1000); };
    EXPECT_TRUE(isOne(300, 0));
    EXPECT_TRUE(isOne(100, 200));
    EXPECT_FALSE(isOne(100, 199));
    EXPECT_FALSE(isOne(100, 300)) << "the device has room: a share of the card or a larger segment is refused";
    EXPECT_TRUE(isOne(20, 280));
    EXPECT_FALSE(isOne(19, 299)) << "the memory is full";
}

} // namespace
} // namespace headroom
