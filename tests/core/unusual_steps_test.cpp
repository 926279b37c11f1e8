// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Steps of models that are no stack of layers: no submodules, no modules at all, modules that never run or run several
// times; and wishes that leave no plan.
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/trace/step_file.h"
#include "tests/core/joint_step.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace headroom {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Net with Net.block and Net.block.linear, which run `calls` times one after another, and Net.unused, which does not.
/// A call of the block takes 8 units and makes 8: a = mm(x), saved with x, then gelu(a).
StepTracePtr stepOfCalls(int calls)
{
    JointStep step;
    const ModuleId net(0);
    const ModuleId block = step.builder.addModule("Net.block", "Block", net);
    const ModuleId linear = step.builder.addModule("Net.block.linear", "Linear", block);
    const ModuleId unused = step.builder.addModule("Net.unused", "Block", net);
    step.builder.addModule("Net.unused.linear", "Linear", unused);
    const CallId whole = step.builder.enter(net, std::vector{step.batch});
    std::vector<std::pair<PackId, PackId>> packs;
    StorageId x = step.op("aten.clone.default", {step.batch}, 8);
    for (int i = 0; i < calls; ++i) {
        const CallId outer = step.builder.enter(block, std::vector{x});
        const CallId inner = step.builder.enter(linear, std::vector{x});
        const StorageId a = step.matmul({x, step.weight}, 8);
        const PackId packedX = step.pack(x);
        step.builder.exit(inner, std::vector{a});
        const StorageId b = step.op("aten.gelu.default", {a}, 8);
        packs.emplace_back(packedX, step.pack(a));
        step.builder.free(a);
        step.builder.exit(outer, std::vector{b});
        step.builder.free(x);
        x = b;
    }
    const StorageId loss = step.op("aten.sum.default", {x}, 1);
    step.builder.free(x);
    step.builder.exit(whole, std::vector{loss});
    step.backwardBegins(loss);
    for (auto pack = packs.rbegin(); pack != packs.rend(); ++pack) {
        step.node("aten.gelu_backward.default", {pack->second}, {}, 8);
        step.node("aten.mm.default", {pack->first}, {}, 8);
    }
    step.builder.free(loss);
    return step.finish();
}

/// A block of a model with what it has packed.
struct Block
{
    ModuleId module, linear;
    PackId x, a;
};

/// Net with blocks Net.0, Net.1, … and a linear in each.
std::vector<Block> addBlocks(JointStep& step, int count)
{
    std::vector<Block> blocks;
    for (int i = 0; i < count; ++i) {
        const std::string fqn = "Net." + std::to_string(i);
        Block block;
        block.module = step.builder.addModule(fqn, "Block", ModuleId(0));
        block.linear = step.builder.addModule(fqn + ".linear", "Linear", block.module);
        blocks.push_back(block);
    }
    return blocks;
}

/// Calls blocks one after another as in stepOfCalls(), and makes a loss of the result. `packs`: gradients are on.
StorageId forward(JointStep& step, std::span<Block> blocks, bool packs = true)
{
    StorageId x = step.op("aten.clone.default", {step.batch}, 8);
    for (Block& block : blocks) {
        step.enter(block.module, {x});
        step.enter(block.linear, {x});
        const StorageId a = step.matmul({x, step.weight}, 8);
        if (packs)
            block.x = step.pack(x);
        step.exit();
        const StorageId b = step.op("aten.gelu.default", {a}, 8);
        if (packs)
            block.a = step.pack(a);
        step.builder.free(a);
        step.exit();
        step.builder.free(x);
        x = b;
    }
    const StorageId loss = step.op("aten.sum.default", {x}, 1);
    step.builder.free(x);
    return loss;
}

void backward(JointStep& step, std::span<Block> blocks, StorageId loss)
{
    step.backwardBegins(loss);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
        step.node("aten.gelu_backward.default", {block->a}, {}, 8);
        step.node("aten.mm.default", {block->x}, {}, 8);
    }
    step.builder.free(loss);
}

/// Two models of `count` blocks, each with a forward and a backward of its own.
StepTracePtr stepOfTwoModels(int count)
{
    JointStep step;
    std::vector<Block> blocks = addBlocks(step, 2 * count);
    const auto each = static_cast<std::size_t>(count);
    const std::span first = std::span(blocks).first(each);
    backward(step, first, forward(step, first));
    step.builder.free(step.gradient);
    step.builder.mark(Mark::backwardEnd);
    const std::span second = std::span(blocks).last(each);
    backward(step, second, forward(step, second));
    return step.finish();
}

/// mm(batch, weight) in one module, or in none.
StepTracePtr stepOfOneOp(bool inModule)
{
    JointStep step;
    std::optional<CallId> call;
    if (inModule)
        call = step.builder.enter(ModuleId(0), std::vector{step.batch});
    const StorageId y = step.matmul({step.batch, step.weight}, 8);
    const PackId pack = step.pack(y);
    if (call)
        step.builder.exit(*call, std::vector{y});
    step.builder.free(y);
    step.backwardBegins(y);
    step.node("aten.mm.default", {pack}, {}, 4);
    return step.finish();
}

StepPlanner plannerOf(const StepTracePtr& trace)
{
    Result<StepPlanner> planner = StepPlanner::create(trace);
    EXPECT_TRUE(planner.ok()) << planner.error().message;
    return *std::move(planner);
}

PlanAnswer solved(const StepPlanner& planner, Bytes budget, std::map<std::string, Pin> pins = {})
{
    PlanRequest request;
    request.budget = budget;
    request.pins = std::move(pins);
    Result<PlanAnswer> step = planner.solve(request);
    EXPECT_TRUE(step.ok()) << step.error().message;
    return step.ok() ? *std::move(step) : PlanAnswer{};
}

/// Nothing can be recomputed: a budget is met by the step as it is, or by nothing.
void expectNoChoice(const StepTracePtr& trace)
{
    const StepPlanner planner = plannerOf(trace);
    const Bytes peak = planner.recorded()->peak;
    const PlanAnswer roomy = solved(planner, peak);
    EXPECT_EQ(roomy.plan.status, PlanStatus::optimal);
    EXPECT_THAT(roomy.regions, IsEmpty());
    EXPECT_EQ(roomy.plan.peak, peak);
    const PlanAnswer tight = solved(planner, peak - 1);
    EXPECT_EQ(tight.plan.status, PlanStatus::infeasible);
    EXPECT_EQ(tight.plan.leastBudget, peak);
    EXPECT_THAT(tight.plan.reason, HasSubstr(groupedDigits(peak)));
    PlanRequest request;
    const Result<std::vector<FrontierPoint>> frontier = planner.frontier(request, 16);
    ASSERT_TRUE(frontier.ok()) << frontier.error().message;
    ASSERT_EQ(frontier->size(), 1U);
    EXPECT_EQ(frontier->front().recomputeMs, 0);
}

TEST(UnusualSteps, aModelWithoutSubmodulesLeavesNoChoice)
{
    expectNoChoice(stepOfOneOp(true));
}

TEST(UnusualSteps, aPlainFunctionHasNoModulesToPlan)
{
    const StepTracePtr trace = stepOfOneOp(false);
    const Result<StepPlanner> planner = StepPlanner::create(trace);
    ASSERT_FALSE(planner.ok());
    EXPECT_THAT(planner.error().message, HasSubstr("no module ran in the step"));
    EXPECT_EQ(predict(*trace, {})->peak, 27 * allocationGranularity);
}

TEST(UnusualSteps, modulesThatNeverRanLeaveNoChoice)
{
    expectNoChoice(stepOfCalls(0));
}

TEST(UnusualSteps, aModuleThatNeverRanCannotBePinned)
{
    const StepPlanner planner = plannerOf(stepOfCalls(1));
    PlanRequest request;
    request.budget = planner.recorded()->peak;
    request.pins = {{"Net.unused", Pin::recompute}};
    const Result<PlanAnswer> step = planner.solve(request);
    ASSERT_FALSE(step.ok());
    EXPECT_EQ(step.error().message, "cannot pin `Net.unused`: no module of that name ran in the step");
}

/// Every way to checkpoint a block.
std::vector<CheckpointPlan> allPlans(const StepModel& model, ModuleId block)
{
    const std::vector<bool> savable = model.savableOps(block);
    std::vector<CheckpointPlan> plans{{}};
    for (std::uint32_t mask = 0; mask < 1U << savable.size(); ++mask) {
        std::vector<bool> save(savable.size());
        bool allowed = true;
        for (std::size_t op = 0; op < save.size(); ++op) {
            save[op] = (mask >> op & 1U) != 0;
            allowed = allowed && (!save[op] || savable[op]);
        }
        if (allowed)
            plans.push_back({{block, save}});
    }
    return plans;
}

TEST(UnusualSteps, aModuleThatRunsSeveralTimesIsPlannedAtItsBest)
{
    for (const int calls : {1, 2, 5}) {
        SCOPED_TRACE(calls);
        const StepTracePtr trace = stepOfCalls(calls);
        const StepPlanner planner = plannerOf(trace);
        const StepModel model(trace);
        std::vector<Timeline> every;
        for (const CheckpointPlan& plan : allPlans(model, ModuleId(1)))
            every.push_back(*model.predict(plan));
        const Bytes least = std::ranges::min(every, {}, &Timeline::peak).peak;
        for (Bytes budget = least - allocationGranularity; budget <= planner.recorded()->peak;
             budget += allocationGranularity) {
            double best = std::numeric_limits<double>::infinity();
            for (const Timeline& timeline : every)
                if (timeline.peak <= budget)
                    best = std::min(best, timeline.recomputeMs);
            const PlanAnswer step = solved(planner, budget);
            if (budget < least) {
                EXPECT_EQ(step.plan.status, PlanStatus::infeasible);
                continue;
            }
            EXPECT_EQ(step.plan.status, PlanStatus::optimal) << budget;
            EXPECT_LE(step.plan.peak, budget);
            EXPECT_EQ(step.plan.recomputeMs, best) << budget;
        }
    }
}

// The planner's chain sees what is saved between the last forward and its backward only.
TEST(UnusualSteps, modelsWithABackwardEachArePlannedAtTheirBest)
{
    const StepTracePtr trace = stepOfTwoModels(2);
    const StepPlanner planner = plannerOf(trace);
    const StepModel model(trace);
    std::vector<CheckpointPlan> plans{{}};
    for (const char* name : {"Net.0", "Net.1", "Net.2", "Net.3"}) {
        std::vector<CheckpointPlan> longer;
        for (const CheckpointPlan& way : allPlans(model, moduleNames(*trace).at(name)))
            for (CheckpointPlan plan : plans) {
                plan.insert(plan.end(), way.begin(), way.end());
                longer.push_back(std::move(plan));
            }
        plans = std::move(longer);
    }
    std::vector<Timeline> every;
    for (const CheckpointPlan& plan : plans)
        every.push_back(*model.predict(plan));
    const Bytes least = std::ranges::min(every, {}, &Timeline::peak).peak;
    ASSERT_LT(least, planner.recorded()->peak);
    for (Bytes budget = least; budget <= planner.recorded()->peak; budget += allocationGranularity) {
        double best = std::numeric_limits<double>::infinity();
        for (const Timeline& timeline : every)
            if (timeline.peak <= budget)
                best = std::min(best, timeline.recomputeMs);
        const PlanAnswer step = solved(planner, budget);
        EXPECT_EQ(step.plan.status, PlanStatus::optimal) << budget;
        EXPECT_LE(step.plan.peak, budget);
        EXPECT_NEAR(step.plan.recomputeMs, best, 1e-9) << budget;
    }
    EXPECT_EQ(solved(planner, least - 1).plan.status, PlanStatus::infeasible);
}

// The module's own numbers are those of its last call.
TEST(UnusualSteps, aLastCallWithoutGradientsLeavesTheOthersAChoice)
{
    JointStep step;
    std::vector<Block> blocks = addBlocks(step, 4);
    const StorageId loss = forward(step, blocks);
    step.builder.free(forward(step, blocks, false));
    backward(step, blocks, loss);
    const StepPlanner planner = plannerOf(step.finish());
    const PlanAnswer tight = solved(planner, planner.recorded()->peak - 8 * allocationGranularity);
    EXPECT_NE(tight.plan.status, PlanStatus::infeasible) << tight.plan.reason;
    EXPECT_FALSE(tight.regions.empty());
}

// retain_graph=True in all backward passes: the graph outlives the optimizer, but nothing runs again behind it.
TEST(UnusualSteps, aGraphThatIsKeptBehindTheOptimizerIsNoObstacle)
{
    JointStep step;
    std::vector<Block> blocks = addBlocks(step, 1);
    Block& block = blocks.front();
    const StorageId loss = forward(step, blocks);
    step.backwardBegins(loss);
    for (const std::uint32_t pass : {0U, 1U})
        for (const PackId pack : {block.a, block.x}) {
            step.builder.unpack(pack, pass);
            step.node("aten.mm.default", {}, {}, 8);
            step.builder.unpackEnd(pack);
        }
    step.op("aten.add_.Tensor", {step.weight}, 0, {.mutated = {step.weight}, .phase = Phase::optimizer});
    for (const PackId pack : {block.a, block.x})
        step.builder.release(pack);
    step.builder.free(loss);
    const StepModel model(step.finish());
    EXPECT_EQ(model.index().obstacles[block.module.value], CheckpointObstacle::none);
}

TEST(UnusualSteps, aPinHoldsForEveryCall)
{
    const StepPlanner planner = plannerOf(stepOfCalls(3));
    const PlanAnswer step = solved(planner, planner.recorded()->peak, {{"Net.block", Pin::recompute}});
    ASSERT_EQ(step.regions.size(), 1U);
    EXPECT_EQ(step.regions.front().module, ModuleId(1));
    const PlanAnswer saved = solved(planner, planner.recorded()->peak, {{"Net.block", Pin::save}});
    EXPECT_THAT(saved.regions, IsEmpty());
}

TEST(Pins, thatLeaveNoPlanAreSaidToBeTheReason)
{
    const StepPlanner planner = plannerOf(stepOfCalls(3));
    const Bytes peak = planner.recorded()->peak;
    const Bytes least = solved(planner, 1).plan.leastBudget;
    ASSERT_LT(least, peak);
    const PlanAnswer kept = solved(planner, least, {{"Net.block", Pin::save}});
    EXPECT_EQ(kept.plan.status, PlanStatus::infeasible);
    EXPECT_EQ(kept.plan.leastBudget, peak);
    EXPECT_THAT(kept.plan.reason, HasSubstr("without pins and AC units plans exist from"));
}

TEST(Pins, thatContradictOneAnotherAreRefused)
{
    const StepPlanner planner = plannerOf(makeSyntheticStep());
    PlanRequest request;
    request.budget = planner.recorded()->peak;
    for (const Pin inner : {Pin::save, Pin::recompute}) {
        request.pins = {{"Transformer.layers.1", Pin::recompute}, {"Transformer.layers.1.feed_forward", inner}};
        const Result<PlanAnswer> step = planner.solve(request);
        ASSERT_FALSE(step.ok());
        EXPECT_THAT(step.error().message, HasSubstr("`Transformer.layers.1"));
        EXPECT_THAT(step.error().message, HasSubstr("pinned, too"));
    }
}

/// A table of options in which no module may be checkpointed that shares arguments has no way through the step when one
/// of them must be: planning ended nowhere.
TEST(Pins, mayAskForALayerThatSharesItsArgumentsWithOthers)
{
    const Result<StepTracePtr> trace = readStepTrace(HEADROOM_TEST_DATA "/steps/bert_tiny.hrs");
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    const StepPlanner planner = plannerOf(*trace);
    const std::string layer = "ClsLoss.model.bert.encoder.layer.1";
    for (const Bytes budget : {planner.recorded()->peak, Bytes{1}}) {
        const PlanAnswer step = solved(planner, budget, {{layer, Pin::recompute}});
        if (budget == 1) {
            EXPECT_EQ(step.plan.status, PlanStatus::infeasible);
            continue;
        }
        EXPECT_EQ(step.plan.status, PlanStatus::optimal);
        EXPECT_TRUE(step.plan.decisions.contains(layer));
    }
}

} // namespace
} // namespace headroom
