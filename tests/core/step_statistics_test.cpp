// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/step_statistics.h"

#include "core/predict/predict.h"
#include "core/sac/op_facts.h"
#include "core/sac/record_summary.h"
#include "core/sac/step_sac.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/module_info_differences.h"
#include "tests/core/naive_trackers.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace headroom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Ids = std::vector<StorageId>;

ModuleInfo infoOf(const StepTrace& trace)
{
    auto info = moduleInfo(trace);
    EXPECT_TRUE(info.ok()) << info.error().message;
    return info.ok() ? *info : ModuleInfo{};
}

const ModuleStats& statsOf(const ModuleInfo& info, std::string_view fqn)
{
    const auto found = std::ranges::find(info.stats, fqn, &ModuleStats::fqn);
    EXPECT_NE(found, info.stats.end()) << fqn;
    return *found;
}

/// A small step, written down event by event:
///
///     def forward(self, x):              # Net
///         h = x * w                      # 4096 B
///         u = self.left(h)               # Block: relu_(self.fc(h)), 2048 B
///         v = self.right(h)              # mm(h.clone().add_(1), weight), 2048 B; the same weight as left.fc's
///         return u + v                   # 2048 B
///
/// `left` and `right` share their argument, so both are active in backward until its gradient is complete.
class SmallStep
{
public:
    StepTraceBuilder builder;
    ModuleId net, left, fc, right;
    StorageId weight, bias, batch;

    SmallStep()
    {
        net = builder.addModule("Net", "Net", {});
        left = builder.addModule("Net.left", "Block", net);
        fc = builder.addModule("Net.left.fc", "Linear", left);
        right = builder.addModule("Net.right", "Linear", net);
        weight = builder.alloc(1000, Category::parameter, {});
        bias = builder.alloc(100, Category::parameter, {});
        builder.addRegistered(fc, "weight", weight, Category::parameter);
        builder.addRegistered(right, "weight", weight, Category::parameter);
        builder.addRegistered(right, "bias", bias, Category::parameter);
        batch = builder.alloc(8192, Category::input, {});
        builder.mark(Mark::stepBegin);
    }

    /// An op; `made` are sizes of new results, `shared` results that share storages.
    Ids op(const char* name, double ms, const std::vector<Bytes>& made, const Ids& shared = {}, std::uint16_t flags = 0)
    {
        const OpId id = builder.beginOp({builder.string(name), {}, net, {}, {}, phase});
        Ids results;
        const Category category = phase == Phase::forward ? Category::activation : Category::temporary;
        for (const Bytes bytes : made)
            results.push_back(builder.alloc(bytes, category, id));
        Ids outputs = results;
        outputs.insert(outputs.end(), shared.begin(), shared.end());
        builder.endOp(id, {DType::float32, flags, 0, 0, ms, {}, outputs, {}});
        return results;
    }
    CallId enter(ModuleId module, const Ids& arguments) { return builder.enter(module, arguments); }
    void exit(CallId call, const Ids& results) { builder.exit(call, results); }

    void forward()
    {
        netCall = enter(net, {batch});
        h = op("aten.mul.Tensor", 1, {4096})[0];
        leftCall = enter(left, {h});
        fcCall = enter(fc, {h});
        packH = builder.pack(h, OpId(1));
        packWeight = builder.pack(weight, OpId(1));
        op("aten.t.default", 0, {}, {weight}, opView);
        u = op("aten.mm.default", 2, {2048})[0];
        exit(fcCall, {u});
        op("aten.relu_.default", 0.5, {}, {u}, opInPlace);
        packU = builder.pack(u, OpId(3));
        exit(leftCall, {u});
        rightCall = enter(right, {h});
        const StorageId c = op("aten.clone.default", 0.25, {4096})[0];
        op("aten.add_.Tensor", 0.25, {}, {c}, opInPlace);
        packC = builder.pack(c, OpId(6));
        v = op("aten.mm.default", 2, {2048})[0];
        builder.free(c);
        exit(rightCall, {v});
        builder.free(h);
        y = op("aten.add.Tensor", 0.125, {2048})[0];
        builder.free(u);
        builder.free(v);
        exit(netCall, {y});
        loss = op("aten.sum.default", 0.0625, {4})[0];
        builder.mark(Mark::forwardEnd);
        phase = Phase::backward;
    }

    void backward()
    {
        const StorageId gy = op("aten.expand.default", 0, {2048})[0]; // 2048 temporary
        builder.backwardEnter(netCall);
        builder.backwardEnter(rightCall);
        builder.unpack(packC);
        // The input's gradient (4096) and the weight's (1024): 2048 + 4096 + 1024 temporary at the highest.
        const Ids right1 = op("aten.mm.default", 4, {4096, 1000});
        builder.unpackEnd(packC);
        builder.release(packC);
        builder.retype(right1[1], Category::gradient);
        builder.backwardEnter(leftCall);
        builder.unpack(packU);
        const StorageId gu = op("aten.threshold_backward.default", 1, {2048})[0];
        builder.unpackEnd(packU);
        builder.release(packU);
        builder.free(gy);
        builder.backwardEnter(fcCall);
        builder.unpack(packH);
        const Ids left1 = op("aten.mm.default", 4, {4096, 1000});
        builder.unpackEnd(packH);
        builder.release(packH);
        builder.release(packWeight);
        op("aten.add_.Tensor", 0.5, {}, {right1[1]}, opInPlace);
        builder.free(left1[1]);
        builder.free(gu);
        const StorageId gh = op("aten.add.Tensor", 0.25, {4096})[0];
        builder.backwardExit(fcCall);
        builder.backwardExit(leftCall);
        builder.backwardExit(rightCall);
        builder.free(right1[0]);
        builder.free(left1[0]);
        op("aten.mul.Tensor", 1, {});
        builder.free(gh);
        builder.backwardExit(netCall); // the batch needs no gradient: at the end of backward
        builder.free(y);
        builder.free(loss);
        builder.mark(Mark::backwardEnd);
        phase = Phase::optimizer;
    }

    StepTracePtr finish()
    {
        auto trace = builder.finish();
        EXPECT_TRUE(trace.ok()) << trace.error().message;
        return trace.ok() ? *trace : nullptr;
    }

    Phase phase = Phase::forward;
    CallId netCall, leftCall, fcCall, rightCall;
    PackId packH, packWeight, packU, packC;
    StorageId h, u, v, y, loss;
};

StepTracePtr smallStep()
{
    SmallStep step;
    step.forward();
    step.backward();
    return step.finish();
}

TEST(ModuleInfoOfStep, memoryIsThatOfMemTrackersSnapshots)
{
    const ModuleInfo info = infoOf(*smallStep());
    ASSERT_EQ(info.stats.size(), 4u);

    const ModuleStats& net = statsOf(info, "Net");
    EXPECT_EQ(net.paramBytes, 1024 + 512); // the tied weight once
    EXPECT_EQ(net.gradBytes, 1024 + 512);
    EXPECT_EQ(net.inputBytes, 0); // the batch is not tracked
    EXPECT_EQ(net.outputBytes, 2048);
    // Alive when it ends: y, and saved for backward h, u and the clone.
    EXPECT_EQ(net.activationTotal, 2048 + 4096 + 2048 + 4096);
    EXPECT_EQ(net.activationForward, 4096 + 2048 + 4096);
    EXPECT_EQ(net.gradTotal, 0);

    const ModuleStats& right = statsOf(info, "Net.right");
    EXPECT_EQ(right.paramBytes, 1024 + 512);
    EXPECT_EQ(right.inputBytes, 4096);
    EXPECT_EQ(right.outputBytes, 2048);
    EXPECT_EQ(right.activationTotal, 4096 + 2048 + 4096 + 2048);
    EXPECT_EQ(right.activationForward, 4096);
    // Its backward begins with y, the loss (512), h, u and the clone alive, and 2048 temporary. Of all that runs until
    // h's gradient is there, its own op is the peak: 19968 bytes with the gradients of argument and weight.
    EXPECT_EQ(right.gradTotal, 0);
    EXPECT_EQ(right.activationBackward, 2048 + 512 + 4096 + 2048 + 4096);
    EXPECT_EQ(right.activationGrad, 4096 + 1024);

    // The clone and u are gone, the gradient of u and one of h are temporary when this backward begins.
    const ModuleStats& fc = statsOf(info, "Net.left.fc");
    EXPECT_EQ(fc.gradTotal, 1024);
    EXPECT_EQ(fc.activationBackward, 2048 + 512 + 4096);
    EXPECT_EQ(fc.activationGrad, (4096 + 2048 + 4096 + 1024) - (4096 + 2048));
}

TEST(ModuleInfoOfStep, timesAreThoseOfActiveModules)
{
    const ModuleInfo info = infoOf(*smallStep());
    EXPECT_DOUBLE_EQ(statsOf(info, "Net").forwardMs, 1 + 2 + 0.5 + 0.25 + 0.25 + 2 + 0.125);
    EXPECT_DOUBLE_EQ(statsOf(info, "Net").backwardMs, 4 + 1 + 4 + 0.5 + 0.25 + 1);
    EXPECT_DOUBLE_EQ(statsOf(info, "Net.left").forwardMs, 2.5);
    EXPECT_DOUBLE_EQ(statsOf(info, "Net.left.fc").forwardMs, 2);
    EXPECT_DOUBLE_EQ(statsOf(info, "Net.left.fc").backwardMs, 4 + 0.5 + 0.25);
    // It shares its argument with `left`, so what happens there counts here too.
    EXPECT_DOUBLE_EQ(statsOf(info, "Net.right").backwardMs, 4 + 1 + 4 + 0.5 + 0.25);
    EXPECT_DOUBLE_EQ(baseline(info).computeMs, 6.125 + 10.75);
}

TEST(ModuleInfoOfStep, ordersAreThoseOfTheHooks)
{
    const ModuleInfo info = infoOf(*smallStep());
    EXPECT_THAT(info.fwPreOrder, ElementsAre("Net", "Net.left", "Net.left.fc", "Net.right"));
    EXPECT_THAT(info.fwPostOrder, ElementsAre("Net.left.fc", "Net.left", "Net.right", "Net"));
    EXPECT_THAT(info.bwPreOrder, ElementsAre("Net", "Net.right", "Net.left", "Net.left.fc"));
    EXPECT_THAT(info.bwPostOrder, ElementsAre("Net.left.fc", "Net.left", "Net.right", "Net"));
}

TEST(ModuleInfoOfStep, modulesWithoutChildrenAreLeaves)
{
    const ModuleInfo info = infoOf(*smallStep());
    EXPECT_TRUE(statsOf(info, "Net.right").isLeaf);
    EXPECT_TRUE(statsOf(info, "Net.left.fc").isLeaf);
    EXPECT_FALSE(statsOf(info, "Net").isLeaf);
    const ModuleStats& left = statsOf(info, "Net.left");
    // The in-place op is the last but does not count as the one that makes the result: mm does, so it costs nothing,
    // and relu_ counts the same storage again.
    EXPECT_EQ(left.sacMemory, 2048);
    EXPECT_DOUBLE_EQ(left.sacRuntimeMs, 2.5);
    EXPECT_FALSE(left.isLeaf);
    EXPECT_EQ(left.slopes.size(), 1u);
    EXPECT_TRUE(parseModuleInfo(toJson(info), "own").ok());
}

TEST(SacStatsOfStep, equalsSacEstimator)
{
    const StepTracePtr trace = smallStep();
    const auto sac = sacStats(*trace);
    ASSERT_EQ(sac.size(), 2u);
    const SacStats& net = sac.at("Net");
    EXPECT_THAT(net.funcNames, ElementsAre("mul", "t", "mm", "relu_", "add_", "mm", "add"));
    EXPECT_THAT(net.runtimes, ElementsAre(1, 0, 2, 0.5, 0.25, 2, 0.125));
    EXPECT_THAT(net.memory, ElementsAre(4096, 0, 2048, 2048, 4096, 2048, 0));
    EXPECT_THAT(net.viewLikeOps, ElementsAre(1));
    EXPECT_THAT(net.savedAutogradOps, ElementsAre(0, 1, 2, 3, 4));
    // relu_ changes mm's result; add_ changes a clone, which is not counted.
    EXPECT_THAT(net.inplaceOps, ElementsAre(std::pair(3, 2), std::pair(4, 4)));
    EXPECT_FALSE(net.forceStoreRandom);
    const SacStats& left = sac.at("Net.left");
    EXPECT_THAT(left.funcNames, ElementsAre("t", "mm", "relu_"));
    EXPECT_THAT(left.memory, ElementsAre(0, 0, 2048));
    EXPECT_THAT(left.inplaceOps, ElementsAre(std::pair(2, 1)));

    const ModuleRecords records = recordModules(*trace);
    const StepSac step(*trace, records);
    EXPECT_THAT(step.ops(ModuleId(1)), ElementsAre(OpId(1), OpId(2), OpId(3)));
    EXPECT_THAT(step.ops(ModuleId(0)), ElementsAre(OpId(0), OpId(1), OpId(2), OpId(3), OpId(5), OpId(6), OpId(7)));
    EXPECT_THAT(step.ops(ModuleId(3)), ElementsAre(OpId(5), OpId(6)));
    EXPECT_THAT(step.ops(ModuleId(2)), ElementsAre(OpId(1), OpId(2)));
}

// The module's argument is changed in place: what it was cannot be made again inside the module.
TEST(SacStatsOfStep, inPlaceOpOnTheArgumentIsItsOwnParent)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const StorageId h = step.op("aten.mul.Tensor", 1, {4096})[0];
    const CallId left = step.enter(step.left, {h});
    step.op("aten.relu_.default", 1, {}, {h}, opInPlace);
    step.op("aten.view.default", 0, {}, {h}, opView);
    step.op("aten.mul_.Tensor", 1, {}, {h}, opInPlace);
    step.exit(left, {h});
    step.exit(net, {h});
    const auto sac = sacStats(*step.finish());
    EXPECT_THAT(sac.at("Net.left").inplaceOps, ElementsAre(std::pair(0, 0), std::pair(2, 0)));
    EXPECT_THAT(sac.at("Net").inplaceOps, ElementsAre(std::pair(1, 0), std::pair(3, 0)));
    EXPECT_THAT(sac.at("Net.left").memory,
                ElementsAre(4096, 0, 0)); // all in place or views: the last one costs nothing
}

// An autograd.Function whose forward runs a backward of its own (a loss in chunks), and nothing else in place.
TEST(SacStatsOfStep, inPlaceOpsOfABackwardInsideOfForwardHaveParents)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const CallId left = step.enter(step.left, {step.batch});
    const StorageId sum = step.op("aten.zeros.default", 1, {512})[0];
    step.phase = Phase::backward;
    step.op("aten.add_.Tensor", 1, {}, {sum}, opInPlace);
    step.phase = Phase::forward;
    step.exit(left, {sum});
    step.exit(net, {sum});
    EXPECT_THAT(sacStats(*step.finish()).at("Net.left").inplaceOps, ElementsAre(std::pair(1, 0)));
}

TEST(SacStatsOfStep, withoutTensorArgumentsRandomOpsAreStored)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const CallId left = step.enter(step.left, {});
    const StorageId u = step.op("aten.rand.default", 0, {512}, {}, opRandom)[0];
    step.exit(left, {u});
    step.exit(net, {u});
    const auto sac = sacStats(*step.finish());
    EXPECT_TRUE(sac.at("Net.left").forceStoreRandom);
    EXPECT_FALSE(sac.at("Net").forceStoreRandom);
    EXPECT_THAT(sac.at("Net.left").randOps, ElementsAre(0));
}

// `right` runs twice: memory, ops and backward are those of the last call, times of both.
TEST(ModuleInfoOfStep, ofSeveralCallsTheLastCounts)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const CallId first = step.enter(step.left, {step.batch});
    const StorageId a = step.op("aten.mm.default", 1, {1024})[0];
    step.exit(first, {a});
    const CallId second = step.enter(step.left, {a, a});
    const StorageId b = step.op("aten.mm.default", 2, {2048})[0];
    step.op("aten.gelu.default", 4, {4096});
    step.exit(second, {b});
    step.exit(net, {b});
    step.builder.mark(Mark::forwardEnd);
    step.phase = Phase::backward;
    step.builder.backwardEnter(net);
    step.builder.backwardEnter(second);
    step.op("aten.mm.default", 8, {8192});
    step.builder.backwardExit(second);
    step.builder.backwardEnter(first);
    step.op("aten.mm.default", 16, {512});
    step.builder.mark(Mark::backwardEnd);
    const ModuleInfo info = infoOf(*step.finish());
    const ModuleStats& left = statsOf(info, "Net.left");
    EXPECT_EQ(left.inputBytes, 2048); // named twice
    EXPECT_EQ(left.outputBytes, 2048);
    EXPECT_EQ(left.activationTotal, 1024 + 2048 + 4096);
    EXPECT_DOUBLE_EQ(left.forwardMs, 7);
    EXPECT_DOUBLE_EQ(left.backwardMs, 24);
    EXPECT_EQ(left.activationGrad, 512); // since the backward of the first call began
    EXPECT_DOUBLE_EQ(left.sacRuntimeMs, 6);
    EXPECT_DOUBLE_EQ(statsOf(info, "Net").backwardMs, 24); // no gradient of the batch: until the end of backward
    EXPECT_EQ(statsOf(info, "Net").activationGrad, 8192 + 512);
    EXPECT_THAT(info.fwPreOrder, ElementsAre("Net", "Net.left", "Net.left"));
}

TEST(ModuleInfoOfStep, resizedStoragesCountWithTheirSizeThen)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const StorageId a = step.op("aten.mm.default", 1, {1024})[0];
    step.builder.resize(a, 5000);
    step.op("aten.gelu.default", 1, {512}, {a});
    step.builder.resize(a, 0);
    step.exit(net, {a});
    const ModuleInfo info = infoOf(*step.finish());
    EXPECT_EQ(info.stats[0].activationTotal, 512);
    EXPECT_EQ(info.stats[0].outputBytes, 0);
    EXPECT_EQ(info.stats[0].sacMemory, 1024); // the second op, with 5120 + 512, makes the result
}

// A region that was checkpointed runs its forward again in backward.
TEST(ModuleInfoOfStep, recomputedCallsCountWithTimeOnly)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const CallId left = step.enter(step.left, {step.batch});
    const StorageId a = step.op("aten.mm.default", 1, {1024})[0];
    step.exit(left, {a});
    step.exit(net, {a});
    step.builder.mark(Mark::forwardEnd);
    step.phase = Phase::backward;
    step.builder.backwardEnter(net);
    step.builder.backwardEnter(left);
    const CallId again = step.enter(step.left, {a});
    step.op("aten.mm.default", 1, {1024});
    step.exit(again, {a});
    step.op("aten.mm.default", 2, {4096});
    step.builder.backwardExit(left);
    step.builder.mark(Mark::backwardEnd);
    const ModuleInfo info = infoOf(*step.finish());
    const ModuleStats& stats = statsOf(info, "Net.left");
    EXPECT_THAT(info.fwPreOrder, ElementsAre("Net", "Net.left"));
    EXPECT_EQ(stats.activationTotal, 1024);
    EXPECT_EQ(stats.inputBytes, 0);
    EXPECT_DOUBLE_EQ(stats.forwardMs, 1);
    EXPECT_DOUBLE_EQ(stats.backwardMs, 3);
    EXPECT_EQ(stats.activationGrad, 1024 + 4096);
}

TEST(ModuleInfoOfStep, withoutBackwardThatPartIsZero)
{
    SmallStep step;
    const CallId net = step.enter(step.net, {step.batch});
    const StorageId a = step.op("aten.mm.default", 1, {1024})[0];
    step.exit(net, {a});
    const ModuleInfo info = infoOf(*step.finish());
    ASSERT_EQ(info.stats.size(), 1u); // the others did not run
    EXPECT_EQ(info.stats[0].activationTotal, 1024);
    EXPECT_EQ(info.stats[0].gradTotal, 0);
    EXPECT_EQ(info.stats[0].activationBackward, 0);
    EXPECT_TRUE(info.stats[0].isLeaf); // its only op makes the result: nothing to discard
    EXPECT_THAT(info.bwPreOrder, IsEmpty());
}

TEST(ModuleInfoOfStep, refusesStepsWithoutWholeModules)
{
    SmallStep nothing;
    const auto none = moduleInfo(*nothing.finish());
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().kind, ErrorKind::badInput);
    EXPECT_THAT(none.error().message, StartsWith("no module ran in the step"));

    SmallStep interrupted;
    interrupted.enter(interrupted.net, {interrupted.batch});
    interrupted.op("aten.mm.default", 1, {1024});
    const auto error = moduleInfo(*interrupted.finish());
    ASSERT_FALSE(error.ok());
    EXPECT_EQ(
        error.error().message,
        "the step was interrupted inside module 'Net', so the module's statistics are incomplete: record a whole step");
}

/// The trackers know no trade-offs: they are taken from the statistics themselves, which are compared on their own.
void expectEqualsNaive(const StepTrace& trace)
{
    const NaiveStatistics naive = naiveStatistics(trace);
    const auto sac = sacStats(trace);
    ASSERT_EQ(sac.size(), naive.sac.size());
    ModuleInfo expected = naive.info;
    for (const auto& [fqn, stats] : naive.sac) {
        ASSERT_TRUE(sac.contains(fqn)) << fqn;
        const SacStats& ours = sac.at(fqn);
        EXPECT_EQ(ours.funcNames, stats.funcNames) << fqn;
        EXPECT_EQ(ours.runtimes, stats.runtimes) << fqn;
        EXPECT_EQ(ours.memory, stats.memory) << fqn;
        EXPECT_EQ(ours.viewLikeOps, stats.viewLikeOps) << fqn;
        EXPECT_EQ(ours.randOps, stats.randOps) << fqn;
        EXPECT_EQ(ours.savedAutogradOps, stats.savedAutogradOps) << fqn;
        EXPECT_EQ(ours.inplaceOps, stats.inplaceOps) << fqn;
        EXPECT_EQ(ours.forceStoreRandom, stats.forceStoreRandom) << fqn;
        const TradeOff tradeoff = tradeOff(stats);
        auto& entry = *std::ranges::find(expected.stats, fqn, &ModuleStats::fqn);
        entry.isLeaf = tradeoff.slopes.empty();
        entry.sacMemory = entry.isLeaf ? 0 : tradeoff.sacMemory;
        entry.sacRuntimeMs = entry.isLeaf ? 0 : tradeoff.sacRuntimeMs;
        entry.slopes = tradeoff.slopes;
        entry.intercepts = tradeoff.intercepts;
        entry.breakpoints = tradeoff.breakpoints;
        entry.tradeoffCurve = tradeoff.curve;
    }
    EXPECT_THAT(moduleInfoDifferences(infoOf(trace), expected), IsEmpty());
}

TEST(ModuleInfoOfStep, equalsTheTrackersWrittenDownPlainly)
{
    expectEqualsNaive(*smallStep());
    expectEqualsNaive(*makeSyntheticStep());
    expectEqualsNaive(*makeSyntheticStep({.blocks = 7, .elementwise = 5, .activation = 3 * MiB + 100, .weight = 4100}));
}

TEST(ModuleInfoOfStep, identicalLayersHaveIdenticalNumbers)
{
    const ModuleInfo info = infoOf(*makeSyntheticStep({.blocks = 24}));
    for (const char* module : {"", ".attention", ".feed_forward", ".feed_forward.w1"}) {
        const ModuleStats& first = statsOf(info, "Transformer.layers.0" + std::string(module));
        for (int i = 1; i < 24; ++i) {
            const ModuleStats& other = statsOf(info, "Transformer.layers." + std::to_string(i) + module);
            EXPECT_EQ(other.forwardMs, first.forwardMs);
            EXPECT_EQ(other.backwardMs, first.backwardMs);
            EXPECT_EQ(other.activationForward, first.activationForward);
            EXPECT_EQ(other.sacMemory, first.sacMemory);
            EXPECT_EQ(other.slopes, first.slopes);
            EXPECT_EQ(other.intercepts, first.intercepts);
            EXPECT_EQ(other.tradeoffCurve, first.tradeoffCurve);
        }
    }
}

// The comparison that other tests rely on sees every kind of difference.
TEST(ModuleInfoDifferences, namesWhatDiffers)
{
    const ModuleInfo info = infoOf(*smallStep());
    const auto differencesAfter = [&](const std::function<void(ModuleInfo&)>& change) {
        ModuleInfo changed = info;
        change(changed);
        return moduleInfoDifferences(changed, info);
    };
    EXPECT_THAT(moduleInfoDifferences(info, info), IsEmpty());
    EXPECT_THAT(differencesAfter([](ModuleInfo& i) { i.stats[0].activationTotal += 1; }),
                ElementsAre("Net: act_total is 12289, expected 12288"));
    EXPECT_THAT(differencesAfter([](ModuleInfo& i) { i.stats[1].backwardMs += 1; }),
                ElementsAre("Net.left: bw_runtime_per_module is 6.75, expected 5.75"));
    EXPECT_THAT(differencesAfter([](ModuleInfo& i) { i.stats.pop_back(); }),
                ElementsAre("number of modules is 3, expected 4"));
    EXPECT_THAT(differencesAfter([](ModuleInfo& i) { i.bwPreOrder[1] = "Net"; }),
                ElementsAre("bw_pre_order[1] is Net, expected Net.right"));
    EXPECT_THAT(differencesAfter([](ModuleInfo& i) { i.stats[0].tradeoffCurve[1].second += 0.25; }),
                ::testing::SizeIs(1));
    EXPECT_THAT(differencesAfter([](ModuleInfo& i) { i.stats[0].intercepts[0] += 0.25; }), ::testing::SizeIs(1));
}

TEST(OpNameFacts, followPyTorchsNames)
{
    EXPECT_EQ(opNameFacts("aten.mm.default").packet, "mm");
    EXPECT_EQ(opNameFacts("aten.mm").packet, "mm");
    EXPECT_EQ(opNameFacts("relu").packet, "relu");
    EXPECT_TRUE(opNameFacts("aten.relu_.default").inPlace);
    EXPECT_TRUE(opNameFacts("aten.__iadd__.Tensor").inPlace);
    EXPECT_FALSE(opNameFacts("aten.__and__.Tensor").inPlace);
    EXPECT_FALSE(opNameFacts("aten.add.out").inPlace);
    EXPECT_TRUE(opNameFacts("aten.slice.Tensor").viewLike);
    EXPECT_TRUE(opNameFacts("aten._unsafe_view.default").viewLike);
    EXPECT_TRUE(opNameFacts("aten.t_.default").viewLike);
    EXPECT_FALSE(opNameFacts("aten.clone.default").viewLike);
    EXPECT_TRUE(opNameFacts("aten.clone.default").skipped);
    EXPECT_TRUE(opNameFacts("aten.lift_fresh.default").skipped);
    EXPECT_FALSE(opNameFacts("aten.lift_fresh_copy.default").skipped);
}

TEST(RecordSummary, isOneTextForEveryRecorder)
{
    StepTrace step = *makeSyntheticStep();
    DeviceSpec card = *findDeviceSpec("a100-80gb");
    const Timeline timeline = *predict(step, {});
    card.memory = timeline.peak - 1;
    const auto textOf = [&] {
        nlohmann::ordered_json summary = recordSummary(step, card, timeline);
        summary.update({{"step", "a/step.hrs"}, {"record_ms", 12.4}, {"notes", {"The program said so."}}});
        return recordText(summary);
    };
    EXPECT_THAT(textOf(),
                StartsWith("synthetic on NVIDIA A100-SXM4-80GB (simulated), step 2\npeak on the device   "
                           + formatBytes(timeline.peak) + " (" + groupedDigits(timeline.peak) + " bytes)\n"
                           + "PyTorch's estimate   "));
    EXPECT_THAT(textOf(), HasSubstr(" ms of the time model `kernel`, "));
    EXPECT_THAT(textOf(), HasSubstr("recorded in          12 ms, written to a/step.hrs\n"));
    EXPECT_THAT(textOf(), HasSubstr("note: The program said so.\nnote: this is more than the card's "));

    step.info.remarks = {"a kernel is opaque"};
    EXPECT_THAT(textOf(), HasSubstr(" bytes)\nremark: a kernel is opaque\nPyTorch's estimate"));
    step.info.placeholderValues = 3;
    EXPECT_THAT(textOf(), HasSubstr("note: 3 values read back from the GPU were placeholders"));
    step.info.measured.emplace().notes = {"CUPTI is not there"};
    step.info.measured->reservedPeak = 20 * MiB;
    EXPECT_THAT(textOf(), StartsWith("synthetic on NVIDIA A100-SXM4-80GB (measured)"));
    EXPECT_THAT(textOf(), HasSubstr("reserved 20.00 MiB\nnote: CUPTI is not there\n"));
    EXPECT_THAT(textOf(), Not(HasSubstr("more than the card's"))) << "it ran there";
}

} // namespace
} // namespace headroom
