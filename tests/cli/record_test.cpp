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
                ElementsAre("headroom", "qt", "glpk", "display", "recorder", "torch", "cuda_driver", "cupti",
                            "confinement", "gpus", "advice"));
    EXPECT_TRUE(report["qt"].get<std::string>().starts_with("6.")) << report["qt"];
    EXPECT_NE(report["glpk"], "");
    EXPECT_TRUE(report["display"].is_null());
    EXPECT_THAT(finished.out, HasSubstr("No display"));
#ifdef HEADROOM_HAS_RECORDER
    EXPECT_TRUE(report["torch"].is_string());
    EXPECT_THAT(report["recorder"].get<std::string>(), testing::EndsWith("/torch-headroom-record"));
#else
    EXPECT_TRUE(report["recorder"].is_null());
    EXPECT_THAT(finished.out, HasSubstr("No torch-headroom-record"));
#endif
    EXPECT_THAT(headroomProgram({"doctor"}).out, HasSubstr("GLPK"));
}

/// An environment whose Python is a script that prints its arguments; `hasPackage` is what it says of the package.
std::string environmentWithPython(const TemporaryFolder& folder, bool hasPackage)
{
    const std::filesystem::path python = folder.path() / "bin" / "python3";
    std::filesystem::create_directory(python.parent_path());
    writeFile(python,
              std::string("#!/bin/sh\n[ \"$1\" = -c ] && exit ") + (hasPackage ? "0" : "1")
                  + "\nfor word in \"$@\"; do echo \"<$word>\"; done\nexit 3\n");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    return folder.path().string();
}

Finished recordWith(const std::string& environment, const std::vector<std::string>& arguments)
{
    return runProgram(HEADROOM_BIN_DIR "/torch-headroom", arguments, {{"VIRTUAL_ENV", environment}});
}

TEST(Record, AScriptIsRunByThePythonOfTheEnvironment)
{
    const TemporaryFolder folder;
    const std::string environment = environmentWithPython(folder, true);
    const Finished finished = recordWith(
        environment, {"record", "--gpu", "t4-16gb", "-o", "a b.hrs", "train.py", "--epochs", "3", "-o", "x"});
    EXPECT_EQ(finished.exitCode, 3) << "that of the Python";
    EXPECT_EQ(
        finished.out,
        "<-m>\n<torch_headroom.record>\n<--gpu>\n<t4-16gb>\n<-o>\n<a b.hrs>\n<train.py>\n<--epochs>\n<3>\n<-o>\n<x>\n");
    EXPECT_THAT(recordWith(environment, {"record", "-m", "package.train"}).out, HasSubstr("<package.train>"));
    EXPECT_THAT(recordWith(environment, {"record", "--nproc-per-node", "8", "--rank", "1", "train.py"}).out,
                HasSubstr("<train.py>"))
        << "values of options are no model";
    EXPECT_THAT(recordWith(environment, {"record", "torchrun", "--nproc-per-node", "8", "train.py"}).out,
                HasSubstr("<torchrun>"));
}

TEST(Record, APythonWithoutThePackageIsToldHowToGetIt)
{
    const TemporaryFolder folder;
    const Finished finished = recordWith(environmentWithPython(folder, false), {"record", "train.py"});
    EXPECT_EQ(finished.exitCode, 2);
    EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("/bin/python3 -m pip install "));
}

TEST(Record, AModelIsNoScript)
{
    const TemporaryFolder folder;
    const std::string environment = environmentWithPython(folder, true);
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"record", "demo:nothing", "-o", "train.py"},
          {"record", "-o", "train.py", "demo:nothing"},
          {"record", "--help"}}) {
        EXPECT_THAT(recordWith(environment, arguments).out, testing::Not(HasSubstr("<-m>"))) << arguments[1];
    }
}

#ifdef HEADROOM_HAS_RECORDER

TEST(Record, HelpAndVersionAreTheRecorders)
{
    const Finished help = headroomProgram({"record", "--help"});
    EXPECT_EQ(help.exitCode, 0) << help.err;
    EXPECT_THAT(help.out, HasSubstr("--gpu"));
    EXPECT_EQ(headroomProgram({"record", "--version"}).exitCode, 0);
}

TEST(Record, SaysTheCommandThatWasTyped)
{
    for (const char* command : {"record", "verify"}) {
        const std::string help = headroomProgram({command, "--help"}).out;
        EXPECT_THAT(help, HasSubstr(std::string("Usage: torch-headroom ") + command + ' '));
        EXPECT_THAT(help, testing::Not(HasSubstr("torch-headroom-record")));
        const Finished refused = headroomProgram({command, "demo:mlp", "--no-such-option"});
        EXPECT_TRUE(isErrorLine(refused.err)) << refused.err;
        EXPECT_THAT(refused.err, HasSubstr(std::string("(see torch-headroom ") + command + " --help)"));
        EXPECT_THAT(headroomProgram({command, "--version"}).out, testing::StartsWith("torch-headroom "));
    }
    const std::string own = runProgram(HEADROOM_BIN_DIR "/torch-headroom-record", {"record", "--help"}).out;
    EXPECT_THAT(own, HasSubstr("Usage: torch-headroom-record record "));
}

TEST(Fit, IsDrawnAndATable)
{
    const TemporaryFolder folder;
    const auto fit = [&](const std::string& file) {
        return runProgram(HEADROOM_BIN_DIR "/torch-headroom",
                          {"fit", "demo:mlp", "--batch", "8,16", "--gpu", "rtx-4060-8gb,t4-16gb", "-o", file},
                          {{"XDG_CACHE_HOME", folder.path().string()}});
    };
    const Finished drawn = fit((folder.path() / "fit.svg").string());
    ASSERT_EQ(drawn.exitCode, 0) << drawn.err;
    const std::string svg = readFile(folder.path() / "fit.svg");
    for (const char* text : {">demo:mlp<", ">RTX 4060<", ">T4<", ">Samples a second over batch<"})
        EXPECT_THAT(svg, HasSubstr(text));
    ASSERT_EQ(fit((folder.path() / "fit.csv").string()).exitCode, 0);
    EXPECT_THAT(readFile(folder.path() / "fit.csv"),
                testing::AllOf(testing::StartsWith("gpu,batch,"), HasSubstr("\nt4-16gb,16,")));
    const Finished refused = fit((folder.path() / "fit.txt").string());
    EXPECT_EQ(refused.exitCode, 2);
    EXPECT_THAT(refused.err, HasSubstr("expected .svg, .pdf, .png or .csv"));
}

// packaging/run.sh opens it while the recorder is still built.
TEST(Record, TheSampleIsWhatTheRecorderMakes)
{
    const TemporaryFolder folder;
    const std::string step = (folder.path() / "step.hrs").string();
    const Finished recorded = headroomProgram({"record", "demo:transformer", "--batch", "32", "--gpu", "rtx-4090-24gb",
                                               "--set", "n_layers=12", "--set", "vocab_size=50257", "-o", step});
    ASSERT_EQ(recorded.exitCode, 0) << recorded.err;
    const std::string sample = HEADROOM_SOURCE_DIR "/resources/samples/transformer.hrs";
    for (const char* what : {"modules", "ops"})
        EXPECT_EQ(headroomProgram({what, sample, "--json"}).json(), headroomProgram({what, step, "--json"}).json())
            << what << ": record resources/samples/transformer.hrs again";
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
        EXPECT_TRUE(isErrorLine(finished.err)) << finished.err;
        EXPECT_THAT(filesIn(folder.path()), testing::IsEmpty()) << call[1];
    }
}

TEST(Record, AStepReplacesNoInput)
{
    const TemporaryFolder folder;
    const std::string model = (folder.path() / "model.pt2").string();
    writeFile(model, "weights");
    for (const std::vector<std::string>& call : {std::vector<std::string>{"record", model, "-o", model},
                                                 {"record", "demo:mlp", "--policy", model, "-o", model}}) {
        const Finished finished = headroomProgram(call);
        EXPECT_EQ(finished.exitCode, 2) << finished.err;
        EXPECT_THAT(finished.err, HasSubstr("would replace `" + model + "`"));
    }
    EXPECT_EQ(readFile(model), "weights");
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
