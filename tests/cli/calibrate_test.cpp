// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"
#include "core/joint/ops_planner.h"
#include "core/predict/predict.h"
#include "core/sac/step_statistics.h"
#include "core/trace/step_trace_builder.h"
#include "tests/cli/cli_test.h"

namespace headroom {
namespace {

using testing::HasSubstr;

/// The step of the other tests as a real one of the same card, on which every op took `factor` times the roofline.
class CalibrateTest : public CliTest
{
protected:
    void SetUp() override
    {
        trace = makeSyntheticStep();
        StepTrace simulated = *trace;
        simulated.info.gpu = "a100-80gb";
        ASSERT_TRUE(writeStepTrace(simulated, stepPath()).ok());
        StepTrace measured = simulated;
        measured.info.simulated = false;
        measured.info.device = "cuda:0";
        measured.info.measured.emplace().kernels = 100;
        flags_.assign(trace->ops.flags.begin(), trace->ops.flags.end());
        for (std::uint16_t& flag : flags_)
            flag |= opMeasured;
        ms_.assign(trace->ops.ms.begin(), trace->ops.ms.end());
        for (double& ms : ms_)
            ms *= 3;
        measured.ops.flags.rows = flags_;
        measured.ops.ms.rows = ms_;
        ASSERT_TRUE(writeStepTrace(measured, measuredPath()).ok());
    }

    std::string measuredPath() const { return path("measured.hrs"); }

    Finished run(const std::vector<std::string>& arguments) const
    {
        return runProgram(HEADROOM_BIN_DIR "/torch-headroom", arguments,
                          {{"HEADROOM_CALIBRATION_DIR", path("calibration")}});
    }

private:
    std::vector<std::uint16_t> flags_;
    std::vector<double> ms_;
};

TEST_F(CalibrateTest, ThePlansOfTheGpuUseWhatWasMeasuredOnIt)
{
    const auto plan = [&](const std::string& calibration) {
        const Finished planned
            = run({"plan", stepPath(), "--budget", "100GiB", "--json", "--calibration", calibration});
        EXPECT_EQ(planned.exitCode, 0) << planned.err;
        return planned;
    };
    EXPECT_EQ(plan("auto").err, "");
    const Finished learned = run({"calibrate", measuredPath(), "--json"});
    ASSERT_EQ(learned.exitCode, 0) << learned.err;
    EXPECT_EQ(learned.json()["gpu"], "a100-80gb");
    EXPECT_EQ(learned.json()["file"], path("calibration/a100-80gb.json"));

    const Finished calibrated = plan("auto");
    EXPECT_EQ(calibrated.err,
              "torch-headroom: note: times were measured on a100-80gb, of " + path("calibration/a100-80gb.json")
                  + "\n");
    const double roofline = plan("none").json()["step_ms"].get<double>();
    EXPECT_NE(calibrated.json()["step_ms"].get<double>(), roofline);
    EXPECT_EQ(plan(path("calibration/a100-80gb.json")).json()["step_ms"], calibrated.json()["step_ms"]);
}

TEST_F(CalibrateTest, EveryCommandThatSaysTimesUsesWhatWasMeasured)
{
    const auto json = [&](std::vector<std::string> arguments, const std::string& calibration) {
        arguments.insert(arguments.end(), {"--json", "--calibration", calibration});
        const Finished finished = run(arguments);
        EXPECT_EQ(finished.exitCode, 0) << finished.err;
        EXPECT_EQ(finished.err.find("times were measured on a100-80gb") != std::string::npos, calibration != "none")
            << arguments.front();
        return finished.json();
    };
    ASSERT_EQ(run({"calibrate", measuredPath()}).exitCode, 0);
    const StepTracePtr timed = calibrated(*readStepTrace(stepPath()), *calibrate(**readStepTrace(measuredPath()), "m"));
    for (const std::string& calibration : {std::string("auto"), path("calibration/a100-80gb.json")}) {
        EXPECT_EQ(json({"info", stepPath()}, calibration)["step_ms"], predict(*timed, {})->durationMs);
        const auto ops = json({"ops", stepPath()}, calibration)["ops"];
        ASSERT_EQ(ops.size(), timed->ops.size());
        for (std::uint32_t i = 0; i < ops.size(); ++i)
            EXPECT_EQ(ops[i]["ms"], timed->ops.ms[OpId(i)]) << "op " << i;
        const auto stats = [&](const std::string& choice) {
            return json({"modules", stepPath()}, choice)["mod_stats"][0]["fw_runtime_per_module"].get<double>();
        };
        EXPECT_EQ(stats(calibration), moduleInfo(*timed)->stats.front().forwardMs);
        EXPECT_NE(stats(calibration), stats("none"));
        const auto again = [&](const std::string& choice) {
            return json({"ops-plan", stepPath(), "--memory-budget", "0.3"}, choice)["recompute_ms"].get<double>();
        };
        OpsRequest request;
        request.fraction = 0.3;
        EXPECT_EQ(again(calibration), OpsPlanner::create(timed)->plan(request)->recomputeMs);
        EXPECT_NE(again(calibration), again("none"));
    }
    EXPECT_EQ(json({"info", stepPath()}, "none")["step_ms"], predict(*trace, {})->durationMs);
    // Pictures and tables too.
    const auto csv = [&](const std::string& calibration) {
        EXPECT_EQ(run({"export", stepPath(), path("t.csv"), "--timeline", "--calibration", calibration}).exitCode, 0);
        return readFile(path("t.csv"));
    };
    EXPECT_NE(csv("auto"), csv("none"));
    // A step that was measured has its own times.
    EXPECT_EQ(run({"info", measuredPath(), "--json"}).err, "");
    expectBadInput(run({"info", measuredPath(), "--calibration", path("calibration/a100-80gb.json")}),
                   {"the step has measured times"});
}

TEST_F(CalibrateTest, WhatCannotBeLearnedFromIsRefused)
{
    expectBadInput(run({"calibrate", stepPath()}), {"was not measured: record a step on the GPU with --device cuda"});
    expectBadInput(run({"plan", stepPath(), "--budget", "1GiB", "--calibration", path("none.json")}),
                   {"none.json: there is no such file; torch-headroom calibrate writes a calibration"});
    ASSERT_EQ(run({"calibrate", measuredPath()}).exitCode, 0);
    StepTrace other = *trace;
    other.info.gpu = "h100-80gb";
    ASSERT_TRUE(writeStepTrace(other, path("other.hrs")).ok());
    expectBadInput(
        run({"plan", path("other.hrs"), "--budget", "1GiB", "--calibration", path("calibration/a100-80gb.json")}),
        {"is of a100-80gb, and the step is of"});
}

TEST_F(CalibrateTest, NcclTestsMakeATopologyThatPricesCollectives)
{
    std::string printed = "# Collective test starting: all_gather_perf\n";
    for (int rank = 0; rank < 8; ++rank)
        printed += "#  Rank  " + std::to_string(rank) + " Group  0 Pid  7 on box device  " + std::to_string(rank)
            + " [0x07] NVIDIA H100\n";
    printed += "#  size  count  type  redop  root  time  algbw  busbw\n"
               "  1073741824  67108864  float  none  -1  10000  107.37  93.95  0  10000  107.37  93.95  0\n";
    writeFile(path("gathered.txt"), printed);
    expectBadInput(run({"calibrate", path("gathered.txt")}), {"--topology is missing: name the topology"});
    expectBadInput(run({"calibrate", path("gathered.txt"), "--topology", "h100-8x400"}),
                   {"-o is missing: name the file"});
    expectBadInput(run({"calibrate", path("nowhere.txt"), "--topology", "h100-8x400", "-o", path("ours.json")}),
                   {"nowhere.txt", "cannot"});
    const Finished learned
        = run({"calibrate", path("gathered.txt"), "--topology", "h100-8x400", "-o", path("ours.json"), "--json"});
    ASSERT_EQ(learned.exitCode, 0) << learned.err;
    EXPECT_EQ(learned.json()["collectives_measured"], 1);

    StepTraceBuilder builder;
    builder.info.gpu = "h100-80gb";
    builder.info.distributed = RankInfo{8, 8, 0};
    builder.mark(Mark::stepBegin);
    const OpId op = builder.beginOp({builder.string("c10d._allgather_base_.default"), {}, {}, {}, {}, Phase::forward});
    builder.collective(
        op, {CollectiveKind::allGather, GiB, builder.group("0", std::array{0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U})});
    const std::vector<std::int64_t> signature{0, 0, 0};
    builder.endOp(op, {.signature = signature});
    ASSERT_TRUE(writeStepTrace(**builder.finish(), path("rank.hrs")).ok());
    const auto exposed = [&](const std::string& topology) {
        const Finished info = run({"info", path("rank.hrs"), "--topology", topology, "--json"});
        EXPECT_EQ(info.exitCode, 0) << info.err;
        return info.json()["clock"]["exposed_ms"].get<double>();
    };
    EXPECT_NEAR(exposed(path("ours.json")), 10, 0.05);
    EXPECT_LT(exposed("h100-8x400"), 4);
}

TEST_F(CalibrateTest, AMeasuredStepIsNotPlannedOn)
{
    expectBadInput(run({"plan", measuredPath(), "--budget", "1GiB"}),
                   {"measured.hrs: a measured step does not tell", "recorded with --device sim"});
}

} // namespace
} // namespace headroom
