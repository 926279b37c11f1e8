// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Plans of steps that are no chain, against predictions of the whole step.
#include "core/policy/policy_maker.h"
#include "core/policy/row_planner.h"
#include "core/policy/step_planner.h"
#include "core/trace/step_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace headroom {
namespace {

using enum RowProblem::Memory;

/// A recorded step (a file of tests/data/steps) and its problem.
struct Step
{
    explicit Step(const std::string& name)
        : trace(*readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + name + ".hrs"))
        , model(trace)
        , events(*trace)
        , problem(make())
    {
    }

    RowProblem make() const
    {
        const PlanRequest request;
        const PlanModules modules = *PlanModules::create(std::make_shared<const ModuleInfo>(*modulesToPlan(model)));
        const PartTree tree = PartTree::create(model, modules, *planUnits(modules, request));
        return *RowProblem::create(model, events, tree, request.worldSize, {});
    }

    Bytes highest(const OptionShares& shares, RowProblem::Memory memory) const
    {
        return static_cast<Bytes>(std::ranges::max(problem.memoryUnder(shares, memory)));
    }

    StepTracePtr trace;
    StepModel model;
    StorageEvents events;
    RowProblem problem;
};

/// Any options for all parts, as a plan.
OptionShares randomOptions(const RowProblem& problem, std::mt19937& random)
{
    OptionShares shares;
    int position = 0;
    for (std::size_t arc = 0; arc < problem.arcs().size(); ++arc) {
        if (problem.arcs()[arc].first < position || problem.optionCount(arc) == 0 || random() % 4 == 0)
            continue;
        shares.push_back({{arc, random() % problem.optionCount(arc)}, 1.0});
        position = problem.arcs()[arc].last;
    }
    return shares;
}

TEST(RowProblem, memoryOfEveryPlanIsBetweenBothSums)
{
    for (const char* name :
         {"actor_critic", "gan", "two_losses", "multi_crop", "transformer", "llama_1b_bf16", "fsdp_llama"}) {
        SCOPED_TRACE(name);
        const Step step(name);
        std::mt19937 random(5);
        for (int i = 0; i < 30; ++i) {
            const OptionShares shares = randomOptions(step.problem, random);
            const Timeline predicted = *step.model.predict(step.problem.planOf(shares));
            EXPECT_LE(step.highest(shares, atLeast), predicted.peak) << i;
            EXPECT_GE(step.highest(shares, atMost), predicted.peak) << i;
            double ms = 0;
            for (const auto& [option, share] : shares)
                ms += step.problem.effectOf(option).recomputeMs;
            EXPECT_NEAR(ms, predicted.recomputeMs, 1e-9 * (1 + ms));
        }
    }
}

TEST(RowProblem, aRowIsTheMemoryAtItsEvent)
{
    const Step step("gan");
    std::mt19937 random(6);
    const OptionShares shares = randomOptions(step.problem, random);
    const std::vector<double> memory = step.problem.memoryUnder(shares, atMost);
    for (std::uint32_t event = 0; event < memory.size(); event += 7) {
        const RowProblem::Row row = step.problem.rowAt(event, atMost, 0);
        Bytes bytes = row.bytes;
        for (const auto& [option, share] : shares)
            bytes += step.problem.changeIn(row, option);
        EXPECT_EQ(static_cast<Bytes>(memory[event]), bytes) << event;
    }
}

TEST(RowProblem, modelsWithABackwardEachAreProblemsOfTheirOwn)
{
    const Step step("actor_critic");
    OptionSet all;
    for (std::size_t arc = 0; arc < step.problem.arcs().size(); ++arc)
        all.emplace_back(step.problem.optionCount(arc), true);
    std::vector<RowProblem::Row> rows;
    for (std::uint32_t event = 0; event < step.trace->events.size(); ++event)
        rows.push_back(step.problem.rowAt(event, atLeast, 0));
    const auto components = step.problem.components(rows, all);
    EXPECT_EQ(std::ranges::count_if(components, [](const auto& component) { return component.arcs.size() > 1; }), 2);
}

// Bounds are of the options that the planner has, and the plans within one percent of them.
TEST(RowPlanner, plansWhatTheChainPlannerCannot)
{
    for (const char* name : {"actor_critic", "gan", "two_losses", "multi_crop"}) {
        SCOPED_TRACE(name);
        const StepTracePtr trace
            = *readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + std::string(name) + ".hrs");
        const StepPlanner planner = *StepPlanner::create(trace);
        PlanRequest request;
        request.budget = 1;
        const Bytes least = planner.solve(request)->plan.leastBudget;
        const Bytes most = planner.recorded()->peak;
        double before = std::numeric_limits<double>::infinity();
        for (int i = 0; i < 10; ++i) {
            request.budget = least + (most - least) / 10 * i;
            const PlanAnswer step = *planner.solve(request, {}, 60000);
            ASSERT_NE(step.timeline, nullptr);
            EXPECT_LE(step.plan.peak, request.budget);
            EXPECT_LE(step.plan.gap, 0.01) << request.budget;
            EXPECT_LE(step.plan.boundMs, step.plan.recomputeMs);
            EXPECT_LE(step.plan.recomputeMs, before * 1.01);
            EXPECT_GE(step.plan.msPerGiB, 0);
            before = step.plan.recomputeMs;
        }
    }
}

TEST(RowPlanner, keepsPins)
{
    const Step step("actor_critic");
    const StepPlanner planner = *StepPlanner::create(step.trace);
    const char* name = "models.Stack.blocks.1.feed_forward";
    const ModuleId module = moduleNames(*step.trace).at(name);
    PlanRequest request;
    request.pins = {{name, Pin::recompute}};
    request.budget = 1;
    const Bytes least = planner.solve(request)->plan.leastBudget;
    request.pins.clear();
    EXPECT_LE(planner.solve(request)->plan.leastBudget, least);
    for (const Pin pin : {Pin::recompute, Pin::save}) {
        request.pins = {{name, pin}};
        for (const double share : {0.6, 0.75, 0.9}) {
            request.budget = static_cast<Bytes>(share * static_cast<double>(planner.recorded()->peak));
            const PlanAnswer planned = *planner.solve(request);
            ASSERT_NE(planned.timeline, nullptr) << share;
            const bool recomputed
                = std::ranges::find(planned.regions, module, &CheckpointRegion::module) != planned.regions.end();
            EXPECT_EQ(recomputed, pin == Pin::recompute) << share;
        }
    }
}

TEST(RowPlanner, saysThatNoPlanFits)
{
    const Step step("two_losses");
    const auto soon = SearchLimit::after(60000, {});
    const RowAnswer none = solveRows(step.problem, step.model.recorded()->peak / 8, atLeast, 0.005, soon);
    EXPECT_FALSE(none.plan);
    EXPECT_EQ(none.boundMs, std::numeric_limits<double>::infinity());
    const auto lean = minMemoryInRows(step.problem, step.model.recorded()->peak, soon);
    ASSERT_TRUE(lean);
    EXPECT_LT(step.model.predict(*lean)->peak, step.model.recorded()->peak / 2);
}

TEST(RowPlanner, endsInTime)
{
    const Step step("gan");
    const RowAnswer none
        = solveRows(step.problem, step.model.recorded()->peak / 2, atLeast, 0, SearchLimit::after(0, {}));
    EXPECT_FALSE(none.plan);
    EXPECT_EQ(none.boundMs, 0);
}

} // namespace
} // namespace headroom
