// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_frontier.h"
#include "core/joint/ops_policy.h"
#include "core/policy/policy_maker.h"
#include "core/trace/step_file.h"
#include "tests/core/hand_step.h"
#include "tests/core/joint_step.h"
#include "tests/core/own_checkpoint.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace headroom {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

OpsPlanner plannerOf(const StepTracePtr& trace)
{
    Result<OpsPlanner> planner = OpsPlanner::create(trace);
    if (!planner)
        throw std::runtime_error(planner.error().message);
    return *planner;
}

OpsPlan planOf(const OpsPlanner& planner, double fraction, OpsSolver solver = OpsSolver::dp)
{
    OpsRequest request;
    request.fraction = fraction;
    request.solver = solver;
    Result<OpsPlan> plan = planner.plan(request);
    if (!plan)
        throw std::runtime_error(plan.error().message);
    return *std::move(plan);
}

TEST(OpsPlan, theClockRunsWhatIsMadeAgainToo)
{
    const StepTracePtr trace = makeSyntheticStep();
    const OpsPlanner planner = plannerOf(trace);
    const OpsPlan whole = planOf(planner, 1);
    const OpsPlan least = planOf(planner, 0);
    const StepClock recorded = *clockOf(*trace, CheckpointPlan());
    const StepClock again = planner.clock(least);
    ASSERT_GT(least.recomputeMs, 0);
    EXPECT_DOUBLE_EQ(planner.clock(whole).gpuMs, recorded.gpuMs + whole.recomputeMs);
    EXPECT_NEAR(again.gpuMs, recorded.gpuMs + least.recomputeMs, 1e-9);
    EXPECT_GE(again.recomputedKernels, 1);
    EXPECT_NEAR(again.kernels, recorded.kernels + again.recomputedKernels, 1e-9);
    EXPECT_GT(again.stepMs, recorded.stepMs);
}

TEST(OpsPlan, whatIsSavedStaysAndWhatIsNotIsMadeAgain)
{
    const TwoOps step;
    const OpsPlanner planner = plannerOf(step.trace);
    EXPECT_EQ(planner.defaultSavedBytes(), 16 * allocationGranularity);

    const OpsPlan whole = planOf(planner, 1);
    EXPECT_THAT(whole.saved, ElementsAre(step.a, step.b));
    EXPECT_THAT(whole.recomputations, IsEmpty());
    EXPECT_THAT(totals(planner.timeline(whole)), ElementsAre(14, 22, 30, 31, 32, 40, 39, 31, 39, 31, 23, 22, 14));
    EXPECT_EQ(whole.peak, planner.recordedPeak());
    EXPECT_THAT(whole.dropped, ElementsAre(false, false));

    const OpsPlan half = planOf(planner, 0.5);
    EXPECT_THAT(half.saved, ElementsAre(step.a));
    EXPECT_THAT(half.recomputed, ElementsAre(OpId(1)));
    EXPECT_THAT(half.dropped, ElementsAre(false, true));
    EXPECT_EQ(half.recomputeMs, 1);
    // b goes with the program's hold (23), and comes again when backward asks for it (32), until the end of the node.
    EXPECT_THAT(totals(planner.timeline(half)),
                ElementsAre(14, 22, 30, 31, 23, 24, 32, 40, 32, 31, 39, 31, 23, 22, 14));

    const OpsPlan nothing = planOf(planner, 0);
    EXPECT_THAT(nothing.saved, IsEmpty());
    ASSERT_EQ(nothing.recomputations.size(), 1U);
    EXPECT_THAT(nothing.recomputations[0].ops, ElementsAre(OpId(0), OpId(1)));
    EXPECT_EQ(nothing.recomputations[0].pack, PackId(1));
    // a is made again on the way to b, and stays for the node that asks for it.
    EXPECT_THAT(totals(planner.timeline(nothing)),
                ElementsAre(14, 22, 30, 22, 23, 15, 16, 24, 32, 40, 32, 31, 39, 31, 23, 22, 14));
    EXPECT_EQ(planner.timeline(nothing).recomputeMs, 2);
}

TEST(OpsPlan, aSavedValueStaysUntilTheLastRecomputationThatReadsIt)
{
    // Backward asks only for c = gelu(b), b = cos(a), a = mm: with a held (by nobody but the plan) it makes b and c.
    JointStep step;
    const StorageId a = step.matmul({step.batch, step.weight}, 2);
    const StorageId b = step.op("aten.cos.default", {a}, 8);
    const StorageId c = step.op("aten.gelu.default", {b}, 8);
    const PackId pack = step.pack(c);
    const StorageId loss = step.op("aten.sum.default", {c}, 1);
    for (const StorageId storage : {a, b, c})
        step.builder.free(storage);
    step.backwardBegins(loss);
    step.node("aten.mm.default", {pack}, {c}, 3);
    step.builder.free(loss);
    const StepTracePtr trace = step.finish();
    const OpsPlanner planner = plannerOf(trace);
    const OpsPlan plan = planOf(planner, 0.25);
    EXPECT_THAT(plan.saved, ElementsAre(a));
    EXPECT_THAT(plan.recomputed, ElementsAre(OpId(1), OpId(2)));
    // a lives until b was made again; b until c was.
    EXPECT_THAT(totals(planner.timeline(plan)),
                ElementsAre(14, 16, 24, 32, 33, 25, 17, 18, 26, 24, 32, 24, 27, 19, 18, 17, 14));
}

TEST(OpsPlan, savedBytesNeverExceedTheCapAndMoreOfThemNeverCostMore)
{
    for (const OpsSolver solver : {OpsSolver::dp, OpsSolver::greedy, OpsSolver::ilp}) {
        const OpsPlanner planner = plannerOf(makeSyntheticStep());
        double before = std::numeric_limits<double>::infinity();
        for (int i = 0; i <= 20; ++i) {
            const OpsPlan plan = planOf(planner, i / 20.0, solver);
            SCOPED_TRACE(i);
            EXPECT_LE(plan.savedBytes, plan.cap);
            EXPECT_LE(plan.cost, before * (1 + 1e-12));
            before = solver == OpsSolver::greedy ? before : plan.cost;
            EXPECT_EQ(planner.timeline(plan).peak, plan.peak);
            EXPECT_NEAR(planner.timeline(plan).recomputeMs, plan.recomputeMs, 1e-9);
        }
    }
}

TEST(OpsPlan, eachOpRunsAgainAtMostOnceAndAfterWhatItReads)
{
    const StepTracePtr trace = makeSyntheticStep();
    const OpsPlanner planner = plannerOf(trace);
    const JointGraph& graph = planner.graph();
    for (int i = 0; i <= 10; ++i) {
        SCOPED_TRACE(i);
        const OpsPlan plan = planOf(planner, i / 10.0);
        std::vector<bool> there(graph.values.size(), false);
        for (std::size_t value = 0; value < there.size(); ++value)
            there[value] = !graph.values[value].node.valid() || graph.values[value].kept
                || std::ranges::binary_search(plan.saved, graph.values[value].storage);
        std::vector<OpId> ran;
        for (const Recomputation& recomputation : plan.recomputations) {
            for (const OpId op : recomputation.ops) {
                const JointGraph::Node& node = graph[graph.nodeOf[op.value]];
                EXPECT_NE(node.repeat, Repeat::once);
                if (node.ops.back() != op)
                    continue;
                for (const ValueId read : node.reads)
                    EXPECT_TRUE(there[read.value]);
                for (const ValueId made : node.makes)
                    there[made.value] = true;
            }
            ran.insert(ran.end(), recomputation.ops.begin(), recomputation.ops.end());
            const StorageId asked = trace->packs.storage[recomputation.pack];
            EXPECT_TRUE(there[graph.valueOf[asked.value].value]);
        }
        std::ranges::sort(ran);
        EXPECT_TRUE(std::ranges::adjacent_find(ran) == ran.end());
        EXPECT_EQ(ran, plan.recomputed);
    }
}

OpsFrontierPtr frontierOf(const StepTracePtr& trace)
{
    Result<OpsFrontier> made = makeOpsFrontier(plannerOf(trace), {}, 21, {});
    if (!made)
        throw std::runtime_error(made.error().message);
    return std::make_shared<const OpsFrontier>(*std::move(made));
}

PlanAnswer answerAt(const OpsFrontierPtr& frontier, Bytes budget)
{
    PlanRequest request;
    request.budget = budget;
    request.worldSize = 4; // ops are planned for one GPU
    return answerOf(frontier, request);
}

TEST(OpsFrontier, anAnswerIsThePlanOfLeastTimeWithinTheBudget)
{
    const StepTracePtr trace = makeSyntheticStep();
    const OpsFrontierPtr frontier = frontierOf(trace);
    ASSERT_GT(frontier->plans.size(), 2U);
    for (std::size_t i = 0; i < frontier->plans.size(); ++i) {
        const OpsPlan& plan = frontier->plans[i];
        const PlanAnswer answer = answerAt(frontier, plan.peak);
        ASSERT_TRUE(answer.fits());
        EXPECT_EQ(answer.mode(), PlanMode::ops);
        EXPECT_EQ(answer.ops->index, i);
        EXPECT_EQ(answer.plan.status, PlanStatus::feasible);
        EXPECT_EQ(answer.plan.peak, plan.peak);
        EXPECT_EQ(answer.timeline->peak, plan.peak);
        EXPECT_EQ(answer.plan.recomputeMs, plan.recomputeMs);
        EXPECT_EQ(answer.plan.baselinePeak, frontier->planner.recordedPeak());
        EXPECT_EQ(answer.plan.worldSize, 1);
        EXPECT_EQ(answer.plan.leastBudget, frontier->plans.front().peak);
        EXPECT_NEAR(answer.effects.front().recomputeMs, plan.recomputeMs, 1e-9);
        EXPECT_EQ(&answer.shown(), &answer);
    }
    EXPECT_EQ(frontier->plans.back().recomputeMs, 0);
}

TEST(OpsFrontier, belowAllPlansTheLowestIsTheClosest)
{
    const OpsFrontierPtr frontier = frontierOf(makeSyntheticStep());
    const PlanAnswer answer = answerAt(frontier, frontier->plans.front().peak - 1);
    EXPECT_FALSE(answer.fits());
    EXPECT_EQ(answer.plan.status, PlanStatus::infeasible);
    EXPECT_EQ(answer.plan.peak, -1);
    EXPECT_EQ(answer.plan.recomputeMs, 0);
    EXPECT_THAT(answer.plan.reason, HasSubstr(formatBytes(answer.plan.leastBudget)));
    ASSERT_NE(answer.closest, nullptr);
    EXPECT_TRUE(answer.closest->fits());
    EXPECT_EQ(answer.shown().plan.peak, answer.plan.leastBudget);
    EXPECT_EQ(answer.shown().request.budget, answer.plan.leastBudget);
    EXPECT_EQ(answer.ops, answer.closest->ops);
}

TEST(OpsFrontier, aSmallerFractionNeverTakesMoreAtItsPeak)
{
    const std::filesystem::path steps = std::filesystem::path(HEADROOM_TEST_DATA) / "functorch";
    std::vector<StepTracePtr> traces{makeSyntheticStep()};
    for (const char* name : {"matmul_even_chain", "prioritize_cheaper_matmul2", "attention_vs_linear_S2_D5"}) {
        const Result<StepTracePtr> trace = readStepTrace(steps / (std::string(name) + ".hrs"));
        ASSERT_TRUE(trace.ok());
        traces.push_back(*trace);
    }
    for (const StepTracePtr& trace : traces) {
        const OpsPlanner planner = plannerOf(trace);
        const Result<std::vector<OpsPlan>> plans = planner.frontier({}, 41);
        ASSERT_TRUE(plans.ok());
        ASSERT_FALSE(plans->empty());
        EXPECT_EQ(plans->back().saved, planOf(planner, 1).saved);
        for (std::size_t i = 1; i < plans->size(); ++i) {
            EXPECT_LE((*plans)[i - 1].fraction, (*plans)[i].fraction);
            EXPECT_LT((*plans)[i - 1].peak, (*plans)[i].peak);
            EXPECT_GE((*plans)[i - 1].cost, (*plans)[i].cost);
            EXPECT_LE((*plans)[i].savedBytes, (*plans)[i].cap);
            EXPECT_EQ(planner.timeline((*plans)[i]).peak, (*plans)[i].peak);
        }
        EXPECT_EQ(&OpsPlanner::choose(*plans, 0), &plans->front());
        EXPECT_EQ(&OpsPlanner::choose(*plans, 1), &plans->back());
        EXPECT_EQ(&OpsPlanner::choose(*plans, plans->front().fraction), &plans->front());
        // What was left out is beaten by what is there: no more at the peak, and no more time.
        for (int i = 0; i <= 40; ++i) {
            const OpsPlan plan = planOf(planner, i / 40.0);
            EXPECT_TRUE(std::ranges::any_of(
                *plans, [&](const OpsPlan& kept) { return kept.peak <= plan.peak && kept.cost <= plan.cost; }));
        }
    }
}

TEST(OpsPolicy, blocksAreTheRepeatedModules)
{
    const StepTracePtr trace = makeSyntheticStep();
    std::vector<std::string> names;
    for (const ModuleId module : blocksOf(*trace))
        names.emplace_back(trace->moduleFqn(module));
    EXPECT_THAT(
        names,
        ElementsAre("Transformer.layers.0", "Transformer.layers.1", "Transformer.layers.2", "Transformer.layers.3"));
}

TEST(OpsPolicy, listsOfModulesAreNoBlocks)
{
    JointStep step;
    std::vector<ModuleId> blocks;
    for (const char* list : {"Net.blocks", "Net.heads"}) {
        const ModuleId container = step.builder.addModule(list, "ModuleList", ModuleId(0));
        for (const char* number : {".0", ".1"}) {
            blocks.push_back(step.builder.addModule(std::string(list) + number, "Block", container));
            step.builder.addModule(std::string(list) + number + ".linear", "Linear", blocks.back());
        }
    }
    for (const ModuleId block : blocks) {
        step.enter(block, {step.batch});
        step.exit();
    }
    const StorageId loss = step.op("aten.sum.default", {step.batch}, 1);
    step.backwardBegins(loss);
    EXPECT_EQ(blocksOf(*step.finish()), blocks);
}

/// checkpoint() steps aside in a teacher without gradients, although the plan would make its result again.
TEST(OpsPolicy, modulesThatSaveNothingAreLeftOut)
{
    JointStep step;
    const ModuleId teacher = step.builder.addModule("Net.teacher", "Teacher", ModuleId(0));
    step.enter(teacher, {step.batch});
    const StorageId a = step.op("aten.exp.default", {step.batch}, 8);
    step.exit();
    step.enter(ModuleId(0), {step.batch});
    const PackId pack = step.pack(a);
    const StorageId loss = step.op("aten.sum.default", {a}, 1);
    step.exit();
    step.builder.free(a);
    step.backwardBegins(loss);
    step.node("aten.mul.Tensor", {pack}, {a}, 8);
    const StepTracePtr trace = step.finish();
    const OpsPlan plan = planOf(plannerOf(trace), 0);
    EXPECT_EQ(plan.recomputed.size(), 1U);
    const Result<Policy> policy = opsPolicy(trace, plan, std::vector{teacher});
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    EXPECT_THAT(policy->modules, IsEmpty());
}

TEST(OpsPolicy, savesWhatThePlanSavesAndSaysWhatThatTakes)
{
    const StepTracePtr trace = makeSyntheticStep();
    const OpsPlanner planner = plannerOf(trace);
    const OpsPlan plan = planOf(planner, 0.4);
    const Result<Policy> policy = opsPolicy(trace, plan);
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    ASSERT_FALSE(policy->modules.empty());
    const Result<CheckpointPlan> regions = checkpointPlan(*trace, *policy);
    ASSERT_TRUE(regions.ok()) << regions.error().message;
    const Result<Timeline> timeline = predict(*trace, *regions);
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(policy->predicted.peak, timeline->peak);
    EXPECT_EQ(policy->predicted.recomputeMs, timeline->recomputeMs);
    for (const CheckpointRegion& region : *regions) {
        const std::vector<OpId> ops = StepModel(trace).regionOps(region.module);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            const bool random = trace->ops.flags[ops[i]] & opRandom;
            const bool inPlan = std::ranges::any_of(trace->ops.outputs[ops[i]], [&](StorageId storage) {
                return std::ranges::binary_search(plan.saved, storage) && trace->storages.creator[storage] == ops[i];
            });
            EXPECT_TRUE(!region.save[i] || inPlan || random) << trace->opName(ops[i]);
        }
    }
    // A module in which nothing runs again is not checkpointed.
    const Result<Policy> none = opsPolicy(trace, planOf(planner, 1));
    ASSERT_TRUE(none.ok());
    for (const Policy::Module& module : none->modules)
        EXPECT_FALSE(planOf(planner, 1).recomputed.empty()) << module.fqn;
}

TEST(OpsPolicy, leavesOutModulesThatCannotBeCheckpointed)
{
    const StepTracePtr trace = withOwnCheckpoint(makeSyntheticStep(), "Transformer.layers.1.attention.wq");
    const OpsPlanner planner = plannerOf(trace);
    std::vector<std::string> kept;
    for (const KeptModule& module : planner.graph().keptModules)
        kept.emplace_back(trace->moduleFqn(module.module));
    EXPECT_THAT(kept, ElementsAre("Transformer", "Transformer.layers.1", "Transformer.layers.1.attention"));
    OpsRequest nothing;
    nothing.fraction = 0;
    const Result<OpsPlan> refused = planner.plan(nothing);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::infeasible);
    EXPECT_THAT(refused.error().message,
                HasSubstr("Transformer cannot be checkpointed: the program already checkpoints a part of the module"));

    const OpsPlan plan = planOf(planner, 0.5);
    std::vector<std::string> modules;
    for (const OpId op : plan.recomputed)
        EXPECT_NE(trace->moduleFqn(trace->ops.module[op]), "Transformer.layers.1") << trace->opName(op);
    const Result<Policy> policy = opsPolicy(trace, plan);
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    for (const Policy::Module& module : policy->modules)
        modules.push_back(module.fqn);
    EXPECT_THAT(modules, Contains("Transformer.layers.0"));
    EXPECT_THAT(modules, Contains("Transformer.layers.1.feed_forward"));
    EXPECT_THAT(modules, Not(Contains("Transformer.layers.1")));
    EXPECT_THAT(modules, Not(Contains("Transformer.layers.1.attention")));
    const Result<CheckpointPlan> regions = checkpointPlan(*trace, *policy);
    ASSERT_TRUE(regions.ok()) << regions.error().message;
    EXPECT_TRUE(predict(*trace, *regions).ok());

    const ModuleId block = moduleNames(*trace).at("Transformer.layers.1");
    const Result<Policy> asked = opsPolicy(trace, plan, std::vector{block});
    ASSERT_FALSE(asked.ok());
    EXPECT_THAT(asked.error().message, HasSubstr("Transformer.layers.1 cannot be checkpointed"));
}

} // namespace
} // namespace headroom
