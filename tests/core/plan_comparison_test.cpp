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

#include <algorithm>
#include <random>

namespace headroom {
namespace {

/// The planner counts time in whole picoseconds: so far may a plan be from another one of equal time.
bool noLonger(double ms, double otherMs)
{
    return ms <= otherMs * (1 + 1e-9) + 1e-8;
}

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
        const PlanModules modules = *PlanModules::create(info_);
        tree_ = PartTree::create(maker_->model(), modules, *planUnits(modules, {}));
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
        const Result<PlanAnswer> step = planner_->solve(request, {}, 60'000);
        EXPECT_TRUE(step.ok()) << step.error().message;
        // Proven, but where layers share arguments: how long these are held depends on which layers are checkpointed.
        EXPECT_LE(step->plan.gap, 0.01) << groupedDigits(budget);
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
        const Other piecewise = predicted(*maker_->regions(plan));
        const double ms = exact(piecewise.peak).recomputeMs;
        EXPECT_PRED2(noLonger, ms, piecewise.ms) << "at budget " << i;
        ++compared;
    }
    EXPECT_EQ(compared, 101);
}

TEST_P(PlanComparison, beatsFullCheckpointingAndEveryOtherLayer)
{
    const Other full = everyLayer(1);
    const Other second = everyLayer(2);
    EXPECT_PRED2(noLonger, exact(full.peak).recomputeMs, full.ms);
    EXPECT_PRED2(noLonger, exact(second.peak).recomputeMs, second.ms);
    PlanRequest tooLittle;
    tooLittle.budget = 1;
    const Bytes least = planner_->solve(tooLittle)->plan.leastBudget;
    const Bytes most = planner_->recorded()->peak;
    EXPECT_LE(least, full.peak);
    for (int i = 1; i <= 100; ++i) {
        const Bytes budget = least + (most - least) / 100 * i;
        const double ms = exact(budget).recomputeMs;
        if (budget > full.peak) {
            EXPECT_LT(ms, full.ms) << "at budget " << i;
        }
        if (budget > second.peak) {
            EXPECT_PRED2(noLonger, ms, second.ms) << "at budget " << i;
        }
    }
}

/// The planner's problem says of these steps exactly what they take, or bounds it from both sides.
TEST_P(PlanComparison, tablesSayThePeakToTheByte)
{
    const StorageEvents events(*trace_);
    const OptionTable table
        = *OptionTable::create(maker_->model(), events, tree_, 1, StepLayout::SharedArguments::held);
    std::vector<ModuleId> layers;
    for (const int part : tree_.parts)
        layers.push_back(tree_.units[static_cast<std::size_t>(part)].module);
    const StepLayout layout(maker_->model(), events, layers, 1, StepLayout::SharedArguments::held);
    const auto holdsShared = [&](const CheckpointRegion& region) { return layout.hasShared(region.module); };
    std::mt19937 random(1);
    for (int i = 0; i < 50; ++i) {
        const ChainPath path = randomPath(table.problem(), random);
        const CheckpointPlan plan = table.planOf(path);
        const Bytes peak = predicted(plan).peak;
        EXPECT_LE(peak, valueOf(table.problem(), path).peak) << i;
        // A plan that holds none of the arguments that layers share is the other table's.
        if (!table.sharesArguments() || std::ranges::any_of(plan, holdsShared)) {
            EXPECT_GE(peak, valueOf(table.relaxed(), path).peak) << i;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Steps, PlanComparison,
                         testing::Values("gpt2_small.hrs", "bert_base.hrs", "bert_tiny.hrs", "gpt2_tiny_dyn.hrs",
                                         "transformer_tiny_dyn.hrs", "multi_args.hrs", "random.hrs", "resnet50.hrs",
                                         "vit_base.hrs", "seed_transformer.hrs", "llama_1b_bf16.hrs", "transformer.hrs",
                                         "demo_mlp.hrs", "demo_resnet.hrs"),
                         [](const auto& parameter) {
                             return std::string(parameter.param).substr(0, std::string(parameter.param).find('.'));
                         });

} // namespace
} // namespace headroom
