// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/module_ways.h"

#include "core/policy/step_planner.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::IsEmpty;

class ModuleWays : public ::testing::Test
{
protected:
    StepTracePtr trace = makeSyntheticStep();
    Result<StepPlanner> planner = StepPlanner::create(trace);
    ModuleEffects effects{StepModel(trace)};

    ModuleId module(std::string_view fqn) const
    {
        for (std::uint32_t i = 0; i < trace->modules.size(); ++i)
            if (trace->moduleFqn(ModuleId(i)) == fqn)
                return ModuleId(i);
        throw std::runtime_error("no module " + std::string(fqn));
    }

    std::vector<ModuleWay> waysOf(std::string_view fqn) const
    {
        Result<std::vector<ModuleWay>> ways = planner->ways(module(fqn));
        EXPECT_TRUE(ways.ok()) << ways.error().message;
        return ways.ok() ? *std::move(ways) : std::vector<ModuleWay>();
    }
};

TEST_F(ModuleWays, beginWithEverythingKeptAndPayTimeForLess)
{
    for (const std::string_view fqn : {"Transformer.layers.1", "Transformer.layers.1.feed_forward"}) {
        SCOPED_TRACE(fqn);
        const std::vector<ModuleWay> ways = waysOf(fqn);
        ASSERT_GE(ways.size(), 3U);
        EXPECT_THAT(ways.front().regions, IsEmpty());
        EXPECT_EQ(ways.front().kept, effects.recorded()[module(fqn).value].recorded);
        EXPECT_EQ(ways.front().recomputeMs, 0);
        for (std::size_t i = 1; i < ways.size(); ++i) {
            EXPECT_LT(ways[i].kept, ways[i - 1].kept);
            EXPECT_GT(ways[i].recomputeMs, ways[i - 1].recomputeMs);
        }
    }
}

TEST_F(ModuleWays, takeWhatTheirPlansTake)
{
    const ModuleId layer = module("Transformer.layers.2");
    for (const ModuleWay& way : waysOf("Transformer.layers.2")) {
        const Result<Timeline> timeline = predict(*trace, way.regions);
        ASSERT_TRUE(timeline.ok()) << timeline.error().message;
        EXPECT_DOUBLE_EQ(timeline->recomputeMs, way.recomputeMs);
        EXPECT_EQ(effects.of(way.regions).value()[layer.value].kept, way.kept);
    }
}

TEST_F(ModuleWays, areWhatThePlanChoosesFrom)
{
    PlanRequest request;
    const Bytes least = (request.budget = 1, planner->solve(request)->plan.leastBudget);
    const Bytes most = planner->recorded()->peak;
    for (int i = 0; i < 20; ++i) {
        request.budget = least + (most - least) / 20 * i;
        const Result<PlanAnswer> step = planner->solve(request);
        ASSERT_TRUE(step.ok());
        const std::vector<ModuleEffect> planned = effects.of(step->regions).value();
        for (const std::string_view fqn : {"Transformer.layers.0", "Transformer.layers.3"}) {
            const ModuleEffect& effect = planned[module(fqn).value];
            const std::vector<ModuleWay> ways = waysOf(fqn);
            // None is better than the plan's, which may itself be beaten here for the sake of a lower peak.
            EXPECT_TRUE(std::ranges::any_of(ways,
                                            [&](const ModuleWay& way) {
                                                return way.kept <= effect.kept
                                                    && way.recomputeMs <= effect.recomputeMs + 1e-9;
                                            }))
                << fqn << " at " << request.budget;
        }
    }
}

TEST_F(ModuleWays, areNotThereForWhatIsNotCheckpointed)
{
    EXPECT_TRUE(waysOf("Transformer.layers.0.attention.wq").empty()); // a leaf
    const Result<StepPlanner> deep = StepPlanner::create(makeSyntheticStep({.blocks = 9}));
    EXPECT_TRUE(deep->ways(ModuleId(0))->empty()); // around many layers
}

} // namespace
} // namespace headroom
