// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/module_options.h"

#include "core/policy/step_planner.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::IsEmpty;

class ModuleOptions : public ::testing::Test
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

    std::vector<ModuleOption> optionsOf(std::string_view fqn) const
    {
        Result<std::vector<ModuleOption>> options = planner->moduleOptions(module(fqn));
        EXPECT_TRUE(options.ok()) << options.error().message;
        return options.ok() ? *std::move(options) : std::vector<ModuleOption>();
    }
};

TEST_F(ModuleOptions, beginWithEverythingKeptAndPayTimeForLess)
{
    for (const std::string_view fqn : {"Transformer.layers.1", "Transformer.layers.1.feed_forward"}) {
        SCOPED_TRACE(fqn);
        const std::vector<ModuleOption> options = optionsOf(fqn);
        ASSERT_GE(options.size(), 3U);
        EXPECT_THAT(options.front().regions, IsEmpty());
        EXPECT_EQ(options.front().kept, effects.recorded()[module(fqn).value].recorded);
        EXPECT_EQ(options.front().recomputeMs, 0);
        for (std::size_t i = 1; i < options.size(); ++i) {
            EXPECT_LT(options[i].kept, options[i - 1].kept);
            EXPECT_GT(options[i].recomputeMs, options[i - 1].recomputeMs);
        }
    }
}

TEST_F(ModuleOptions, takeWhatTheirPlansTake)
{
    const ModuleId layer = module("Transformer.layers.2");
    for (const ModuleOption& option : optionsOf("Transformer.layers.2")) {
        const Result<Timeline> timeline = predict(*trace, option.regions);
        ASSERT_TRUE(timeline.ok()) << timeline.error().message;
        EXPECT_DOUBLE_EQ(timeline->recomputeMs, option.recomputeMs);
        EXPECT_EQ(effects.of(option.regions).value()[layer.value].kept, option.kept);
    }
}

TEST_F(ModuleOptions, areWhatThePlanChoosesFrom)
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
            const std::vector<ModuleOption> options = optionsOf(fqn);
            // None is better than the plan's, which may itself be beaten here for the sake of a lower peak.
            EXPECT_TRUE(std::ranges::any_of(options,
                                            [&](const ModuleOption& option) {
                                                return option.kept <= effect.kept
                                                    && option.recomputeMs <= effect.recomputeMs + 1e-9;
                                            }))
                << fqn << " at " << request.budget;
        }
    }
}

TEST_F(ModuleOptions, areNotThereForWhatIsNotCheckpointed)
{
    EXPECT_TRUE(optionsOf("Transformer.layers.0.attention.wq").empty()); // a leaf
    const Result<StepPlanner> deep = StepPlanner::create(makeSyntheticStep({.blocks = 9}));
    EXPECT_TRUE(deep->moduleOptions(ModuleId(0))->empty()); // around many layers
}

} // namespace
} // namespace headroom
