// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(CliTest, OpPolicyOfAStatsFile)
{
    const Finished finished = headroomProgram(
        {"op-policy", "--sac-stats", data("seed001_foo_sacstats.json"), "--memory-budget", "0.5", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto policy = finished.json();
    EXPECT_THAT(keysOf(policy), ElementsAre("save", "memory_bytes", "recompute_ms", "status", "reason"));
    EXPECT_EQ(policy["status"], "optimal");
    EXPECT_EQ(policy["reason"], "");
    const auto stats = nlohmann::ordered_json::parse(readFile(data("seed001_foo_sacstats.json")));
    const auto& fields = stats.contains("func_names") ? stats : stats.front();
    ASSERT_EQ(policy["save"].size(), fields["func_names"].size());
    std::int64_t kept = 0;
    std::int64_t all = 0;
    for (std::size_t op = 0; op < policy["save"].size(); ++op) {
        EXPECT_TRUE(policy["save"][op] == 0 || policy["save"][op] == 1);
        all += fields["memory"][op].get<std::int64_t>();
        if (policy["save"][op] == 1)
            kept += fields["memory"][op].get<std::int64_t>();
    }
    EXPECT_EQ(policy["memory_bytes"], kept);
    EXPECT_LE(kept, all / 2);
}

TEST_F(CliTest, OpPolicyOfAStep)
{
    const std::vector<std::string> arguments{"op-policy", stepPath(), "--module", "Transformer.layers.0",
                                             "--memory-budget"};
    const auto at = [&](const char* budget) {
        std::vector<std::string> all = arguments;
        all.insert(all.end(), {budget, "--json"});
        const Finished finished = headroomProgram(all);
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        return finished.json();
    };
    const auto everything = at("1");
    const auto half = at("0.5");
    const auto nothing = at("0");
    EXPECT_LT(half["memory_bytes"].get<std::int64_t>(), everything["memory_bytes"].get<std::int64_t>());
    EXPECT_LT(half["recompute_ms"].get<double>(), nothing["recompute_ms"].get<double>());
    EXPECT_EQ(everything["save"].size(), nothing["save"].size());

    std::vector<std::string> forPeople = arguments;
    forPeople.emplace_back("0.5");
    EXPECT_THAT(headroomProgram(forPeople).out, HasSubstr("recompute"));
}

TEST_F(CliTest, OpPolicyThatDoesNotFitIsADocumentWithAReason)
{
    writeFile(path("stats.json"), R"({"func_names": ["rand", "mm"], "runtimes": [1.0, 2.0], "memory": [512, 512],
        "view_like_ops": [], "rand_ops": [0], "saved_autograd_ops": [], "inplace_ops": [], "force_store_random": true})");
    const std::vector<std::string> arguments{"op-policy", "--sac-stats", path("stats.json"), "--memory-budget", "0.1"};
    std::vector<std::string> asJson = arguments;
    asJson.emplace_back("--json");
    const Finished finished = headroomProgram(asJson);
    EXPECT_EQ(finished.exitCode, 3);
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    const auto policy = finished.json();
    ASSERT_TRUE(policy.is_object()) << finished.out;
    EXPECT_THAT(keysOf(policy), ElementsAre("save", "memory_bytes", "recompute_ms", "status", "reason"));
    EXPECT_EQ(policy["status"], "infeasible");
    EXPECT_TRUE(policy["save"].empty());
    EXPECT_EQ(policy["memory_bytes"], -1);
    EXPECT_THAT(policy["reason"].get<std::string>(), HasSubstr("No policy fits"));
    const Finished forPeople = headroomProgram(arguments);
    EXPECT_EQ(forPeople.exitCode, 3);
    EXPECT_EQ(forPeople.err, finished.err);
}

TEST_F(CliTest, OpPolicyRefusesWhatItCannotAnswer)
{
    for (const char* budget : {"abc", "1.5", "-0.1", "nan", "50%", ""})
        expectBadInput(headroomProgram({"op-policy", stepPath(), "--module", "Transformer.layers.0",
                                        std::string("--memory-budget=") + budget}),
                       {"--memory-budget"});
    expectBadInput(headroomProgram({"op-policy", stepPath(), "--memory-budget", "0.5"}), {"--module"});
    expectBadInput(headroomProgram({"op-policy", "--memory-budget", "0.5"}), {"--sac-stats"});
    expectBadInput(
        headroomProgram({"op-policy", stepPath(), "--module", "Transformer.layers.9", "--memory-budget", "0.5"}),
        {"Transformer.layers.9", "nearest"});
    expectBadInput(headroomProgram({"op-policy", stepPath(), "--module", "Transformer.layers.0.attention.wq",
                                    "--memory-budget", "0.5"}),
                   {"Transformer.layers.0.attention.wq", "children"});
    writeFile(path("stats.json"), R"({"func_names": ["mm"], "runtimes": [1.0]})");
    expectBadInput(headroomProgram({"op-policy", "--sac-stats", path("stats.json"), "--memory-budget", "0.5"}),
                   {"stats.json", "memory"});
}

} // namespace
} // namespace headroom
