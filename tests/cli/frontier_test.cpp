// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

void expectFrontier(const nlohmann::ordered_json& frontier)
{
    EXPECT_THAT(
        keysOf(frontier),
        ElementsAre("complete", "world_size", "baseline_peak_bytes", "least_budget_bytes", "step_ms", "points"));
    const auto& points = frontier["points"];
    ASSERT_GE(points.size(), 2U);
    for (std::size_t point = 0; point < points.size(); ++point) {
        EXPECT_THAT(keysOf(points[point]), ElementsAre("peak_bytes", "recompute_ms", "gap"));
        if (point == 0)
            continue;
        EXPECT_GT(points[point]["peak_bytes"].get<std::int64_t>(), points[point - 1]["peak_bytes"].get<std::int64_t>());
        EXPECT_LT(points[point]["recompute_ms"].get<double>(), points[point - 1]["recompute_ms"].get<double>());
    }
    EXPECT_EQ(points.back()["recompute_ms"], 0.0) << "with no budget at all, nothing is recomputed";
}

TEST_F(CliTest, FrontierOfPyTorchsModuleInfo)
{
    const Finished finished = headroomProgram({"frontier", "--module-info", data("transformer_modinfo.json"),
                                               "--points", "9", "--world-size", "4", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto frontier = finished.json();
    expectFrontier(frontier);
    EXPECT_EQ(frontier["world_size"], 4);
    EXPECT_LE(frontier["points"].size(), 9U);
    for (const auto& point : frontier["points"])
        EXPECT_NEAR(point["gap"].get<double>(), 0, 1e-9);
}

TEST_F(CliTest, FrontierOfAStep)
{
    for (const char* formulation : {"piecewise", "exact"}) {
        std::vector<std::string> arguments{"frontier", stepPath(), "--points", "7", "--formulation", formulation};
        EXPECT_THAT(headroomProgram(arguments).out, HasSubstr("Recompute ms"));
        arguments.emplace_back("--json");
        const Finished finished = headroomProgram(arguments);
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        expectFrontier(finished.json());
    }
}

TEST_F(CliTest, FrontierSaysWhichPlansRunOnACard)
{
    std::vector<std::string> arguments{"frontier", stepPath(), "--points", "5", "--json"};
    const auto plain = headroomProgram(arguments).json()["points"];
    const std::string card = std::to_string(plain[plain.size() / 2]["peak_bytes"].get<Bytes>() + 4 * MiB);
    arguments.insert(arguments.end(), {"--card", card});
    const Finished finished = headroomProgram(arguments);
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto points = finished.json()["points"];
    ASSERT_EQ(points.size(), plain.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
        EXPECT_EQ(points[i]["peak_bytes"], plain[i]["peak_bytes"]);
        const auto& on = points[i]["card"];
        EXPECT_EQ(on["capacity_bytes"].get<Bytes>(), std::stoll(card));
        EXPECT_EQ(on["runs"].get<bool>(), on["least_capacity_bytes"].get<Bytes>() <= std::stoll(card)) << on;
        EXPECT_GE(on["least_capacity_bytes"].get<Bytes>(), points[i]["peak_bytes"].get<Bytes>());
        EXPECT_EQ(on.contains("out_of_memory"), !on["runs"].get<bool>());
    }
    EXPECT_EQ(points.front()["card"]["runs"], true);
    EXPECT_EQ(points.back()["card"]["runs"], false);
    arguments.erase(arguments.begin() + 4); // --json
    EXPECT_THAT(headroomProgram(arguments).out, AllOf(HasSubstr("Runs from"), HasSubstr("out of memory")));
    arguments.insert(arguments.end(), {"--formulation", "piecewise"});
    expectBadInput(headroomProgram(arguments), {"--card", "--formulation piecewise"});
    expectBadInput(headroomProgram({"frontier", stepPath(), "--formulation", "piecewise", "--offload"}), {"--offload"});
    expectBadInput(headroomProgram({"frontier", stepPath(), "--world-size", "2", "--offload"}), {"--offload"});
}

TEST_F(CliTest, AnUnknownFormatOfAPictureIsSaidBeforeTheWork)
{
    // None of the programs exists: an error about the file comes first.
    for (const std::vector<std::string>& command : {std::vector<std::string>{"frontier", path("none.hrs")},
                                                    {"ops-frontier", path("none.hrs")},
                                                    {"fit", path("none.hrs"), "--batch", "1..8"}}) {
        std::vector<std::string> words = command;
        words.insert(words.end(), {"-o", path("picture.gif")});
        expectBadInput(headroomProgram(words), {"picture.gif", "the suffix decides the format"});
    }
}

TEST_F(CliTest, FrontierRefusesBadPoints)
{
    for (const char* points : {"1", "0", "-3", "many", "2.5"})
        expectBadInput(headroomProgram({"frontier", stepPath(), std::string("--points=") + points}), {"--points"});
}

} // namespace
} // namespace headroom
