// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Plans of steps that are no chain, against predictions of the whole step.
#include "core/cost/op_issue.h"
#include "core/cost/time_model.h"
#include "core/policy/chain_completions.h"
#include "core/policy/chain_search.h"
#include "core/policy/draft_search.h"
#include "core/policy/policy_maker.h"
#include "core/policy/row_planner.h"
#include "core/policy/step_planner.h"
#include "core/predict/regions.h"
#include "core/predict/step_clock.h"
#include "core/trace/phase_times.h"
#include "core/trace/step_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace headroom {
namespace {

using enum RowProblem::Memory;

/// A recorded step (a file of tests/data/steps) and its problem.
struct Step
{
    explicit Step(const std::string& name)
        : Step(*readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + name + ".hrs"), false)
    {
    }

    Step(StepTracePtr step, bool offloads)
        : trace(std::move(step))
        , model(trace)
        , events(*trace)
        , tree(treeOf(offloads))
        , problem(*RowProblem::create(model, events, tree, 1, {}))
    {
    }

    PartTree treeOf(bool offloads) const
    {
        const PlanModules modules = *PlanModules::create(std::make_shared<const ModuleInfo>(*modulesToPlan(model)));
        PartTree made = PartTree::create(model, modules, *planUnits(modules, {}));
        made.offloads = offloads;
        return made;
    }

    Bytes highest(const OptionShares& shares, RowProblem::Memory memory) const
    {
        return static_cast<Bytes>(std::ranges::max(problem.memoryUnder(shares, memory)));
    }

    StepTracePtr trace;
    StepModel model;
    StorageEvents events;
    PartTree tree;
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
    for (const char* name : {"actor_critic", "gan", "two_losses", "multi_crop", "transformer", "llama_1b_bf16",
                             "fsdp_llama", "t5_3L_h100"}) {
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

TEST(RowProblem, noBytesAreAboveTheHighest)
{
    for (const char* name : {"gpt2_12L_h100", "lora_3L_h100", "llama_6L_h100", "gpt2_accumulated_h100"}) {
        const Step step(*readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + std::string(name) + ".hrs"), true);
        std::mt19937 random(5);
        const PlanMemory memory(step.problem, atLeast, randomOptions(step.problem, random));
        EXPECT_EQ(memory.sumAbove(memory.highest()), 0) << name;
        EXPECT_GE(memory.sumAbove(memory.highest() - 512), 512) << name;
    }
}

/// The problem of plans that hold the shared arguments that a plan holds.
RowProblem caseOf(RowProblem problem, const OptionShares& plan)
{
    for (const RowProblem::SharedArgument& argument : problem.shared()) {
        const bool isHeld = std::ranges::any_of(
            plan, [&](const auto& share) { return argument.holders[share.first.arc][share.first.option]; });
        auto [without, with] = problem.split();
        problem = isHeld ? std::move(with) : std::move(without);
    }
    EXPECT_FALSE(problem.canSplit());
    return problem;
}

// The position biases of T5's encoder and decoder, and what all layers of the decoder take from the encoder.
TEST(RowProblem, aPlanTakesTheSharedArgumentsThatItsCheckpointsHold)
{
    const StepTracePtr trace = *readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/t5_3L_h100.hrs");
    for (const bool offloads : {false, true}) {
        const Step step(trace, offloads);
        const RowProblem& problem = step.problem;
        ASSERT_GT(problem.shared().size(), 1);
        EXPECT_EQ(problem.shared()[0].bytes, 12 * 512 * 512 * sizeof(float)); // heads, positions
        std::mt19937 random(9);
        int higher = 0;
        for (int i = 0; i < 60; ++i) {
            const OptionShares shares = randomOptions(problem, random);
            const RowProblem own = caseOf(problem, shares);
            const auto most = std::ranges::max(own.memoryUnder(shares, atLeast));
            EXPECT_LE(static_cast<Bytes>(most), step.model.predict(problem.planOf(shares))->peak) << i;
            higher += static_cast<Bytes>(most) > step.highest(shares, atLeast) ? 1 : 0;
            EXPECT_EQ(PlanMemory(own, atLeast, shares).highest(), static_cast<Bytes>(most));
            EXPECT_LE(PlanMemory(own, atMost, shares).highest(), step.highest(shares, atMost));
            for (const auto& [option, share] : shares)
                EXPECT_TRUE(own.has(option));
        }
        EXPECT_GT(higher, 5);
    }
}

/// A recorded step with random times of its ops, another link to the host and a faster or slower CPU: other limits bind
/// then.
StepTracePtr varied(const std::string& name, std::mt19937& random)
{
    const StepTracePtr step = *readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + name + ".hrs");
    std::uniform_real_distribution<double> times(0.3, 1.7), link(4, 60), cpu(0.2, 3); // link: GB/s
    std::vector<double> ms;
    for (std::uint32_t op = 0; op < step->ops.size(); ++op)
        ms.push_back(step->ops.ms[OpId(op)] * times(random));
    const auto own = std::make_shared<StepTrace>(*withOpTimes(step, std::move(ms), step->info.gpu, ""));
    own->info.toHost = link(random);
    own->info.fromHost = link(random);
    own->info.cpuFactor = cpu(random);
    return own;
}

struct Measured
{
    Bytes peak = 0;
    double ms = 0; ///< recomputation and exposed copies
};

/// Plans that differ from good ones at each budget in a single option. The tensors leave and come back at random times.
std::vector<Measured> manyPlans(const Step& step, const std::vector<Bytes>& budgets, std::mt19937& random)
{
    const RowProblem& problem = step.problem;
    CopyLimits copies;
    copies.link = hostLinkOf(step.trace->info);
    copies.forwardMs.assign(problem.positions(), forwardBackwardMs(*step.trace) / 3 / double(problem.positions()));
    copies.backwardMs = copies.forwardMs;
    std::vector<OptionShares> plans;
    for (const Bytes budget : budgets) {
        const RowAnswer good
            = solveRows(problem, budget, atMost, 0.01, SearchLimit::after(100, {}), copies, 1e9, {}, 100);
        for (int i = 0; i < 30 && good.plan; ++i) {
            ArcOption& other = plans.emplace_back(good.options)[random() % good.options.size()].first;
            if (i > 0)
                other.option = random() % problem.optionCount(other.arc);
        }
    }
    std::vector<Measured> found;
    for (const OptionShares& options : plans) {
        CheckpointPlan plan = problem.planOf(options);
        for (int i = 0; i < 4; ++i) {
            const Timeline timeline = *step.model.predict(plan);
            found.push_back({timeline.peak, timeline.recomputeMs + clockOf(*step.trace, plan)->exposedCopyMs});
            for (CheckpointRegion& region : plan)
                if (region.offload)
                    region.offload = Offload{static_cast<int>(random() % 6), static_cast<int>(random() % 6), true,
                                             static_cast<int>(random() % 12)};
        }
    }
    return found;
}

TEST(OffloadBound, noPlanTakesLess)
{
    std::mt19937 random(5);
    for (const char* name : {"llama_6L_h100", "gpt2_12L_h100", "lora_3L_h100", "t5_3L_h100", "t5_3L_h100", "t5_3L_h100",
                             "gpt2_accumulated_h100", "gpt2_accumulated_h100"}) {
        const Step step(varied(name, random), true);
        const StepPlanner planner = *StepPlanner::create(step.trace);
        PlanRequest request;
        request.offload = true;
        request.budget = 1;
        const Bytes least = planner.solve(request)->plan.leastBudget;
        std::vector<Bytes> budgets;
        std::vector<double> bounds;
        std::vector<Measured> found;
        for (int i = 0; i < 12; ++i) {
            request.budget = least + (planner.recorded()->peak - least) / 12 * i;
            const PlanAnswer answer = *planner.solve(request, {}, i % 3 == 0 ? 200 : 40); // also later bounds
            if (!answer.fits())
                continue;
            budgets.push_back(request.budget);
            bounds.push_back(answer.plan.boundMs);
            found.push_back({answer.timeline->peak, answer.plan.recomputeMs + answer.plan.offload.exposedMs});
        }
        ASSERT_GT(budgets.size(), 8U);
        std::ranges::copy(manyPlans(step, budgets, random), std::back_inserter(found));
        for (const Measured& plan : found)
            for (std::size_t i = 0; i < budgets.size(); ++i)
                if (plan.peak <= budgets[i]) {
                    EXPECT_GE(plan.ms, bounds[i] * (1 - 1e-9)) << name << ", " << budgets[i];
                }
    }
}

/// The limits of a bound, with the times of each option.
CopyLimits limitsOfOptions(const Step& step)
{
    const EventTimes times = eventTimes(*step.trace, step.model.index());
    CopyLimits limits = copyLimits(step.model, times, step.tree, step.problem);
    const CopySchedule schedule(step.model, times, step.tree);
    std::vector<std::vector<CopyLimits::Own>> own;
    for (std::size_t arc = 0; arc < step.problem.arcs().size(); ++arc) {
        own.emplace_back(step.problem.optionCount(arc));
        for (std::size_t option = 0; option < own[arc].size(); ++option)
            limits.setTimes(own[arc][option], step.problem, {arc, option}, schedule);
    }
    limits.own = std::make_shared<const std::vector<std::vector<CopyLimits::Own>>>(std::move(own));
    return limits;
}

// A relaxation that takes both the encoder as a whole and its blocks.
TEST(DraftSearch, roundsAModuleAroundPartsBothWays)
{
    const Step step(*readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/t5_3L_h100.hrs"), true);
    const EventTimes times = eventTimes(*step.trace, step.model.index());
    const CopyLimits copies = copyLimits(step.model, times, step.tree, step.problem);
    const CopySchedule schedule(step.model, times, step.tree);
    const DraftSearch drafts(step.problem, schedule, copies, atMost, step.model.recorded()->peak, 1, {});
    OptionShares shares;
    for (std::size_t arc = 0; arc < step.problem.arcs().size(); ++arc) {
        const auto [first, last] = std::pair(step.problem.arcs()[arc].first, step.problem.arcs()[arc].last);
        if (first + 1 == last)
            shares.push_back({{arc, 0}, first < 3 ? 0.4 : 1.0});
        if (first == 0 && last == 3)
            shares.push_back({{arc, 0}, 0.6});
    }
    const std::vector<DraftSearch::Draft> both = drafts.rounded(shares);
    ASSERT_EQ(both.size(), 2);
    EXPECT_EQ(both[0].options.size(), 6); // blocks of the encoder and the decoder
    EXPECT_EQ(both[1].options.size(), 4);
    std::erase_if(shares, [](const auto& share) { return share.second == 0.6; });
    EXPECT_EQ(drafts.rounded(shares).size(), 1);
    EXPECT_TRUE(drafts.rounded({}).empty());
}

TEST(ChainSearch, noPlanIsQuickerThanABoundAtAnyWidth)
{
    std::mt19937 random(8);
    int found = 0, better = 0, counted = 0;
    for (const char* name :
         {"lora_3L_h100", "lora_3L_h100", "gpt2_12L_h100", "llama_6L_h100", "t5_3L_h100", "gpt2_accumulated_h100"}) {
        SCOPED_TRACE(name);
        const Step step(varied(name, random), true);
        const CopyLimits limits = limitsOfOptions(step);
        const double recorded = std::ranges::max(step.problem.memoryUnder({}, atLeast));
        const SearchLimit limit = SearchLimit::after(20000, {});
        for (const double share : {0.95, 0.9}) {
            const auto budget = static_cast<Bytes>(recorded * share);
            RowHints hints;
            const RowAnswer relaxed = relaxRows(step.problem, budget, atLeast, limit, limits, hints);
            if (!relaxed.reduced)
                continue; // too little memory
            const ChainSearch search({step.problem, limits, *relaxed.reduced, budget});
            const double belowMs = 1.1 * relaxed.boundMs + 0.1;
            double bestMs = belowMs;
            for (const std::size_t width : {32, 256, 1024})
                for (const ChainSearch::Found& plan : search.plansBelow(belowMs, hints.events, atMost, width, limit)) {
                    const std::vector<double> memory = step.problem.memoryUnder(plan.options, atMost);
                    for (const std::uint32_t event : hints.events)
                        EXPECT_LE(memory[event], static_cast<double>(budget) * (1 + 4e-6));
                    EXPECT_LT(plan.ms, belowMs);
                    bestMs = std::min(bestMs, plan.ms);
                }
            found += bestMs < belowMs ? 1 : 0;
            for (const std::size_t width : {4, 32, 256, 1024})
                for (const double ms : {belowMs, bestMs, 0.99 * bestMs}) {
                    const ChainSearch::Bound bound = search.boundBelow(ms, width, limit);
                    EXPECT_LE(bound.ms, std::min(ms, bestMs)) << width;
                    better += bound.ms > relaxed.boundMs ? 1 : 0;
                }
            for (const double limitMs : {0.0, 0.01, 0.1, 0.5, 2.0, 8.0}) // of a bound that is not complete
                EXPECT_LE(search.boundBelow(belowMs, 32, SearchLimit::after(limitMs, {})).ms, bestMs) << limitMs;
            EXPECT_EQ(search.boundBelow(belowMs, 32, SearchLimit::after(0, {})).ms, 0);
            const CountSearch counts({step.problem, limits, *relaxed.reduced, budget});
            for (const double ms : {belowMs, bestMs, 0.99 * bestMs})
                for (const double limitMs : {0.1, 1.0, 10.0, 1000.0}) {
                    const auto ignore = [ms](const OptionShares&) { return ms; };
                    const double bound = counts.boundBelow(ms, SearchLimit::after(limitMs, {}), ignore);
                    EXPECT_LE(bound, std::min(ms, bestMs)) << ms;
                    counted += bound > relaxed.boundMs ? 1 : 0;
                }
        }
    }
    EXPECT_GT(found, 3);
    EXPECT_GT(better, 40);
    EXPECT_GT(counted, 40);
}

/// Adds what is left, and the cost, of all ways from a position to the end of a chain of three positions.
void addWays(std::vector<std::pair<float, float>>& ways, const std::vector<ChainCompletions::Option>& options,
             std::size_t position, float left, float cost)
{
    if (position == 3)
        ways.emplace_back(left, cost);
    for (const ChainCompletions::Option& option : options)
        if (option.first == position)
            addWays(ways, options, option.last, left - option.units, cost + option.cost);
}

TEST(ChainCompletions, noRestOfAPlanCostsLess)
{
    std::mt19937 random(3);
    std::uniform_real_distribution<float> costs(0, 1), units(-9, 4), lefts(-30, 15);
    constexpr float price = 0.1F, tolerance = 0.01F;
    double lowered = 0;
    int compared = 0;
    for (int i = 0; i < 40; ++i) {
        std::vector<ChainCompletions::Option> options;
        for (const auto& [first, last] : {std::pair(0, 1), {0, 2}, {1, 2}, {2, 3}})
            for (int number = 0; number < 6; ++number)
                options.push_back({at(first), at(last), costs(random), units(random)});
        for (const float width : {0.05F, 1.0F}) {
            const ChainCompletions completions(options, 3, {-27, 12, width}, price, tolerance);
            for (int state = 0; state < 50; ++state) {
                const std::size_t position = random() % 4;
                const float left = std::clamp(lefts(random), -9.0F * static_cast<float>(3 - position),
                                              4.0F * static_cast<float>(3 - position));
                std::vector<std::pair<float, float>> ways;
                addWays(ways, options, position, left, 0);
                float least = std::numeric_limits<float>::infinity();
                for (const auto& [unused, cost] : ways)
                    if (unused >= -tolerance)
                        least = std::min(least, cost + price * std::max(0.0F, unused));
                const float found = completions.least(position, left);
                EXPECT_LE(found, least + 1e-5F);
                if (width < 0.1F && least < 1e9F) {
                    lowered += least - found;
                    ++compared;
                }
            }
        }
    }
    EXPECT_GT(compared, 500);
    EXPECT_LT(lowered / compared, 0.03);
}

// Without waits for copies and recomputation, a plan is later than the recorded step at most by its idle time.
TEST(OffloadBound, theDeviceWaitsNoLongerForTheCpu)
{
    std::mt19937 random(7);
    int idle = 0;
    for (const char* name : {"gpt2_12L_h100", "lora_3L_h100", "lora_3L_h100", "t5_3L_h100", "t5_3L_h100",
                             "gpt2_accumulated_h100", "gpt2_accumulated_h100"}) {
        SCOPED_TRACE(name);
        const Step step(varied(name, random), true);
        const EventTimes times = eventTimes(*step.trace, step.model.index());
        const CopyLimits limits = copyLimits(step.model, times, step.tree, step.problem);
        const CopySchedule schedule(step.model, times, step.tree);
        ASSERT_TRUE(limits.isChain);
        for (int i = 0; i < 60; ++i) {
            const OptionShares options = randomOptions(step.problem, random);
            CheckpointPlan plan = step.problem.planOf(options);
            for (CheckpointRegion& region : plan)
                if ((region.offload || region.hosted) && i % 2 == 0) // the device waits for no copy in forward
                    (region.offload ? *region.offload : region.hosted->when) = Offload{100, 100};
            double outMs = 0, inMs = 0;
            for (const auto& [option, share] : options) {
                CopyLimits::Own own;
                limits.setTimes(own, step.problem, option, schedule);
                outMs += own.idleOutMs;
                inMs += own.againMs + own.idleInMs;
            }
            const Regions regions = *layOut(*step.trace, step.model.index(), plan);
            const StepClock clock = *clockOf(*step.trace, plan);
            for (std::size_t region = 0; region < clock.offloads.size(); ++region) {
                const TimedOffload& offload = clock.offloads[region];
                const StepIndex::Call& call = step.model.index().calls[regions.regions[region].call.value];
                const std::uint32_t unpack = firstUnpackOf(step.model.index(), call);
                // A later micro-batch's forward follows a backward.
                const double moreMs = clock.exposedCopyMs + outMs + (limits.microBatches > 1 ? inMs : 0) + 1e-9;
                EXPECT_LE(offload.forwardEndMs, times.gpuMs[call.exit] + moreMs);
                if (unpack != StepIndex::never) {
                    EXPECT_LE(offload.backwardBeginMs, times.gpuMs[unpack] + moreMs + inMs);
                }
                idle += offload.forwardEndMs > times.gpuMs[call.exit] + clock.exposedCopyMs + 1e-6 ? 1 : 0;
            }
        }
    }
    EXPECT_GT(idle, 0);
}

TEST(ModulesAfter, areTheHeadOfAModel)
{
    const std::pair<const char*, std::vector<std::string_view>> expected[] = {
        {"t5_3L_h100", {"T5ForConditionalGeneration.decoder.final_layer_norm", "T5ForConditionalGeneration.lm_head"}},
        {"gpt2_12L_h100", {"Net.norm", "Net.head"}},
        {"gpt2_accumulated_h100", {"GPT2LMHeadModel.transformer.ln_f", "GPT2LMHeadModel.lm_head"}},
        {"gan", {"models.Stack_2.head"}},
        {"demo_mlp", {}}};
    for (const auto& [name, modules] : expected) {
        const Step step(name);
        const ModulesAfter after = modulesAfter(step.model, step.tree);
        std::vector<std::string_view> found;
        for (const ModuleId module : after.modules)
            found.push_back(step.trace->moduleFqn(module));
        EXPECT_EQ(found, modules) << name;
        EXPECT_EQ(!after.calls.empty() && after.calls.front().exit > 0, !modules.empty());
        EXPECT_EQ(!after.calls.empty() && after.calls.front().firstUnpack < StepIndex::never, !modules.empty());
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
    ASSERT_FALSE(lean.empty());
    EXPECT_LT(step.model.predict(step.problem.planOf(lean))->peak, step.model.recorded()->peak / 2);
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
