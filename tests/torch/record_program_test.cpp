// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_file.h"
#include "tests/torch/record_program.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace headroom {
namespace {

TEST_F(RecordProgram, WritesTheStepAndSaysWhatItHolds)
{
    const Outcome result = run("record demo:transformer -o step.hrs --gpu a100-80gb --hold-output --json");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    const nlohmann::json document = nlohmann::json::parse(result.output);
    EXPECT_EQ(document["step"], "step.hrs");
    EXPECT_EQ(document["model"], "demo:transformer");
    EXPECT_EQ(document["gpu"], "a100-80gb");
    EXPECT_EQ(document["peak_bytes"], 2'684'782'592 + 65'536); // MemTracker's and the batch
    EXPECT_EQ(document["baseline_peak_bytes"], 2'583'888'896);
    // Of the model 73.8225 (see module_statistics_test); with the loss, which is in no module:
    EXPECT_NEAR(document["compute_ms"].get<double>(), 73.9542, 1e-4);
    EXPECT_GT(document["record_ms"], 0);
    EXPECT_EQ(document["fallbacks"], nlohmann::json::array());
    EXPECT_EQ(document["invented_values"], 0);
    const auto trace = readStepTrace(folder_ / "step.hrs");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ((*trace)->ops.size(), document["ops"].get<std::size_t>());
    EXPECT_EQ((*trace)->info.dtype, "float32");
    EXPECT_EQ((*trace)->info.optimizer, "adam");
    EXPECT_EQ((*trace)->info.device, "sim");
    EXPECT_TRUE((*trace)->info.holdOutput);
}

TEST_F(RecordProgram, AFileMayHaveANameThatIsNotUtf8)
{
    const Outcome result = run("record demo:mlp --batch 2 -o \xff.hrs --json");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    EXPECT_EQ(nlohmann::json::parse(result.output)["step"], "\xef\xbf\xbd.hrs") << "U+FFFD stands for the byte";
}

TEST_F(RecordProgram, TakesEveryOption)
{
    const Outcome result
        = run("record demo:transformer -o step.hrs --batch 2 --seq 32 --dtype bfloat16 --optimizer sgd "
              "--momentum 0.9 --loss mean --set n_layers=2 --set dim=64 --set n_heads=4 --progress");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    EXPECT_NE(result.output.find("demo:transformer on NVIDIA H100"), std::string::npos) << result.output;
    std::istringstream lines(result.errors);
    double done = 0;
    std::string stage;
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json progress = nlohmann::json::parse(line);
        EXPECT_GE(progress["done"].get<double>(), done);
        done = progress["done"];
        stage = progress["stage"];
    }
    EXPECT_EQ(stage, "done");
    EXPECT_EQ(done, 1);
    const auto trace = readStepTrace(folder_ / "step.hrs");
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ((*trace)->info.batch, 2);
    EXPECT_EQ((*trace)->info.sequence, 32);
    EXPECT_EQ((*trace)->info.dtype, "bfloat16");
    EXPECT_EQ((*trace)->info.optimizer, "sgd");
    EXPECT_EQ((*trace)->info.settings.size(), 3U);
}

TEST_F(RecordProgram, SaysThatAStepDoesNotFitTheCard)
{
    const Outcome large = run("record demo:transformer --gpu a100-80gb --batch 512 -o step.hrs");
    ASSERT_EQ(large.exitCode, 0) << large.errors;
    EXPECT_NE(large.output.find("note: this is more than the card's "), std::string::npos) << large.output;
    const Outcome small = run("record demo:transformer --gpu a100-80gb -o step.hrs");
    EXPECT_EQ(small.output.find("note:"), std::string::npos) << small.output;
}

TEST_F(RecordProgram, RecordsTheSameStepTwice)
{
    const std::string command = "record demo:resnet --batch 2 --set image_size=64 -o ";
    ASSERT_EQ(run(command + "a.hrs").exitCode, 0);
    ASSERT_EQ(run(command + "b.hrs").exitCode, 0);
    std::ostringstream first;
    std::ostringstream second;
    first << std::ifstream(folder_ / "a.hrs").rdbuf();
    second << std::ifstream(folder_ / "b.hrs").rdbuf();
    EXPECT_EQ(first.str(), second.str());
}

TEST_F(RecordProgram, RefusesWithOneSentence)
{
    expectRefused("record demo:gpt -o step.hrs",
                  "unknown model 'demo:gpt'; known are demo:mlp, demo:resnet, demo:transformer");
    expectRefused("record -o step.hrs", "MODEL is missing: name a model, for example demo:transformer");
    expectRefused("record demo:mlp", "-o is missing: name the step file to write, for example -o step.hrs");
    expectRefused("record demo:mlp -o .",
                  "-o . is a folder; name a step file in the folder, for example -o ./step.hrs");
    expectRefused("record demo:mlp -o none/step.hrs",
                  "-o none/step.hrs: there is no folder none; create the folder first");
    expectRefused("record demo:mlp -o step.hrs --batch 0",
                  "--batch: expected a whole number of at least 1, not 0 (see torch-headroom-record record --help)");
    expectRefused("record demo:mlp -o step.hrs --set dim",
                  "--set dim: expected KEY=VALUE, for example --set n_layers=12");
    expectRefused("record demo:mlp -o step.hrs --set width=3", "demo:mlp has no setting 'width'; it has n_layers, dim");
    expectRefused("record demo:mlp -o step.hrs --dtype int8",
                  "unknown dtype 'int8'; known are float32, bfloat16, float16");
    expectRefused("record demo:mlp -o step.hrs --autocast --dtype float16",
                  "--autocast keeps parameters in float32; leave out --dtype float16");
    expectRefused("record demo:mlp -o step.hrs --optimizer lion",
                  "unknown optimizer 'lion'; known are sgd, adam, adamw");
    expectRefused("record demo:mlp -o step.hrs --momentum 0.9", "--momentum is SGD's; adam has none");
    expectRefused("record demo:mlp -o step.hrs --loss none", "unknown loss 'none'; known are sum, mean, output");
    expectRefused("record demo:mlp -o step.hrs --device tpu",
                  "unknown device 'tpu'; known are sim, the simulated GPU, cpu, and cuda or cuda:N");
    expectRefused("record demo:mlp -o step.hrs --device cuda:one",
                  "unknown device 'cuda:one'; known are sim, the simulated GPU, cpu, and cuda or cuda:N");
    expectRefused("record demo:mlp -o step.hrs --device cuda:0 --gpu a100-80gb",
                  "--gpu names the simulated card: leave --gpu out with --device cuda:0");
    expectRefused("record demo:mlp -o step.hrs --loss output",
                  "--loss output needs a model that returns a single number; this model returns 8 x 1024 x 1024; use "
                  "--loss sum or mean");
    expectRefused("", "a command is missing: record, verify or doctor (see torch-headroom-record --help)");
}

TEST_F(RecordProgram, MeasuresAStepOnTheCpu)
{
    const Outcome recorded = run("record demo:mlp --batch 2 --set dim=32 --device cpu -o step.hrs --json");
    ASSERT_EQ(recorded.exitCode, 0) << recorded.errors;
    const auto document = nlohmann::json::parse(recorded.output);
    EXPECT_EQ(document["gpu"], "cpu");
    EXPECT_GE(document["measured"]["kernels"], document["ops"]);
    EXPECT_GT(document["measured"]["busy_ms"], 0);
    EXPECT_EQ(document["measured"]["notes"], nlohmann::json::array());
    const Outcome text = run("record demo:mlp --batch 2 --set dim=32 --device cpu -o step.hrs");
    ASSERT_EQ(text.exitCode, 0) << text.errors;
    EXPECT_TRUE(text.output.starts_with("demo:mlp on the CPU of this machine (measured), step 2\n")) << text.output;
}

/// Every machine without a driver starts the program and is told what is missing; nothing is written.
TEST_F(RecordProgram, WithoutADriverItSaysSoAndEnds)
{
    if (fs::exists("/dev/nvidiactl"))
        GTEST_SKIP() << "this machine has NVIDIA's driver";
    for (const char* device : {"cuda", "cuda:3"}) {
        const Outcome refused = run(std::string("record demo:mlp -o step.hrs --device ") + device);
        EXPECT_EQ(refused.exitCode, 4);
        EXPECT_TRUE(refused.errors.starts_with("torch-headroom-record: no GPU can be used: ")) << refused.errors;
        EXPECT_EQ(std::ranges::count(refused.errors, '\n'), 1) << refused.errors;
        EXPECT_EQ(refused.output, "");
        EXPECT_TRUE(fs::is_empty(folder_));
    }
}

TEST_F(RecordProgram, RefusesAnUnknownGpuAndListsTheKnown)
{
    const Outcome refused = run("record demo:mlp -o step.hrs --gpu abacus");
    EXPECT_EQ(refused.exitCode, 2);
    EXPECT_NE(refused.errors.find("a100-80gb"), std::string::npos) << refused.errors;
    EXPECT_EQ(std::ranges::count(refused.errors, '\n'), 1);
    const Outcome list = run("record --gpu list");
    EXPECT_EQ(list.exitCode, 0);
    EXPECT_NE(list.output.find("h100-80gb"), std::string::npos) << list.output;
    EXPECT_NE(list.output.find("rtx-4070-ti-super-16gb  NVIDIA"), std::string::npos) << "two columns: " << list.output;
    EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(RecordProgram, RefusesAnOutputThatCannotBeWritten)
{
    const Outcome result = run("record demo:mlp -o /proc/step.hrs");
    EXPECT_EQ(result.exitCode, 2);
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(result.errors.find("torch-headroom-record: cannot write /proc/step.hrs: "), 0U) << result.errors;
    EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1);
}

TEST_F(RecordProgram, LeavesAnOldFileAloneWhenItFails)
{
    std::ofstream(folder_ / "step.hrs") << "precious";
    EXPECT_EQ(run("record demo:mlp -o step.hrs --loss output").exitCode, 2);
    std::string content;
    std::ifstream(folder_ / "step.hrs") >> content;
    EXPECT_EQ(content, "precious");
}

TEST_F(RecordProgram, AModelWithoutAnEndIsEnded)
{
    const std::string endless = HEADROOM_TEST_DATA "/models/torchscript/endless.pt";
    const Outcome result = run("record '" + endless + "' --input x=8 -o step.hrs --time-limit 1");
    EXPECT_EQ(result.exitCode, 2);
    EXPECT_EQ(result.errors,
              "torch-headroom-record: ended during forward after more than 1 s of the processor's time, perhaps in an "
              "endless loop; nothing was written; --time-limit SECONDS allows more\n");
    EXPECT_TRUE(fs::is_empty(folder_));
    const Outcome verified = run("verify '" + endless + "' --input x=8 --memory-budget 0.5 --time-limit 1");
    EXPECT_EQ(verified.exitCode, 2);
    EXPECT_NE(verified.errors.find("after more than 1 s of the processor's time"), std::string::npos);
}

TEST_F(RecordProgram, HelpAndVersionGoToStdout)
{
    for (const char* arguments : {"--help", "--version", "record --help", "doctor --help"}) {
        const Outcome result = run(arguments);
        EXPECT_EQ(result.exitCode, 0) << arguments;
        EXPECT_NE(result.output, "") << arguments;
        EXPECT_EQ(result.errors, "") << arguments;
    }
}

TEST_F(RecordProgram, DoctorReportsTheTorchInUse)
{
    const Outcome result = run("doctor --json");
    ASSERT_EQ(result.exitCode, 0) << result.errors;
    const nlohmann::json document = nlohmann::json::parse(result.output);
    EXPECT_EQ(document["torch"].get<std::string>().substr(0, 4), "2.11");
    for (const char* key : {"cuda_driver", "cupti", "gpus", "advice"})
        EXPECT_TRUE(document.contains(key)) << key;
    EXPECT_TRUE(document["gpus"].is_array());
    EXPECT_EQ(document["cuda_driver"].is_null() || document["gpus"].empty() || document["cupti"].is_null(),
              !document["advice"].empty());
}

} // namespace
} // namespace headroom
