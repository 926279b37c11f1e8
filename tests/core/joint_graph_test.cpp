// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/joint_graph.h"

#include "core/joint/min_cut.h"
#include "core/joint/op_obstacles.h"
#include "core/joint/ops_planner.h"
#include "tests/core/joint_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JointGraph graphOf(const StepTracePtr& trace)
{
    Result<JointGraph> graph = buildJointGraph(trace);
    if (!graph)
        throw std::runtime_error(graph.error().message);
    return *std::move(graph);
}

const JointGraph::Value& valueOf(const JointGraph& graph, StorageId storage)
{
    return graph[graph.valueOf[storage.value]];
}

const JointGraph::Node& makerOf(const JointGraph& graph, StorageId storage)
{
    return graph[valueOf(graph, storage).node];
}

TEST(JointGraph, viewsMakeNothingAndReadersOfAViewReadItsStorage)
{
    const auto [a, b, trace]
        = TwoOps([](JointStep& step, StorageId in) { step.op("aten.view.default", {in}, 0, {.flags = opView}); });
    const JointGraph graph = graphOf(trace);
    ASSERT_EQ(graph.nodes.size(), 3U); // mm, gelu, sum
    EXPECT_THAT(makerOf(graph, b).reads, ElementsAre(graph.valueOf[a.value]));
    EXPECT_EQ(valueOf(graph, a).bytes, 8 * allocationGranularity);
    EXPECT_TRUE(valueOf(graph, a).needed);
    EXPECT_FALSE(valueOf(graph, a).kept);
    EXPECT_EQ(makerOf(graph, a).flops, 1e9);
    EXPECT_THAT(graph.backwardReaders[graph.valueOf[b.value].value], ElementsAre(OpId(5)));
}

TEST(JointGraph, anInPlaceOpBelongsToTheOpWhoseResultItChanges)
{
    const auto [a, b, trace] = TwoOps([](JointStep& step, StorageId sum) {
        const StorageId noise = step.op("aten.rand_like.default", {step.batch}, 8, {.flags = opRandom});
        step.op("aten.add_.Tensor", {sum, noise}, 0, {.mutated = {sum}, .flags = opInPlace});
        step.builder.free(noise);
    });
    const JointGraph graph = graphOf(trace);
    const JointGraph::Node& maker = makerOf(graph, a);
    EXPECT_THAT(maker.ops, ElementsAre(OpId(0), OpId(2)));
    EXPECT_EQ(maker.repeat, Repeat::again);
    EXPECT_EQ(maker.reads.size(), 3U); // batch, weight, noise
    EXPECT_EQ(maker.ms, 2);
    // It comes after what the in-place op reads.
    EXPECT_EQ(valueOf(graph, a).node, NodeId(1));
    EXPECT_TRUE(graph[NodeId(0)].random);
    EXPECT_FALSE(maker.random);
}

TEST(JointGraph, whatIsChangedAfterItWasReadIsNotMadeAgain)
{
    StorageId early;
    const auto [a, b, trace] = TwoOps([&](JointStep& step, StorageId changed) {
        early = step.op("aten.exp.default", {changed}, 2);
        step.op("aten.relu_.default", {changed}, 0, {.mutated = {changed}, .flags = opInPlace});
        step.builder.free(early);
    });
    const JointGraph graph = graphOf(trace);
    EXPECT_EQ(makerOf(graph, a).repeat, Repeat::once);
    EXPECT_EQ(makerOf(graph, early).repeat, Repeat::once); // it would read what relu_ left
    EXPECT_EQ(makerOf(graph, b).repeat, Repeat::again);
    // At fraction 0 it is what must be kept.
    const Result<OpsPlanner> planner = OpsPlanner::create(trace);
    ASSERT_TRUE(planner.ok());
    OpsRequest request;
    request.fraction = 0;
    const Result<OpsPlan> plan = planner->plan(request);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().kind, ErrorKind::infeasible);
    EXPECT_THAT(plan.error().message, HasSubstr("4.00 KiB"));
    request.fraction = 0.5;
    ASSERT_TRUE(planner->plan(request).ok());
    EXPECT_THAT(planner->plan(request)->saved, ElementsAre(a));
}

TEST(JointGraph, batchNormMayRunAgainAlthoughItChangesItsStatistics)
{
    JointStep step;
    const StorageId mean = step.builder.alloc(allocationGranularity, Category::buffer, {});
    const auto made = step.ops("aten.native_batch_norm.default", {step.batch, mean}, {4, 1}, {.mutated = {mean}});
    const PackId pack = step.pack(made[0]);
    const StorageId other = step.op("aten.mul.Tensor", {made[0], mean}, 4);
    const PackId otherPack = step.pack(other);
    // Another op that changes the statistics later: who reads them before would find something else.
    step.op("aten.add_.Tensor", {mean}, 0, {.mutated = {mean}, .flags = opInPlace});
    const StorageId loss = step.op("aten.sum.default", {other}, 1);
    for (const StorageId storage : {made[0], made[1], other})
        step.builder.free(storage);
    step.backwardBegins(loss);
    step.node("aten.mul.Tensor", {pack, otherPack}, {made[0], other}, 4);
    const JointGraph graph = graphOf(step.finish());
    EXPECT_EQ(makerOf(graph, made[0]).repeat, Repeat::again);
    EXPECT_EQ(makerOf(graph, other).repeat, Repeat::once);
}

TEST(JointGraph, whatTheProgramHoldsCostsNothing)
{
    const auto [a, b, trace] = TwoOps();
    const JointGraph graph = graphOf(trace);
    EXPECT_TRUE(valueOf(graph, StorageId(0)).kept); // weight
    EXPECT_FALSE(valueOf(graph, StorageId(0)).node.valid());
    const StorageId loss(static_cast<std::uint32_t>(b.value + 1));
    EXPECT_TRUE(valueOf(graph, loss).kept);
    EXPECT_FALSE(valueOf(graph, loss).needed);
}

TEST(JointGraph, whatReadsAnInputThatGoesIsNotRepeated)
{
    JointStep step;
    const StorageId noise = step.builder.alloc(2 * allocationGranularity, Category::input, {});
    const StorageId a = step.op("aten.mul.Tensor", {step.batch, noise}, 4);
    const PackId pack = step.pack(a);
    const StorageId b = step.op("aten.exp.default", {step.batch}, 4);
    const PackId other = step.pack(b);
    step.builder.free(noise);
    const StorageId loss = step.op("aten.sum.default", {a, b}, 1);
    step.builder.free(a);
    step.builder.free(b);
    step.backwardBegins(loss);
    step.node("aten.mul.Tensor", {pack, other}, {a, b}, 4);
    const JointGraph graph = graphOf(step.finish());
    EXPECT_EQ(makerOf(graph, a).repeat, Repeat::once);
    EXPECT_EQ(makerOf(graph, b).repeat, Repeat::again);
}

/// a = exp(batch) in a block whose other argument is changed in place after it; backward asks for a.
struct ChangedArgument
{
    JointStep step;
    ModuleId block = step.builder.addModule("Net.block", "Block", ModuleId(0));
    StorageId a;

    /// Around the block is a call of the model, or there is none.
    JointGraph graph(bool inModel)
    {
        if (inModel)
            step.enter(ModuleId(0), {step.batch});
        const StorageId h = step.op("aten.cos.default", {step.batch}, 4);
        step.enter(block, {step.batch, h});
        a = step.op("aten.exp.default", {step.batch}, 8);
        const PackId pack = step.pack(a);
        step.exit();
        step.op("aten.add_.Tensor", {h}, 0, {.mutated = {h}, .flags = opInPlace});
        const StorageId loss = step.op("aten.sum.default", {a}, 1);
        if (inModel)
            step.exit();
        step.builder.free(a);
        step.builder.free(h);
        step.backwardBegins(loss);
        step.node("aten.mul.Tensor", {pack}, {a}, 8);
        return graphOf(step.finish());
    }
};

TEST(JointGraph, opsRunAgainOnlyWhereAModuleAroundThemCan)
{
    ChangedArgument alone;
    const JointGraph kept = alone.graph(false);
    EXPECT_EQ(makerOf(kept, alone.a).repeat, Repeat::once);
    ASSERT_EQ(kept.keptModules.size(), 1U);
    EXPECT_EQ(kept.keptModules[0].module, alone.block);
    EXPECT_THAT(std::string(kept.keptModules[0].reason), HasSubstr("an argument of the module is changed in place"));

    ChangedArgument inside; // the model runs again from its own arguments
    const JointGraph again = inside.graph(true);
    EXPECT_EQ(makerOf(again, inside.a).repeat, Repeat::again);
    EXPECT_THAT(again.keptModules, IsEmpty());
}

TEST(JointGraph, whatSeveralBackwardPassesAskForIsKept)
{
    for (const std::uint32_t second : {0U, 1U}) {
        JointStep step;
        step.enter(ModuleId(0), {step.batch});
        const StorageId a = step.op("aten.exp.default", {step.batch}, 8);
        const PackId pack = step.pack(a);
        const StorageId loss = step.op("aten.sum.default", {a}, 1);
        step.exit();
        step.builder.free(a);
        step.backwardBegins(loss);
        for (const std::uint32_t pass : {0U, second}) {
            step.builder.unpack(pack, pass);
            step.builder.unpackEnd(pack);
        }
        step.node("aten.exp.default", {}, {a}, 8);
        step.builder.release(pack);
        const JointGraph graph = graphOf(step.finish());
        EXPECT_EQ(makerOf(graph, a).repeat, second == 0 ? Repeat::again : Repeat::once);
        EXPECT_EQ(graph.keptModules.size(), second);
    }
}

TEST(JointGraph, aBackwardPassThatBuildsAGraphKeepsAllOps)
{
    for (const bool builds : {false, true}) {
        TwoOps step;
        StepTrace trace = *step.trace;
        std::vector<OpId> packs(trace.packs.op.begin(), trace.packs.op.end());
        std::vector<StringId> nodes(trace.ops.node.begin(), trace.ops.node.end());
        for (std::uint32_t op = 0; builds && op < trace.ops.size(); ++op)
            if (trace.ops.phase[OpId(op)] == Phase::backward) {
                packs.back() = OpId(op);
                nodes[op] = trace.ops.name[OpId(op)];
            }
        trace.packs.op.rows = packs;
        trace.ops.node.rows = nodes;
        const JointGraph graph = graphOf(std::make_shared<const StepTrace>(trace));
        EXPECT_EQ(makerOf(graph, step.b).repeat, builds ? Repeat::once : Repeat::again);
    }
}

TEST(JointGraph, stepsThatAreNoneToPlan)
{
    JointStep forwardOnly;
    forwardOnly.matmul({forwardOnly.batch, forwardOnly.weight}, 8);
    const auto trace = forwardOnly.builder.finish();
    ASSERT_TRUE(trace.ok());
    const Result<JointGraph> graph = buildJointGraph(*trace);
    ASSERT_FALSE(graph.ok());
    EXPECT_EQ(graph.error().kind, ErrorKind::badInput);
    EXPECT_THAT(graph.error().message, HasSubstr("no backward"));

    JointStep measured;
    const StorageId loss = measured.op("aten.sum.default", {measured.batch}, 1);
    measured.backwardBegins(loss);
    const Result<JointGraph> withoutPacks = buildJointGraph(measured.finish());
    ASSERT_FALSE(withoutPacks.ok());
    EXPECT_THAT(withoutPacks.error().message, HasSubstr("autograd"));

    StepTrace checkpointed = *TwoOps().trace;
    checkpointed.info.policy = "half.json";
    const Result<JointGraph> refused = buildJointGraph(std::make_shared<const StepTrace>(checkpointed));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("recorded under the policy half.json"));
}

// What the program checkpoints itself makes nothing for backward the first time, and is backward the second time.
TEST(JointGraph, aCheckpointOfTheProgramsOwnIsLeftAsItIs)
{
    StorageId again;
    const auto [a, b, trace] = TwoOps([&](JointStep& step, StorageId) {
        again = step.op("aten.exp.default", {step.batch}, 2, {.flags = opRecomputed});
        step.builder.free(again);
    });
    const JointGraph graph = graphOf(trace);
    EXPECT_FALSE(graph.valueOf[again.value].valid());
    EXPECT_EQ(makerOf(graph, b).repeat, Repeat::again);
}

TEST(OpKinds, areThoseOfThePartitioner)
{
    EXPECT_TRUE(opKind("aten.cos.default").recomputable);
    EXPECT_TRUE(opKind("aten.add_.Tensor").fusible);
    EXPECT_TRUE(opKind("aten.__and__.Tensor").recomputable);
    EXPECT_TRUE(opKind("aten.mm.default").computeIntensive);
    EXPECT_FALSE(opKind("aten.mm.default").fusible);
    EXPECT_TRUE(opKind("aten.native_dropout.default").random);
    EXPECT_FALSE(opKind("aten.native_dropout.default").recomputable);
    EXPECT_TRUE(opKind("aten.native_dropout.default").fusible);
    EXPECT_TRUE(opKind("aten.cat.default").concatenation);
    EXPECT_FALSE(opKind("mylib.cos.default").recomputable);
    EXPECT_FALSE(opKind("").fusible);
}

TEST(MinCut, cheapOpsRunAgainWhenBackwardFusesThem)
{
    // a = mm, c = cos(a), backward multiplies by c: c runs again, a is held.
    JointStep step;
    const StorageId a = step.matmul({step.batch, step.weight}, 8);
    const StorageId c = step.op("aten.cos.default", {a}, 8);
    const PackId pc = step.pack(c);
    const StorageId loss = step.op("aten.sum.default", {c}, 1);
    const PackId pa = step.pack(a);
    step.builder.free(a);
    step.builder.free(c);
    step.backwardBegins(loss);
    step.node("aten.mul.Tensor", {pa, pc}, {a, c}, 8);
    const JointGraph graph = graphOf(step.finish());
    const MinCut cut = MinCutProblem(graph).solve({});
    EXPECT_THAT(cut.saved, ElementsAre(graph.valueOf[a.value]));
    EXPECT_TRUE(cut.banned[0]);
    EXPECT_FALSE(cut.banned[1]);
}

TEST(MinCut, whatBackwardReadsUnfusedIsHeldByDefaultOnly)
{
    const auto [a, b, trace] = TwoOps();
    const JointGraph graph = graphOf(trace);
    const MinCutProblem problem(graph);
    EXPECT_THAT(problem.solve({}).saved, ElementsAre(graph.valueOf[a.value], graph.valueOf[b.value]));
    EXPECT_THAT(problem.solve({false, false, false, true}).saved, ElementsAre(graph.valueOf[a.value]));
    // Allowed to run again, the matmul is held by nobody.
    EXPECT_THAT(problem.solve({false, false, false, false}, std::vector<bool>(graph.nodes.size(), true)).saved,
                IsEmpty());
}

TEST(MinCut, reductionsAreHeld)
{
    // m = mean(x) is a quarter of x and less: what is made of it is made from it.
    JointStep step;
    const StorageId x = step.op("aten.exp.default", {step.batch}, 40);
    const StorageId m = step.op("aten.mean.dim", {x}, 1);
    const StorageId y = step.op("aten.exp.default", {m}, 1);
    const PackId pack = step.pack(y);
    const StorageId loss = step.op("aten.sum.default", {y}, 1);
    for (const StorageId storage : {x, m, y})
        step.builder.free(storage);
    step.backwardBegins(loss);
    step.node("aten.mul.Tensor", {pack}, {y}, 1);
    const JointGraph graph = graphOf(step.finish());
    const MinCut cut = MinCutProblem(graph).solve({false, false, false, false});
    EXPECT_TRUE(cut.banned[1]);
    EXPECT_EQ(cut.saved.size(), 1U);
}

} // namespace
} // namespace headroom
