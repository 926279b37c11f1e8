// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"

#include "core/predict/step_model.h"
#include "tests/core/hand_step.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

using namespace headroom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr Bytes unit = allocationGranularity;
constexpr ModuleId blockId = HandStep::block;

/// h → block: a = A(h) [saves h], b = B(a) [saves a and b], c = C(b) [saves nothing]. Sizes 8, 16, 32, 4.
struct BlockStep
{
    HandStep step;
    StorageId h, a, b, c, gb, ga, gh, gw;
    PackId ph, pa, pb;

    /// `atEnd` runs inside the block after C: for further packs.
    template <class AtEnd>
    explicit BlockStep(AtEnd atEnd)
    {
        step.enter(HandStep::net, {step.batch});
        h = step.make("H", 8);
        step.enter(HandStep::block, {h});
        ph = step.pack(h);
        a = step.make("A", 16);
        pa = step.pack(a);
        b = step.make("B", 32);
        pb = step.pack(b);
        step.free({a});
        c = step.make("C", 4);
        step.free({b});
        atEnd(*this);
        step.exit();
        step.free({h});
        step.exit();
        step.builder.mark(Mark::forwardEnd);
        const StorageId g = step.make("seed", 4);
        gb = step.make("CBackward", 32);
        step.free({g});
    }
    BlockStep()
        : BlockStep([](BlockStep&) {})
    {
    }

    /// Node of B: needs a and b, makes the gradient of a.
    void backwardB()
    {
        step.unpack({pb, pa});
        ga = step.make("BBackward", 16);
        step.unpackEnd({pb, pa});
        step.free({gb});
        step.release({pb, pa});
    }

    /// Node of A: needs h, makes the gradients of h and of the weight.
    StepTracePtr backwardAAndFinish()
    {
        step.unpack({ph});
        const auto made = step.op("ABackward", {8, 10});
        gh = made[0];
        gw = made[1];
        step.unpackEnd({ph});
        step.free({ga});
        step.release({ph});
        step.builder.retype(gw, Category::gradient);
        step.free({gh, c});
        step.builder.mark(Mark::backwardEnd);
        return step.finish();
    }

    StepTracePtr finish()
    {
        backwardB();
        return backwardAAndFinish();
    }
};

} // namespace

// Rule 1: the program and autograd hold apart; a storage lives while one of them does.
TEST(Predict, WithoutAPlanItIsTheRecordedStep)
{
    const Timeline t = predicted(BlockStep().finish());
    EXPECT_THAT(totals(t),
                ElementsAre(14, 22, 38, 70, 74, // a, b, h are freed by the program, but packed
                            78, 110, 106, // seed, CBackward
                            122, 90, 58, 42, // ga; gb freed; b and a go with their release
                            50, 60, 44, 36, // gh, gw; ga freed; h goes with its release
                            26, 36, // retype
                            28, 24));
    EXPECT_EQ(t.peak, 122 * unit);
    EXPECT_EQ(t.peakChange, 7U);
    EXPECT_EQ(total(t.atPeak), t.peak);
    EXPECT_EQ(t.atPeak[static_cast<std::size_t>(Category::parameter)], 10 * unit);
    EXPECT_EQ(t.recomputeMs, 0);
    EXPECT_EQ(t.durationMs, 8);
}

// Rules 2 to 6: a, b die in forward; the first unpack (of b) recomputes A and B; C comes after the last pack.
TEST(Predict, AFullCheckpointRecomputesUpToItsLastPack)
{
    const Timeline t = predicted(BlockStep().finish(), {{blockId, {}}});
    EXPECT_THAT(totals(t),
                ElementsAre(14, 22, 38, 70, 54, 58, 26, // a, b die; h is held as the region's argument
                            30, 62, 58, //
                            74, 106, // recomputed a and b; a stays when the program lets it go: the graph holds it
                            122, 90, 74, 42, // ga; b and a go at the end of apply(), before gb is freed
                            50, 60, 44, 36, // h goes with the last release
                            26, 36, 28, 24));
    EXPECT_EQ(t.peak, 122 * unit);
    EXPECT_EQ(t.recomputeMs, 2);
    EXPECT_EQ(t.durationMs, 10);
    EXPECT_EQ(t.changes[9].recomputed, true);
    EXPECT_EQ(t.changes[9].category, Category::activation);
}

// Rule 7: outputs of saved ops stay in the cache; taking one moves the hold to the program.
TEST(Predict, ASavedOpIsCachedAndDoesNotRunAgain)
{
    const StepTracePtr trace = BlockStep().finish();
    const Timeline saveB = predicted(trace, {{blockId, {false, true, false}}});
    EXPECT_THAT(totals(saveB),
                ElementsAre(14, 22, 38, 70, 54, 58, // b stays
                            62, 94, 90, //
                            106, // recomputed a
                            122, 90, 74, 42, // the cached b goes at the end of apply() too
                            50, 60, 44, 36, 26, 36, 28, 24));
    EXPECT_EQ(saveB.recomputeMs, 1);

    const Timeline saveA = predicted(trace, {{blockId, {true, false, false}}});
    EXPECT_THAT(totals(saveA),
                ElementsAre(14, 22, 38, 70, 74, 42, // a stays
                            46, 78, 74, //
                            106, // recomputed b
                            122, 90, 74, 42, 50, 60, 44, 36, 26, 36, 28, 24));
    EXPECT_EQ(saveA.recomputeMs, 1);
}

// Rule 7: what lies past the early stop is never taken from the cache; the region's end drops it.
TEST(Predict, AnEntryPastTheEarlyStopLivesToTheRegionsEnd)
{
    BlockStep block;
    block.step.free({block.c});
    block.c = block.step.make("unrelated", 1);
    const StepTracePtr trace = block.finish();
    const auto lastTotals = [&](const CheckpointPlan& plan) {
        auto all = totals(predicted(trace, plan));
        return std::vector(all.end() - 8, all.end());
    };
    // Free of ga, release of h (and the end of c), retype, gh, unrelated.
    EXPECT_THAT(lastTotals({{blockId, {}}}), ElementsAre(47, 57, 41, 33, 23, 33, 25, 24));
    EXPECT_THAT(lastTotals({{blockId, {false, false, true}}}), ElementsAre(61, 45, 37, 33, 23, 33, 25, 24));
}

// Rule 4: packs of parameters and of CPU tensors count, and so does their unpack.
TEST(Predict, ACpuTensorsPackMovesTheEndOfRecomputation)
{
    PackId cpu;
    BlockStep block([&](BlockStep& b) { cpu = b.step.pack({}); });
    block.step.unpack({cpu});
    block.step.make("between", 1);
    block.step.unpackEnd({cpu});
    block.step.release({cpu});
    const Timeline t = predicted(block.finish(), {{blockId, {}}});
    EXPECT_EQ(t.recomputeMs, 3); // C too
    EXPECT_THAT(totals(t, 9, 18),
                ElementsAre(58, 74, 106, 110, 106, // a, b, c again; c goes with the recomputation
                            107, // `between` runs after the recomputation, which the CPU tensor's unpack began
                            123, 91, 75));
}

// Rule 4: an input's pack stops before its op, an output's pack after it.
TEST(Predict, AnInputsPackStopsBeforeItsOp)
{
    const auto run = [](bool input) {
        HandStep step;
        const StorageId h = step.make("H", 8);
        step.enter(HandStep::block, {h});
        const StorageId a = step.make("A", 16);
        PackId saved;
        if (input)
            saved = step.pack(a);
        const StorageId b = step.make("B", 32, 5);
        if (!input)
            saved = step.pack(b);
        step.exit();
        step.unpack({saved});
        step.unpackEnd({saved});
        step.release({saved});
        step.free({a, b});
        return predicted(step.finish(), {{blockId, {}}});
    };
    EXPECT_EQ(run(true).recomputeMs, 1);
    EXPECT_EQ(run(false).recomputeMs, 6);
    // Program's a and b of the forward stay alive here. For the input's pack: a again, nothing else.
    EXPECT_THAT(totals(run(true)), ElementsAre(14, 22, 38, 70, 86, 70, 54, 22));
    EXPECT_THAT(totals(run(false)), ElementsAre(14, 22, 38, 70, 86, 118, 102, 70, 54, 22));
}

// Rule 5: what autograd has released before the recomputation is not held after it.
TEST(Predict, AReleasedPackIsNotHeldAgain)
{
    BlockStep block;
    block.step.release({block.pa});
    block.step.unpack({block.pb});
    block.ga = block.step.make("BBackward", 16);
    block.step.unpackEnd({block.pb});
    block.step.free({block.gb});
    block.step.release({block.pb});
    const Timeline t = predicted(block.backwardAAndFinish(), {{blockId, {}}});
    EXPECT_THAT(totals(t, 9, 16),
                ElementsAre(58, 74, 106, 90, // a goes when the recomputation ends
                            106, 74, 42));
}

// Rule 6: recomputed tensors die at the end of apply(), before the engine reduces the gradients (validate_outputs);
// ordinary saved tensors die with their release after that. A recomputed tensor that no node unpacks dies with it too.
TEST(Predict, RecomputedTensorsDieBeforeTheGradientsAreReduced)
{
    BlockStep block;
    block.step.unpack({block.pb});
    block.ga = block.step.make("BBackward", 16);
    block.step.unpackEnd({block.pb});
    const StorageId reduced = block.step.make("sum_to", 2);
    block.step.free({block.gb});
    block.step.release({block.pb, block.pa});
    block.step.free({reduced});
    const StepTracePtr trace = block.backwardAAndFinish();

    EXPECT_EQ(predicted(trace).peak, 124 * unit); // 106 + ga + reduced, b still there
    const Timeline t = predicted(trace, {{blockId, {}}});
    EXPECT_EQ(t.peak, 122 * unit);
    EXPECT_THAT(totals(t, 11, 18),
                ElementsAre(106, 122, 90, 92, 60, 44, 42)); // a goes with its release, before `reduced`
}

// Rule 3: the region holds all its arguments, those that it does not save included.
TEST(Predict, ARegionHoldsArgumentsThatItDoesNotSave)
{
    HandStep step;
    const StorageId x = step.make("X", 8);
    const StorageId mask = step.make("mask", 100);
    step.enter(HandStep::block, {x, mask, x});
    const PackId saved = step.pack(x);
    const StorageId y = step.make("A", 16);
    step.exit();
    step.free({x, mask});
    step.make("later", 1);
    step.unpack({saved});
    step.unpackEnd({saved});
    step.release({saved});
    step.free({y});
    const StepTracePtr trace = step.finish();
    EXPECT_THAT(totals(predicted(trace)), ElementsAre(14, 22, 122, 138, 38, 39, 31, 15));
    EXPECT_THAT(totals(predicted(trace, {{blockId, {}}})), ElementsAre(14, 22, 122, 138, 139, 39, 31, 15));
}

// A transient of an op of the region is there again while it is recomputed, and the program's lifetimes are replayed.
TEST(Predict, RecomputationRepeatsTransients)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    StepTraceBuilder::Op description;
    description.name = step.builder.string("A");
    description.module = HandStep::block;
    const OpId op = step.builder.beginOp(description);
    const StorageId y = step.builder.alloc(4 * unit, Category::activation, op);
    const StorageId workspace = step.builder.alloc(100 * unit, Category::temporary, op);
    step.builder.free(workspace);
    step.builder.endOp(op, {.ms = 2});
    const PackId saved = step.pack(y);
    step.exit();
    step.free({y});
    step.make("later", 1);
    step.unpack({saved});
    step.unpackEnd({saved});
    step.release({saved});
    const Timeline t = predicted(step.finish(), {{blockId, {}}});
    EXPECT_THAT(totals(t), ElementsAre(14, 18, 118, 18, 14, 15, 19, 119, 19, 15));
    EXPECT_EQ(t.peakChange, 6U);
    // The workspace is there until its op ends; between ops no time passes.
    std::vector<double> ms;
    for (const MemoryChange& change : t.changes)
        ms.push_back(change.ms);
    EXPECT_THAT(ms, ElementsAre(0, 0, 2, 2, 2, 3, 3, 5, 5));
    EXPECT_EQ(t.changes[5].op, op);
    EXPECT_FALSE(t.changes[8].op.valid());
}

TEST(Predict, EveryCallOfAModuleIsARegionOfItsOwn)
{
    HandStep step;
    std::vector<StorageId> outputs;
    std::vector<PackId> packs;
    for (const Bytes size : {16, 32}) {
        step.enter(HandStep::block, {step.batch});
        outputs.push_back(step.make("A", size));
        packs.push_back(step.pack(outputs.back()));
        step.free({outputs.back()});
        step.exit();
    }
    step.unpack({packs[1]});
    step.unpackEnd({packs[1]});
    step.release({packs[1]});
    step.unpack({packs[0]});
    step.unpackEnd({packs[0]});
    step.release({packs[0]});
    const StepTracePtr trace = step.finish();
    EXPECT_THAT(totals(predicted(trace)), ElementsAre(14, 30, 62, 30, 14));
    EXPECT_THAT(totals(predicted(trace, {{blockId, {}}})), ElementsAre(14, 30, 14, 46, 14, 46, 14, 30, 14));
    EXPECT_EQ(predicted(trace, {{blockId, {true}}}).recomputeMs, 0);
    EXPECT_THAT(totals(predicted(trace, {{blockId, {true}}})), ElementsAre(14, 30, 62, 30, 14));
}

TEST(Predict, AResizeMovesTheContent)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    const StorageId y = step.make("A", 4);
    step.builder.resize(y, 16 * unit);
    const PackId saved = step.pack(y);
    step.exit();
    step.free({y});
    step.unpack({saved});
    step.unpackEnd({saved});
    step.release({saved});
    const StepTracePtr trace = step.finish();
    EXPECT_THAT(totals(predicted(trace)), ElementsAre(14, 18, 34, 30, 14));
    EXPECT_THAT(totals(predicted(trace, {{blockId, {}}})), ElementsAre(14, 18, 34, 30, 14, 18, 34, 30, 14));
}

TEST(Predict, SnapshotsAndPhasesFollowTheMarks)
{
    const Timeline t = predicted(BlockStep().finish(), {{blockId, {}}});
    ASSERT_EQ(t.snapshots.size(), 3U);
    EXPECT_EQ(t.snapshots[0].mark, Mark::stepBegin);
    EXPECT_EQ(total(t.snapshots[0].bytes), 14 * unit);
    EXPECT_EQ(total(t.snapshots[1].bytes), 26 * unit);
    EXPECT_EQ(t.snapshots[2].mark, Mark::backwardEnd);
    EXPECT_EQ(t.snapshots[2].bytes[static_cast<std::size_t>(Category::gradient)], 10 * unit);
    ASSERT_EQ(t.phases.size(), 2U);
    EXPECT_EQ(t.phases[0].phase, Phase::forward);
    EXPECT_EQ(t.phases[0].endMs, 4);
    EXPECT_EQ(t.phases[1].phase, Phase::backward);
    EXPECT_EQ(t.phases[1].beginMs, 4);
    EXPECT_EQ(t.phases[1].endMs, 10);
}

TEST(Predict, AnInterruptedStepEndsWithThePhaseOfItsLastOp)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    const StorageId y = step.make("A", 4);
    step.pack(y);
    step.free({y});
    const StepTracePtr trace = step.finish();
    const Timeline t = predicted(trace, {{blockId, {}}});
    EXPECT_THAT(totals(t), ElementsAre(14, 18, 14));
    ASSERT_EQ(t.phases.size(), 1U);
    EXPECT_EQ(t.phases[0].phase, Phase::forward);
    EXPECT_EQ(t.phases[0].endMs, 1);
}

TEST(Predict, ThePeakMayBeTheStart)
{
    HandStep step;
    step.free({step.batch});
    const Timeline t = predicted(step.finish());
    EXPECT_EQ(t.peak, 14 * unit);
    EXPECT_EQ(t.peakChange, Timeline::npos);
    EXPECT_EQ(total(t.atPeak), 14 * unit);
}

TEST(Predict, PlansThatMakeNoSenseAreRefused)
{
    const StepTracePtr trace = BlockStep().finish();
    const auto error = [&](const CheckpointPlan& plan) {
        const auto result = predict(*trace, plan);
        return result ? "no error" : result.error().message;
    };
    EXPECT_EQ(error({{ModuleId(), {}}}), "the plan names module number 4294967295, but the step has 3");
    EXPECT_EQ(error({{blockId, {true}}}), "the plan decides on 1 ops of Net.block, but the forward runs 3");
    EXPECT_EQ(error({{blockId, {}}, {blockId, {}}}), "the plan names Net.block twice");
    EXPECT_EQ(error({{blockId, {}}, {HandStep::net, {}}}),
              "a checkpointed module may not contain another: Net.block is inside Net");
    EXPECT_EQ(error({{HandStep::other, {}}}), "no error"); // it never ran: nothing changes
}

TEST(Predict, CallsMayNestWhereModulesDoNot)
{
    HandStep step;
    step.enter(HandStep::block, {});
    step.enter(HandStep::other, {});
    step.exit();
    step.exit();
    const StepTracePtr trace = step.finish();
    const auto result = predict(*trace, {{blockId, {}}, {HandStep::other, {}}});
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("Net.other is inside Net.block"));
}

TEST(SavableOps, AreThoseThatAllocateWhatNothingChanges)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    const StorageId kept = step.make("aten.mm.default", 4);
    step.op("aten.view.default", {}, {}); // no output of its own
    const StorageId changed = step.make("aten.add.Tensor", 4);
    step.op("aten.mul_.Tensor", {}, {changed});
    const StorageId changedOutside = step.make("aten.relu.default", 4);
    step.exit();
    step.op("aten.add_.Tensor", {}, {changedOutside});
    step.free({kept});
    const StepTracePtr trace = step.finish();
    EXPECT_THAT(StepModel(trace).regionOps(blockId), ElementsAre(OpId(0), OpId(1), OpId(2), OpId(3), OpId(4)));
    EXPECT_THAT(StepModel(trace).savableOps(blockId), ElementsAre(true, false, false, false, false));
    EXPECT_THAT(StepModel(trace).regionOps(HandStep::other), ElementsAre());
}

TEST(SavableOps, IgnoredOpsAreNotNumbered)
{
    const StepTracePtr trace = makeSyntheticStep();
    const ModuleId attention(6);
    ASSERT_EQ(trace->moduleFqn(attention), "Transformer.layers.0.attention.wq");
    const std::vector<OpId> ops = StepModel(trace).regionOps(ModuleId(5));
    ASSERT_EQ(ops.size(), 6U); // t, mm, mul_, attention, t, mm without detach
    EXPECT_EQ(trace->opName(ops[3]), "aten._scaled_dot_product_flash_attention.default");
    EXPECT_THAT(StepModel(trace).savableOps(ModuleId(5)), ElementsAre(false, false, false, true, false, true));
}

/// On a whole step: nothing is lost or held for ever, whatever the plan, and be it one that PyTorch would refuse.
TEST(Predict, EveryPlanEndsWithWhatTheRecordedStepEndsWith)
{
    const StepModel model(makeSyntheticStep());
    const Timeline& recorded = *model.recorded();
    const CategoryBytes end = recorded.snapshots.back().bytes;
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
        CheckpointPlan plan;
        for (std::uint32_t module = 3; module < model.trace()->modules.size(); ++module) {
            const std::string_view fqn = model.trace()->moduleFqn(ModuleId(module));
            const bool chosen = (seed / 2 + module) % 3 == 0;
            if (!chosen || !(fqn.ends_with("attention") || fqn.ends_with("feed_forward")))
                continue;
            std::vector<bool> save = model.savableOps(ModuleId(module));
            for (std::size_t i = 0; i < save.size(); ++i)
                save[i] = (save[i] || seed % 3 == 0) && (seed + i) % 4 != 0;
            plan.push_back({ModuleId(module), save});
        }
        const auto t = model.predict(plan);
        ASSERT_TRUE(t) << t.error().message;
        EXPECT_EQ(t->snapshots.back().bytes, end);
        EXPECT_NEAR(t->durationMs, recorded.durationMs + t->recomputeMs, 1e-9);
    }
}

TEST(StepModel, AnswersAsTheFreeFunction)
{
    const StepTracePtr trace = makeSyntheticStep();
    const StepModel model(trace);
    const CheckpointPlan plan{{ModuleId(5), model.savableOps(ModuleId(5))}};
    EXPECT_EQ(totals(*model.predict(plan)), totals(*predict(*trace, plan)));
    EXPECT_EQ(totals(*model.recorded()), totals(*predict(*trace, {})));
    EXPECT_LT(model.predict({{ModuleId(3 + 1), {}}})->peak, model.recorded()->peak);
}
