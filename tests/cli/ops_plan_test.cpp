// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_file.h"
#include "tests/cli/cli_test.h"
#include "tests/core/own_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* chain = HEADROOM_TEST_DATA "/functorch/matmul_even_chain.hrs";

TEST_F(CliTest, OpsPlanSavesUnderTheFraction)
{
    const Finished finished = headroomProgram({"ops-plan", chain, "--memory-budget", "0.3", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto plan = finished.json();
    EXPECT_THAT(keysOf(plan),
                ElementsAre("memory_budget", "solver", "runtime", "cap_bytes", "saved_bytes", "default_saved_bytes",
                            "peak_bytes", "default_peak_bytes", "baseline_peak_bytes", "recompute_flops",
                            "recompute_ms", "step_ms", "lower_peak", "torch_compile", "saved", "recomputed"));
    EXPECT_EQ(plan["cap_bytes"], 3 * MiB);
    EXPECT_EQ(plan["saved_bytes"], 3 * MiB);
    EXPECT_EQ(plan["default_saved_bytes"], 10 * MiB);
    EXPECT_EQ(plan["recompute_flops"], 2 * 2.0 * 512 * 512 * 512);
    EXPECT_EQ(plan["torch_compile"]["activation_memory_budget"], 0.3);
    EXPECT_EQ(plan["torch_compile"]["activation_memory_budget_solver"], "dp");
    ASSERT_EQ(plan["saved"].size(), 3U);
    for (const auto& saved : plan["saved"]) {
        EXPECT_EQ(saved["op"], "aten.mm.default");
        EXPECT_EQ(saved["bytes"], MiB);
    }
    EXPECT_NE(plan["saved"][0]["index"], plan["saved"][1]["index"]);
    // Two matmuls, the cosine of the input, and those of all but the last matmul.
    EXPECT_EQ(plan["recomputed"].size(), 7U);
}

TEST_F(CliTest, OpsPlanForACard)
{
    const auto points = headroomProgram({"ops-frontier", stepPath(), "--json"}).json()["points"];
    ASSERT_GE(points.size(), 3U);
    const std::string fraction = points[0]["memory_budget"].dump();
    const Finished minMemoryPlan = headroomProgram(
        {"ops-plan", stepPath(), "--memory-budget", fraction, "--monotone", "--card", "1000GiB", "--json"});
    const std::string card
        = std::to_string(minMemoryPlan.json()["card"]["least_capacity_bytes"].get<Bytes>() + 2 * MiB);
    const auto onCard = headroomProgram({"ops-frontier", stepPath(), "--card", card, "--json"}).json()["points"];
    double least = std::numeric_limits<double>::infinity();
    for (const auto& point : onCard)
        if (point["card"]["runs"].get<bool>())
            least = std::min(least, point["recompute_ms"].get<double>());
    EXPECT_FALSE(onCard.back()["card"]["runs"].get<bool>());
    EXPECT_TRUE(onCard.back()["card"]["out_of_memory"].contains("free_blocks_bytes"));
    const Finished planned = headroomProgram({"ops-plan", stepPath(), "--card", card, "--json"});
    ASSERT_EQ(planned.exitCode, 0) << planned.err;
    const auto plan = planned.json();
    EXPECT_EQ(plan["recompute_ms"], least);
    EXPECT_EQ(plan["card"]["runs"], true);
    EXPECT_LE(plan["card"]["least_capacity_bytes"].get<Bytes>(), std::stoll(card));
    EXPECT_THAT(headroomProgram({"ops-plan", stepPath(), "--card", card}).out, HasSubstr("Card          runs on "));
    const Finished none = headroomProgram({"ops-plan", stepPath(), "--memory-budget", "1", "--card", card, "--json"});
    EXPECT_EQ(none.exitCode, 3);
    EXPECT_EQ(none.json()["card"]["runs"], false);
    EXPECT_THAT(none.err, HasSubstr("the least memory for the allocator is "));
    EXPECT_EQ(headroomProgram({"ops-plan", stepPath(), "--card", "1MiB", "-o", path("policy.json")}).exitCode, 3);
    const Finished written = headroomProgram({"ops-plan", stepPath(), "--card", card, "-o", path("policy.json")});
    EXPECT_EQ(written.exitCode, 3) << "the policy recomputes whole modules, and takes more than the plan";
    EXPECT_THAT(written.err, HasSubstr("as selective checkpoints of modules the plan does not run on"));
    EXPECT_FALSE(std::filesystem::exists(path("policy.json")));
    const std::string settings = "expandable_segments:True";
    const Finished set = headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.3", "--card", "40GiB",
                                          "--settings", settings, "-o", path("policy.json")});
    EXPECT_EQ(set.exitCode, 0) << set.err;
    EXPECT_THAT(readFile(path("policy.json")), HasSubstr(settings)) << "apply() warns without them";
    expectBadInput(headroomProgram({"ops-plan", stepPath()}), {"--memory-budget", "--card"});
}

TEST_F(CliTest, OpsPlanForPeople)
{
    const Finished finished = headroomProgram({"ops-plan", chain, "--memory-budget", "0.3", "--solver", "greedy"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    for (const char* words : {"3.00 MiB (3,145,728 bytes)", "aten.mm.default", "Peak", "activation_memory_budget = 0.3",
                              "activation_memory_budget_solver = \"greedy\""})
        EXPECT_THAT(finished.out, HasSubstr(words));
}

TEST_F(CliTest, OpsPlanOfEndsAndSolvers)
{
    const auto at = [&](const std::string& fraction, const std::string& solver) {
        const Finished finished
            = headroomProgram({"ops-plan", stepPath(), "--memory-budget", fraction, "--solver", solver, "--json"});
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        return finished.json();
    };
    EXPECT_EQ(at("0", "dp")["saved_bytes"], 0);
    const auto whole = at("1", "dp");
    EXPECT_EQ(whole["saved_bytes"], whole["default_saved_bytes"]);
    for (const char* solver : {"dp", "greedy", "ilp"}) {
        const auto half = at("0.5", solver);
        EXPECT_LE(half["saved_bytes"].get<Bytes>(), half["cap_bytes"].get<Bytes>()) << solver;
        EXPECT_LT(half["recompute_ms"].get<double>(), at("0", solver)["recompute_ms"].get<double>()) << solver;
    }
}

TEST_F(CliTest, OpsPlanMonotoneTakesNoMoreAtItsPeakThanALargerFraction)
{
    const auto peakAt = [&](const std::string& fraction) {
        const Finished finished
            = headroomProgram({"ops-plan", stepPath(), "--memory-budget", fraction, "--monotone", "--json"});
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        const auto plan = finished.json();
        EXPECT_TRUE(plan["lower_peak"].is_null());
        return plan["peak_bytes"].get<Bytes>();
    };
    Bytes before = 0;
    for (const char* fraction : {"0", "0.1", "0.2", "0.4", "0.6", "0.8", "1"}) {
        const Bytes peak = peakAt(fraction);
        EXPECT_GE(peak, before) << fraction;
        before = peak;
    }
    const Finished plain = headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0", "--json"});
    ASSERT_EQ(plain.exitCode, 0);
    EXPECT_GT(plain.json()["peak_bytes"].get<Bytes>(), peakAt("0"));
    EXPECT_EQ(plain.json()["lower_peak"]["peak_bytes"].get<Bytes>(), peakAt("0"));
}

TEST_F(CliTest, OpsPlanWritesListsOfOpsToSave)
{
    const Finished finished
        = headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.4", "-o", path("policy.json")});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("selective checkpoints of 4 modules"));
    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    EXPECT_EQ(policy["headroom_policy"], 1);
    ASSERT_EQ(policy["modules"].size(), 4U);
    EXPECT_EQ(policy["modules"][0]["fqn"], "Transformer.layers.0");
    EXPECT_TRUE(policy["modules"][0]["ops"][0].contains("save"));

    const Finished one = headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.4", "-o", path("one.json"),
                                          "--ac-unit", "Transformer.layers.1.feed_forward"});
    ASSERT_EQ(one.exitCode, 0) << one.err;
    EXPECT_EQ(nlohmann::ordered_json::parse(readFile(path("one.json")))["modules"].size(), 1U);
}

// T5 with little memory: not all results of a layer have room before the layer's backward.
TEST_F(CliTest, OpsPlanBringsTheFirstResultsBackEarly)
{
    const Finished finished
        = headroomProgram({"ops-plan", HEADROOM_TEST_DATA "/steps/t5_3L_h100.hrs", "--memory-budget", "0.1",
                           "--offload", "--json", "-o", path("policy.json")});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    const auto modules = finished.json()["policy"]["offload"]["modules"];
    std::size_t early = 0, planned = 0;
    for (const auto& module : modules)
        early += module.contains("prefetch") && module["ahead"] > 0 ? 1 : 0;
    for (const auto& module : policy["modules"])
        planned += module.contains("offload") && module["offload"].contains("prefetch") ? 1 : 0;
    EXPECT_GT(early, 0U);
    EXPECT_EQ(early, planned);
}

TEST_F(CliTest, OpsPlanSendsResultsOfOpsToTheHost)
{
    const std::string llama = HEADROOM_TEST_DATA "/steps/llama_6L_h100.hrs";
    const auto answerTo = [&](std::vector<std::string> more) {
        std::vector<std::string> words{"ops-plan", llama, "--memory-budget",  "0.2", "--offload",
                                       "--json",   "-o",  path("policy.json")};
        words.insert(words.end(), more.begin(), more.end());
        const Finished finished = headroomProgram(words);
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        return finished.json();
    };
    // So fast a link hides all copies.
    const auto plan = answerTo({"--host-bandwidth", "10000"});
    const auto& hosted = plan["policy"];
    EXPECT_THAT(keysOf(hosted), ElementsAre("peak_bytes", "recompute_ms", "without_offload", "offload", "offloaded"));
    EXPECT_LE(hosted["peak_bytes"], hosted["without_offload"]["peak_bytes"]);
    EXPECT_LT(hosted["recompute_ms"].get<double>() + hosted["offload"]["exposed_ms"].get<double>(),
              hosted["without_offload"]["recompute_ms"].get<double>());
    Bytes bytes = 0;
    for (const auto& op : hosted["offloaded"])
        bytes += op["bytes"].get<Bytes>();
    EXPECT_EQ(hosted["offload"]["moved_bytes"], bytes);
    EXPECT_GE(hosted["offload"]["host_bytes"].get<Bytes>(), bytes);
    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    EXPECT_EQ(policy["predicted"]["peak_bytes"], hosted["peak_bytes"]);
    std::size_t ops = 0;
    for (const auto& module : policy["modules"])
        for (const auto& op : module["ops"])
            if (op.contains("offload")) {
                EXPECT_TRUE(op["save"].get<bool>());
                EXPECT_TRUE(module["offload"].contains("wait"));
                ++ops;
            }
    EXPECT_EQ(ops, hosted["offloaded"].size());
    EXPECT_EQ(hosted["offload"]["modules"].size(), 6U);
    EXPECT_EQ(answerTo({}).contains("policy"), true);

    const Bytes half = hosted["offload"]["host_bytes"].get<Bytes>() / 2;
    const auto limited = answerTo({"--host-bandwidth", "10000", "--host-memory", std::to_string(half)})["policy"];
    EXPECT_LE(limited.contains("offload") ? limited["offload"]["host_bytes"].get<Bytes>() : 0, half);
    EXPECT_GE(limited["recompute_ms"], hosted["recompute_ms"]);

    const std::vector<std::string> words{"ops-plan",         llama,  "--memory-budget", "0.2", "--offload",
                                         "--host-bandwidth", "10000"};
    EXPECT_THAT(headroomProgram(words).out,
                AllOf(HasSubstr("\nPolicy        "), HasSubstr("\nOffload       "),
                      HasSubstr("\n              Pinned host memory: ")));
    // A link so slow that nothing pays leaves the plan as without offload.
    const auto slow = answerTo({"--host-bandwidth", "0.001"})["policy"];
    EXPECT_FALSE(slow.contains("offload"));
    EXPECT_LE(slow["recompute_ms"], slow["without_offload"]["recompute_ms"]);
    // A card that is too small for the policy of a fraction.
    const Finished small
        = headroomProgram({"ops-plan", llama, "--memory-budget", "0.5", "--card", "1GiB", "--offload"});
    EXPECT_EQ(small.exitCode, 3);
    EXPECT_THAT(small.err, HasSubstr("the policy does not run on 1.00 GiB"));
    expectBadInput(headroomProgram({"ops-plan", llama, "--memory-budget", "0.5", "--host-memory", "1GiB"}),
                   {"--host-memory", "--offload"});
    expectBadInput(headroomProgram({"ops-plan", llama, "--memory-budget", "0.5", "--offload", "--host-memory", "much"}),
                   {"--host-memory"});
}

// Nothing is saved, so that only arguments are left to move.
TEST_F(CliTest, OpsPlanSendsArgumentsOfBlocksToTheHost)
{
    const Finished finished
        = headroomProgram({"ops-plan", HEADROOM_TEST_DATA "/steps/gpt2_12L_h100.hrs", "--memory-budget", "0",
                           "--offload", "--json", "-o", path("policy.json")});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto hosted = finished.json()["policy"];
    EXPECT_LE(hosted["peak_bytes"], hosted["without_offload"]["peak_bytes"]);
    EXPECT_TRUE(hosted["offloaded"].empty());
    constexpr Bytes argument = 32 * 1024 * 768 * 2; // of each block: bfloat16
    ASSERT_FALSE(hosted["offload"]["modules"].empty());
    for (const auto& module : hosted["offload"]["modules"]) {
        EXPECT_EQ(module["moves"], "arguments");
        EXPECT_EQ(module["moved_bytes"], argument);
    }
    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    EXPECT_EQ(policy["predicted"]["peak_bytes"], hosted["peak_bytes"]);
    std::size_t moving = 0;
    for (const auto& module : policy["modules"])
        moving += module.contains("offload") && module["offload"]["arguments"] == nlohmann::ordered_json{0} ? 1 : 0;
    EXPECT_EQ(moving, hosted["offload"]["modules"].size());
}

TEST_F(CliTest, OpsPlanSaysWhatCannotBeCheckpointed)
{
    const StepTracePtr own = withOwnCheckpoint(trace, "Transformer.layers.1.attention.wq");
    ASSERT_TRUE(writeStepTrace(*own, path("own.hrs")).ok());
    const auto run = [&](const std::string& fraction, const std::vector<std::string>& more) {
        std::vector<std::string> words{"ops-plan", path("own.hrs"), "--memory-budget", fraction};
        words.insert(words.end(), more.begin(), more.end());
        return headroomProgram(words);
    };
    const Finished finished = run("0.5", {"--json", "-o", path("policy.json")});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto plan = finished.json();
    ASSERT_EQ(plan["not_checkpointable"].size(), 3U);
    EXPECT_EQ(plan["not_checkpointable"][1]["module"], "Transformer.layers.1");
    EXPECT_EQ(plan["not_checkpointable"][1]["reason"], "the program already checkpoints a part of the module");
    for (const auto& op : plan["recomputed"])
        EXPECT_NE(op["module"], "Transformer.layers.1");
    const auto policy = nlohmann::ordered_json::parse(readFile(path("policy.json")));
    for (const auto& module : policy["modules"])
        EXPECT_NE(module["fqn"], "Transformer.layers.1");
    EXPECT_GT(policy["modules"].size(), 3U);

    EXPECT_THAT(run("0.5", {}).out,
                HasSubstr("Left out      Transformer cannot be checkpointed: the program already checkpoints a part of "
                          "the module\n              2 more cannot either; --json names all.\n"));
    const Finished nothing = run("0", {});
    EXPECT_EQ(nothing.exitCode, 3);
    EXPECT_THAT(nothing.err, HasSubstr("Transformer cannot be checkpointed: the program already checkpoints"));
    expectBadInput(run("0.5", {"-o", path("policy.json"), "--ac-unit", "Transformer.layers.1"}),
                   {"Transformer.layers.1 cannot be checkpointed", "already"});
    EXPECT_FALSE(headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "--json"})
                     .json()
                     .contains("not_checkpointable"));
}

TEST_F(CliTest, OpsPlanByMeasuredTimes)
{
    // The chain's matmuls are alike in flops; the second one is measured as the slow one.
    const Finished listed = headroomProgram({"ops", chain, "--json"});
    ASSERT_EQ(listed.exitCode, 0) << listed.err;
    const auto ops = listed.json()["ops"];
    auto times = nlohmann::ordered_json::array();
    int matmuls = 0;
    for (const auto& op : ops) {
        const bool slow = op["name"] == "aten.mm.default" && op["phase"] == "forward" && ++matmuls == 2;
        times.push_back(slow ? 5.0 : 0.1);
    }
    writeFile(path("times.json"), times.dump());
    const Finished finished = headroomProgram({"ops-plan", chain, "--memory-budget", "0.1", "--runtime", "measured",
                                               "--op-times", path("times.json"), "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto plan = finished.json();
    ASSERT_EQ(plan["saved"].size(), 1U);
    EXPECT_EQ(plan["saved"][0]["op"], "aten.mm.default");
    EXPECT_EQ(plan["saved"][0]["index"], 1);
    EXPECT_EQ(plan["torch_compile"]["activation_memory_budget_runtime_estimator"], "profile");

    const auto refused = [&](const std::string& text, std::initializer_list<const char*> words) {
        writeFile(path("times.json"), text);
        expectBadInput(headroomProgram({"ops-plan", chain, "--memory-budget", "0.1", "--runtime", "measured",
                                        "--op-times", path("times.json")}),
                       words);
    };
    // The same from a step that was measured; one that was not has no measured times.
    const auto writeMeasured = [&](bool measured) {
        StepTrace step = **readStepTrace(chain);
        const auto ms = times.get<std::vector<double>>();
        step.ops.ms.rows = ms;
        if (measured)
            step.info.measured = MeasuredStep();
        ASSERT_TRUE(writeStepTrace(step, path("measured.hrs")).ok());
    };
    const std::vector<std::string> byStep{"ops-plan", chain,        "--memory-budget",    "0.1",   "--runtime",
                                          "measured", "--op-times", path("measured.hrs"), "--json"};
    writeMeasured(true);
    const Finished again = headroomProgram(byStep);
    ASSERT_EQ(again.exitCode, 0) << again.err;
    EXPECT_EQ(again.json()["saved"], plan["saved"]);
    writeMeasured(false);
    expectBadInput(headroomProgram(byStep), {"measured.hrs", "this step was simulated"});
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep({}), path("measured.hrs")).ok());
    expectBadInput(headroomProgram(byStep), {"measured.hrs"});

    refused("[1, 2]", {"times.json", "2 numbers"});
    refused("{}", {"times.json", "list"});
    times[3] = -1;
    refused(times.dump(), {"times.json", "[3] is -1"});
    expectBadInput(headroomProgram({"ops-plan", chain, "--memory-budget", "0.1", "--op-times", path("times.json")}),
                   {"--runtime measured"});
}

TEST_F(CliTest, OpsFrontierIsMonotone)
{
    const Finished finished = headroomProgram({"ops-frontier", stepPath(), "--points", "21", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto frontier = finished.json();
    ASSERT_GT(frontier["points"].size(), 2U);
    for (std::size_t i = 1; i < frontier["points"].size(); ++i) {
        const auto& smaller = frontier["points"][i - 1];
        const auto& larger = frontier["points"][i];
        EXPECT_LE(smaller["memory_budget"].get<double>(), larger["memory_budget"].get<double>());
        EXPECT_LT(smaller["peak_bytes"].get<Bytes>(), larger["peak_bytes"].get<Bytes>());
        EXPECT_GE(smaller["recompute_flops"].get<double>(), larger["recompute_flops"].get<double>());
    }
    EXPECT_EQ(frontier["points"].back()["saved_bytes"], frontier["default_saved_bytes"]);

    const Finished table = headroomProgram({"ops-frontier", chain, "-o", path("frontier.csv")});
    ASSERT_EQ(table.exitCode, 0) << table.err;
    EXPECT_THAT(table.out, HasSubstr("Fraction"));
    EXPECT_THAT(readFile(path("frontier.csv")), HasSubstr(","));
}

TEST_F(CliTest, OpsFrontierSendsResultsOfOpsToTheHost)
{
    const std::string llama = HEADROOM_TEST_DATA "/steps/llama_6L_h100.hrs";
    const auto answerTo = [&](std::vector<std::string> more) {
        std::vector<std::string> words{"ops-frontier", llama, "--points", "5", "--offload"};
        words.insert(words.end(), more.begin(), more.end());
        return headroomProgram(words);
    };
    const Finished finished = answerTo({"--json", "--card", "18GiB", "-o", path("frontier.csv")});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    bool moves = false;
    const auto frontier = finished.json();
    for (const auto& point : frontier["points"]) {
        const auto& policy = point["policy"];
        const auto& without = policy["without_offload"];
        EXPECT_LE(policy["peak_bytes"], without["peak_bytes"]);
        const bool here = policy.contains("offload");
        moves = moves || here;
        const double waitMs = here ? policy["offload"]["exposed_ms"].get<double>() : 0;
        EXPECT_LE(policy["recompute_ms"].get<double>() + waitMs, without["recompute_ms"].get<double>() + 1e-9);
        // The card is asked for the plan, and for the policy.
        if (policy["card"]["runs"].get<bool>()) {
            EXPECT_LE(policy["peak_bytes"], policy["card"]["reserved_peak_bytes"]);
        }
        EXPECT_EQ(policy["card"]["capacity_bytes"], point["card"]["capacity_bytes"]);
    }
    EXPECT_TRUE(moves);
    EXPECT_THAT(readFile(path("frontier.csv")), HasSubstr("host"));

    const Finished table = answerTo({"--card", "18GiB"});
    ASSERT_EQ(table.exitCode, 0) << table.err;
    for (const char* words : {"Policy's peak", "To the host", "Exposed ms", "18.00 GiB"})
        EXPECT_THAT(table.out, HasSubstr(words));
    const auto limited = answerTo({"--json", "--host-memory", "64MiB"}).json();
    for (const auto& point : limited["points"]) {
        const auto& policy = point["policy"];
        EXPECT_LE(policy.contains("offload") ? policy["offload"]["host_bytes"].get<Bytes>() : 0, 64 * MiB);
    }
    EXPECT_FALSE(
        headroomProgram({"ops-frontier", llama, "--points", "2", "--json"}).json()["points"][0].contains("policy"));
    expectBadInput(answerTo({"--host-memory", "much"}), {"--host-memory"});
    expectBadInput(headroomProgram({"ops-frontier", llama, "--host-memory", "1GiB"}), {"--host-memory", "--offload"});
}

TEST_F(CliTest, OpsPlanRefusesWhatItCannotAnswer)
{
    for (const char* fraction : {"abc", "1.5", "-0.1", "nan", "50%", ""})
        expectBadInput(headroomProgram({"ops-plan", stepPath(), std::string("--memory-budget=") + fraction}),
                       {"--memory-budget"});
    expectBadInput(headroomProgram({"ops-plan", stepPath()}), {"--memory-budget"});
    expectBadInput(headroomProgram({"ops-plan", "--memory-budget", "0.5"}), {"step"});
    expectBadInput(headroomProgram({"ops-plan", path("none.hrs"), "--memory-budget", "0.5"}), {"none.hrs"});
    expectBadInput(headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "--solver", "cbc"}),
                   {"--solver", "cbc", "dp, greedy or ilp"});
    expectBadInput(headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "--runtime", "guess"}),
                   {"--runtime", "guess", "measured"});
    expectBadInput(headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "--ac-unit", "Transformer"}),
                   {"--ac-unit", "-o policy.json"});
    expectBadInput(headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "-o", path("policy.json"),
                                    "--ac-unit", "Transformer.layers.9"}),
                   {"--ac-unit", "Transformer.layers.9", "nearest"});
    expectBadInput(
        headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "-o", path("policy.json"), "--ac-unit",
                         "Transformer.layers.1", "--ac-unit", "Transformer.layers.1.attention"}),
        {"Transformer.layers.1"});
    expectBadInput(
        headroomProgram({"ops-plan", stepPath(), "--memory-budget", "0.5", "-o", path("nowhere/policy.json")}),
        {"nowhere"});
    writeFile(path("broken.hrs"), "no step");
    expectBadInput(headroomProgram({"ops-plan", path("broken.hrs"), "--memory-budget", "0.5"}), {"broken.hrs"});
    expectBadInput(headroomProgram({"ops-frontier", stepPath(), "--points", "1"}), {"--points"});
    expectBadInput(headroomProgram({"ops-frontier", stepPath(), "-o", path("frontier.doc")}), {".svg"});
}

} // namespace
} // namespace headroom
