// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

#include <filesystem>

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<std::string> commands{"info",      "modules", "ops",    "plan",      "frontier",
                                        "op-policy", "export",  "doctor", "screenshot"};

TEST(Usage, HelpAndVersionEverywhereOnStdout)
{
    std::vector<std::vector<std::string>> prefixes{{}};
    for (const std::string& command : commands)
        prefixes.push_back({command});
    for (std::vector<std::string> arguments : prefixes) {
        arguments.emplace_back("--help");
        const Finished help = headroomProgram(arguments);
        EXPECT_EQ(help.exitCode, 0) << arguments.front();
        EXPECT_THAT(help.out, HasSubstr("Usage: torch-headroom")) << arguments.front();
        EXPECT_EQ(help.err, "") << arguments.front();

        arguments.back() = "--version";
        const Finished version = headroomProgram(arguments);
        EXPECT_EQ(version.exitCode, 0) << arguments.front();
        EXPECT_THAT(version.out, StartsWith("torch-headroom 0.")) << arguments.front();
        EXPECT_EQ(version.err, "") << arguments.front();
    }
}

TEST(Usage, HelpListsEveryCommand)
{
    const Finished help = headroomProgram({"--help"});
    for (const std::string& command : commands)
        EXPECT_THAT(help.out, HasSubstr("\n  " + command + " "));
    EXPECT_THAT(help.out, HasSubstr("\n  record "));
}

TEST(Usage, AMistypedCommandIsNamed)
{
    expectBadInput(headroomProgram({"plann"}), {"plann", "neither a command nor a file", "--help"});
    expectBadInput(headroomProgram({"plann", "step.hrs", "--budget", "1GiB"}), {"plann", "--help"});
}

TEST(Usage, AnUnknownOptionIsNamed)
{
    expectBadInput(headroomProgram({"info", "step.hrs", "--jsn"}), {"--jsn", "torch-headroom info --help"});
}

TEST_F(CliTest, OptionsOfTheWindowDoNotStandBeforeACommand)
{
    expectBadInput(headroomProgram({"--gpu", "nosuch", "info", stepPath()}), {"--gpu", "`info`", "behind the command"});
}

TEST_F(CliTest, AnOutputReplacesNoInput)
{
    std::filesystem::copy_file(stepPath(), path("in.hrs"));
    const auto size = std::filesystem::file_size(path("in.hrs"));
    for (const char* command : {"report", "allocator"})
        expectBadInput(headroomProgram({command, path("in.hrs"), "-o", path("./in.hrs")}), {"would replace", "in.hrs"});
    EXPECT_EQ(std::filesystem::file_size(path("in.hrs")), size);
}

TEST_F(CliTest, LimitsOfOffloadAreNumbersAboveZero)
{
    const std::string step = HEADROOM_TEST_DATA "/steps/gpt2_12L_h100.hrs";
    expectBadInput(headroomProgram({"plan", step, "--budget", "12GiB", "--offload", "--host-memory", "0"}),
                   {"--host-memory 0", "at least 1 B"});
    for (const char* rate : {"inf", "nan", "5,nan"})
        expectBadInput(headroomProgram({"plan", step, "--budget", "12GiB", "--offload", "--host-bandwidth", rate}),
                       {"--host-bandwidth", rate});
}

TEST(Usage, AMissingArgumentIsNamed)
{
    for (const char* command : {"info", "modules", "ops", "export", "screenshot"})
        expectBadInput(headroomProgram({command}), {"step", "--help"});
    expectBadInput(headroomProgram({"plan", "step.hrs"}), {"--budget", "torch-headroom plan --help"});
}

TEST_F(CliTest, AFullDiskIsReported)
{
    if (!std::filesystem::exists("/dev/full"))
        GTEST_SKIP() << "this system has no /dev/full";
    const Finished finished
        = runProgram("/bin/sh", {"-c", HEADROOM_BIN_DIR "/torch-headroom info " + stepPath() + " > /dev/full"});
    EXPECT_EQ(finished.exitCode, 2);
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
}

TEST_F(CliTest, EveryCommandRefusesAFileThatIsNoStep)
{
    writeFile(path("foreign.hrs"), "PK\x03\x04 this is something else, long enough to hold a header of any format");
    writeFile(path("empty.hrs"), "");
    const std::string whole = readFile(stepPath());
    writeFile(path("truncated.hrs"), std::string_view(whole).substr(0, whole.size() / 2));
    std::string damaged = whole;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x40);
    writeFile(path("damaged.hrs"), damaged);

    const std::vector<std::vector<std::string>> calls{
        {"info"},     {"modules"},
        {"ops"},      {"plan", "--budget", "1GiB"},
        {"frontier"}, {"op-policy", "--memory-budget", "0.5", "--module", "Transformer"}};
    for (const char* name : {"missing.hrs", "foreign.hrs", "empty.hrs", "truncated.hrs", "damaged.hrs"}) {
        for (std::vector<std::string> call : calls) {
            call.push_back(path(name));
            expectBadInput(headroomProgram(call), {name});
        }
    }
    expectBadInput(headroomProgram({"info", path("truncated.hrs")}), {"truncated", "offset"});
}

} // namespace
} // namespace headroom
