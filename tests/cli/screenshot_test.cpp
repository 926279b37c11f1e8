// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

/// Width and height in the header of a PNG file.
std::pair<int, int> pngSize(const std::string& content)
{
    const auto number = [&](std::size_t at) {
        int value = 0;
        for (std::size_t byte = 0; byte < 4; ++byte)
            value = value * 256 + static_cast<unsigned char>(content.at(at + byte));
        return value;
    };
    return {number(16), number(20)};
}

TEST_F(CliTest, ScreenshotOfTheWindowWithoutADisplay)
{
    for (const char* theme : {"light", "dark"}) {
        const Finished finished
            = headroomProgram({"screenshot", stepPath(), path("window.png"), "--size", "1200x800", "--theme", theme,
                               "--budget", "150MiB", "--select", "Transformer.layers.1"});
        ASSERT_EQ(finished.exitCode, 0) << finished.err;
        EXPECT_EQ(finished.out, "");
        EXPECT_EQ(finished.err, "");
        const std::string content = readFile(path("window.png"));
        ASSERT_GT(content.size(), 1000U);
        EXPECT_EQ(pngSize(content), std::pair(1200, 800));
    }
}

TEST_F(CliTest, ScreenshotRefusesBadInput)
{
    expectBadInput(headroomProgram({"screenshot", stepPath(), path("w.png"), "--size", "wide"}), {"--size", "`wide`"});
    expectBadInput(headroomProgram({"screenshot", stepPath(), path("w.png"), "--size", "1x1"}), {"--size"});
    expectBadInput(headroomProgram({"screenshot", stepPath(), path("w.png"), "--theme", "pink"}),
                   {"--theme", "`pink`"});
    expectBadInput(headroomProgram({"screenshot", stepPath(), path("w.png"), "--budget", "abc"}), {"--budget"});
    expectBadInput(headroomProgram({"screenshot", path("none.hrs"), path("w.png")}), {"none.hrs"});
    expectBadInput(headroomProgram({"screenshot", stepPath(), "/proc/w.png"}), {"/proc/w.png"});
    EXPECT_THAT(filesIn(folder.path()), testing::ElementsAre("step.hrs"));
}

} // namespace
} // namespace headroom
