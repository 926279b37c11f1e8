// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"
#include "tests/core/measured_step.h"

#include <chrono>
#include <random>

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

TEST_F(CliTest, AKilledScreenshotLeavesNoHalfPicture)
{
    using Clock = std::chrono::steady_clock;
    constexpr const char* before = "the picture of another day";
    constexpr std::string_view pngEnd("IEND\xae"
                                      "B`\x82");
    const std::vector<std::string> arguments{"screenshot", stepPath(), path("window.png"), "--size", "2400x1600"};
    const auto begin = Clock::now();
    ASSERT_EQ(headroomProgram(arguments).exitCode, 0);
    const std::chrono::duration<double> whole = Clock::now() - begin;
    std::mt19937 random(1);
    int killed = 0;
    for (int attempt = 0; attempt < 12; ++attempt) {
        writeFile(path("window.png"), before);
        const auto size = std::filesystem::file_size(path("window.png"));
        // Every other time it is killed when the picture changes: something is written then.
        const auto end = Clock::now() + whole * std::uniform_real_distribution(0.3, 1.1)(random);
        killed += killedProgram(arguments, [&] {
            return attempt % 2 == 0 ? std::filesystem::file_size(path("window.png")) != size : Clock::now() >= end;
        });
        for (const std::string& name : filesIn(folder.path())) {
            const std::string content = readFile(path(name));
            EXPECT_TRUE(name == "step.hrs" || content == before || content.ends_with(pngEnd))
                << name << ": " << content.size() << " bytes";
        }
    }
    EXPECT_GT(killed, 0);
}

TEST_F(CliTest, AMeasuredStepIsComparedOnTheCommandLine)
{
    const StepTracePtr measured = makeMeasuredStep(trace, "cuda:0", [&](OpId op) { return 2 * trace->ops.ms[op]; });
    ASSERT_TRUE(writeStepTrace(*measured, path("run.hrs")).ok());
    const auto screenshot = [&](const std::string& other) {
        std::vector<std::string> arguments{"screenshot", stepPath(), path("window.png")};
        if (!other.empty())
            arguments.insert(arguments.end(), {"--measured", other});
        return headroomProgram(arguments);
    };
    ASSERT_EQ(screenshot("").exitCode, 0);
    const std::string plain = readFile(path("window.png"));
    const Finished compared = screenshot(path("run.hrs"));
    ASSERT_EQ(compared.exitCode, 0) << compared.err;
    EXPECT_NE(readFile(path("window.png")), plain);
    EXPECT_EQ(screenshot(stepPath()).exitCode, 0) << "two simulated steps are compared by what is alive at the peaks";
    expectBadInput(screenshot(path("none.hrs")), {"none.hrs"});
    expectBadInput(headroomProgram({"--measured", path("run.hrs")}), {"torch-headroom step.hrs --measured run.hrs"});
    expectBadInput(headroomProgram({stepPath(), "--device", "1"}), {"choose a part of a memory snapshot"});
    expectBadInput(headroomProgram({stepPath(), "--from", "soon"}), {"--from `soon`"});
    // A measured step can be looked at, too.
    EXPECT_EQ(headroomProgram({"screenshot", path("run.hrs"), path("window.png")}).exitCode, 0);
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
    expectBadInput(headroomProgram({"screenshot", stepPath(), path("w.txt")}), {"w.txt", "expected a name with .png"});
    expectBadInput(headroomProgram({"screenshot", stepPath(), path("w.png"), "--select", "Transformer.layer"}),
                   {"no module is named `Transformer.layer`", "nearest"});
    EXPECT_THAT(filesIn(folder.path()), testing::ElementsAre("step.hrs"));
    const std::string latin = path("mod\xe8le.hrs");
    std::filesystem::copy_file(stepPath(), latin);
    expectBadInput(headroomProgram({"screenshot", latin, path("w.png")}), {"not UTF-8"});
    expectBadInput(headroomProgram({latin}), {"not UTF-8"});
    EXPECT_EQ(headroomProgram({"info", latin}).exitCode, 0);
}

} // namespace
} // namespace headroom
