// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Doctor, SaysWhatIsThereAndWhatToDo)
{
    const Finished finished = headroomProgram({"doctor", "--json"});
    ASSERT_EQ(finished.exitCode, 0) << finished.err;
    const auto report = finished.json();
    EXPECT_THAT(keysOf(report),
                ElementsAre("headroom", "qt", "glpk", "display", "recorder", "torch", "cuda_driver", "cupti", "gpus",
                            "advice"));
    EXPECT_TRUE(report["qt"].get<std::string>().starts_with("6.")) << report["qt"];
    EXPECT_NE(report["glpk"], "");
    EXPECT_TRUE(report["display"].is_null());
    EXPECT_THAT(finished.out, HasSubstr("No display"));
#ifdef HEADROOM_HAS_RECORDER
    EXPECT_TRUE(report["torch"].is_string());
    EXPECT_THAT(report["recorder"].get<std::string>(), testing::EndsWith("/headroom-record"));
#else
    EXPECT_TRUE(report["recorder"].is_null());
    EXPECT_THAT(finished.out, HasSubstr("No headroom-record"));
#endif
    EXPECT_THAT(headroomProgram({"doctor"}).out, HasSubstr("GLPK"));
}

#ifdef HEADROOM_HAS_RECORDER

TEST(Record, HelpAndVersionAreTheRecorders)
{
    const Finished help = headroomProgram({"record", "--help"});
    EXPECT_EQ(help.exitCode, 0) << help.err;
    EXPECT_THAT(help.out, HasSubstr("--gpu"));
    EXPECT_EQ(headroomProgram({"record", "--version"}).exitCode, 0);
}

TEST(Record, AStepOfTheDemoCanBePlanned)
{
    const TemporaryFolder folder;
    const std::string step = (folder.path() / "demo.hrs").string();
    const Finished recorded = headroomProgram({"record", "demo:mlp", "-o", step, "--gpu", "a100-80gb"});
    ASSERT_EQ(recorded.exitCode, 0) << recorded.err;
    const auto info = headroomProgram({"info", step, "--json"}).json();
    EXPECT_EQ(info["model"], "demo:mlp");
    EXPECT_EQ(info["gpu"], "a100-80gb");
    EXPECT_GT(info["peak_bytes"].get<std::int64_t>(), 0);
    const Finished plan = headroomProgram({"plan", step, "--budget", "1TiB"});
    EXPECT_EQ(plan.exitCode, 2) << "TiB is no unit of ours";
    EXPECT_EQ(headroomProgram({"plan", step, "--budget", "1024GiB"}).exitCode, 0);
}

TEST(Record, BadInputHasItsExitCodeAndWritesNothing)
{
    const TemporaryFolder folder;
    const std::string step = (folder.path() / "step.hrs").string();
    const std::vector<std::vector<std::string>> calls{
        {"record", "demo:nothing", "-o", step},
        {"record", "no-such-file.pt2", "-o", step},
        {"record", "demo:mlp", "-o", step, "--gpu", "abacus"},
        {"record", "demo:mlp", "-o", step, "--batch", "minus"},
        {"record", "demo:mlp", "-o", "/proc/step.hrs"},
    };
    for (const auto& call : calls) {
        const Finished finished = headroomProgram(call);
        EXPECT_EQ(finished.exitCode, 2) << call[1] << ": " << finished.err;
        EXPECT_THAT(finished.err, testing::StartsWith("headroom-record: ")) << call[1];
        EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
        EXPECT_THAT(filesIn(folder.path()), testing::IsEmpty()) << call[1];
    }
}

TEST(Record, ADeviceThatIsNotThereIsExitCodeFour)
{
    if (std::filesystem::exists("/dev/nvidiactl"))
        GTEST_SKIP() << "this machine has a GPU";
    if (headroomProgram({"record", "--help"}).out.find("cuda") == std::string::npos)
        GTEST_SKIP() << "this recorder offers no CUDA device";
    const TemporaryFolder folder;
    const Finished finished
        = headroomProgram({"record", "demo:mlp", "-o", (folder.path() / "step.hrs").string(), "--device", "cuda:0"});
    EXPECT_EQ(finished.exitCode, 4) << finished.err;
    EXPECT_THAT(filesIn(folder.path()), testing::IsEmpty());
}

#endif

} // namespace
} // namespace headroom
