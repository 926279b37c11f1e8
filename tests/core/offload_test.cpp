// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Saved tensors that go to host memory: when the bytes leave the device and come back, what moves at all, what the
// copies take, and what a policy says of all that.

#include "core/cost/step_times.h"
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/predict/regions.h"
#include "core/predict/step_clock.h"
#include "core/trace/step_file.h"
#include "tests/core/hand_step.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

using namespace headroom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

constexpr ModuleId blockId = HandStep::block;
constexpr ModuleId otherId = HandStep::other;

CheckpointRegion offloaded(ModuleId module, int wait = 0, int ahead = 0, int prefetch = Offload::all)
{
    return {module, {}, Offload{wait, ahead, true, prefetch}};
}

/// Two modules in sequence. Each makes and saves a large tensor, of 16 and 32 units, which the program lets go of.
struct TwoModules
{
    HandStep step;
    PackId first, second;

    TwoModules()
    {
        first = call(blockId, 16);
        second = call(otherId, 32);
    }

    PackId call(ModuleId module, Bytes units)
    {
        step.enter(module, {step.batch});
        const StorageId made = step.make("A", units);
        const PackId pack = step.pack(made);
        step.free({made});
        step.exit();
        return pack;
    }

    void backward(PackId pack, Bytes units)
    {
        step.unpack({pack});
        const StorageId gradient = step.make("B", units);
        step.unpackEnd({pack});
        step.release({pack});
        step.free({gradient});
    }

    StepTracePtr finish()
    {
        step.make("loss", 1);
        backward(second, 32);
        backward(first, 16);
        return step.finish();
    }
};

} // namespace

TEST(Offload, TensorsLeaveAtTheEndOfTheForwardAndComeBackAtTheFirstUnpack)
{
    TwoModules modules;
    const StepTracePtr trace = modules.finish();
    EXPECT_THAT(totals(predicted(trace)),
                ElementsAre(14, 30, 62, 63, // saved
                            95, 63, 31, // the backward of the second
                            47, 31, 15));
    const Timeline t = predicted(trace, {offloaded(blockId), offloaded(otherId)});
    EXPECT_EQ(t.recomputeMs, 0);
    EXPECT_EQ(t.movedBytes, 48 * allocationGranularity);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 30, 14, // the first leaves
                            46, 14, 15, // the second leaves; the loss
                            47, 79, 47, 15, // the second is back, with its gradient
                            31, 47, 31, 15));
}

TEST(Offload, TensorsMayLeaveOneCallLaterAndComeBackOneCallEarlier)
{
    TwoModules modules;
    const StepTracePtr trace = modules.finish();
    EXPECT_THAT(totals(predicted(trace, {offloaded(blockId, 1, 0), offloaded(otherId)})),
                ElementsAre(14, 30, 62, 46, 14, // both leave at the end of the second's forward
                            15, 47, 79, 47, 15, 31, 47, 31, 15));
    EXPECT_THAT(totals(predicted(trace, {offloaded(blockId, 0, 1), offloaded(otherId)})),
                ElementsAre(14, 30, 14, 46, 14, 15, //
                            47, 63, // the second comes back first, the first with it
                            95, 63, 31, 47, 31, 15));
}

TEST(Offload, ATensorThatIsStillThereWhenBackwardBeginsStays)
{
    TwoModules modules;
    const StepTracePtr trace = modules.finish();
    // There is no call after the second: it never leaves.
    const Timeline t = predicted(trace, {offloaded(blockId), offloaded(otherId, 1, 0)});
    EXPECT_THAT(totals(t), ElementsAre(14, 30, 14, 46, 47, 79, 47, 15, 31, 47, 31, 15));
    EXPECT_EQ(t.movedBytes, 48 * allocationGranularity);
}

namespace {

/// A call that makes and saves storages of these units.
std::vector<PackId> callThatSaves(HandStep& step, ModuleId module, const std::vector<Bytes>& units)
{
    step.enter(module, {step.batch});
    std::vector<PackId> packs;
    for (const Bytes own : units) {
        const StorageId made = step.make("A", own);
        packs.push_back(step.pack(made));
        step.free({made});
    }
    step.exit();
    return packs;
}

/// The units after the loss, of 64 units, beyond those of then.
std::vector<Bytes> afterLoss(const std::vector<Bytes>& all)
{
    const Bytes then = 14 + 64;
    std::vector<Bytes> after;
    for (auto total = std::ranges::find(all, then); total != all.end(); ++total)
        after.push_back(*total - then);
    return after;
}

/// Unpacks and releases saved tensors, the last one first.
void backwardOf(HandStep& step, const std::vector<PackId>& packs)
{
    for (std::size_t i = packs.size(); i-- > 0;) {
        step.unpack({packs[i]});
        step.unpackEnd({packs[i]});
        step.release({packs[i]});
    }
}

} // namespace

TEST(Offload, OfACallTheFirstStoragesMayComeBackEarly)
{
    HandStep step;
    const std::vector<PackId> first = callThatSaves(step, blockId, {1, 2, 4}),
                              second = callThatSaves(step, otherId, {32});
    step.make("loss", 64);
    backwardOf(step, second);
    backwardOf(step, first);
    const StepTracePtr trace = step.finish();
    const auto inBackward = [&](int prefetch) {
        return afterLoss(totals(predicted(trace, {offloaded(blockId, 0, 1, prefetch), offloaded(otherId)})));
    };
    EXPECT_THAT(inBackward(0), ElementsAre(0, 32, 0, 4, 6, 7, 3, 1, 0));
    EXPECT_THAT(inBackward(1), ElementsAre(0, 32, 36, 4, 6, 7, 3, 1, 0)); // the last one, of 4 units, comes early
    EXPECT_THAT(inBackward(2), ElementsAre(0, 32, 36, 38, 6, 7, 3, 1, 0));
    EXPECT_THAT(inBackward(3), ElementsAre(0, 32, 36, 38, 39, 7, 3, 1, 0));
    EXPECT_EQ(inBackward(Offload::all), inBackward(3));
}

TEST(Offload, StoragesMayComeBackInTheMiddleOfALaterBackward)
{
    HandStep step;
    const std::vector<PackId> first = callThatSaves(step, blockId, {4}), second = callThatSaves(step, otherId, {8, 16});
    step.make("loss", 64);
    backwardOf(step, second);
    backwardOf(step, first);
    const StepTracePtr trace = step.finish();
    const auto inBackward = [&](int afterUnpacks, const CheckpointRegion& other) {
        CheckpointRegion block = offloaded(blockId, 0, 1);
        block.offload->afterUnpacks = afterUnpacks;
        return afterLoss(totals(predicted(trace, {block, other})));
    };
    EXPECT_THAT(inBackward(0, offloaded(otherId)), ElementsAre(0, 16, 24, 28, 12, 4, 0));
    EXPECT_THAT(inBackward(1, offloaded(otherId)), ElementsAre(0, 16, 24, 8, 12, 4, 0));
    EXPECT_EQ(inBackward(2, offloaded(otherId)), inBackward(3, offloaded(otherId))); // with the own backward
    EXPECT_THAT(inBackward(2, offloaded(otherId)), ElementsAre(0, 16, 24, 8, 0, 4, 0));
    EXPECT_THAT(inBackward(0, {otherId}), ElementsAre(0, 4, 12, 28, 12, 4, 0)); // before the recomputation
    EXPECT_THAT(inBackward(1, {otherId}), ElementsAre(0, 8, 24, 8, 12, 4, 0));
}

TEST(Offload, InTheMiddleOfABackwardTheStoragesOfLaterCallsComeFirst)
{
    HandStep step;
    const std::vector<PackId> first = callThatSaves(step, blockId, {4}), second = callThatSaves(step, otherId, {8, 2}),
                              third = callThatSaves(step, otherId, {16, 32});
    step.make("loss", 64);
    backwardOf(step, third);
    backwardOf(step, second);
    backwardOf(step, first);
    CheckpointPlan plan{offloaded(blockId, 0, 2), offloaded(otherId, 0, 1)};
    plan[0].offload->afterUnpacks = plan[1].offload->afterUnpacks = 1;
    EXPECT_THAT(afterLoss(totals(predicted(step.finish(), plan))),
                ElementsAre(0, 32, 48, 16, 18, 26, 30, 14, 12, 4, 0));
}

TEST(Offload, OnlyWhatNothingElseHoldsMoves)
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const StorageId own = step.make("A", 64);
    const StorageId ofProgram = step.make("A", 64);
    const StorageId small = step.make("A", 1);
    const StorageId common = step.make("A", 64);
    std::vector<PackId> packs;
    for (const StorageId storage : {own, step.weight, ofProgram, own, small, common})
        packs.push_back(step.pack(storage));
    step.exit();
    step.enter(otherId, {common});
    packs.push_back(step.pack(common));
    step.exit();
    step.free({own, small, common});
    backwardOf(step, packs);
    step.free({ofProgram});
    const StepModel model(step.finish());
    EXPECT_THAT(movedPacksOf(*model.trace(), model.index(), blockId),
                ElementsAre(true, false, false, true, true, false)); // 1 of 64 units is still enough
    const auto policy = movesOf(model, offloaded(blockId, 2, 1));
    ASSERT_TRUE(policy);
    EXPECT_THAT(policy->tensors, ElementsAre(0, 3, 4));
    EXPECT_EQ(policy->saved, 6);
    EXPECT_EQ(policy->wait, 2);
    EXPECT_EQ(policy->ahead, 1);
    EXPECT_FALSE(movesOf(model, {blockId}));
}

TEST(Offload, OfTwoBackwardPassesTheSecondFindsTheTensorOnTheDevice)
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const StorageId made = step.make("A", 16);
    const PackId pack = step.pack(made);
    step.free({made});
    step.exit();
    for (const std::uint32_t pass : {0, 1}) {
        step.builder.unpack(pack, pass);
        step.builder.unpackEnd(pack);
    }
    step.release({pack});
    EXPECT_THAT(totals(predicted(step.finish(), {offloaded(blockId)})), ElementsAre(14, 30, 14, 30, 14));
}

TEST(Offload, HostBuffersAreReusedBySize)
{
    TwoModules modules;
    modules.backward(modules.second, 32);
    modules.backward(modules.first, 16);
    const PackId again = modules.call(blockId, 16);
    const PackId larger = modules.call(otherId, 33);
    modules.backward(larger, 33);
    modules.backward(again, 16);
    const Timeline t = predicted(modules.step.finish(), {offloaded(blockId), offloaded(otherId)});
    EXPECT_EQ(t.movedBytes, (16 + 32 + 16 + 33) * allocationGranularity);
    EXPECT_EQ(t.hostBytes, (16 + 32 + 64) * allocationGranularity); // 33 units take the next power of two
}

TEST(Offload, PoliciesAreReadBackAsWritten)
{
    TwoModules modules;
    const StepModel model(modules.finish());
    const CheckpointPlan regions{offloaded(blockId, 1, 2), {otherId}};
    Plan plan;
    plan.peak = 1;
    const Policy policy = policyOf(model, regions, plan);
    const TemporaryFolder folder;
    ASSERT_TRUE(writePolicy(policy, folder.path() / "policy.json").ok());
    const Result<Policy> read = readPolicy(folder.path() / "policy.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_TRUE(read->modules[0].offload);
    EXPECT_EQ(*read->modules[0].offload, (Policy::Moves{1, 2, {0}, 1}));
    EXPECT_FALSE(read->modules[1].offload);
    const Result<CheckpointPlan> back = checkpointPlan(*model.trace(), *read);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->at(0).offload, (Offload{1, 2}));
    EXPECT_FALSE(back->at(1).offload);
    ASSERT_TRUE(
        writePolicy(policyOf(model, {offloaded(blockId, 1, 2, 3), {otherId}}, plan), folder.path() / "early.json")
            .ok());
    const Result<Policy> early = readPolicy(folder.path() / "early.json");
    ASSERT_TRUE(early.ok()) << early.error().message;
    EXPECT_EQ(early->modules[0].offload->prefetch, 3);
    EXPECT_EQ(checkpointPlan(*model.trace(), *early)->at(0).offload, (Offload{1, 2, true, 3}));
    CheckpointRegion inTheMiddle = offloaded(blockId, 1, 2, 3);
    inTheMiddle.offload->afterUnpacks = 4;
    ASSERT_TRUE(writePolicy(policyOf(model, {inTheMiddle, {otherId}}, plan), folder.path() / "middle.json").ok());
    const Result<Policy> middle = readPolicy(folder.path() / "middle.json");
    ASSERT_TRUE(middle.ok()) << middle.error().message;
    EXPECT_EQ(checkpointPlan(*model.trace(), *middle)->at(0).offload, (Offload{1, 2, true, 3, 4}));

    Policy other = policy;
    other.modules[0].offload->saved = 7;
    const Result<CheckpointPlan> refused = checkpointPlan(*model.trace(), other);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("saves other tensors there than the step that was planned"));
}

namespace {

/// A module that makes a tensor of 16 units, and from this one of 32 units, and saves both.
StepTracePtr stepOfTwoOps()
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const StorageId first = step.make("A", 16);
    const PackId firstPack = step.pack(first);
    const StorageId second = step.make("B", 32);
    const PackId secondPack = step.pack(second);
    step.free({first, second});
    step.exit();
    step.make("loss", 1);
    for (const PackId pack : {secondPack, firstPack}) {
        step.unpack({pack});
        step.unpackEnd({pack});
        step.release({pack});
    }
    return step.finish();
}

CheckpointRegion hosting(ModuleId module, std::vector<bool> save, std::vector<bool> ops, Offload when = {})
{
    return {module, std::move(save), {}, Hosted{std::move(ops), when}};
}

} // namespace

TEST(Offload, ResultsOfOpsLeaveAtTheEndOfTheForwardAndComeBackBeforeTheRecomputation)
{
    const StepTracePtr trace = stepOfTwoOps();
    EXPECT_THAT(totals(predicted(trace, {{blockId, {true, false}}})),
                ElementsAre(14, 30, 62, 30, // the first stays
                            31, 63, 31, 15)); // the second is made again
    const Timeline t = predicted(trace, {hosting(blockId, {true, false}, {true, false})});
    EXPECT_EQ(t.recomputeMs, 1);
    EXPECT_EQ(t.movedBytes, 16 * allocationGranularity);
    EXPECT_EQ(t.hostBytes, 16 * allocationGranularity);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 30, 62, 30, 14, 15, // the first leaves; the loss
                            31, 63, 31, 15)); // the first is back, the second made again
    // Both: nothing is made again.
    const Timeline both = predicted(trace, {hosting(blockId, {true, true}, {true, true})});
    EXPECT_EQ(both.recomputeMs, 0);
    EXPECT_THAT(totals(both), ElementsAre(14, 30, 62, 46, 14, 15, 31, 63, 31, 15));
}

TEST(Offload, ResultsOfOpsWaitForLaterCalls)
{
    // There is no call after the block: the result never leaves.
    EXPECT_THAT(totals(predicted(stepOfTwoOps(), {hosting(blockId, {true, false}, {true, false}, {1, 0})})),
                ElementsAre(14, 30, 62, 30, 31, 63, 31, 15));
    TwoModules modules;
    const StepTracePtr trace = modules.finish();
    EXPECT_THAT(totals(predicted(trace, {hosting(blockId, {true}, {true}, {1, 0}), offloaded(otherId)})),
                ElementsAre(14, 30, 62, 46, 14, // both leave at the end of the second's forward
                            15, 47, 79, 47, 15, 31, 47, 31, 15));
    EXPECT_THAT(totals(predicted(trace, {hosting(blockId, {true}, {true}, {0, 1}), {otherId}})),
                ElementsAre(14, 30, 14, 46, 14, 15, // the second is recomputed
                            31, 63, // the first comes back before that
                            95, 63, 31, 47, 31, 15));
}

TEST(Offload, AResultThatIsNotTakenGoesAtTheEndOfTheRegion)
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const StorageId first = step.make("A", 16);
    const PackId pack = step.pack(first);
    const StorageId second = step.make("B", 32); // after the last saved tensor, where a recomputation stops
    step.free({first, second});
    step.exit();
    step.unpack({pack});
    step.unpackEnd({pack});
    step.release({pack});
    EXPECT_THAT(totals(predicted(step.finish(), {hosting(blockId, {false, true}, {false, true})})),
                ElementsAre(14, 30, 62, 46, 14, // the second leaves
                            46, 62, 46, 14)); // the second is back, the first made again; both go
}

namespace {

CheckpointRegion hostingArguments(ModuleId module, Offload when = {})
{
    return {module, {}, {}, Hosted{{}, when, true}};
}

/// A block that makes a tensor of 16 units; and a module that reads this tensor, as the only module, makes a tensor of
/// 32 units, and saves both.
struct ModuleWithArgument
{
    HandStep step;
    StorageId argument;
    PackId ofArgument, ofOwn;

    ModuleWithArgument()
    {
        step.enter(blockId, {step.batch});
        argument = step.make("A", 16);
        step.exit();
        step.enter(otherId, {argument, argument});
        ofArgument = step.pack(argument);
        const StorageId own = step.make("B", 32);
        ofOwn = step.pack(own);
        step.free({own});
        step.exit();
    }

    StepTracePtr finish()
    {
        step.free({argument});
        step.make("loss", 1);
        for (const PackId pack : {ofOwn, ofArgument}) {
            step.unpack({pack});
            step.unpackEnd({pack});
            step.release({pack});
        }
        return step.finish();
    }
};

} // namespace

TEST(Offload, ArgumentsOfACheckpointLeaveAndComeBackBeforeTheRecomputation)
{
    const StepTracePtr trace = ModuleWithArgument().finish();
    const StepModel model(trace);
    EXPECT_THAT(movedArgumentsOf(*trace, model.index(), otherId), ElementsAre(0)); // one tensor, given twice
    EXPECT_THAT(movedArgumentsOf(*trace, model.index(), blockId), IsEmpty()); // the batch is not made in the step
    EXPECT_THAT(totals(predicted(trace, {{otherId}})), ElementsAre(14, 30, 62, 30, 31, 63, 31, 15));
    const Timeline t = predicted(trace, {hostingArguments(otherId)});
    EXPECT_EQ(t.movedBytes, 16 * allocationGranularity);
    EXPECT_EQ(t.recomputeMs, 1);
    EXPECT_THAT(totals(t),
                ElementsAre(14, 30, 62, 30, // the program still holds the argument
                            14, 15, 31, // the loss; the argument is back
                            63, 31, 15));
}

TEST(Offload, ArgumentsMoveWithThePlanAndThePolicy)
{
    const StepTracePtr trace = ModuleWithArgument().finish();
    const StepModel model(trace);
    Plan plan;
    plan.peak = 1;
    const CheckpointPlan regions{hostingArguments(otherId, {2, 1, true, 1})};
    const TemporaryFolder folder;
    const auto path = folder.path() / "policy.json";
    ASSERT_TRUE(writePolicy(policyOf(model, regions, plan), path).ok());
    Result<Policy> read = readPolicy(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_THAT(read->modules[0].arguments, ElementsAre(0));
    const Result<CheckpointPlan> back = checkpointPlan(*trace, *read);
    ASSERT_TRUE(back.ok()) << back.error().message;
    ASSERT_TRUE(back->at(0).hosted);
    EXPECT_TRUE(back->at(0).hosted->arguments);
    EXPECT_EQ(back->at(0).hosted->when, regions[0].hosted->when);
    read->modules[0].arguments = {0, 1};
    const Result<CheckpointPlan> refused = checkpointPlan(*trace, *read);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("other arguments in this step"));
    read->modules[0].arguments = {1, 0};
    ASSERT_TRUE(writePolicy(*read, path).ok());
    const Result<Policy> wrong = readPolicy(path);
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.error().message, HasSubstr("ascending numbers of arguments"));
}

TEST(Offload, ArgumentsThatSomethingElseHoldsStay)
{
    ModuleWithArgument held; // the program holds the argument until backward has begun
    held.step.make("loss", 1);
    backwardOf(held.step, {held.ofOwn, held.ofArgument});
    held.step.free({held.argument});
    const StepModel ofProgram(held.step.finish());
    EXPECT_THAT(movedArgumentsOf(*ofProgram.trace(), ofProgram.index(), otherId), IsEmpty());

    ModuleWithArgument taken; // a later call has the same argument
    taken.step.enter(blockId, {taken.argument});
    taken.step.exit();
    const StepModel ofOthers(taken.finish());
    EXPECT_THAT(movedArgumentsOf(*ofOthers.trace(), ofOthers.index(), otherId), IsEmpty());
}

TEST(Offload, OnlyResultsThatNothingElseHoldsMayBeHosted)
{
    HandStep step;
    step.enter(blockId, {step.batch});
    const StorageId own = step.make("A", 64);
    const StorageId ofProgram = step.make("A", 64);
    const StorageId common = step.make("A", 64);
    const std::vector<StorageId> two = step.op("B", {64, 1, 128, 1});
    const StorageId notSaved = step.make("C", 8);
    std::vector<PackId> packs;
    for (const StorageId storage : {own, ofProgram, common, two[0], two[2]})
        packs.push_back(step.pack(storage));
    step.exit();
    step.enter(otherId, {common});
    packs.push_back(step.pack(common));
    step.exit();
    step.free({own, common, two[0], two[1], two[2], two[3], notSaved});
    backwardOf(step, packs);
    step.free({ofProgram});
    const StepModel model(step.finish());
    const StepTrace& trace = *model.trace();
    EXPECT_THAT(hostableOps(trace, model.index(), blockId), ElementsAre(true, false, false, true, true));
    EXPECT_THAT(movedOutputsOf(trace, model.index(), model.regionOps(blockId)[3]), ElementsAre(two[0], two[2]));

    // A policy says so, too.
    Plan plan;
    plan.peak = 1;
    const CheckpointPlan regions{
        hosting(blockId, {true, true, false, true, false}, {true, false, false, true, false}, {2, 1})};
    const TemporaryFolder folder;
    const auto path = folder.path() / "policy.json";
    ASSERT_TRUE(writePolicy(policyOf(model, regions, plan), path).ok());
    Result<Policy> read = readPolicy(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_FALSE(read->modules[0].offload);
    const Result<CheckpointPlan> back = checkpointPlan(trace, *read);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->at(0).hosted, regions[0].hosted);
    EXPECT_EQ(back->at(0).save, regions[0].save);
    read->modules[0].ops[1].offload = true;
    const Result<CheckpointPlan> refused = checkpointPlan(trace, *read);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("op `A` with index 1 cannot be offloaded"));
    read->modules[0].ops[1] = {"A", 1, false, true};
    ASSERT_TRUE(writePolicy(*read, path).ok());
    const Result<Policy> wrong = readPolicy(path);
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.error().message, HasSubstr("only saved results go to the host"));
    EXPECT_FALSE(model.predict({hosting(blockId, {false, false, false, false, false}, regions[0].hosted->ops)}).ok());
}

namespace {

/// A step with the shapes of its ops, so that copies can be timed beside them.
StepTracePtr recorded(const std::string& name = "llama_6L_h100")
{
    return *readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + name + ".hrs");
}

double costOf(const Plan& plan)
{
    return plan.recomputeMs + plan.offload.exposedMs;
}

Bytes leastBudget(const StepPlanner& planner, bool offload = false)
{
    PlanRequest request;
    request.offload = offload;
    request.budget = 1;
    return planner.solve(request)->plan.leastBudget;
}

} // namespace

TEST(OffloadPlan, FitsAndTakesNoLongerThanOneThatOnlyRecomputes)
{
    const StepTracePtr trace = recorded();
    const StepPlanner planner = *StepPlanner::create(trace);
    const Bytes from = leastBudget(planner);
    const Bytes to = planner.recorded()->peak;
    bool offloaded = false;
    for (const double share : {-0.05, 0.05, 0.3, 0.6}) {
        PlanRequest request;
        request.budget = from + static_cast<Bytes>(share * static_cast<double>(to - from));
        const PlanAnswer without = *planner.solve(request);
        request.offload = true;
        const Result<PlanAnswer> with = planner.solve(request);
        ASSERT_TRUE(with.ok()) << with.error().message;
        if (!with->fits()) {
            EXPECT_FALSE(without.fits());
            EXPECT_GT(with->plan.leastBudget, request.budget);
            continue;
        }
        EXPECT_LE(with->plan.peak, request.budget);
        EXPECT_LE(with->plan.leastBudget, request.budget);
        EXPECT_LE(with->plan.boundMs, costOf(with->plan) * (1 + 1e-9));
        if (without.fits()) {
            EXPECT_LE(costOf(with->plan), without.plan.recomputeMs * (1 + 1e-9)) << share;
        }
        const Result<Timeline> timeline = predict(*trace, with->regions);
        ASSERT_TRUE(timeline.ok()) << timeline.error().message;
        EXPECT_EQ(timeline->peak, with->plan.peak);
        EXPECT_EQ(timeline->hostBytes, with->plan.offload.host);
        EXPECT_EQ(timeline->movedBytes, with->plan.offload.moved);
        const Result<CheckpointPlan> read = checkpointPlan(*trace, with->policy(planner.model()));
        ASSERT_TRUE(read.ok()) << read.error().message;
        EXPECT_EQ(predict(*trace, *read)->peak, with->plan.peak);
        if (with->plan.offload.moved == 0)
            continue;
        offloaded = true;
        request.hostMemory = with->plan.offload.host / 2;
        const PlanAnswer limited = *planner.solve(request);
        if (limited.fits()) {
            EXPECT_LE(limited.plan.peak, request.budget);
            EXPECT_LE(limited.plan.offload.host, request.hostMemory);
        }
    }
    EXPECT_TRUE(offloaded) << "no budget has a plan that offloads";
}

TEST(OffloadPlan, IsFoundBesideACheckpointOfAWholeStack)
{
    // Of T5, the decoder may be checkpointed as a whole. Then none of its blocks is in the plan, not even to be
    // counted.
    const StepTracePtr trace = recorded("t5_3L_h100");
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.offload = true;
    const Bytes least = leastBudget(planner, true);
    int offloaded = 0;
    for (const double share : {0.02, 0.1, 0.2, 0.3, 0.5}) {
        request.budget = least + static_cast<Bytes>(share * static_cast<double>(planner.recorded()->peak - least));
        const Result<PlanAnswer> found = planner.solve(request, {}, 100);
        ASSERT_TRUE(found.ok()) << found.error().message;
        ASSERT_TRUE(found->fits());
        EXPECT_EQ(predict(*trace, found->regions)->peak, found->plan.peak);
        offloaded += found->plan.offload.moved > 0 ? 1 : 0;
    }
    EXPECT_GT(offloaded, 0);
}

TEST(OffloadPlan, IsProvenWhereLargeOptionsLeaveMemoryUnused)
{
    // The linear relaxation fills the budgets to the byte, and the bounds are up to a third below the best plans.
    const StepPlanner planner = *StepPlanner::create(withTimes(recorded("t5_3L_h100"), {})->step);
    PlanRequest request;
    request.offload = true;
    const Bytes least = leastBudget(planner, true);
    int proven = 0;
    for (int i = 13; i < 19; ++i) {
        request.budget
            = least + static_cast<Bytes>((i + 0.5) / 60 * static_cast<double>(planner.recorded()->peak - least));
        const PlanAnswer found = *planner.solve(request, {}, 100);
        EXPECT_GT(found.plan.costMs(), 0);
        proven += found.plan.gap <= 0.02 ? 1 : 0;
    }
    EXPECT_GE(proven, 4); // of 6
}

TEST(OffloadPlan, IsProvenWhereASmallSharedArgumentDecides)
{
    // The decoder's position bias of 0.8 MB decides, beside the encoder's of 12.6 MB.
    const StepPlanner planner = *StepPlanner::create(withTimes(recorded("t5_3L_h100"), {})->step);
    PlanRequest request;
    request.offload = true;
    const Bytes least = leastBudget(planner, true);
    for (const double share : {8.5 / 60, 18.5 / 60}) {
        request.budget = least + static_cast<Bytes>(share * static_cast<double>(planner.recorded()->peak - least));
        const PlanAnswer found = *planner.solve(request, {}, 400);
        EXPECT_GT(found.plan.costMs(), 0);
        EXPECT_LE(found.plan.gap, 0.02) << share;
    }
}

TEST(OffloadPlan, DoesNotDependOnOtherSearches)
{
    // A search has threads of its own.
    const StepPlanner planner = *StepPlanner::create(withTimes(recorded("t5_3L_h100"), {})->step);
    PlanRequest request;
    request.offload = true;
    const Bytes least = leastBudget(planner, true);
    request.budget = least + static_cast<Bytes>(0.2 * static_cast<double>(planner.recorded()->peak - least));
    const PlanAnswer alone = *planner.solve(request, {}, 100);
    std::vector<PlanAnswer> beside(3);
    {
        std::vector<std::jthread> threads;
        for (PlanAnswer& answer : beside)
            threads.emplace_back([&] { answer = *planner.solve(request, {}, 100); });
    }
    for (const PlanAnswer& answer : beside) {
        EXPECT_EQ(answer.plan.peak, alone.plan.peak);
        EXPECT_EQ(answer.plan.costMs(), alone.plan.costMs());
        EXPECT_EQ(answer.plan.boundMs, alone.plan.boundMs);
        EXPECT_EQ(answer.plan.decisions, alone.plan.decisions);
    }
}

TEST(OffloadPlan, IsGoodWhereTheGpuWaitsForTheCpu)
{
    // Copies take CPU time, and end later than on a GPU that never waits.
    const auto worst = [](const char* name) {
        const auto trace = std::make_shared<StepTrace>(*withTimes(recorded(name), {})->step);
        trace->info.cpuFactor = 3;
        const StepPlanner planner = *StepPlanner::create(trace);
        PlanRequest request;
        request.offload = true;
        const Bytes least = leastBudget(planner, true);
        double most = 0; // ms above the bound, as a share of the step
        for (const double part : {1, 3, 5, 7, 9, 11, 13, 15, 17, 19}) {
            request.budget
                = least + static_cast<Bytes>(part / 24 * static_cast<double>(planner.recorded()->peak - least));
            const Plan plan = planner.solve(request, {}, 100)->plan;
            most = std::max(most, (plan.costMs() - plan.boundMs) / plan.stepMs);
        }
        return most;
    };
    EXPECT_LE(worst("lora_3L_h100"), 0.004);
    EXPECT_LE(worst("t5_3L_h100"), 0.03);
}

TEST(OffloadPlan, IsFoundAtEveryBudgetFromTheLeastOn)
{
    // Below the least memory of recomputation, few plans fit.
    const StepTracePtr trace = recorded("efficientnet_b0_h100");
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.offload = true;
    const Bytes leastAlone = leastBudget(planner), least = leastBudget(planner, true);
    ASSERT_LT(least, leastAlone);
    for (const double share : {0.0, 0.2, 0.4, 0.6, 0.8}) {
        request.budget = least + static_cast<Bytes>(share * static_cast<double>(leastAlone - least));
        const Result<PlanAnswer> found = planner.solve(request, {}, 100);
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_TRUE(found->fits()) << share;
    }
}

TEST(OffloadPlan, TakesNoLongerThanThePlanOfLeastMemory)
{
    for (const char* name : {"t5_3L_h100", "efficientnet_b0_h100"}) {
        const StepPlanner planner = *StepPlanner::create(withTimes(recorded(name), {})->step);
        PlanRequest request;
        request.offload = true;
        const Bytes least = leastBudget(planner, true);
        request.budget = least;
        const double leanestMs = planner.solve(request, {}, 5)->plan.costMs();
        for (const double share : {0.01, 0.05, 0.1, 0.2, 0.4}) {
            request.budget = least + static_cast<Bytes>(share * static_cast<double>(planner.recorded()->peak - least));
            EXPECT_LE(planner.solve(request, {}, 5)->plan.costMs(), leanestMs) << name << ' ' << share;
        }
    }
}

TEST(OffloadPlan, TheGapIsToPlansThatOffload)
{
    const StepTracePtr trace = recorded("lora_3L_h100");
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    const Bytes least = leastBudget(planner);
    for (const double share : {0.1, 0.4, 0.7}) {
        request.offload = true;
        request.budget = least + static_cast<Bytes>(share * static_cast<double>(planner.recorded()->peak - least));
        const PlanAnswer longer = *planner.solve(request, {}, 300);
        const PlanAnswer quick = *planner.solve(request, {}, 1);
        EXPECT_LE(quick.plan.boundMs, costOf(longer.plan) * (1 + 1e-9)) << "a bound of plans without offload";
        EXPECT_EQ(quick.plan.status == PlanStatus::optimal, quick.plan.gap == 0);
    }
}

TEST(OffloadPlan, TensorsLeaveLaterAndComeBackEarlierWhereThatHidesCopies)
{
    const StepTracePtr trace = recorded("lora_3L_h100");
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.offload = true;
    request.budget = planner.recorded()->peak / 10 * 9;
    const PlanAnswer found = *planner.solve(request);
    ASSERT_TRUE(found.fits());
    ASSERT_GT(found.plan.offload.moved, 0);
    CheckpointPlan atOnce = found.regions;
    bool later = false, earlier = false;
    for (CheckpointRegion& region : atOnce)
        if (region.offload && region.offload->moves) {
            later = later || region.offload->wait > 0;
            earlier = earlier || region.offload->ahead > 0;
            region.offload = Offload{};
        }
    EXPECT_TRUE(later && earlier);
    EXPECT_GT(clockOf(*trace, atOnce)->exposedCopyMs, found.plan.offload.exposedMs + 1);
}

TEST(OffloadPlan, WithoutRecomputationOnlyMovesTensors)
{
    const StepTracePtr trace = recorded();
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.offload = true;
    request.recompute = false;
    request.budget = 1;
    const PlanAnswer refused = *planner.solve(request);
    ASSERT_FALSE(refused.fits());
    EXPECT_THAT(refused.plan.reason, HasSubstr("without recomputation; with recomputation alone plans exist from"));
    const Bytes least = refused.plan.leastBudget;
    EXPECT_LT(least, planner.recorded()->peak);
    request.budget = least + (planner.recorded()->peak - least) / 2;
    const PlanAnswer alone = *planner.solve(request);
    ASSERT_TRUE(alone.fits());
    EXPECT_LE(alone.plan.peak, request.budget);
    EXPECT_EQ(alone.plan.recomputeMs, 0);
    EXPECT_GT(alone.plan.offload.moved, 0);
    EXPECT_TRUE(std::ranges::all_of(alone.regions, [](const CheckpointRegion& r) { return r.offload.has_value(); }));
    EXPECT_EQ(predict(*trace, alone.regions)->peak, alone.plan.peak);

    request.recompute = true;
    EXPECT_LE(costOf(planner.solve(request)->plan), costOf(alone.plan) * (1 + 1e-9));

    const std::string named(trace->moduleFqn(alone.regions.front().module));
    request.recompute = false;
    request.pins[named] = Pin::recompute; // what is pinned is recomputed
    const PlanAnswer pinned = *planner.solve(request);
    ASSERT_TRUE(pinned.fits());
    EXPECT_GT(pinned.plan.recomputeMs, 0);
    for (const CheckpointRegion& region : pinned.regions)
        EXPECT_NE(region.offload.has_value(), trace->moduleFqn(region.module) == named);
}

TEST(OffloadPlan, AStopIsNoErrorAndHoldsUpNoOtherSearch)
{
    const StepPlanner planner = *StepPlanner::create(recorded());
    PlanRequest request;
    request.budget = planner.recorded()->peak - 1;
    ASSERT_TRUE(planner.solve(request)); // measures the options that recompute
    request.offload = true;
    std::stop_source stop;
    std::optional<PlanAnswer> first, second;
    {
        const std::jthread stopped([&] { first = *planner.solve(request, stop.get_token()); });
        const std::jthread other([&] { second = *planner.solve(request); });
        stop.request_stop();
    }
    EXPECT_EQ(first->plan.status, PlanStatus::stopped);
    EXPECT_TRUE(second->fits());
    const StepPlanner another = *StepPlanner::create(recorded());
    request.offload = false;
    ASSERT_TRUE(another.solve(request));
    request.offload = true;
    EXPECT_EQ(another.solve(request, stop.get_token())->plan.status, PlanStatus::stopped);
    const Result<std::vector<FrontierPoint>> frontier = another.frontier(request, 5, stop.get_token());
    ASSERT_TRUE(frontier) << frontier.error().message;
    EXPECT_TRUE(another.solve(request)->fits());
}

TEST(OffloadPlan, PinsOffloadAModule)
{
    const StepTracePtr trace = recorded();
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.budget = planner.recorded()->peak;
    const ModuleInfo& info = *planner.moduleInfo();
    const auto named = std::ranges::find_if(
        info.stats, [](const ModuleStats& stats) { return !stats.isLeaf && stats.fqn.ends_with(".0"); });
    ASSERT_NE(named, info.stats.end());
    request.pins[named->fqn] = Pin::offload;
    const Result<PlanAnswer> pinned = planner.solve(request);
    ASSERT_TRUE(pinned.ok()) << pinned.error().message;
    ASSERT_TRUE(pinned->fits());
    ASSERT_EQ(pinned->regions.size(), 1U);
    EXPECT_TRUE(pinned->regions.front().offload);
    EXPECT_EQ(trace->moduleFqn(pinned->regions.front().module), named->fqn);
    EXPECT_GT(pinned->plan.offload.moved, 0);
    EXPECT_GT(pinned->plan.offload.copyMs, 0);
    EXPECT_EQ(pinned->plan.recomputeMs, 0);

    request.offload = true;
    request.hostMemory = pinned->plan.offload.host - 1;
    const Result<PlanAnswer> refused = planner.solve(request);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::infeasible);
    EXPECT_THAT(refused.error().message, HasSubstr("pin fewer, or allow more host memory"));
}

TEST(OffloadPlan, NeedsTheShapesOfTheOps)
{
    const StepTracePtr trace = *readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/gpt2_small.hrs");
    const StepPlanner planner = *StepPlanner::create(trace);
    PlanRequest request;
    request.budget = planner.recorded()->peak;
    request.offload = true;
    EXPECT_THAT(planner.solve(request).error().message, HasSubstr("tells too little about ops"));
    request.offload = false;
    request.pins[std::string(trace->moduleFqn(ModuleId(0)))] = Pin::offload;
    EXPECT_THAT(planner.solve(request).error().message, HasSubstr("tells too little about ops"));
}
