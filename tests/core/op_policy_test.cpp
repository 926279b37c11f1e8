// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/op_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::filesystem::path references = std::filesystem::path(HEADROOM_TEST_DATA) / "pytorch";

/// The eight ops of PyTorch's test (test_sac_ilp.py).
SacStats seedStats()
{
    SacStats stats;
    stats.funcNames = {"aten.copy_",          "aten.add",    "aten.div", "aten.mm",
                       "aten.native_dropout", "aten.linear", "aten.t",   "aten.relu_"};
    stats.runtimes = {5, 5, 8, 15, 15, 9, 1, 5};
    stats.memory = {0, 100, 100, 120, 0, 100, 0, 0};
    stats.viewLikeOps = {6};
    stats.randOps = {4};
    stats.inplaceOps = {{0, 0}, {7, 5}};
    return stats;
}

SacStats statsOf(const Json& json)
{
    SacStats stats;
    stats.funcNames = json["func_names"].get<std::vector<std::string>>();
    stats.runtimes = json["runtimes"].get<std::vector<double>>();
    stats.memory = json["memory"].get<std::vector<Bytes>>();
    stats.viewLikeOps = json["view_like_ops"].get<std::vector<int>>();
    stats.randOps = json["rand_ops"].get<std::vector<int>>();
    stats.inplaceOps = json["inplace_ops"].get<std::vector<std::pair<int, int>>>();
    stats.forceStoreRandom = json["force_store_random"].get<bool>();
    return stats;
}

/// The rules of sac_ilp.py, one by one.
void expectValid(const SacStats& stats, double budget, const OpPolicy& policy)
{
    ASSERT_EQ(policy.save.size(), stats.funcNames.size());
    Bytes memory = 0;
    double recomputeMs = 0;
    for (std::size_t op = 0; op < policy.save.size(); ++op) {
        memory += policy.save[op] ? stats.memory[op] : 0;
        recomputeMs += policy.save[op] ? 0 : stats.runtimes[op];
    }
    EXPECT_EQ(policy.memory, memory);
    EXPECT_NEAR(policy.recomputeMs, recomputeMs, 1e-9);
    const Bytes all = std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
    EXPECT_LE(memory, static_cast<Bytes>(std::ceil(budget * static_cast<double>(all))));
    for (const int op : stats.viewLikeOps)
        EXPECT_FALSE(policy.save[static_cast<std::size_t>(op)]) << "view " << op;
    for (const int op : stats.randOps)
        EXPECT_EQ(policy.save[static_cast<std::size_t>(op)],
                  stats.forceStoreRandom || policy.save[static_cast<std::size_t>(stats.randOps.front())])
            << "random op " << op;
    for (const auto& [op, parent] : stats.inplaceOps)
        EXPECT_EQ(policy.save[static_cast<std::size_t>(op)],
                  op == parent || policy.save[static_cast<std::size_t>(parent)])
            << "in-place op " << op;
}

void expectOptimum(const SacStats& stats, double budget, const Json& timeSaved)
{
    const Result<OpPolicy> policy = opPolicy(stats, budget);
    if (timeSaved.is_null()) {
        ASSERT_FALSE(policy.ok());
        EXPECT_EQ(policy.error().kind, ErrorKind::infeasible);
        return;
    }
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    expectValid(stats, budget, *policy);
    EXPECT_EQ(policy->gap, 0);
    const double all = std::accumulate(stats.runtimes.begin(), stats.runtimes.end(), 0.0);
    EXPECT_NEAR(all - policy->recomputeMs, timeSaved.get<double>(), 1e-9);
}

TEST(OpPolicy, givesTheTableOfPyTorchsTest)
{
    const Json reference = Json::parse(std::ifstream(references / "policy_per_module.json"));
    ASSERT_EQ(reference["seed_table"].size(), 7U);
    for (const Json& row : reference["seed_table"]) {
        const Result<OpPolicy> policy = opPolicy(seedStats(), row["budget"].get<double>());
        ASSERT_TRUE(policy.ok()) << policy.error().message;
        const auto expected = row["save"].get<std::vector<int>>();
        EXPECT_EQ(std::vector<int>(policy->save.begin(), policy->save.end()), expected)
            << "memory budget " << row["budget"];
    }
}

TEST(OpPolicy, isExactOnRandomModules)
{
    const Json reference = Json::parse(std::ifstream(references / "policy_per_module.json"));
    ASSERT_EQ(reference["random"].size(), 10U);
    for (std::size_t i = 0; i < reference["random"].size(); ++i)
        for (const Json& row : reference["random"][i]["cases"]) {
            SCOPED_TRACE("random " + std::to_string(i) + " at " + row["budget"].dump());
            expectOptimum(statsOf(reference["random"][i]), row["budget"].get<double>(), row["runtime_saved"]);
        }
}

TEST(OpPolicy, isExactOnRecordedModules)
{
    const Json reference = Json::parse(std::ifstream(references / "policy_per_module.json"));
    std::map<std::string, Json> files;
    for (const char* name : {"transformer_sacstats.json", "resnet50_sacstats.json"})
        files[name] = Json::parse(std::ifstream(references / name));
    ASSERT_EQ(reference["modules"].size(), 110U);
    for (const Json& row : reference["modules"]) {
        SCOPED_TRACE(row.dump());
        expectOptimum(statsOf(files.at(row["file"].get<std::string>()).at(row["fqn"].get<std::string>())),
                      row["budget"].get<double>(), row["runtime_saved"]);
    }
}

TEST(OpPolicy, forcedRandomOpsAreSaved)
{
    SacStats stats = seedStats();
    stats.memory[4] = 50;
    stats.forceStoreRandom = true;
    const Result<OpPolicy> policy = opPolicy(stats, 50.0 / 470);
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    EXPECT_TRUE(policy->save[4]);
    EXPECT_EQ(policy->memory, 50);
    const Result<OpPolicy> less = opPolicy(stats, 0.1);
    ASSERT_FALSE(less.ok());
    EXPECT_EQ(less.error().kind, ErrorKind::infeasible);
    EXPECT_THAT(less.error().message, AllOf(HasSubstr("take 50 B"), HasSubstr("47 B of 470 B")));
}

TEST(OpPolicy, aViewThatMustBeSavedHasNoPolicy)
{
    SacStats stats = seedStats();
    stats.inplaceOps.emplace_back(6, 6);
    const Result<OpPolicy> policy = opPolicy(stats, 0.5);
    ASSERT_FALSE(policy.ok());
    EXPECT_EQ(policy.error().kind, ErrorKind::infeasible);
    EXPECT_THAT(policy.error().message, HasSubstr("aten.t"));
}

TEST(OpPolicy, refusesABudgetThatIsNoShare)
{
    for (const double budget : {-0.1, 1.01, std::nan("")}) {
        const Result<OpPolicy> policy = opPolicy(seedStats(), budget);
        ASSERT_FALSE(policy.ok()) << budget;
        EXPECT_EQ(policy.error().kind, ErrorKind::badInput);
    }
}

TEST(OpPolicy, aModuleWithoutOpsSavesNothing)
{
    const Result<OpPolicy> policy = opPolicy(SacStats{}, 0.5);
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    EXPECT_TRUE(policy->save.empty());
    EXPECT_EQ(policy->memory, 0);
}

// Hundreds of sizes without a common measure: an exact search would not end, so the gap says what is proven.
TEST(OpPolicy, saysAGapWhereItCannotProve)
{
    std::mt19937 random(3);
    SacStats stats;
    for (int op = 0; op < 60; ++op) {
        stats.funcNames.emplace_back("aten.mm");
        stats.memory.push_back(512 * std::uniform_int_distribution<Bytes>(1, 800000)(random));
        stats.runtimes.push_back(static_cast<double>(stats.memory.back()) * 1e-9);
    }
    const Result<OpPolicy> policy = opPolicy(stats, 0.5);
    ASSERT_TRUE(policy.ok()) << policy.error().message;
    expectValid(stats, 0.5, *policy);
    EXPECT_GT(policy->gap, 0);
    EXPECT_LT(policy->gap, 1e-3);
}

} // namespace
} // namespace headroom
