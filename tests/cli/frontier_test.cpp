// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

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

TEST_F(CliTest, FrontierRefusesBadPoints)
{
    for (const char* points : {"1", "0", "-3", "many", "2.5"})
        expectBadInput(headroomProgram({"frontier", stepPath(), std::string("--points=") + points}), {"--points"});
}

} // namespace
} // namespace headroom
