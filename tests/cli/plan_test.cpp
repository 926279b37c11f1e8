// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/policy.h"
#include "tests/cli/cli_test.h"

#include <cmath>
#include <filesystem>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> planKeys{
    "status", "budget_bytes", "world_size", "peak_bytes", "baseline_peak_bytes", "recompute_ms", "step_ms",
    "gap",    "bound_ms",     "solve_ms",   "decisions",  "least_budget_bytes",  "binding",      "reason"};

TEST_F(CliTest, PlanSaysWhereItsBudgetIsMoreThanTheCard)
{
    // An A100 has 79.25 GiB, of which 78.803 are left for this step.
    EXPECT_THAT(headroomProgram({"plan", stepPath(), "--budget", "78.81GiB"}).out,
                HasSubstr("note: the budget is above"));
    EXPECT_THAT(headroomProgram({"plan", stepPath(), "--budget", "78.8GiB"}).out, Not(HasSubstr("note: the budget")));
}

TEST_F(CliTest, PlanMayOffloadWithoutRecomputation)
{
    const std::string step = HEADROOM_TEST_DATA "/steps/llama_6L_h100.hrs";
    const auto least = headroomProgram({"plan", step, "--budget", "1", "--json", "--offload", "--no-recompute"});
    EXPECT_EQ(least.exitCode, 3);
    EXPECT_THAT(least.err, HasSubstr("without recomputation"));
    const Bytes from = least.json()["least_budget_bytes"], to = least.json()["baseline_peak_bytes"];
    const std::string budget = std::to_string(from + (to - from) / 2);
    const auto alone = headroomProgram({"plan", step, "--budget", budget, "--json", "--offload", "--no-recompute"});
    ASSERT_EQ(alone.exitCode, 0) << alone.err;
    EXPECT_EQ(alone.json()["recompute_ms"], 0);
    EXPECT_GT(alone.json()["offload"]["moved_bytes"].get<Bytes>(), 0);
    expectBadInput(headroomProgram({"plan", step, "--budget", budget, "--no-recompute"}),
                   {"--no-recompute", "--offload"});

    const auto frontier = headroomProgram({"frontier", step, "--points", "3", "--json", "--offload", "--no-recompute"});
    ASSERT_EQ(frontier.exitCode, 0) << frontier.err;
    const auto curve = frontier.json();
    for (const auto& point : curve["points"])
        EXPECT_EQ(point["recompute_ms"], 0);
}

TEST_F(CliTest, PlanForACardRunsThere)
{
    const auto planFor = [&](std::vector<std::string> more) {
        std::vector<std::string> arguments{"plan", stepPath(), "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return headroomProgram(arguments);
    };
    const auto onGpu = planFor({"--card", "RTX 4090"}).json();
    EXPECT_EQ(onGpu["status"], "optimal");
    EXPECT_EQ(onGpu["card"]["name"], "rtx-4090-24gb");
    EXPECT_EQ(onGpu["card"]["runs"], true);
    EXPECT_EQ(onGpu["card"]["left_bytes"].get<Bytes>(),
              onGpu["card"]["capacity_bytes"].get<Bytes>() - onGpu["card"]["reserved_peak_bytes"].get<Bytes>());

    const auto least = planFor({"--budget", "1"}).json();
    const Bytes from = least["least_budget_bytes"], to = least["baseline_peak_bytes"];
    const Finished small = planFor({"--card", std::to_string(from / 2)});
    EXPECT_EQ(small.exitCode, 3);
    EXPECT_TRUE(isErrorLine(small.err)) << small.err;
    const Bytes enough = small.json()["card"]["least_capacity_bytes"];
    EXPECT_GT(enough, from);
    EXPECT_EQ(planFor({"--card", std::to_string(enough)}).exitCode, 0);

    const std::string middle = std::to_string(from + (to - from) / 2);
    const std::string settings = "expandable_segments:True";
    const Finished planned = planFor({"--card", middle, "--settings", settings, "-o", path("policy.json")});
    ASSERT_EQ(planned.exitCode, 0) << planned.err;
    EXPECT_EQ(planned.json()["card"]["settings"], settings);
    EXPECT_EQ(readPolicy(path("policy.json"))->allocatorSettings, settings);
    EXPECT_THAT(headroomProgram({"plan", stepPath(), "--card", middle}).out,
                HasSubstr("Card          runs on a card with "));

    expectBadInput(planFor({}), {"--budget", "--card"});
    expectBadInput(planFor({"--card", "8GiB", "--budget", "8GiB"}), {"--budget", "--card"});
    expectBadInput(planFor({"--card", "rtx"}), {"card `rtx`", "expected a size"});
    expectBadInput(planFor({"--card", "A100"}), {"card `A100`", "a100-80gb, a100-40gb"});
    expectBadInput(planFor({"--card", "8GiB", "--world-size", "2"}), {"--card", "--world-size"});
    expectBadInput(planFor({"--card", "8GiB", "--formulation", "piecewise"}), {"--card", "--formulation"});
    expectBadInput(planFor({"--budget", "8GiB", "--settings", settings}), {"--settings", "requires --card"});
}

TEST_F(CliTest, PlanPrintsTheConfigurationOfATrainer)
{
    const Finished none = headroomProgram({"plan", stepPath(), "--budget", "100GiB", "--trainer", "torchtitan"});
    EXPECT_EQ(none.exitCode, 0) << none.err;
    EXPECT_THAT(none.out, testing::StartsWith("# predicted: peak "));
    EXPECT_THAT(none.out, testing::EndsWith("\n[activation_checkpoint]\nmode = \"none\"\n"));
    const Finished tight = headroomProgram(
        {"plan", stepPath(), "--budget", "1KiB", "--trainer", "huggingface", "-o", path("policy.json")});
    EXPECT_EQ(tight.exitCode, 3);
    EXPECT_TRUE(isErrorLine(tight.err)) << tight.err;
    EXPECT_THAT(tight.err, HasSubstr("no option of Hugging Face's Trainer fits 1.00 KiB"));
    EXPECT_FALSE(std::filesystem::exists(path("policy.json")));
    expectBadInput(headroomProgram({"plan", stepPath(), "--budget", "1GiB", "--trainer", "torchtitan", "--pin",
                                    "Transformer.layers.0=save"}),
                   {"--trainer", "expected no --pin"});
    expectBadInput(headroomProgram({"plan", stepPath(), "--budget", "1GiB", "--trainer", "deepspeed"}),
                   {"--trainer", "deepspeed", "torchtitan, huggingface"});
    expectBadInput(headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--budget", "1.6GiB",
                                    "--trainer", "torchtitan"}),
                   {"--trainer", "expected a step file"});
}

// The seed's case: Transformer of 4 layers, 1.6 GiB on each of 4 ranks. The optimum is HiGHS's, proven.
TEST_F(CliTest, PlanOfPyTorchsModuleInfoIsItsOptimum)
{
    const Finished finished = headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--budget",
                                               "1.6GiB", "--world-size", "4", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    const auto plan = finished.json();
    EXPECT_EQ(keysOf(plan), planKeys);
    EXPECT_EQ(plan["status"], "optimal");
    EXPECT_EQ(plan["budget_bytes"], 1717986918);
    EXPECT_EQ(plan["world_size"], 4);
    EXPECT_EQ(plan["baseline_peak_bytes"], 2583888896);
    EXPECT_LE(plan["peak_bytes"].get<std::int64_t>(), 1717986918);
    EXPECT_NEAR(plan["recompute_ms"].get<double>(), 6.924122703833241, 1e-6);
    EXPECT_NEAR(plan["step_ms"].get<double>(), 87.92345617183895, 1e-9);
    EXPECT_NEAR(plan["gap"].get<double>(), 0, 1e-9);
    EXPECT_LE(plan["bound_ms"].get<double>(), plan["recompute_ms"].get<double>() + 1e-9);
    EXPECT_THAT(
        keysOf(plan["decisions"]),
        ElementsAre("Transformer.layers.0", "Transformer.layers.1", "Transformer.layers.2", "Transformer.layers.3"));
    EXPECT_EQ(keysOf(plan["binding"]), (std::vector<std::string>{"module", "phase"}));
    EXPECT_EQ(plan["reason"], "");
}

TEST_F(CliTest, PlanThatNeedsNothingRecomputesNothing)
{
    const Finished finished
        = headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--budget", "2.5GiB", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto plan = finished.json();
    EXPECT_EQ(plan["status"], "optimal");
    EXPECT_EQ(plan["recompute_ms"], 0.0);
    EXPECT_TRUE(plan["decisions"].empty());
}

TEST_F(CliTest, InfeasibleBudgetIsExitCodeThreeWithAReason)
{
    const Finished finished = headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--budget",
                                               "100MiB", "--world-size", "4", "--json"});
    EXPECT_EQ(finished.exitCode, 3);
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    const auto plan = finished.json();
    EXPECT_EQ(keysOf(plan), planKeys);
    EXPECT_EQ(plan["status"], "infeasible");
    EXPECT_EQ(plan["decisions"], nlohmann::ordered_json::object());
    EXPECT_EQ(plan["recompute_ms"], 0.0);
    EXPECT_EQ(plan["peak_bytes"], -1);
    EXPECT_NE(plan["reason"], "");
    EXPECT_GT(plan["least_budget_bytes"].get<std::int64_t>(), 100 * MiB);

    // The least budget is one: with it there is a plan, with one byte less there is none.
    const std::int64_t least = plan["least_budget_bytes"].get<std::int64_t>();
    const auto solveAt = [&](std::int64_t budget) {
        return headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--budget",
                                std::to_string(budget), "--world-size", "4", "--json"})
            .exitCode;
    };
    EXPECT_EQ(solveAt(least), 0);
    EXPECT_EQ(solveAt(least - 1), 3);
}

TEST_F(CliTest, InfeasiblePlanForPeople)
{
    const Finished finished = headroomProgram({"plan", stepPath(), "--budget", "1KiB", "-o", path("policy.json")});
    EXPECT_EQ(finished.exitCode, 3);
    EXPECT_THAT(finished.out, HasSubstr("infeasible"));
    EXPECT_THAT(finished.out, HasSubstr("Least budget"));
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    EXPECT_FALSE(std::filesystem::exists(path("policy.json")));
}

TEST_F(CliTest, PiecewisePlanOfAStepPredictsTheDeviceAndWritesThePolicy)
{
    const auto info = headroomProgram({"info", stepPath(), "--json"}).json();
    const auto baseline
        = headroomProgram({"plan", stepPath(), "--formulation", "piecewise", "--budget", "64GiB", "--json"})
              .json()["baseline_peak_bytes"];
    const std::int64_t budget = baseline.get<std::int64_t>() * 8 / 10;
    const Finished finished = headroomProgram({"plan", stepPath(), "--formulation", "piecewise", "--budget",
                                               std::to_string(budget), "-o", path("policy.json"), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto plan = finished.json();
    std::vector<std::string> keys = planKeys;
    keys.insert(keys.end(), {"predicted_peak_bytes", "remarks", "time_model"});
    EXPECT_EQ(keysOf(plan), keys);
    EXPECT_LE(plan["peak_bytes"].get<std::int64_t>(), budget);
    EXPECT_FALSE(plan["decisions"].empty());
    EXPECT_GT(plan["predicted_peak_bytes"].get<std::int64_t>(), 0);
    EXPECT_LT(plan["predicted_peak_bytes"].get<std::int64_t>(), info["peak_bytes"].get<std::int64_t>());

    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    EXPECT_EQ(policy["headroom_policy"], 1);
    EXPECT_EQ(policy["budget_bytes"], budget);
    EXPECT_EQ(policy["predicted"]["peak_bytes"], plan["predicted_peak_bytes"]);
    EXPECT_EQ(policy["modules"].size(), plan["decisions"].size());
    EXPECT_THAT(filesIn(folder.path()), ElementsAre("policy.json", "step.hrs")) << "nothing else may stay";
}

TEST_F(CliTest, PlanOfAStepIsExactAndFits)
{
    const auto peak = headroomProgram({"info", stepPath(), "--json"}).json()["peak_bytes"].get<std::int64_t>();
    const std::int64_t budget = peak * 9 / 10;
    const Finished finished = headroomProgram(
        {"plan", stepPath(), "--budget", std::to_string(budget), "-o", path("policy.json"), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto plan = finished.json();
    std::vector<std::string> keys = planKeys;
    keys.insert(keys.end(), {"card", "predicted_peak_bytes", "remarks", "nodes", "ms_per_gib", "time_model"});
    EXPECT_EQ(keysOf(plan), keys);
    EXPECT_EQ(plan["status"], "optimal");
    EXPECT_EQ(plan["baseline_peak_bytes"], peak);
    EXPECT_LE(plan["peak_bytes"].get<std::int64_t>(), budget);
    EXPECT_EQ(plan["predicted_peak_bytes"], plan["peak_bytes"]);
    EXPECT_GT(plan["nodes"].get<std::int64_t>(), 0);
    EXPECT_GT(plan["ms_per_gib"].get<double>(), 0);
    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    EXPECT_EQ(policy["predicted"]["peak_bytes"], plan["peak_bytes"]);
    EXPECT_EQ(policy["predicted"]["recompute_ms"], plan["recompute_ms"]);

    const auto explicitly
        = headroomProgram({"plan", stepPath(), "--formulation", "exact", "--budget", std::to_string(budget), "--json"});
    EXPECT_EQ(explicitly.json()["recompute_ms"], plan["recompute_ms"]) << "exact is the default";
    expectBadInput(headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--formulation", "exact",
                                    "--budget", "1GiB"}),
                   {"--formulation exact", "step file"});
}

TEST_F(CliTest, PlanForPeopleSaysWhatIsCounted)
{
    const Finished piecewise = headroomProgram({"plan", stepPath(), "--formulation", "piecewise", "--budget", "64GiB"});
    EXPECT_EQ(piecewise.exitCode, 0) << piecewise.err;
    EXPECT_THAT(piecewise.out, HasSubstr("parameters, gradients and activations"));
    EXPECT_THAT(piecewise.out, HasSubstr("optimizer state included"));
    const Finished exact = headroomProgram({"plan", stepPath(), "--budget", "64GiB"});
    EXPECT_EQ(exact.exitCode, 0) << exact.err;
    EXPECT_THAT(exact.out, HasSubstr("everything on the device"));
    EXPECT_THAT(exact.out, HasSubstr("68,719,476,736 bytes"));
}

TEST_F(CliTest, BadBudgetsAreNamed)
{
    for (const char* budget : {"abc", "12GB", "-1GiB", "1.6.2GiB", "", "nan", "inf", "99999999999GiB"})
        expectBadInput(headroomProgram({"plan", stepPath(), std::string("--budget=") + budget}), {"--budget"});
    expectBadInput(headroomProgram({"plan", stepPath(), "--budget", "abc"}), {"`abc`", "1.6GiB"});
    expectBadInput(headroomProgram({"plan", stepPath(), "--budget", "0"}), {"budget"});
}

TEST_F(CliTest, BadRequestsAreNamed)
{
    const auto plan = [&](std::initializer_list<std::string> more) {
        std::vector<std::string> arguments{"plan", stepPath(), "--budget", "1GiB"};
        arguments.insert(arguments.end(), more);
        return headroomProgram(arguments);
    };
    expectBadInput(plan({"--world-size", "0"}), {"--world-size", "`0`"});
    expectBadInput(plan({"--world-size", "2.5"}), {"--world-size", "`2.5`"});
    expectBadInput(plan({"--pin", "Transformer.layers.0"}), {"--pin", "FQN=save"});
    expectBadInput(plan({"--pin", "Transformer.layers.0=keep"}), {"--pin", "FQN=save"});
    expectBadInput(plan({"--pin", "Transformer.layers.0=save", "--pin", "Transformer.layers.0=recompute"}), {"twice"});
    expectBadInput(plan({"--pin", "Transformer.layer.0=save"}), {"Transformer.layer.0"});
    expectBadInput(plan({"--ac-unit", "Transformer.nothing"}), {"Transformer.nothing"});
    expectBadInput(plan({"--fsdp-unit", "Transformer.nothing"}), {"Transformer.nothing"});
    expectBadInput(plan({"--formulation", "greedy"}), {"--formulation", "`greedy`", "exact", "piecewise"});
    expectBadInput(plan({"--module-info", data("transformer_modinfo.json")}), {"either a step file or --module-info"});
    expectBadInput(headroomProgram({"plan", "--budget", "1GiB"}), {"either a step file or --module-info"});
    expectBadInput(headroomProgram({"plan", "--module-info", data("transformer_modinfo.json"), "--budget", "2GiB", "-o",
                                    path("policy.json")}),
                   {"-o", "step file"});
}

TEST_F(CliTest, PinsAndUnitsAreFollowed)
{
    const auto solve = [&](std::initializer_list<std::string> more) {
        std::vector<std::string> arguments{"plan",     "--module-info", data("transformer_modinfo.json"),
                                           "--budget", "1.6GiB",        "--world-size",
                                           "4",        "--json"};
        arguments.insert(arguments.end(), more);
        const Finished finished = headroomProgram(arguments);
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        return finished.json();
    };
    const auto kept = solve({"--pin", "Transformer.layers.3=save"});
    EXPECT_FALSE(kept["decisions"].contains("Transformer.layers.3"));
    EXPECT_GT(kept["recompute_ms"].get<double>(), 6.92);
    const auto only = solve({"--ac-unit", "Transformer.layers.0", "--ac-unit", "Transformer.layers.1", "--ac-unit",
                             "Transformer.layers.2"});
    EXPECT_THAT(keysOf(only["decisions"]),
                ElementsAre("Transformer.layers.0", "Transformer.layers.1", "Transformer.layers.2"));
}

TEST_F(CliTest, BrokenModuleInfoIsRefusedByFieldAndModule)
{
    const auto plan = [&](const std::string& document) {
        writeFile(path("info.json"), document);
        return headroomProgram({"plan", "--module-info", path("info.json"), "--budget", "1GiB", "--json"});
    };
    const auto whole = nlohmann::ordered_json::parse(readFile(data("transformer_modinfo.json")));
    const std::string fqn = whole["mod_stats"][3]["fqn"];

    auto document = whole;
    document["mod_stats"][3].erase("act_total");
    expectBadInput(plan(document.dump()), {"info.json", fqn.c_str(), "act_total"});

    std::string text = whole.dump();
    const std::size_t at = text.find("\"act_total\":") + std::string("\"act_total\":").size();
    text.replace(at, text.find_first_of(",}", at) - at, "NaN");
    expectBadInput(plan(text), {"info.json"});

    document = whole;
    document["mod_stats"][3]["fw_runtime_per_module"] = nullptr;
    expectBadInput(plan(document.dump()), {"info.json", fqn.c_str(), "fw_runtime_per_module"});

    document = whole;
    document["mod_stats"][3]["act_total"] = -5;
    expectBadInput(plan(document.dump()), {"info.json", fqn.c_str(), "act_total"});

    expectBadInput(plan("[]"), {"info.json"});
    expectBadInput(plan("{\"mod_order\": "), {"info.json"});
    expectBadInput(headroomProgram({"plan", "--module-info", path("none.json"), "--budget", "1GiB"}), {"none.json"});
}

// Under /proc and under a regular file nobody can make a file, root included.
TEST_F(CliTest, AFolderThatCannotBeWrittenLeavesNothing)
{
    for (const std::string& output :
         {std::string("/proc/policy.json"), path("step.hrs/policy.json"), path("no/such/folder/policy.json")}) {
        const std::string before = readFile(stepPath());
        expectBadInput(headroomProgram({"plan", stepPath(), "--budget", "64GiB", "-o", output}), {"policy.json"});
        EXPECT_THAT(filesIn(folder.path()), ElementsAre("step.hrs"));
        EXPECT_EQ(readFile(stepPath()), before);
    }
}

TEST_F(CliTest, AnInfeasiblePlanLeavesAnOlderPolicyAlone)
{
    writeFile(path("policy.json"), "older");
    EXPECT_EQ(headroomProgram({"plan", stepPath(), "--budget", "1KiB", "-o", path("policy.json")}).exitCode, 3);
    EXPECT_EQ(readFile(path("policy.json")), "older");
}

} // namespace
} // namespace headroom
