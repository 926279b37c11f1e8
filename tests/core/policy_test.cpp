// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/policy.h"

#include "core/predict/step_model.h"
#include "core/sac/step_sac.h"
#include "core/sac/step_statistics.h"
#include "tests/core/synthetic_step.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModuleId moduleOf(const StepTrace& trace, std::string_view fqn)
{
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module)
        if (trace.moduleFqn(ModuleId(module)) == fqn)
            return ModuleId(module);
    ADD_FAILURE() << "no module " << fqn;
    return {};
}

Plan planWith(std::map<std::string, double> decisions)
{
    Plan plan;
    plan.status = PlanStatus::optimal;
    plan.budget = 10 * GiB;
    plan.worldSize = 2;
    plan.peak = 9 * GiB;
    plan.recomputeMs = 1.5;
    plan.decisions = std::move(decisions);
    return plan;
}

Policy policyWith(const StepTrace& trace, std::map<std::string, double> decisions)
{
    const Result<Policy> policy = makePolicy(trace, planWith(std::move(decisions)));
    EXPECT_TRUE(policy.ok()) << policy.error().message;
    return policy.ok() ? *policy : Policy{};
}

Policy smallPolicy()
{
    Policy policy;
    policy.model = "demo:\"quoted\"";
    policy.torch = "2.11.0";
    policy.budget = 1717986918;
    policy.worldSize = 4;
    policy.predicted = {1717000000, 6.9241227, 0};
    policy.modules = {{"Net.a", 0.5, {{"aten.mm.default", 0, true}, {"aten.t.default", 0, false}}}, {"Net.b", 1, {}}};
    return policy;
}

constexpr auto smallJson = R"({
  "budget_bytes": 1717986918,
  "headroom_policy": 1,
  "model": "demo:\"quoted\"",
  "modules": [
    {
      "discard_ratio": 0.5,
      "fqn": "Net.a",
      "ops": [
        {"index": 0, "op": "aten.mm.default", "save": true},
        {"index": 0, "op": "aten.t.default", "save": false}
      ]
    },
    {
      "discard_ratio": 1.0,
      "fqn": "Net.b",
      "ops": []
    }
  ],
  "predicted": {"gap": 0.0, "peak_bytes": 1717000000, "recompute_ms": 6.9241227},
  "torch": "2.11.0",
  "world_size": 4
}
)";

TEST(PolicyJson, hasSortedKeysAndOneOpALine)
{
    EXPECT_EQ(toJson(smallPolicy()), smallJson);
    EXPECT_THAT(toJson(Policy{}), HasSubstr("\"modules\": [],"));
}

/// What was written and read again.
Policy again(const Policy& policy)
{
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "policy.json";
    EXPECT_TRUE(writePolicy(policy, path).ok());
    const Result<Policy> read = readPolicy(path);
    EXPECT_TRUE(read.ok()) << read.error().message;
    return read.ok() ? *read : Policy{};
}

TEST(PolicyJson, isReadAsItWasWritten)
{
    const Policy read = again(smallPolicy());
    EXPECT_EQ(toJson(read), smallJson);
    EXPECT_EQ(read.worldSize, 4);
    EXPECT_EQ(read.predicted.peak, 1717000000);
    ASSERT_EQ(read.modules.size(), 2U);
    EXPECT_TRUE(read.modules[0].ops[0].save);
}

TEST(PolicyJson, saysWhichObjectsAndClasses)
{
    Policy policy = smallPolicy();
    policy.objects = {"Net", "Net_2", "Net_3"};
    policy.objectsLeft = {"Net_2"};
    policy.memoryReaders = {"Net.a"};
    policy.modules[0].types = {"Net", "Attention"};
    const std::string json = toJson(policy);
    EXPECT_THAT(json, HasSubstr("      ],\n      \"types\": [\"Net\", \"Attention\"]\n    },\n"));
    EXPECT_THAT(json,
                HasSubstr("  ],\n  \"objects\": [\"Net\", \"Net_2\", \"Net_3\"],\n"
                          "  \"objects_left\": [\"Net_2\"],\n  \"predicted\""));
    EXPECT_THAT(json, HasSubstr("\n  \"memory_readers\": [\"Net.a\"],\n  \"model\""));
    EXPECT_EQ(toJson(again(policy)), json);
}

TEST(PolicyJson, saysHowItRunsOnTheCard)
{
    Policy policy = smallPolicy();
    policy.card = Policy::OnCard{"rtx-4090", 24 * GiB, true, 23 * GiB, GiB, 22 * GiB, {"steps differ"}};
    const std::string json = toJson(policy);
    EXPECT_THAT(json,
                HasSubstr(",\n  \"card\": {\"assumptions\": [\"steps differ\"], \"capacity_bytes\": 25769803776, "));
    EXPECT_EQ(again(policy).card, policy.card);
    EXPECT_EQ(again(smallPolicy()).card, std::nullopt);
}

constexpr auto heldJson = R"(  "predicted": {"gap": 0.0, "held_bytes": {
      "Net.a": {"begin": [1, 4], "end": [2, 5], "recompute": [3, 0]},
      "Net.b": {"begin": [7], "end": [8], "recompute": [9]}
    }, "peak_bytes": 1717000000, "recompute_ms": 6.9241227},
)";

TEST(PolicyJson, saysWhatIsHeldInOneLineForAModule)
{
    Policy policy = smallPolicy();
    policy.modules[0].held = {{1, 2, 3}, {4, 5, 0}};
    policy.modules[1].held = {{7, 8, 9}};
    const std::string json = toJson(policy);
    EXPECT_THAT(json, HasSubstr(heldJson));
    const Policy read = again(policy);
    EXPECT_EQ(toJson(read), json);
    EXPECT_EQ(read.modules[0].held, policy.modules[0].held);
}

/// What readPolicy says of the small document with `from` replaced.
std::string errorWith(const std::string& from, const std::string& to)
{
    std::string json = smallJson;
    const std::size_t place = json.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    json.replace(place, from.size(), to);
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "policy.json";
    std::ofstream(path) << json;
    const Result<Policy> read = readPolicy(path);
    if (read.ok()) {
        ADD_FAILURE() << "accepted: " << json;
        return {};
    }
    EXPECT_EQ(read.error().kind, ErrorKind::badInput);
    return read.error().message;
}

TEST(PolicyJson, refusesWhatItCannotKeep)
{
    EXPECT_THAT(errorWith("\"headroom_policy\": 1", "\"headroom_policy\": 2"),
                HasSubstr("headroom_policy is 2: expected version 1: get a newer Headroom"));
    EXPECT_THAT(errorWith("\"headroom_policy\"", "\"policy\""), HasSubstr("headroom_policy"));
    EXPECT_THAT(errorWith("\"modules\": [", "\"modules\": 3, \"x\": ["), HasSubstr("modules"));
    EXPECT_THAT(errorWith("\"save\": true", "\"save\": 1"),
                HasSubstr("modules['Net.a'].ops[0].save is 1: expected true or false"));
    EXPECT_THAT(errorWith("\"index\": 0", "\"index\": -1"), AllOf(HasSubstr("Net.a"), HasSubstr("index")));
    EXPECT_THAT(errorWith("\"Net.b\"", "\"Net.a\""), AllOf(HasSubstr("Net.a"), HasSubstr("twice")));
    EXPECT_THAT(errorWith("\"discard_ratio\": 1.0", "\"discard_ratio\": 1.5"), HasSubstr("discard_ratio"));
    EXPECT_THAT(errorWith("\"world_size\": 4", "\"world_size\": 0"), HasSubstr("world_size"));
    EXPECT_THAT(errorWith("\"peak_bytes\": 1717000000", "\"peak_bytes\": \"much\""), HasSubstr("peak_bytes"));
    EXPECT_THAT(errorWith("\"gap\": 0.0", R"("gap": 0.0, "held_bytes": {"Net.b": {"begin": [1], "end": [2]}})"),
                HasSubstr("predicted.held_bytes['Net.b'].recompute is missing"));
    EXPECT_THAT(errorWith("\"gap\": 0.0",
                          R"("gap": 0.0, "held_bytes": {"Net.b": {"begin": [1], "end": [2], "recompute": []}})"),
                HasSubstr("predicted.held_bytes['Net.b'].begin has another length"));
    EXPECT_THAT(errorWith("\"world_size\": 4", "\"world_size\": 4,"), HasSubstr("line"));
    EXPECT_FALSE(readPolicy("/nowhere/policy.json").ok());
}

TEST(MakePolicy, decidesOnEveryOpOfTheForward)
{
    const StepTracePtr trace = makeSyntheticStep();
    const Policy policy = policyWith(*trace, {{"Transformer.layers.1", 0.5}, {"Transformer.layers.0", 1}});
    EXPECT_EQ(policy.model, trace->info.model);
    EXPECT_EQ(policy.torch, trace->info.torch);
    EXPECT_EQ(policy.worldSize, 2);
    EXPECT_EQ(policy.budget, 10 * GiB);
    EXPECT_EQ(policy.predicted.peak, 9 * GiB);
    EXPECT_EQ(policy.predicted.recomputeMs, 1.5);
    ASSERT_EQ(policy.modules.size(), 2U);
    EXPECT_EQ(policy.modules[0].fqn, "Transformer.layers.0") << "in the order of the model";
    for (const Policy::Module& module : policy.modules) {
        const std::vector<OpId> ops = StepModel(trace).regionOps(moduleOf(*trace, module.fqn));
        ASSERT_EQ(module.ops.size(), ops.size());
        std::map<std::string, int> counts;
        for (std::size_t op = 0; op < ops.size(); ++op) {
            EXPECT_EQ(module.ops[op].op, trace->opName(ops[op]));
            EXPECT_EQ(module.ops[op].index, counts[module.ops[op].op]++);
        }
    }
    for (const Policy::Op& op : policy.modules[0].ops)
        EXPECT_FALSE(op.save) << "everything of a module that discards all is recomputed: " << op.op;
}

TEST(MakePolicy, saysWhatIsHeldOnOneRank)
{
    const StepTracePtr trace = makeSyntheticStep();
    Plan plan = planWith({{"Transformer.layers.1", 1}});
    const Result<Policy> several = makePolicy(*trace, plan);
    ASSERT_TRUE(several.ok()) << several.error().message;
    EXPECT_TRUE(several->modules.front().held.empty()) << "nothing is known of what ranks exchange";
    plan.worldSize = 1;
    const Result<Policy> one = makePolicy(*trace, plan);
    ASSERT_TRUE(one.ok()) << one.error().message;
    const std::vector<HeldBytes>& held = one->modules.front().held;
    ASSERT_EQ(held.size(), 1U);
    EXPECT_GT(held[0].begin, 0);
    EXPECT_GT(held[0].end, held[0].begin);
    EXPECT_GT(held[0].again, held[0].end);
}

TEST(MakePolicy, keepsAsMuchAsThePlanAllowsAndOnlyWhatCanBeKept)
{
    const StepTracePtr trace = makeSyntheticStep();
    const std::string fqn = "Transformer.layers.2";
    const ModuleId module = moduleOf(*trace, fqn);
    const SacStats stats = sacStats(*trace).at(fqn);
    const Bytes all = std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
    const std::vector<bool> savable = StepModel(trace).savableOps(module);
    Bytes before = -1;
    for (const double ratio : {1.0, 0.75, 0.5, 0.25, 0.1}) {
        const Policy policy = policyWith(*trace, {{fqn, ratio}});
        EXPECT_EQ(policy.modules.front().discardRatio, ratio);
        // The statistics leave out some ops that a policy counts, and the module's result costs nothing.
        std::map<std::pair<std::string, int>, bool> saved;
        for (std::size_t op = 0; op < savable.size(); ++op) {
            const Policy::Op& decision = policy.modules.front().ops[op];
            saved[{decision.op, decision.index}] = decision.save;
            EXPECT_TRUE(savable[op] || !decision.save) << decision.op << " cannot be kept";
        }
        Bytes kept = 0;
        std::map<std::string, int> counts;
        const ModuleRecords records = recordModules(*trace);
        const std::vector<OpId> ops = StepSac(*trace, records).ops(module);
        for (std::size_t op = 0; op < ops.size(); ++op) {
            const std::string name(trace->opName(ops[op]));
            kept += saved.at({name, counts[name]++}) ? stats.memory[op] : 0;
        }
        EXPECT_LE(static_cast<double>(kept), (1 - ratio) * static_cast<double>(all) + 1);
        EXPECT_GE(kept, before);
        before = kept;
    }
    EXPECT_GT(before, 0);
}

TEST(MakePolicy, refusesPlansThatAreNone)
{
    const StepTracePtr trace = makeSyntheticStep();
    Plan plan = planWith({});
    plan.status = PlanStatus::infeasible;
    EXPECT_FALSE(makePolicy(*trace, plan).ok());
    const Result<Policy> unknown = makePolicy(*trace, planWith({{"Transformer.blocks.0", 0.5}}));
    ASSERT_FALSE(unknown.ok());
    EXPECT_THAT(unknown.error().message, HasSubstr("Transformer.blocks.0"));
    EXPECT_TRUE(policyWith(*trace, {}).modules.empty());
}

TEST(CheckpointPlan, isWhatThePolicySays)
{
    const StepTracePtr trace = makeSyntheticStep();
    const Policy policy = policyWith(*trace, {{"Transformer.layers.0.attention", 0.4}, {"Transformer.layers.3", 0.5}});
    const Result<CheckpointPlan> plan = checkpointPlan(*trace, policy);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    ASSERT_EQ(plan->size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(trace->moduleFqn((*plan)[i].module), policy.modules[i].fqn);
        ASSERT_EQ((*plan)[i].save.size(), policy.modules[i].ops.size());
        for (std::size_t op = 0; op < policy.modules[i].ops.size(); ++op)
            EXPECT_EQ((*plan)[i].save[op], policy.modules[i].ops[op].save);
    }
    EXPECT_TRUE(predict(*trace, *plan).ok());
    // Without ops everything is recomputed.
    Policy bare;
    bare.modules = {{"Transformer.layers.0", 1, {}}};
    EXPECT_TRUE(checkpointPlan(*trace, bare)->front().save.empty());
}

TEST(CheckpointPlan, isOfOneModelOfSeveral)
{
    const StepTracePtr trace = makeSyntheticStep({.oneOfTwo = true});
    const Policy policy = policyWith(*trace, {{"models.Transformer.layers.0", 1}, {"Transformer.layers.2", 0.5}});
    EXPECT_THAT(policy.objects, ElementsAre("Transformer", "Critic"));
    ASSERT_EQ(policy.modules.size(), 2U);
    EXPECT_EQ(policy.modules[0].fqn, "Transformer.layers.0") << "as the program's own object names it";
    EXPECT_THAT(policy.modules[0].types, ElementsAre("Transformer", "ModuleList", "TransformerBlock"));
    EXPECT_EQ(policy.modules[1].discardRatio, 0.5);
    const Result<CheckpointPlan> plan = checkpointPlan(*trace, policy);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(trace->moduleFqn((*plan)[1].module), "models.Transformer.layers.2");

    Policy older = policy;
    for (Policy::Module& module : older.modules)
        module.fqn = "models." + module.fqn;
    const Result<CheckpointPlan> same = checkpointPlan(*trace, older);
    ASSERT_TRUE(same.ok()) << same.error().message;
    for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ((*same)[i].module, (*plan)[i].module);
        EXPECT_EQ((*same)[i].save, (*plan)[i].save);
    }
    const Policy single = policyWith(*makeSyntheticStep(), {{"Transformer.layers.0", 1}});
    EXPECT_TRUE(single.objects.empty());
    EXPECT_THAT(single.modules[0].types, ElementsAre("Transformer", "ModuleList", "TransformerBlock"));
}

std::string mismatch(const StepTrace& trace, Policy policy, const std::function<void(Policy&)>& change)
{
    change(policy);
    const Result<CheckpointPlan> plan = checkpointPlan(trace, policy);
    if (plan.ok()) {
        ADD_FAILURE() << "accepted";
        return {};
    }
    EXPECT_EQ(plan.error().kind, ErrorKind::badInput);
    return plan.error().message;
}

TEST(CheckpointPlan, refusesAPolicyOfAnotherStep)
{
    const StepTracePtr trace = makeSyntheticStep();
    const Policy good = policyWith(*trace, {{"Transformer.layers.1", 0.5}});
    EXPECT_THAT(mismatch(*trace, good, [](Policy& policy) { policy.modules[0].fqn = "Transformer.layers.9"; }),
                HasSubstr("Transformer.layers.9"));
    EXPECT_THAT(mismatch(*trace, good, [](Policy& policy) { policy.modules[0].ops[0].op = "aten.relu.default"; }),
                AllOf(HasSubstr("aten.relu.default"), HasSubstr("never ran"), HasSubstr("0 calls")));
    EXPECT_THAT(mismatch(*trace, good, [](Policy& policy) { policy.modules[0].ops[0].index = 70; }),
                AllOf(HasSubstr("index 70"), HasSubstr("Transformer.layers.1")));
    EXPECT_THAT(mismatch(*trace, good, [](Policy& policy) { policy.modules[0].ops.pop_back(); }),
                HasSubstr("plan again for this model"));
    EXPECT_THAT(
        mismatch(*trace, good, [](Policy& policy) { policy.modules[0].ops.push_back(policy.modules[0].ops.front()); }),
        HasSubstr("twice"));
    const std::vector<bool> savable = StepModel(trace).savableOps(moduleOf(*trace, "Transformer.layers.1"));
    const auto view = static_cast<std::size_t>(std::ranges::find(savable, false) - savable.begin());
    ASSERT_LT(view, savable.size());
    EXPECT_THAT(mismatch(*trace, good, [&](Policy& policy) { policy.modules[0].ops[view].save = true; }),
                AllOf(HasSubstr(good.modules[0].ops[view].op), HasSubstr("cannot be saved")));
}

} // namespace
} // namespace headroom
