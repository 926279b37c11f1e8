// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What the exact planner believes of a step against predictions of the whole step.
#include "core/plan/chain_planner.h"
#include "core/policy/option_table.h"
#include "core/policy/policy_maker.h"
#include "core/policy/save_sets.h"
#include "core/policy/shard_options.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_file.h"
#include "tests/core/random_path.h"
#include "tests/core/synthetic_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>

namespace headroom {
namespace {

/// One step, its parts and its table.
struct Planned
{
    explicit Planned(const SyntheticOptions& options, const PlanRequest& request = {})
        : Planned(makeSyntheticStep(options), request)
    {
    }

    /// A recorded step: a file of tests/data/steps.
    explicit Planned(const std::string& name)
        : Planned(*readStepTrace(HEADROOM_SOURCE_DIR "/tests/data/steps/" + name), {})
    {
    }

    Planned(StepTracePtr step, const PlanRequest& request)
        : trace(std::move(step))
        , model(trace)
        , events(*trace)
        , modules(*PlanModules::create(std::make_shared<const ModuleInfo>(*moduleInfo(*trace))))
        , worldSize(request.worldSize)
    {
        tree = PartTree::create(model, modules, *planUnits(modules, request));
        table = std::make_unique<const OptionTable>(
            *OptionTable::create(model, events, tree, worldSize, StepLayout::SharedArguments::held));
    }

    Timeline predicted(const ChainPath& path) const { return perRank(*model.predict(table->planOf(path)), worldSize); }

    StepTracePtr trace;
    StepModel model;
    StorageEvents events;
    PlanModules modules;
    int worldSize;
    PartTree tree;
    std::unique_ptr<const OptionTable> table;
};

TEST(OptionTable, memoryAndTimeOfEveryPlanAreThePredictions)
{
    std::mt19937 random(7);
    for (const int worldSize : {1, 4})
        for (const SyntheticOptions& options :
             {SyntheticOptions{.blocks = 12}, SyntheticOptions{.blocks = 9, .activation = MiB, .weight = 8 * MiB},
              SyntheticOptions{.blocks = 12, .activation = 2 * MiB, .weight = MiB, .adapter = 64 * KiB},
              SyntheticOptions{.blocks = 12, .adapter = 64 * KiB, .microBatches = 3}}) {
            PlanRequest request;
            request.worldSize = worldSize;
            const Planned planned(options, request);
            const ChainProblem& problem = planned.table->problem();
            ASSERT_EQ(problem.positions, options.blocks);
            EXPECT_TRUE(planned.table->exact());
            // The output that a frozen head saves nothing of makes the last layer another.
            const int equal = options.blocks - (options.adapter > 0 ? 1 : 0);
            for (int layer = 0; layer < equal; ++layer)
                EXPECT_EQ(problem.classes[static_cast<std::size_t>(layer)], problem.classes.front()) << layer;
            for (int i = 0; i < 40; ++i) {
                const ChainPath path = randomPath(problem, random);
                const Timeline timeline = planned.predicted(path);
                EXPECT_EQ(valueOf(problem, path).peak, timeline.peak) << "world size " << worldSize << ", plan " << i;
                EXPECT_NEAR(milliseconds(valueOf(problem, path).time), timeline.recomputeMs, 1e-6);
            }
        }
}

/// The first recomputation in backward empties autocast's cache, of other layers' casts, too: what a plan takes is less
/// than its layers' effects say, and at least what the relaxed problem says.
TEST(OptionTable, backwardInsideOfAutocastIsNotExact)
{
    const Planned planned(
        {.blocks = 6, .activation = MiB, .weight = 8 * MiB, .adapter = 64 * KiB, .backwardInAutocast = true});
    EXPECT_FALSE(planned.table->exact());
    std::mt19937 random(7);
    bool less = false;
    for (int i = 0; i < 60; ++i) {
        const ChainPath path = randomPath(planned.table->problem(), random);
        const Bytes peak = planned.predicted(path).peak;
        EXPECT_LE(valueOf(planned.table->relaxed(), path).peak, peak) << i;
        EXPECT_GE(valueOf(planned.table->problem(), path).peak, peak) << i;
        less = less || peak < valueOf(planned.table->problem(), path).peak;
    }
    EXPECT_TRUE(less);
}

/// T5 keeps keys and values in a cache until the loss is there: a decoder layer that is checkpointed holds more then
/// than when backward begins, and memory is highest at the one time or at the other.
TEST(OptionTable, whatIsHeldWhereMemoryMayBeHighestCounts)
{
    const Planned planned("t5_base.hrs");
    ASSERT_TRUE(planned.table->otherBoundary());
    const OptionTable other
        = *OptionTable::create(planned.model, planned.events, planned.tree, 1, StepLayout::SharedArguments::held, {},
                               planned.table->otherBoundary());
    const Bytes least = leastBudget(planned.table->problem());
    const Bytes most = planned.model.recorded()->peak;
    const auto solved = [](const ChainProblem& problem, Bytes budget) {
        return solveChain(problem, budget, {{}, 300, 0, std::nullopt});
    };
    const Bytes low = least + (most - least) / 8;
    const ChainAnswer there = solved(planned.table->problem(), low);
    const ChainAnswer here = solved(other.problem(), low);
    EXPECT_LE(planned.model.predict(other.planOf(here.path))->peak, low);
    EXPECT_LT(here.value.time, there.bound) << "with one boundary memory is said to be higher than it is";
    const Bytes high = most - (most - least) / 4;
    EXPECT_LE(planned.predicted(solved(planned.table->relaxed(), high).path).peak, high);
    std::mt19937 random(7);
    for (const OptionTable* table : {planned.table.get(), &other}) {
        ASSERT_TRUE(table->relaxedElsewhere());
        for (int i = 0; i < 40; ++i) {
            const ChainPath path = randomPath(table->problem(), random);
            EXPECT_LE(valueOf(*table->relaxedElsewhere(), path).peak, planned.model.predict(table->planOf(path))->peak);
        }
    }
}

TEST(OptionTable, noOptionIsBeatenByOneWhoseOwnMemoryNeverDecides)
{
    for (const char* name : {"gpt2_small.hrs", "bert_base.hrs"}) {
        SCOPED_TRACE(name);
        const Planned planned(name);
        const ChainProblem& problem = planned.table->problem();
        const auto unbound = unboundOptions(problem);
        int compared = 0;
        for (std::size_t arc = 0; arc < problem.arcs.size(); ++arc) {
            const std::vector<ChainOption>& options = problem.arcs[arc].options;
            if (!std::ranges::all_of(unbound[arc], std::identity()))
                continue; // a layer may keep what another one like it needs
            for (std::size_t a = 0; a < options.size(); ++a)
                for (std::size_t b = 0; b < options.size(); ++b, ++compared)
                    EXPECT_TRUE(a == b || options[a].held > options[b].held || options[a].time > options[b].time);
        }
        EXPECT_GT(compared, 200);
    }
}

/// Two blocks have few enough plans to predict them all.
TEST(OptionTable, theOptimumIsTheBestOfAllPlansPredicted)
{
    for (const Bytes activation : {Bytes{256 * KiB}, Bytes{2 * MiB}, Bytes{16 * MiB}}) {
        const Planned planned({.blocks = 2, .elementwise = 1, .activation = activation, .weight = MiB});
        const ChainProblem& problem = planned.table->problem();
        std::multimap<Bytes, double> predicted; // peak, time of every plan
        for (const ChainArc& first : problem.arcs)
            for (std::size_t a = 0; a < first.options.size() && first.first == 0; ++a) {
                const int arc = static_cast<int>(&first - problem.arcs.data());
                for (std::size_t second = 0; second < problem.arcs.size(); ++second)
                    for (std::size_t b = 0; b < problem.arcs[second].options.size(); ++b) {
                        ChainPath path{{arc, static_cast<int>(a)}};
                        if (first.last == 1 && problem.arcs[second].first == 1)
                            path.push_back({static_cast<int>(second), static_cast<int>(b)});
                        else if (first.last == 1 || second > 0 || b > 0)
                            continue;
                        const Timeline timeline = planned.predicted(path);
                        predicted.emplace(timeline.peak, timeline.recomputeMs);
                    }
            }
        ASSERT_GT(predicted.size(), 50U);
        EXPECT_EQ(leastBudget(problem), predicted.begin()->first);
        double least = std::numeric_limits<double>::infinity();
        for (auto plan = predicted.begin(); plan != predicted.end(); ++plan) {
            least = std::min(least, plan->second);
            if (std::next(plan) != predicted.end() && std::next(plan)->first == plan->first)
                continue;
            const ChainAnswer answer = solveChain(problem, plan->first);
            ASSERT_EQ(answer.status, ChainStatus::optimal);
            EXPECT_NEAR(milliseconds(answer.value.time), least, 1e-6) << "at " << groupedDigits(plan->first);
            EXPECT_LE(planned.predicted(answer.path).peak, plan->first);
        }
    }
}

TEST(OptionTable, pinsAndUnitsLimitTheOptions)
{
    PlanRequest request;
    request.pins = {{"Transformer.layers.1", Pin::recompute}, {"Transformer.layers.2", Pin::save}};
    const Planned pinned({.blocks = 4}, request);
    ASSERT_EQ(pinned.table->problem().positions, 3) << "what must be kept is no part";
    std::mt19937 random(3);
    for (int i = 0; i < 20; ++i) {
        bool recomputed = false;
        for (const CheckpointRegion& region : pinned.table->planOf(randomPath(pinned.table->problem(), random))) {
            const std::string_view fqn = pinned.trace->moduleFqn(region.module);
            EXPECT_FALSE(fqn.starts_with("Transformer.layers.2")) << fqn;
            recomputed = recomputed || fqn == "Transformer.layers.1";
        }
        EXPECT_TRUE(recomputed);
    }
    PlanRequest units;
    units.acUnits = {"Transformer.layers.0.attention", "Transformer.layers.3"};
    const Planned limited({.blocks = 4}, units);
    for (int i = 0; i < 20; ++i)
        for (const CheckpointRegion& region : limited.table->planOf(randomPath(limited.table->problem(), random))) {
            const std::string_view fqn = limited.trace->moduleFqn(region.module);
            EXPECT_TRUE(fqn == units.acUnits[0] || fqn == units.acUnits[1]) << fqn;
        }
}

/// An op that runs again draws the numbers of the forward only if all random ops before it run again too.
TEST(SaveSets, keepNoRandomOpThatAnotherFollows)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 2});
    const StepModel model(trace);
    for (std::uint32_t module = 0; module < trace->modules.size(); ++module) {
        const std::vector<OpId> ops = model.regionOps(ModuleId(module));
        const std::vector<bool> savable = model.savableOps(ModuleId(module));
        if (ops.empty())
            continue;
        std::map<std::size_t, double> again;
        for (const SavableOp& op : savableOpsThatRunAgain(model, ModuleId(module)))
            again[op.op] = op.ms;
        const auto bytes = [&](const SavableOp& op) {
            Bytes sum = 0;
            for (const StorageId storage : trace->ops.outputs[ops[op.op]])
                sum += trace->storages.bytes[storage];
            return sum;
        };
        const auto sets = saveSets(model, ModuleId(module), bytes, 1000);
        ASSERT_FALSE(sets.empty());
        for (const std::vector<bool>& save : sets) {
            ASSERT_EQ(save.size(), ops.size());
            bool kept = false;
            for (std::size_t op = 0; op < ops.size(); ++op) {
                EXPECT_TRUE(!save[op] || savable[op]);
                const bool random = (trace->ops.flags[ops[op]] & opRandom) != 0;
                if (random && kept && again.contains(op)) {
                    EXPECT_TRUE(save[op]) << trace->moduleFqn(ModuleId(module)) << ", op " << op;
                }
                kept = kept || (random && save[op]);
            }
        }
    }
}

/// Sets of thousands of ops are kept as links to smaller sets, and unused links are dropped on the way.
TEST(SaveSets, ofThousandsOfOpsAreNotDominated)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 1, .elementwise = 4000});
    const StepModel model(trace);
    const ModuleId part = moduleNames(*trace).at("Transformer.layers.0.feed_forward");
    const std::vector<SavableOp> ops = savableOpsThatRunAgain(model, part);
    ASSERT_GT(ops.size(), 3000U);
    const auto bytes = [](const SavableOp& op) { return static_cast<Bytes>(1000 + op.op * 7919 % 4001); };
    const auto sets = saveSets(model, part, bytes, 1000);
    ASSERT_GT(sets.size(), 900U);
    Bytes least = -1;
    double shortest = -1;
    for (const std::vector<bool>& save : sets) {
        Bytes sum = 0;
        double ms = 0;
        for (const SavableOp& op : ops) {
            sum += save[op.op] ? bytes(op) : 0;
            ms += save[op.op] ? op.ms : 0;
        }
        EXPECT_GT(sum, least);
        EXPECT_GT(ms, shortest);
        least = sum;
        shortest = ms;
    }
}

/// Memory and time of the planner do not grow with the ops of a part times the sets of saved ops.
TEST(OptionTable, aLargePartHasFewerOptions)
{
    const auto optionsOf = [](int ops) {
        const Planned large(SyntheticOptions{.blocks = 1, .elementwise = ops});
        std::size_t most = 0;
        for (const ChainArc& arc : large.table->problem().arcs)
            most = std::max(most, arc.options.size());
        return most;
    };
    const std::size_t few = optionsOf(20'000), more = optionsOf(1000);
    EXPECT_GT(few, 16U);
    EXPECT_LT(few, 250U);
    EXPECT_GT(more, 4 * few);
}

/// A part's effect is what the whole step's prediction changes, event by event.
TEST(LocalReplay, effectsOfAllPartsAddUpToThePrediction)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 3});
    const StepModel model(trace);
    const StorageEvents events(*trace);
    const std::vector<bool> nothingShared(trace->storages.size(), false);
    LocalNotes notes;
    std::vector<std::vector<std::uint64_t>> signatures;
    for (std::uint32_t module = 0; module < trace->modules.size(); ++module) {
        if (trace->strings[trace->modules.type[ModuleId(module)]] != "TransformerBlock")
            continue;
        const LocalReplay part(model, events, ModuleId(module), nothingShared, notes);
        signatures.push_back(part.signature());
        const CheckpointPlan plan{{ModuleId(module), {}}};
        const LocalEffect effect = *part.of(plan, notes);
        const Timeline whole = *model.predict(plan);
        EXPECT_EQ(effect.recomputeMs, whole.recomputeMs);
        ASSERT_EQ(effect.changes.size(), part.events().size());
        EXPECT_EQ(effect.changes.back().after, 0) << "after the step all is as without a plan";
        // The least that the part changes is what is missing right after forward.
        Bytes missing = 0;
        for (std::size_t snapshot = 0; snapshot < whole.snapshots.size(); ++snapshot)
            if (whole.snapshots[snapshot].mark == Mark::forwardEnd)
                missing = total(whole.snapshots[snapshot].bytes) - total(model.recorded()->snapshots[snapshot].bytes);
        Bytes least = 0;
        for (const LocalEffect::Change& change : effect.changes)
            least = std::min(least, change.after);
        EXPECT_LT(missing, 0);
        EXPECT_EQ(least, missing);
        const LocalEffect none = *part.of({}, notes);
        for (const LocalEffect::Change& change : none.changes)
            EXPECT_EQ(change.after, 0);
    }
    ASSERT_EQ(signatures.size(), 3U);
    EXPECT_EQ(signatures[0], signatures[1]);
    EXPECT_EQ(signatures[1], signatures[2]);
}

/// Autocast's cache lets go of each layer's casts in another order. The last layer, of whose output a frozen head saves
/// nothing, is another.
TEST(LocalReplay, layersWithAdaptersUnderAutocastAreEqual)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 6, .adapter = 64 * KiB});
    const StepModel model(trace);
    const StorageEvents events(*trace);
    LocalNotes notes;
    const ModuleNames names = moduleNames(*trace);
    std::set<std::vector<std::uint64_t>> signatures;
    for (int layer = 0; layer < 5; ++layer) {
        const LocalReplay part(model, events, names.at("Transformer.layers." + std::to_string(layer)),
                               std::vector<bool>(trace->storages.size()), notes);
        signatures.insert(part.signature());
    }
    EXPECT_EQ(signatures.size(), 1U);
}

/// Micro-batches are replayed once, unless one of them is another.
TEST(LocalReplay, equalMicroBatchesAreReplayedOnce)
{
    std::map<int, std::size_t> changes; // by number of micro-batches
    for (const int microBatches : {1, 4}) {
        const StepTracePtr trace = makeSyntheticStep({.blocks = 2, .adapter = 64 * KiB, .microBatches = microBatches});
        const StepModel model(trace);
        const StorageEvents events(*trace);
        LocalNotes notes;
        const ModuleId layer = moduleNames(*trace).at("Transformer.layers.1");
        const LocalReplay part(model, events, layer, std::vector<bool>(trace->storages.size()), notes);
        changes[microBatches] = part.changes();
        EXPECT_EQ(part.events().size(), part.changes() * static_cast<std::size_t>(microBatches));
        const CheckpointPlan plan{{layer, {}}};
        EXPECT_DOUBLE_EQ(part.of(plan, notes)->recomputeMs, model.predict(plan)->recomputeMs);
    }
    EXPECT_EQ(changes[1], changes[4]);
}

/// What the units of a layer do together is predicted only where they concern the same storages.
TEST(LocalReplay, modulesThatShareNoStorageDoTogetherWhatEachDoes)
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 2, .adapter = 64 * KiB});
    const StepModel model(trace);
    const StorageEvents events(*trace);
    LocalNotes notes;
    const ModuleNames names = moduleNames(*trace);
    const LocalReplay part(model, events, names.at("Transformer.layers.1"), std::vector<bool>(trace->storages.size()),
                           notes);
    const ModuleId attention = names.at("Transformer.layers.1.attention");
    const ModuleId feedForward = names.at("Transformer.layers.1.feed_forward");
    std::vector<StorageId> both;
    std::ranges::set_intersection(part.storagesOf(attention), part.storagesOf(feedForward), std::back_inserter(both));
    ASSERT_TRUE(both.empty());
    const LocalEffect one = *part.of({{attention, {}}}, notes);
    const LocalEffect other = *part.of({{feedForward, {}}}, notes);
    const LocalEffect together = *part.of({{attention, {}}, {feedForward, {}}}, notes);
    for (std::size_t i = 0; i < together.changes.size(); ++i) {
        EXPECT_EQ(together.changes[i].after, one.changes[i].after + other.changes[i].after);
        EXPECT_EQ(together.changes[i].high, one.changes[i].high + other.changes[i].high);
    }
}

} // namespace
} // namespace headroom
