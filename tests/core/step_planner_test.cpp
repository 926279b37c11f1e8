// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_planner.h"

#include "core/policy/shard_options.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StepPlanner plannerOf(const StepTracePtr& trace)
{
    Result<StepPlanner> planner = StepPlanner::create(trace);
    EXPECT_TRUE(planner.ok()) << planner.error().message;
    return *planner;
}

PlanAnswer solved(const StepPlanner& planner, const PlanRequest& request)
{
    Result<PlanAnswer> step = planner.solve(request);
    EXPECT_TRUE(step.ok()) << step.error().message;
    return step.ok() ? *step : PlanAnswer{};
}

PlanRequest request(Bytes budget, int worldSize = 1)
{
    PlanRequest wanted;
    wanted.budget = budget;
    wanted.worldSize = worldSize;
    return wanted;
}

/// The promise: predicting the policy as written gives what the plan says.
void expectPromiseHolds(const StepTrace& trace, const PlanAnswer& step)
{
    ASSERT_NE(step.timeline, nullptr);
    EXPECT_LE(step.plan.peak, step.plan.budget);
    EXPECT_EQ(step.plan.peak, step.timeline->peak);
    EXPECT_EQ(step.plan.recomputeMs, step.timeline->recomputeMs);
    const Policy policy = step.policy(StepTracePtr(StepTracePtr(), &trace));
    EXPECT_EQ(policy.predicted.peak, step.plan.peak);
    EXPECT_EQ(policy.budget, step.plan.budget);
    const Result<CheckpointPlan> regions = checkpointPlan(trace, policy);
    ASSERT_TRUE(regions.ok()) << regions.error().message;
    ASSERT_EQ(regions->size(), step.regions.size());
    for (std::size_t i = 0; i < regions->size(); ++i) {
        EXPECT_EQ((*regions)[i].module, step.regions[i].module);
        EXPECT_EQ((*regions)[i].save, step.regions[i].save);
    }
    const Result<Timeline> timeline = predict(trace, *regions);
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    EXPECT_EQ(perRank(*timeline, step.plan.worldSize).peak, step.plan.peak);
    EXPECT_EQ(timeline->recomputeMs, step.plan.recomputeMs);
}

TEST(StepPlanner, recomputesNothingWhereTheStepFits)
{
    const StepTracePtr trace = makeSyntheticStep();
    const StepPlanner planner = plannerOf(trace);
    const PlanAnswer step = solved(planner, request(planner.recorded()->peak));
    EXPECT_EQ(step.plan.status, PlanStatus::optimal);
    EXPECT_THAT(step.plan.decisions, IsEmpty());
    EXPECT_EQ(step.plan.recomputeMs, 0);
    EXPECT_EQ(step.plan.peak, planner.recorded()->peak);
    EXPECT_EQ(step.plan.baselinePeak, planner.recorded()->peak);
    EXPECT_EQ(planner.recorded()->peak, predict(*trace, {})->peak);
    expectPromiseHolds(*trace, step);
}

TEST(StepPlanner, aRankIsComparedWithARank)
{
    const StepPlanner planner = plannerOf(makeSyntheticStep());
    const PlanAnswer step = solved(planner, request(planner.recorded()->peak, 8));
    EXPECT_THAT(step.plan.decisions, IsEmpty());
    EXPECT_EQ(step.plan.baselinePeak, step.plan.peak);
    EXPECT_LT(step.plan.baselinePeak, planner.recorded()->peak);
}

TEST(StepPlanner, everyPlanFitsToTheByte)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 6});
    const StepPlanner planner = plannerOf(trace);
    const Bytes least = solved(planner, request(1)).plan.leastBudget;
    const Bytes most = planner.recorded()->peak;
    ASSERT_LT(least, most);
    double leastTime = 0;
    for (int i = 0; i <= 20; ++i) {
        SCOPED_TRACE(i);
        const PlanAnswer step = solved(planner, request(least + (most - least) / 20 * i));
        EXPECT_EQ(step.plan.status, PlanStatus::optimal);
        EXPECT_EQ(step.plan.leastBudget, least);
        EXPECT_FALSE(step.plan.binding.module.empty());
        EXPECT_FALSE(step.plan.binding.phase.empty());
        expectPromiseHolds(*trace, step);
        if (i == 0)
            leastTime = step.plan.recomputeMs;
        EXPECT_LE(step.plan.recomputeMs, leastTime);
    }
}

TEST(StepPlanner, doesNotWasteTheBudget)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 12});
    const StepPlanner planner = plannerOf(trace);
    const Bytes least = solved(planner, request(1)).plan.leastBudget;
    const Bytes most = planner.recorded()->peak;
    // The largest activation is what a plan may have to leave unused.
    for (int i = 1; i < 10; ++i) {
        const Plan plan = solved(planner, request(least + (most - least) / 10 * i)).plan;
        EXPECT_LT(plan.budget - plan.peak, 8 * 4 * MiB) << "at " << groupedDigits(plan.budget);
    }
}

TEST(StepPlanner, anInfeasibleBudgetSaysWhatIsLeft)
{
    const StepTracePtr trace = makeSyntheticStep();
    const StepPlanner planner = plannerOf(trace);
    const PlanAnswer step = solved(planner, request(MiB));
    EXPECT_EQ(step.plan.status, PlanStatus::infeasible);
    EXPECT_EQ(step.plan.peak, -1);
    EXPECT_EQ(step.plan.recomputeMs, 0);
    EXPECT_THAT(step.plan.decisions, IsEmpty());
    EXPECT_EQ(step.timeline, nullptr);
    EXPECT_THAT(step.regions, IsEmpty());
    EXPECT_EQ(step.effects.size(), planner.effects().recorded().size()) << "nothing is recomputed";
    EXPECT_THAT(step.plan.reason, AllOf(HasSubstr("1.00 MiB"), HasSubstr(groupedDigits(step.plan.leastBudget))));
    const PlanAnswer least = solved(planner, request(step.plan.leastBudget));
    EXPECT_EQ(least.plan.status, PlanStatus::optimal);
    EXPECT_EQ(least.plan.peak, step.plan.leastBudget);
    EXPECT_EQ(solved(planner, request(step.plan.leastBudget - 1)).plan.status, PlanStatus::infeasible);
}

TEST(StepPlanner, wishesAreKept)
{
    const StepTracePtr trace = makeSyntheticStep();
    const StepPlanner planner = plannerOf(trace);
    PlanRequest wanted = request(planner.recorded()->peak);
    wanted.pins = {{"Transformer.layers.1", Pin::recompute}, {"Transformer.layers.2", Pin::save}};
    const PlanAnswer roomy = solved(planner, wanted);
    ASSERT_EQ(roomy.plan.decisions.size(), 1U);
    EXPECT_EQ(roomy.plan.decisions.begin()->first, "Transformer.layers.1");
    wanted.budget = solved(planner, request(1)).plan.leastBudget;
    const PlanAnswer tight = solved(planner, wanted);
    EXPECT_EQ(tight.plan.status, PlanStatus::infeasible);
    EXPECT_THAT(tight.plan.reason, HasSubstr("without pins"));
    wanted.budget = tight.plan.leastBudget;
    const PlanAnswer least = solved(planner, wanted);
    EXPECT_TRUE(least.plan.decisions.contains("Transformer.layers.1"));
    EXPECT_FALSE(least.plan.decisions.contains("Transformer.layers.2"));
    expectPromiseHolds(*trace, least);
    wanted.pins = {{"Transformer.layers.77", Pin::save}};
    EXPECT_FALSE(planner.solve(wanted).ok());
    EXPECT_FALSE(planner.solve(request(0)).ok());
}

TEST(StepPlanner, anyBudgetHasAPlanOrASentence)
{
    constexpr Bytes most = std::numeric_limits<Bytes>::max();
    for (const int blocks : {1, 2, 5})
        for (const int worldSize : {1, 3, std::numeric_limits<int>::max()})
            for (const Pin pin : {Pin::save, Pin::recompute}) {
                const StepPlanner planner = plannerOf(makeSyntheticStep({.blocks = blocks}));
                for (const Bytes budget : {std::numeric_limits<Bytes>::min(), Bytes{-1}, Bytes{0}, Bytes{1}, Bytes{511},
                                           planner.recorded()->peak, most / 2, most - 1, most}) {
                    SCOPED_TRACE(groupedDigits(budget));
                    PlanRequest wanted = request(budget, worldSize);
                    wanted.pins = {{"Transformer.layers.0", pin}};
                    const Result<PlanAnswer> step = planner.solve(wanted);
                    if (budget < 1) {
                        ASSERT_FALSE(step.ok());
                        EXPECT_THAT(step.error().message, HasSubstr("expected 1 B or more"));
                        continue;
                    }
                    ASSERT_TRUE(step.ok()) << step.error().message;
                    if (step->plan.status == PlanStatus::infeasible)
                        EXPECT_THAT(step->plan.reason, HasSubstr("."));
                    else
                        EXPECT_LE(step->plan.peak, budget);
                }
            }
}

TEST(StepPlanner, aStepThatIsCheckpointedAlreadyIsRefused)
{
    StepTrace recorded = *makeSyntheticStep();
    recorded.info.policy = "policy.json";
    const StepPlanner planner = plannerOf(std::make_shared<const StepTrace>(std::move(recorded)));
    EXPECT_GT(planner.recorded()->peak, 0);
    const Result<PlanAnswer> step = planner.solve(request(GiB));
    ASSERT_FALSE(step.ok());
    EXPECT_THAT(step.error().message, AllOf(HasSubstr("policy.json"), HasSubstr("without --policy")));
    ASSERT_FALSE(planner.frontier(request(GiB), 10).ok());
}

TEST(StepPlanner, aStepThatEndedOutOfMemoryIsRefused)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    builder.endOp(builder.outOfMemory({}, GiB, MiB), {});
    const Result<StepTracePtr> cut = builder.finish();
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_THAT(plannable(**cut).error().message, HasSubstr("record the step with --unlimited"));

    // A program that goes on after it has a whole step.
    StepTraceBuilder again;
    again.mark(Mark::stepBegin);
    again.endOp(again.outOfMemory({}, GiB, MiB), {});
    again.endOp(again.beginOp({again.string("aten.mm"), {}, {}, {}, {}, Phase::forward}), {});
    EXPECT_TRUE(plannable(**again.finish()));
}

TEST(StepPlanner, aStepThatEndedEarlyIsRefused)
{
    StepTrace recorded = *makeSyntheticStep();
    recorded.info.settings.emplace_back("ended early", "ValueError: no more batches");
    EXPECT_THAT(plannable(recorded).error().message,
                AllOf(HasSubstr("ended early (ValueError: no more batches)"), HasSubstr("whole step")));
}

TEST(StepPlanner, shardedStepsHoldLess)
{
    const StepTracePtr trace = makeSyntheticStep({.activation = MiB, .weight = 8 * MiB});
    const StepPlanner planner = plannerOf(trace);
    const Bytes whole = solved(planner, request(1)).plan.leastBudget;
    const Bytes sharded = solved(planner, request(1, 4)).plan.leastBudget;
    EXPECT_LT(sharded, whole);
    const PlanAnswer step = solved(planner, request((sharded + whole) / 2, 4));
    EXPECT_EQ(step.plan.worldSize, 4);
    EXPECT_EQ(step.policy(trace).worldSize, 4);
    expectPromiseHolds(*trace, step);
}

TEST(PerRank, dividesStateOfTheModelOnly)
{
    const StepTracePtr trace = makeSyntheticStep();
    const Timeline whole = *predict(*trace, {});
    const Timeline rank = perRank(whole, 3);
    const auto of
        = [](const CategoryBytes& bytes, Category category) { return bytes[static_cast<std::size_t>(category)]; };
    for (const Category sharded : {Category::parameter, Category::gradient, Category::optimizer})
        EXPECT_EQ(of(rank.start, sharded), (of(whole.start, sharded) + 2) / 3);
    EXPECT_EQ(of(rank.start, Category::input), of(whole.start, Category::input));
    ASSERT_EQ(rank.changes.size(), whole.changes.size());
    // The changes add up to what the snapshots say, and to the peak.
    CategoryBytes now = rank.start;
    Bytes peak = total(now);
    for (std::size_t i = 0; i < rank.changes.size(); ++i) {
        now[static_cast<std::size_t>(rank.changes[i].category)] += rank.changes[i].delta;
        peak = std::max(peak, total(now));
        if (i == rank.peakChange) {
            EXPECT_EQ(now, rank.atPeak);
        }
    }
    EXPECT_EQ(peak, rank.peak);
    EXPECT_EQ(now, rank.snapshots.back().bytes);
    EXPECT_EQ(perRank(whole, 1).peak, whole.peak);
}

TEST(Frontier, goesFromTheLeastBudgetToNoRecomputation)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 8});
    const StepPlanner planner = plannerOf(trace);
    const Result<std::vector<FrontierPoint>> found = planner.frontier(request(0), 24);
    ASSERT_TRUE(found.ok()) << found.error().message;
    ASSERT_GT(found->size(), 5U);
    EXPECT_LE(found->size(), 24U);
    EXPECT_EQ(found->front().peak, solved(planner, request(1)).plan.leastBudget);
    EXPECT_EQ(found->back().peak, planner.recorded()->peak);
    EXPECT_EQ(found->back().recomputeMs, 0);
    for (std::size_t i = 1; i < found->size(); ++i) {
        EXPECT_GT((*found)[i].peak, (*found)[i - 1].peak);
        EXPECT_LT((*found)[i].recomputeMs, (*found)[i - 1].recomputeMs);
    }
}

/// T5's memory is highest at one of two times, and each bounds alone: the bound of one left a gap of 6 %.
TEST(Frontier, ofT5IsWithinOnePercentOfItsBound)
{
    const StepPlanner planner = plannerOf(*readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/t5_base.hrs"));
    const Result<std::vector<FrontierPoint>> points = planner.frontier({}, 16);
    ASSERT_TRUE(points.ok());
    EXPECT_GE(points->size(), 16);
    for (const FrontierPoint& point : *points)
        EXPECT_LE(point.gap, 0.01) << point.peak;
}

TEST(Frontier, tellsWhileItGrows)
{
    const StepPlanner planner = plannerOf(makeSyntheticStep({.blocks = 8}));
    std::vector<std::vector<FrontierPoint>> told;
    const auto found = planner.frontier(request(0), 24, {},
                                        [&](std::vector<FrontierPoint> some) { told.push_back(std::move(some)); });
    ASSERT_TRUE(found.ok()) << found.error().message;
    ASSERT_GT(told.size(), 10U);
    EXPECT_LT(told.front().size(), found->size());
    EXPECT_EQ(told.back().size(), found->size());
    for (const std::vector<FrontierPoint>& some : told) {
        EXPECT_EQ(some.front().peak, found->front().peak) << "from end to end";
        EXPECT_EQ(some.back().peak, found->back().peak);
        EXPECT_LE(some.size(), 24U);
    }
}

TEST(Frontier, isCompleteWhenEveryBudgetIsAccountedFor)
{
    const StepPlanner planner = plannerOf(makeSyntheticStep({.blocks = 2}));
    const auto few = planner.frontier(request(0), 3);
    const auto all = planner.frontier(request(0), 4000);
    ASSERT_TRUE(few.ok() && all.ok());
    EXPECT_FALSE(isComplete(*few));
    ASSERT_TRUE(isComplete(*all));
    EXPECT_FALSE(isComplete({}));
    // Nothing is between two points: the plan of the smaller one is the best right below the larger one.
    for (std::size_t i = 1; i < all->size(); ++i) {
        EXPECT_GE((*all)[i - 1].upTo + 1, (*all)[i].peak);
        EXPECT_EQ(solved(planner, request((*all)[i].peak - 1)).plan.recomputeMs, (*all)[i - 1].recomputeMs);
    }
}

/// Parts that all differ, in a search that has no time: the plan fits, and the bound is one.
TEST(StepPlanner, firstPlansOfManyDifferentLayersHaveAnHonestGap)
{
    const StepPlanner planner = plannerOf(makeSyntheticStep({.blocks = 40, .activation = 8 * MiB, .kinds = 40}));
    const Bytes least = solved(planner, request(1)).plan.leastBudget;
    const Bytes most = planner.recorded()->peak;
    for (const int percent : {2, 20, 50, 80, 97}) {
        SCOPED_TRACE(percent);
        const Bytes budget = least + (most - least) / 100 * percent;
        const Result<PlanAnswer> first = planner.solve(request(budget), {}, 0);
        ASSERT_TRUE(first.ok()) << first.error().message;
        const Plan proven = solved(planner, request(budget)).plan;
        EXPECT_LE(first->plan.peak, budget);
        EXPECT_LE(first->plan.gap, 0.25);
        EXPECT_LE(proven.recomputeMs, first->plan.recomputeMs * (1 + 1e-9));
        EXPECT_GE(proven.recomputeMs, first->plan.recomputeMs * (1 - first->plan.gap) * (1 - 1e-6));
    }
}

TEST(StepPlanner, stopsWhenAsked)
{
    const StepPlanner planner = plannerOf(makeSyntheticStep());
    std::stop_source source;
    source.request_stop();
    const Result<PlanAnswer> step = planner.solve(request(GiB), source.get_token());
    ASSERT_TRUE(step.ok()) << step.error().message;
    EXPECT_EQ(step->plan.status, PlanStatus::stopped);
}

TEST(StepPlanner, answersAreTheSameFromAnyThread)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 6});
    const StepPlanner planner = plannerOf(trace);
    const Bytes budget = (solved(planner, request(1)).plan.leastBudget + planner.recorded()->peak) / 2;
    const PlanAnswer expected = solved(plannerOf(trace), request(budget));
    std::vector<PlanAnswer> steps(4);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < steps.size(); ++i)
            threads.emplace_back([&, i] {
                // Other wishes in between, so that the planner cannot live on what it kept.
                static_cast<void>(planner.solve(request(budget, static_cast<int>(i) + 1)));
                steps[i] = *planner.solve(request(budget));
            });
    }
    for (const PlanAnswer& step : steps) {
        EXPECT_EQ(step.plan.peak, expected.plan.peak);
        EXPECT_EQ(step.plan.recomputeMs, expected.plan.recomputeMs);
        EXPECT_EQ(toJson(step.policy(trace)), toJson(expected.policy(trace)));
    }
}

/// A clock that runs five times as fast as time: as on a computer that needs five times as long.
SearchLimit::Clock::time_point fastClock()
{
    static const auto begin = SearchLimit::Clock::now();
    return begin + 5 * (SearchLimit::Clock::now() - begin);
}

/// A clock that has run on by an hour each time.
SearchLimit::Clock::time_point runawayClock()
{
    static SearchLimit::Clock::time_point now;
    return now += std::chrono::hours(1);
}

TEST(StepPlanner, findsTheSamePlanOnASlowComputer)
{
    const Result<StepTracePtr> trace = readStepTrace(HEADROOM_TEST_DATA "/steps/t5_base.hrs");
    ASSERT_TRUE(trace.ok());
    const StepPlanner planner = plannerOf(*trace);
    const Bytes budget = planner.recorded()->peak / 10 * 7;
    const auto found = [&](SearchLimit::Clock::time_point (*clock)()) {
        SearchLimit::setClock(clock);
        const Result<PlanAnswer> answer = planner.solve(request(budget), {}, 50);
        SearchLimit::setClock(SearchLimit::Clock::now);
        EXPECT_TRUE(answer.ok());
        return *answer;
    };
    const PlanAnswer here = found(SearchLimit::Clock::now);
    const PlanAnswer slow = found(fastClock);
    EXPECT_FALSE(SearchLimit::endedByClock());
    EXPECT_GT(here.plan.gap, 0) << "the limit has to end the search";
    EXPECT_EQ(slow.plan.peak, here.plan.peak);
    EXPECT_EQ(slow.plan.recomputeMs, here.plan.recomputeMs);
    EXPECT_EQ(slow.plan.boundMs, here.plan.boundMs);
    EXPECT_EQ(slow.plan.decisions, here.plan.decisions);
    EXPECT_EQ(slow.plan.nodes, here.plan.nodes);

    const PlanAnswer cut = found(runawayClock);
    EXPECT_TRUE(SearchLimit::endedByClock());
    EXPECT_LE(cut.plan.peak, budget);
    EXPECT_GE(cut.plan.recomputeMs, here.plan.recomputeMs);
}

} // namespace
} // namespace headroom
