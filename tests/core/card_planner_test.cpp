// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/card_planner.h"

#include "core/cost/card_memory.h"
#include "core/trace/earlier_steps.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace headroom {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CardPlanner : public testing::Test
{
protected:
    explicit CardPlanner(Bytes activation = 24 * MiB)
    {
        SyntheticOptions options;
        options.blocks = 12;
        options.activation = activation;
        options.weight = 12 * MiB;
        auto step = std::make_shared<StepTrace>(*makeSyntheticStep(options));
        step->info.gpu = "rtx-4060-8gb";
        planner_.emplace(*StepPlanner::create(std::move(step)));
        PlanRequest request;
        request.budget = 1;
        least_ = planner_->solve(request)->plan.leastBudget;
        peak_ = planner_->recorded()->peak;
    }

    const StepTrace& step() const { return *planner_->trace(); }
    static Result<PlanAnswer> planOn(const StepPlanner& planner, const Card& card)
    {
        return planForCard(planner, {}, std::make_shared<const Card>(card));
    }
    Card card(Bytes capacity, const std::string& settings = "") const
    {
        return *cardFor(std::to_string(capacity), step(), settings);
    }
    Bytes share(double part) const { return least_ + static_cast<Bytes>(part * static_cast<double>(peak_ - least_)); }

    std::optional<StepPlanner> planner_;
    Bytes least_ = 0, peak_ = 0;
};

TEST_F(CardPlanner, PlansRunAndTrialOfBudgetsFindsNoBetterOne)
{
    for (const char* settings : {"", "expandable_segments:True"})
        for (const double part : {0.3, 0.5, 0.7, 0.9}) {
            SCOPED_TRACE(settings + std::to_string(part));
            const Card memory = card(share(part), settings);
            const Result<PlanAnswer> found = planOn(*planner_, memory);
            ASSERT_TRUE(found) << found.error().message;
            ASSERT_TRUE(found->runs()) << found->plan.reason;
            const Plan& plan = found->plan;
            EXPECT_LE(plan.peak, memory.rules.capacity);
            EXPECT_LE(found->card->run.reservedPeak, memory.rules.capacity);
            EXPECT_EQ(found->card->run.left, memory.rules.capacity - found->card->run.reservedPeak);
            EXPECT_TRUE(runOnCard(memory, step(), *found->timeline).runs);
            EXPECT_GE(plan.recomputeMs, plan.boundMs);
            for (int trial = 0; trial <= 200; trial += 2) {
                PlanRequest request;
                request.budget = least_ + (peak_ - least_) / 200 * trial;
                const Result<PlanAnswer> other = planner_->solve(request);
                if (request.budget <= memory.forTensors() && runOnCard(memory, step(), *other->timeline).runs) {
                    EXPECT_LE(plan.recomputeMs, other->plan.recomputeMs * 1.0001) << "budget " << request.budget;
                }
            }
        }
}

TEST_F(CardPlanner, WithoutPatienceFewPlansAreTried)
{
    constexpr int mostBudgets = 7; // halves of the range, the least budget and the card's own
    const int orders = 4; // the planner's and those of arrangements()
    int most = 0;
    for (const double part : {0.0, 0.02, 0.05, 0.1, 0.3, 0.6}) {
        const Card memory = card(share(part));
        const auto onCard = std::make_shared<const Card>(memory);
        const Result<PlanAnswer> found
            = planForCard(*planner_, {}, onCard, {}, LeastMemory::left, {.fine = 0, .coarse = 0});
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_LE(found->card->tried, mostBudgets * orders) << part;
        most = std::max(most, found->card->tried);
        if (found->runs()) {
            EXPECT_TRUE(runOnCard(memory, step(), *found->timeline).runs) << part;
            EXPECT_GE(found->plan.recomputeMs, planOn(*planner_, memory)->plan.recomputeMs) << part;
        }
    }
    EXPECT_GT(most, orders) << "a plan failed, and another budget was tried";
}

TEST_F(CardPlanner, WithoutPatienceForOrdersNoPlanIsDearerThanTheBestByTrial)
{
    constexpr int trials = 200;
    for (const double part : {0.1, 0.3, 0.5, 0.7, 0.9}) {
        const Card memory = card(share(part));
        const auto onCard = std::make_shared<const Card>(memory);
        const Result<PlanAnswer> found = planForCard(*planner_, {}, onCard, {}, LeastMemory::left,
                                                     {.fine = 0, .coarse = std::numeric_limits<std::int64_t>::max()});
        ASSERT_TRUE(found) << found.error().message;
        for (int trial = trials; trial >= 0; --trial) {
            PlanRequest request;
            request.budget = share(static_cast<double>(trial) / trials);
            if (request.budget > memory.forTensors())
                continue;
            const Result<PlanAnswer> byTrial = planner_->solve(request);
            ASSERT_TRUE(byTrial && byTrial->timeline);
            if (!runOnCard(memory, step(), *byTrial->timeline).runs)
                continue;
            EXPECT_TRUE(found->runs()) << part;
            EXPECT_LE(found->plan.recomputeMs, byTrial->plan.recomputeMs * 1.0001) << part;
            break;
        }
    }
}

TEST_F(CardPlanner, ALargeCardNeedsNoPlan)
{
    const Result<PlanAnswer> found = planOn(*planner_, card(4 * peak_));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(found->runs());
    EXPECT_THAT(found->plan.decisions, IsEmpty());
    EXPECT_EQ(found->plan.status, PlanStatus::optimal);
    const Result<std::optional<BetterSettings>> better = betterSettings(*planner_, {}, *found);
    ASSERT_TRUE(better);
    EXPECT_FALSE(*better) << "nothing is recomputed";
}

TEST_F(CardPlanner, OtherSettingsSaveExposedCopies)
{
    PlanAnswer found = *planOn(*planner_, card(4 * peak_));
    ASSERT_EQ(found.plan.recomputeMs, 0);
    found.plan.offload.exposedMs = found.plan.stepMs;
    found.plan.gap = 1;
    const Result<std::optional<BetterSettings>> better = betterSettings(*planner_, {}, found);
    ASSERT_TRUE(better && *better);
    EXPECT_EQ((*better)->recomputeMs, 0);
    EXPECT_DOUBLE_EQ((*better)->savedMs, found.plan.stepMs);
    found.plan.boundMs = found.plan.stepMs * 0.995;
    EXPECT_FALSE(*betterSettings(*planner_, {}, found)) << "no plan saves 1 % of the step";
}

/// With pins the least budget may be above the step without a plan.
TEST_F(CardPlanner, PinsMayNeedMoreThanTheStepWithoutAPlan)
{
    PlanRequest request;
    for (const ModuleStats& stats : planner_->moduleInfo()->stats)
        if (!stats.isLeaf && stats.fqn != planner_->moduleInfo()->stats.front().fqn)
            request.pins.emplace(stats.fqn, Pin::save);
    const Result<PlanAnswer> none = planForCard(*planner_, request, std::make_shared<const Card>(card(least_ / 2)));
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_FALSE(none->runs());
    EXPECT_GT(none->card->leastMemory, least_ / 2);
}

TEST_F(CardPlanner, ACardThatIsTooSmallIsToldWhatWouldDo)
{
    const Result<PlanAnswer> none = planOn(*planner_, card(least_ / 2));
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_FALSE(none->runs());
    EXPECT_EQ(none->plan.status, PlanStatus::infeasible);
    EXPECT_GT(none->card->leastMemory, least_ / 2);
    EXPECT_THAT(none->plan.reason, HasSubstr("With " + formatBytes(none->card->leastMemory) + " for the allocator"));
    const Result<PlanAnswer> enough = planOn(*planner_, card(none->card->leastMemory));
    ASSERT_TRUE(enough) << enough.error().message;
    EXPECT_TRUE(enough->runs()) << enough->plan.reason;
}

TEST_F(CardPlanner, TheLeastMemoryOfAPlanIsEnoughAndLittleLessIsNot)
{
    const Card memory = card(share(0.5));
    const PlanAnswer found = *planOn(*planner_, memory);
    EXPECT_LE(found.card->leastMemory, found.card->run.reservedPeak + 2 * MiB);
    EXPECT_TRUE(runOnCard(card(found.card->leastMemory), step(), *found.timeline).runs);
    EXPECT_FALSE(runOnCard(card(found.card->leastMemory - 4 * MiB), step(), *found.timeline).runs);
}

TEST_F(CardPlanner, AGpuGivesWhatContextAndWorkspacesLeave)
{
    const Result<Card> gpu = cardFor("rtx-4060-8gb", step(), std::nullopt);
    ASSERT_TRUE(gpu) << gpu.error().message;
    const CardMemory memory = cardMemory(*findDeviceSpec("rtx-4060-8gb"), step());
    EXPECT_EQ(gpu->rules.capacity, memory.allocators());
    EXPECT_EQ(gpu->forTensors(), memory.usable());
    const Result<Card> half = cardFor("rtx-4060-8gb", step(), "per_process_memory_fraction:0.5");
    ASSERT_TRUE(half);
    EXPECT_EQ(half->forTensors(), memory.total / 2 - memory.workspaces);
    EXPECT_THAT(cardFor("rtx-4061", step(), std::nullopt).error().message,
                HasSubstr("card `rtx-4061`: expected a size"));
    EXPECT_THAT(cardFor("0", step(), std::nullopt).error().message, HasSubstr("expected a size"));
    EXPECT_THAT(cardFor("8GiB", step(), "nonsense").error().message, HasSubstr("allocator settings"));
}

TEST_F(CardPlanner, WithoutWorkspacesIsWithoutCuDnnsToo)
{
    Card memory = card(2 * peak_);
    const Bytes none = runOnCard(memory, step(), *planner_->recorded()).reservedPeak;
    memory.workspaces.during.assign(step().ops.size(), 200 * MiB);
    const CardRun run = runOnCard(memory, step(), *planner_->recorded());
    EXPECT_GT(run.reservedPeak, none);
    EXPECT_EQ(run.reservedWithoutWorkspaces, none);
}

TEST_F(CardPlanner, OnAFullCardThePeakWithoutWorkspacesIsThatOfAllItsMemory)
{
    Card memory = card(2 * peak_);
    memory.rules.capacity = runOnCard(memory, step(), *planner_->recorded()).reservedPeak - 2 * MiB;
    const AllocatorRun alone = simulateAllocator(step(), *planner_->recorded(), memory.rules);
    ASSERT_FALSE(alone.failure);
    ASSERT_TRUE(alone.wasFull) << "the card's memory decides what is reserved";
    memory.workspaces.kept = {{OpId(), 512}};
    const CardRun run = runOnCard(memory, step(), *planner_->recorded());
    ASSERT_TRUE(run.runs) << run.reason;
    EXPECT_EQ(run.reservedWithoutWorkspaces, alone.stats.reservedPeak);
}

TEST_F(CardPlanner, ArrangementsTakeAsLongAndMoveTheCheckpointsOfAlikeLayers)
{
    PlanRequest request;
    request.budget = share(0.8);
    const PlanAnswer planned = *planner_->solve(request);
    ASSERT_LT(planned.regions.size(), 12u) << "some layers are checkpointed, and some are not";
    const std::vector<CheckpointPlan> others = arrangements(planner_->model(), planned.regions);
    ASSERT_THAT(others, testing::Not(IsEmpty()));
    for (const CheckpointPlan& regions : others) {
        const Result<PlanAnswer> other = planner_->withRegions(planned, regions);
        ASSERT_TRUE(other) << other.error().message;
        EXPECT_EQ(regions.size(), planned.regions.size());
        EXPECT_NEAR(other->plan.recomputeMs, planned.plan.recomputeMs, 1e-9);
        EXPECT_NE(other->plan.decisions, planned.plan.decisions);
        EXPECT_EQ(other->plan.peak, other->timeline->peak);
    }
    EXPECT_THAT(arrangements(planner_->model(), {}), IsEmpty());
}

class StepsOfSeveralSizes : public CardPlanner
{
protected:
    /// The step, as if earlier ones had saved so many bytes for backward, relative to it.
    StepTrace with(double least, double most) const
    {
        const auto own = static_cast<double>(savedForBackward(step()));
        StepTrace other = step();
        other.info.settings.emplace_back(EarlierSteps::setting,
                                         std::to_string(static_cast<Bytes>(own * least)) + ' '
                                             + std::to_string(static_cast<Bytes>(own * most)));
        return other;
    }
    std::vector<double> sizes(double least, double most) const { return sizesOfSteps(with(least, most)); }
};

TEST_F(StepsOfSeveralSizes, OneIsLargerThanTheLargestByWhatTheyDifferBy)
{
    using testing::DoubleNear;
    using testing::ElementsAre;
    const auto near = [](double size) { return DoubleNear(size, 1e-6); };
    EXPECT_GT(savedForBackward(step()), 100 * MiB);
    EXPECT_THAT(sizesOfSteps(step()), IsEmpty()) << "nothing is known of earlier steps";
    EXPECT_THAT(sizes(1, 1), IsEmpty());
    EXPECT_THAT(sizes(0.9995, 1), IsEmpty()) << "less than a thousandth";
    EXPECT_THAT(sizes(0.9, 0.95), ElementsAre(near(0.9), 1, near(1.1), near(0.95), near(1.05)));
    EXPECT_THAT(sizes(1.1, 1.2), ElementsAre(1, 1, near(1.4), 1, near(1.2)));
    EXPECT_THAT(sizes(0.9, 1.2), ElementsAre(near(0.9), 1, near(1.5), near(0.95), near(1.25)));
    StepTrace longest = with(0.9, 1);
    longest.info.settings.emplace_back(longestBatchSetting, "batch 5 is the longest of all 12 batches");
    EXPECT_THAT(sizesOfSteps(longest), ElementsAre(near(0.9), 1, 1, near(0.95), 1));
    for (const char* text : {"", "7", "7 ", "x 7", "7 x"}) {
        StepTrace other = step();
        other.info.settings.emplace_back(EarlierSteps::setting, text);
        EXPECT_THAT(sizesOfSteps(other), IsEmpty()) << text;
    }
}

TEST_F(StepsOfSeveralSizes, APlanRunsWithAllOfThem)
{
    const StepTrace differs = with(0.9, 1);
    const Card memory = *cardFor(std::to_string(share(0.5)), differs, "");
    EXPECT_THAT(
        runOnCard(memory, differs, *planner_->recorded()).assumptions,
        testing::ElementsAre(HasSubstr("the program's steps differ in size"), HasSubstr("memory of cuBLAS and cuDNN")));
    StepTrace larger = step();
    larger.info.settings.emplace_back(largerBatchSetting, "batch 7 has ids of 4 × 96");
    EXPECT_THAT(runOnCard(memory, larger, *planner_->recorded()).assumptions.front(), "batch 7 has ids of 4 × 96");
    const Result<PlanAnswer> usual = planOn(*planner_, memory);
    ASSERT_TRUE(usual) << usual.error().message;
    const Timeline& timeline = *usual->timeline;
    EXPECT_TRUE(runOnCard(memory, step(), timeline).runs);
    const CardRun run = runOnCard(memory, differs, timeline);
    EXPECT_FALSE(run.runs);
    EXPECT_THAT(run.reason, testing::EndsWith("with steps of other sizes in turn, as the program has"));
    EXPECT_GT(leastMemory(memory, differs, timeline), leastMemory(memory, step(), timeline) + 10 * MiB);

    const Result<StepPlanner> planner = StepPlanner::create(std::make_shared<StepTrace>(differs));
    const Result<PlanAnswer> found = planOn(*planner, memory);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_TRUE(found->runs()) << found->plan.reason;
    EXPECT_GT(found->plan.recomputeMs, usual->plan.recomputeMs);
    EXPECT_TRUE(runOnCard(memory, differs, *found->timeline).runs);
}

TEST_F(CardPlanner, AMarginIsLeftFree)
{
    Card memory = card(share(0.5));
    memory.margin = 50 * MiB;
    const Result<PlanAnswer> found = planOn(*planner_, memory);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_TRUE(found->runs()) << found->plan.reason;
    EXPECT_GE(found->card->run.left, 50 * MiB);
    EXPECT_EQ(found->card->run.left, memory.rules.capacity - found->card->run.reservedPeak);
    const Timeline& timeline = *found->timeline;
    const Bytes least = leastMemory(memory, step(), timeline);
    EXPECT_LE(least, memory.rules.capacity);
    memory.margin = 0;
    EXPECT_NEAR(static_cast<double>(least - leastMemory(memory, step(), timeline)), 50.0 * MiB, 4.0 * MiB);

    Card half = *cardFor("a100-80gb", step(), "per_process_memory_fraction:0.5");
    EXPECT_TRUE(runOnCard(half, step(), timeline).runs);
    half.margin = half.given() - timeline.peak + 4 * MiB;
    EXPECT_FALSE(runOnCard(half, step(), timeline).runs) << "the margin is taken from the program's share, too";
}

} // namespace
} // namespace headroom
