// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What exact plans are worth on recorded steps: at equal memory none of the other ways to plan takes less time.
#include "core/plan/piecewise.h"
#include "core/policy/option_table.h"
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_file.h"
#include "tests/core/random_path.h"

#include <gtest/gtest.h>

#include <random>

namespace headroom {
namespace {

/// Sums of the same times in another order.
constexpr double rounding = 1e-9;

/// A plan made another way, as the step takes it.
struct Other
{
    Bytes peak = 0;
    double ms = 0;
};

class PlanComparison : public testing::TestWithParam<const char*>
{
protected:
    void SetUp() override
    {
        const Result<StepTracePtr> trace = readStepTrace(std::string(HEADROOM_TEST_DATA) + "/steps/" + GetParam());
        ASSERT_TRUE(trace.ok()) << trace.error().message;
        trace_ = *trace;
        planner_.emplace(*StepPlanner::create(trace_));
        info_ = planner_->moduleInfo();
        maker_.emplace(StepModel(trace_));
        PlanRequest request;
        request.budget = 1;
        tree_ = PartTree::create(maker_->model(), *PiecewiseProblem::create(*PiecewiseModules::create(info_), request));
    }

    Other predicted(const CheckpointPlan& plan) const
    {
        const Timeline timeline = *maker_->model().predict(plan);
        return {timeline.peak, timeline.recomputeMs};
    }

    /// Every n-th layer as a whole.
    Other everyLayer(std::size_t n) const
    {
        CheckpointPlan plan;
        for (std::size_t part = 0; part < tree_.parts.size(); part += n)
            plan.push_back({tree_.units[static_cast<std::size_t>(tree_.parts[part])].module, {}});
        return predicted(plan);
    }

    Plan exact(Bytes budget) const
    {
        PlanRequest request;
        request.budget = budget;
        const Result<PlannedStep> step = planner_->solve(request, {}, 60'000);
        EXPECT_TRUE(step.ok()) << step.error().message;
        EXPECT_EQ(step->plan.status, PlanStatus::optimal) << groupedDigits(budget);
        EXPECT_LE(step->plan.peak, budget);
        return step->plan;
    }

    StepTracePtr trace_;
    std::optional<StepPlanner> planner_;
    ModuleInfoPtr info_;
    std::optional<PolicyMaker> maker_;
    PartTree tree_;
};

TEST_P(PlanComparison, neverTakesLongerThanPyTorchsFormulation)
{
    const PiecewisePlanner planner = *PiecewisePlanner::create(info_);
    PlanRequest request;
    const Bytes most = request.budget = baseline(*info_).peak;
    const Bytes least = planner.solve(request)->leastBudget;
    int compared = 0;
    for (int i = 0; i <= 100; ++i) {
        request.budget = least + (most - least) / 100 * i;
        const Plan plan = *planner.solve(request);
        ASSERT_NE(plan.status, PlanStatus::infeasible) << i;
        const Other piecewise = predicted(maker_->make(plan)->regions);
        EXPECT_LE(exact(piecewise.peak).recomputeMs, piecewise.ms * (1 + rounding)) << "at budget " << i;
        ++compared;
    }
    EXPECT_EQ(compared, 101);
}

TEST_P(PlanComparison, beatsFullCheckpointingAndEveryOtherLayer)
{
    const Other full = everyLayer(1);
    const Other second = everyLayer(2);
    EXPECT_LE(exact(full.peak).recomputeMs, full.ms * (1 + rounding));
    EXPECT_LT(exact(second.peak).recomputeMs, second.ms);
    PlanRequest tooLittle;
    tooLittle.budget = 1;
    const Bytes least = planner_->solve(tooLittle)->plan.leastBudget;
    const Bytes most = planner_->recorded()->peak;
    EXPECT_LE(least, full.peak);
    for (int i = 1; i <= 100; ++i) {
        const Bytes budget = least + (most - least) / 100 * i;
        const double ms = exact(budget).recomputeMs;
        EXPECT_LT(ms, full.ms) << "at budget " << i;
        if (budget >= second.peak) {
            EXPECT_LT(ms, second.ms) << "at budget " << i;
        }
    }
}

/// The planner's problem says of these steps exactly what they take.
TEST_P(PlanComparison, tablesSayThePeakToTheByte)
{
    const StorageEvents events(*trace_);
    const OptionTable table
        = *OptionTable::create(maker_->model(), events, tree_, 1, StepLayout::SharedArguments::held);
    EXPECT_TRUE(table.exact());
    const ChainProblem& problem = table.problem();
    std::mt19937 random(1);
    for (int i = 0; i < 50; ++i) {
        const ChainPath path = randomPath(problem, random);
        EXPECT_EQ(valueOf(problem, path).peak, predicted(table.planOf(path)).peak) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Steps, PlanComparison, testing::Values("gpt2_small.hrs", "bert_base.hrs"),
                         [](const auto& parameter) {
                             return std::string(parameter.param).substr(0, std::string(parameter.param).find('.'));
                         });

} // namespace
} // namespace headroom
