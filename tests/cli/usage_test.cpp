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

TEST_F(CliTest, AnOptionThatWouldBeIgnoredIsRefused)
{
    const std::string step = stepPath(), info = data("transformer_modinfo.json");
    const std::string stats = data("seed001_foo_sacstats.json"), policy = path("policy.json");
    const auto refused = [](const std::vector<std::string>& arguments, std::initializer_list<const char*> words) {
        SCOPED_TRACE(testing::PrintToString(arguments));
        expectBadInput(headroomProgram(arguments), words);
    };
    const std::string out = path("out.html");
    for (const std::vector<std::string>& call : {std::vector<std::string>{"plan", step, "--budget", "1GiB"},
                                                 {"frontier", step},
                                                 {"ops-plan", step, "--memory-budget", "0.5"},
                                                 {"ops-frontier", step},
                                                 {"report", step, "-o", out}}) {
        std::vector<std::string> with = call;
        with.insert(with.end(), {"--host-bandwidth", "50"});
        refused(with, {"--host-bandwidth", "would be ignored without --offload"});
    }
    refused({"plan", step, "--budget", "1GiB", "--pin", "Transformer.layers.0=save", "--host-bandwidth", "50"},
            {"--host-bandwidth", "would be ignored without --offload or a pin"});
    for (const char* command : {"info", "ops", "frontier"})
        refused({command, step, "--topology", "h100-8x400"}, {"--topology would be ignored", "single process"});
    for (const char* option : {"--gpu", "--topology", "--calibration"}) {
        refused({"plan", "--module-info", info, "--budget", "2GiB", option, "none"}, {option, "--module-info"});
        refused({"op-policy", "--sac-stats", stats, "--memory-budget", "0.5", option, "none"}, {option, "--sac-stats"});
    }
    for (const std::vector<std::string>& call : {std::vector<std::string>{"ops", step},
                                                 {step},
                                                 {"info", step},
                                                 {"export", step, path("out.csv"), "--timeline"},
                                                 {"report", step, "-o", out},
                                                 {"screenshot", step, path("w.png")},
                                                 {"compare", step, step}}) {
        std::vector<std::string> with = call;
        with.insert(with.end(), {"--profile-step", "1"});
        refused(with, {"--profile-step", "expected such a trace"});
    }
    refused({"screenshot", step, path("w.png"), "--from", "1"}, {"--from", "expected a snapshot"});
    refused({"export", step, path("out.csv"), "--timeline", "--by", "category"}, {"--by requires --peak"});
    refused({"export", step, path("out.csv"), "--frontier", "--policy", policy}, {"--policy requires --timeline"});
    refused({"export", step, path("out.csv"), "--peak", "--module", "Transformer"}, {"--module requires --tradeoff"});
    for (const char* option : {"--gpu", "--step", "--profile-step"})
        refused({"calibrate", step, option, "1"}, {option, "expected such a trace"});
    refused({"calibrate", step, "--topology", "h100-8x400", "-o", path("t.json"), "--step", step},
            {"--topology", "--step"});
    refused({"verify", step, "--executed", step, "--policy", policy, "--python", "python3"},
            {"--python", "--executed"});
    refused({"fit", "demo:mlp", "--gpu", "a100-80gb", "--batch", "8", "--changes", "--policies", path("p")},
            {"--changes", "--policies"});
    refused({"fit", "train.py", "--gpu", "a100-80gb", "--vary", "--b=8", "--vary-accumulation", "--accum"},
            {"--vary-accumulation", "without --global-batch or --changes"});
    refused({"fit", "demo:mlp", "--batch", "8", "--changes"}, {}); // no card
    EXPECT_THAT(filesIn(folder.path()), testing::ElementsAre("step.hrs"));
    // A pin and a policy may offload, too.
    const std::string lora = HEADROOM_TEST_DATA "/steps/lora_3L_h100.hrs";
    const Finished pinned = headroomProgram({"plan", lora, "--budget", "10GiB", "--pin",
                                             "PeftModelForCausalLM.base_model.model.model.layers.0=offload",
                                             "--host-bandwidth", "50", "-o", policy});
    EXPECT_EQ(pinned.exitCode, 0) << pinned.err;
    EXPECT_EQ(headroomProgram({"report", lora, "--policy", policy, "--host-bandwidth", "50", "-o", out}).exitCode, 0);
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
