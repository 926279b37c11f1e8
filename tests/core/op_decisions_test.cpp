// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_frontier.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace headroom {
namespace {

using ::testing::IsEmpty;

/// What each op of forward does under the plan of a fraction, by the times of the step.
OpsPlan planOf(const OpsPlanner& planner, double fraction)
{
    OpsRequest request;
    request.fraction = fraction;
    request.runtime = OpsRuntime::measured;
    return planner.plan(request).value();
}

Bytes activationsAfterForward(const Timeline& timeline)
{
    const auto turn = std::ranges::find(timeline.snapshots, Mark::forwardEnd, &Timeline::Snapshot::mark);
    return turn->bytes[static_cast<std::size_t>(Category::activation)];
}

class OpDecisions : public ::testing::Test
{
protected:
    StepTracePtr trace_ = makeSyntheticStep({.blocks = 3});
    OpsPlanner planner_ = OpsPlanner::create(trace_).value();
};

TEST_F(OpDecisions, SayWhatThePlanSays)
{
    const OpsPlan plan = planOf(planner_, 0.4);
    ASSERT_FALSE(plan.recomputed.empty());
    ASSERT_FALSE(plan.saved.empty());
    const std::vector<OpDecision> decisions = opDecisions(*trace_, plan);
    ASSERT_EQ(decisions.size(), trace_->ops.size());
    for (std::uint32_t i = 0; i < decisions.size(); ++i)
        EXPECT_EQ(decisions[i] == OpDecision::recomputed, std::ranges::binary_search(plan.recomputed, OpId(i))) << i;
    Bytes bytes = 0;
    for (const StorageId storage : plan.saved) {
        bytes += trace_->storages.bytes[storage];
        EXPECT_NE(decisions[trace_->storages.creator[storage].value], OpDecision::none);
    }
    EXPECT_EQ(bytes, plan.savedBytes);
}

TEST_F(OpDecisions, ChangesLeadFromOnePlanToTheOther)
{
    const OpsPlan more = planOf(planner_, 0.8);
    const OpsPlan less = planOf(planner_, 0.4);
    std::vector<OpDecision> decisions = opDecisions(*trace_, more);
    Bytes bytes = 0;
    for (const ChangedOp& change : changedOps(*trace_, more, less)) {
        EXPECT_EQ(decisions[change.op.value], change.before);
        decisions[change.op.value] = change.now;
        bytes += change.bytes;
    }
    EXPECT_EQ(decisions, opDecisions(*trace_, less));
    EXPECT_EQ(bytes, more.savedBytes - less.savedBytes);
    EXPECT_THAT(changedOps(*trace_, less, less), IsEmpty());
}

TEST_F(OpDecisions, PlanAsRecordedIsTheRecordedStep)
{
    const OpsPlan plan = planAsRecorded(planner_);
    EXPECT_THAT(plan.recomputed, IsEmpty());
    EXPECT_EQ(plan.peak, planner_.recordedPeak());
    EXPECT_EQ(planner_.timeline(plan).peak, planner_.recordedPeak());
    EXPECT_EQ(planner_.timeline(plan).recomputeMs, 0);
}

TEST_F(OpDecisions, ModulesKeepWhatIsAliveUnderThePlan)
{
    const ModuleEffects effects{StepModel(trace_)};
    const std::vector<ModuleEffect>& recorded = effects.recorded();
    const std::vector<ModuleEffect> same = planner_.effects(planAsRecorded(planner_));
    ASSERT_EQ(same.size(), recorded.size());
    for (std::size_t i = 0; i < same.size(); ++i) {
        EXPECT_EQ(same[i].recorded, recorded[i].recorded) << i;
        EXPECT_EQ(same[i].kept, recorded[i].recorded) << i;
        EXPECT_EQ(same[i].recomputeMs, 0) << i;
    }
    const OpsPlan plan = planOf(planner_, 0.4);
    const Timeline timeline = planner_.timeline(plan);
    const ModuleEffect whole = planner_.effects(plan).front();
    EXPECT_LT(whole.kept, whole.recorded);
    EXPECT_EQ(whole.recorded - whole.kept,
              activationsAfterForward(predict(*trace_, {}).value()) - activationsAfterForward(timeline));
    EXPECT_NEAR(whole.recomputeMs, plan.recomputeMs, 1e-9);
    EXPECT_NEAR(whole.recomputeMs, timeline.recomputeMs, 1e-9);
}

} // namespace
} // namespace headroom
