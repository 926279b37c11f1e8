// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"
#include "tests/cli/cli_test.h"

#include <fstream>

namespace headroom {
namespace {

using testing::HasSubstr;

const std::string profiles = HEADROOM_TEST_DATA "/profiles/";
const std::string traceFile = profiles + "mlp_gpu.json.gz";
const std::string stepFile = profiles + "mlp.hrs";

class ProfileCommandTest : public CliTest
{
protected:
    Finished run(const std::vector<std::string>& arguments) const
    {
        return runProgram(HEADROOM_BIN_DIR "/torch-headroom", arguments,
                          {{"HEADROOM_CALIBRATION_DIR", path("calibration")}});
    }
};

TEST_F(ProfileCommandTest, TheTraceStandsBesideThePredictionOpByOp)
{
    const Finished json = run({"ops", stepFile, "--measured", traceFile, "--json"});
    ASSERT_EQ(json.exitCode, 0) << json.err;
    const auto document = json.json();
    double sum = 0;
    std::int64_t paired = 0;
    for (const auto& op : document["ops"]) {
        sum += op.value("measured_ms", 0.0);
        paired += op.contains("measured_ms") ? 1 : 0;
    }
    const auto& comparison = document["comparison"];
    EXPECT_EQ(comparison["ops_in_both"], paired);
    EXPECT_GT(paired, 80);
    EXPECT_EQ(comparison["kernels"], 166);
    EXPECT_EQ(comparison["measured_peak_bytes"], 9'554'944);
    EXPECT_EQ(comparison["modules"][0]["module"], "Sequential");
    EXPECT_NEAR(comparison["modules"][0]["measured_ms"].get<double>(), sum, 1e-9);
    const Finished text = run({"ops", stepFile, "--measured", traceFile, "--profile-step", "1"});
    ASSERT_EQ(text.exitCode, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr(" Measured  "));
    EXPECT_THAT(text.out, HasSubstr("87 of 88 are in both"));
    EXPECT_THAT(text.out, HasSubstr("9.11 MiB (9,554,944 bytes) measured"));
    EXPECT_THAT(text.out, HasSubstr("The CPU bound the step"));
}

TEST_F(ProfileCommandTest, TheCardIsCalibratedByIt)
{
    const Finished byShapes = run({"calibrate", traceFile, "--json"});
    ASSERT_EQ(byShapes.exitCode, 0) << byShapes.err;
    EXPECT_EQ(byShapes.json()["gpu"], "a100-80gb");
    EXPECT_GT(byShapes.json()["ops_learned_from"], 60);
    EXPECT_LT(byShapes.json()["ops_learned_from"], byShapes.json()["ops_measured"]);
    const Finished byStep = run({"calibrate", traceFile, "--step", stepFile, "--json", "-o", path("by_step.json")});
    ASSERT_EQ(byStep.exitCode, 0) << byStep.err;
    EXPECT_EQ(byStep.json()["ops_learned_from"], byStep.json()["ops_measured"]);
    // What was learned from the trace alone is used for the step, whose ops have overloads.
    const Finished ops = run({"ops", stepFile, "--json"});
    EXPECT_THAT(ops.err, HasSubstr("times were measured on a100-80gb"));
    const auto document = ops.json();
    for (const auto& op : document["ops"]) {
        if (op["name"] == "aten.gelu.default") {
            EXPECT_NEAR(op["ms"].get<double>(), 0.0135, 0.004); // 10 to 16 us
        }
    }
}

TEST_F(ProfileCommandTest, ATraceWithoutShapesTellsTheCpusTime)
{
    const auto cpuMs = [&] { return run({"info", stepFile, "--json"}).json()["clock"]["cpu_ms"].get<double>(); };
    const double before = cpuMs();
    std::ofstream written(path("light.json"));
    written << R"({"traceEvents":[)";
    for (int i = 0; i < 300; ++i) {
        const std::string of = R"(,"pid":9,"tid":1,"args":{"correlation":)" + std::to_string(i + 1) + "}},";
        written << R"({"ph":"X","cat":"cpu_op","name":"aten::relu","dur":8,"ts":)" << 100 + 36 * i << of
                << R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","dur":2,"ts":)" << 102 + 36 * i << of
                << R"({"ph":"X","cat":"kernel","name":"k","dur":5,"ts":)" << 110 + 36 * i << of;
    }
    written << R"({"ph":"X","cat":"cpu_op","name":"aten::relu","ts":20000,"dur":8,"pid":9,"tid":1,"args":{}}]})";
    written.close();
    const Finished learned = run({"calibrate", path("light.json"), "--gpu", "a100-80gb", "--json"});
    ASSERT_EQ(learned.exitCode, 0) << learned.err;
    EXPECT_EQ(learned.json()["ops_learned_from"], 0);
    EXPECT_THAT(learned.err, HasSubstr("has no shapes: profile with record_shapes=True"));
    EXPECT_THAT(learned.err, HasSubstr("only the CPU's time was learned"));
    EXPECT_NEAR(learned.json()["cpu_factor"], 4, 1e-3);
    EXPECT_NEAR(cpuMs() / before, 2, 1e-3); // an A100's machine takes twice as long as the model's
    EXPECT_THAT(run({"info", stepFile}).err, HasSubstr("the CPU's time was measured beside"));
}

TEST_F(ProfileCommandTest, InfoTellsWhatBoundTheStep)
{
    const Finished info = run({"info", profiles + "resnet50_v100_torch19.json.gz"});
    ASSERT_EQ(info.exitCode, 0) << info.err;
    EXPECT_THAT(info.out, HasSubstr("trace of torch.profiler, v100-32gb (measured)"));
    EXPECT_THAT(info.out, HasSubstr("the GPU worked 100.34 ms of 155.72 ms"));
    EXPECT_THAT(info.out, HasSubstr("2,791,636,480"));
    // One trace has what its program reserved, the other one has not.
    EXPECT_THAT(info.out, HasSubstr("in segments (replayed)"));
    const Finished known = run({"info", traceFile});
    EXPECT_THAT(known.out, HasSubstr("20,971,520 bytes) in segments (measured)"));
    EXPECT_EQ(run({"info", traceFile, "--json"}).json()["reserved_source"], "measured");
}

TEST_F(ProfileCommandTest, WhatIsMissingOrForeignIsOneSentence)
{
    const std::string alexnet = profiles + "alexnet_a100_torch21.json.gz";
    expectBadInput(run({"calibrate", alexnet}), {"has no shapes", "record_shapes=True", "--step", "too few ops"});
    const std::string amd = profiles + "linear_mi250_torch25.json.gz";
    expectBadInput(run({"calibrate", amd}), {"names no GPU that Headroom knows", "--gpu"});
    expectBadInput(run({"calibrate", amd, "--gpu", "abacus"}), {"--gpu: unknown GPU 'abacus'"});
    expectBadInput(run({"calibrate", alexnet, "--step", stepFile}), {"is of another model"});
    expectBadInput(run({"calibrate", traceFile, "--step", traceFile}), {"mlp_gpu.json.gz"});
    // The same ops with another batch.
    const StepTracePtr step = *readStepTrace(stepFile);
    std::vector<double> flops(step->ops.flops.begin(), step->ops.flops.end());
    for (double& value : flops)
        value *= 2;
    StepTrace larger = *step;
    larger.ops.flops.rows = flops;
    ASSERT_TRUE(writeStepTrace(larger, path("larger.hrs")).ok());
    expectBadInput(run({"calibrate", traceFile, "--step", path("larger.hrs")}),
                   {"is of another model, batch or sequence length", "of 15 matrix products", "other sizes"});
    expectBadInput(run({"calibrate", traceFile, "--profile-step", "7"}), {"no step 7", "between 1 and 2"});
    const std::vector<std::string> report{"report", traceFile, "-o", path("trace.html")};
    for (std::vector<std::string> call : {std::vector<std::string>{"info", traceFile},
                                          {"export", traceFile, path("trace.csv"), "--timeline"},
                                          report}) {
        call.insert(call.end(), {"--profile-step", "1"});
        EXPECT_EQ(run(call).exitCode, 0) << call.front();
        call.back() = "7";
        expectBadInput(run(call), {"no step 7", "between 1 and 2"});
    }
    expectBadInput(run({"ops", stepFile, "--measured", traceFile, "--profile-step", "one"}), {"--profile-step `one`"});
    expectBadInput(run({"ops", stepFile, "--measured", stepFile}), {"is simulated"});
    std::ofstream(path("other.json")) << R"({"headroom": 1})";
    expectBadInput(run({"calibrate", path("other.json")}), {"other.json is JSON without `traceEvents`"});
    std::ofstream(path("cut.json")) << R"({"traceEvents": [{"ph": "X", "cat": "cpu)";
    expectBadInput(run({"info", path("cut.json")}), {"cut.json is cut off"});
}

} // namespace
} // namespace headroom
