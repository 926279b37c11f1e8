// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/calibration.h"

#include "core/cost/roofline.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace headroom {
namespace {

constexpr const char* gpu = "a100-80gb";

struct HandOp
{
    const char* name;
    Bytes bytes;
    double ms;
    std::uint16_t flags = 0;
    DType dtype = DType::float32;
};

/// A step of these ops; of a measured one `ms` are kernels' times, of a simulated one the roofline's.
StepTracePtr stepOf(const std::vector<HandOp>& ops, bool isMeasured)
{
    const DeviceSpec spec = *findDeviceSpec(gpu);
    StepTraceBuilder builder;
    builder.info.model = "hand-made";
    builder.info.gpu = gpu;
    builder.info.simulated = !isMeasured;
    if (isMeasured)
        builder.info.measured.emplace().kernels = static_cast<std::int64_t>(ops.size());
    builder.mark(Mark::stepBegin);
    for (const HandOp& op : ops) {
        StepTraceBuilder::Op columns;
        columns.name = builder.string(op.name);
        StepTraceBuilder::OpResult result;
        result.dtype = op.dtype;
        result.flags = op.flags;
        result.bytes = op.bytes;
        result.ms = rooflineMs(spec, op.bytes, 0, op.dtype, op.flags);
        const OpId id = builder.beginOp(columns);
        builder.endOp(id, result);
        if (isMeasured)
            builder.measured(id, op.ms);
    }
    auto step = builder.finish();
    EXPECT_TRUE(step) << step.error().message;
    return *step;
}

double roofline(Bytes bytes)
{
    return rooflineMs(*findDeviceSpec(gpu), bytes, 0, DType::float32, 0);
}

constexpr Bytes small = 2'039'040; // 1 µs at 2039.04 GB/s
constexpr Bytes large = 2'039'040'000; // 1 ms

Calibration learned(const std::vector<HandOp>& ops)
{
    const auto calibration = calibrate(*stepOf(ops, true), "step.hrs");
    EXPECT_TRUE(calibration) << calibration.error().message;
    return *calibration;
}

TEST(Calibration, AnOpTakesTheTimeThatItTookInTheMeasuredStep)
{
    const std::vector<HandOp> ops{{"aten.add.Tensor", large, 1.25},
                                  {"aten.add.Tensor", large, 1.35},
                                  {"aten.add.Tensor", small, 0.004},
                                  {"aten.view.default", large, 0, opView},
                                  {"aten.mul.Tensor", large, 2.0}};
    const Calibration calibration = learned(ops);
    EXPECT_EQ(calibration.gpu, gpu);
    EXPECT_DOUBLE_EQ(calibration.shortestMs, 0.004);
    ASSERT_EQ(calibration.curves.size(), 2U);

    const StepTracePtr simulated = stepOf(ops, false);
    const StepTracePtr result = calibrated(simulated, calibration);
    const auto ms = [&](std::uint32_t op) { return result->ops.ms[OpId(op)]; };
    EXPECT_DOUBLE_EQ(ms(0), 1.3); // the mean of those on the same shapes
    EXPECT_DOUBLE_EQ(ms(2), 0.004);
    EXPECT_EQ(ms(3), 0);
    EXPECT_DOUBLE_EQ(ms(4), 2.0);
    // The step itself stays, and its other columns are shared.
    EXPECT_DOUBLE_EQ(simulated->ops.ms[OpId(0)], 1.0);
    EXPECT_EQ(result->ops.bytes.rows.data(), simulated->ops.bytes.rows.data());
    EXPECT_EQ(result->opName(OpId(4)), "aten.mul.Tensor");
}

TEST(Calibration, BetweenTimesItInterpolatesAndBeyondThemKeepsTheRatio)
{
    const Calibration calibration = learned(
        {{"aten.add.Tensor", large, 2.0}, {"aten.add.Tensor", 3 * large, 4.0}, {"aten.mul.Tensor", large, 3.0}});
    const auto ms = [&](double rooflineMs) {
        return calibratedMs(calibration, "aten.add.Tensor", DType::float32, {}, rooflineMs);
    };
    EXPECT_DOUBLE_EQ(ms(roofline(large)), 2.0);
    EXPECT_NEAR(ms(2 * roofline(large)), 3.0, 1e-9);
    EXPECT_NEAR(ms(6 * roofline(large)), 8.0, 1e-9);
    EXPECT_NEAR(ms(0.5 * roofline(large)), 2.0, 1e-9) << "nothing is shorter than the shortest kernel seen";
    // 9 ms measured on 5 ms of roofline.
    EXPECT_NEAR(calibratedMs(calibration, "aten.mm.default", DType::float32, {}, 10), 18, 1e-9);
    EXPECT_NEAR(calibratedMs(calibration, "aten.add.Tensor", DType::bfloat16, {}, 10), 18, 1e-9);
    EXPECT_EQ(ms(0), 0);
}

TEST(Calibration, AnOpThatLaunchesNothingIsFree)
{
    const Calibration calibration = learned({{"aten.alias_copy.default", large, 0}, {"aten.add.Tensor", large, 1.0}});
    EXPECT_EQ(calibratedMs(calibration, "aten.alias_copy.default", DType::float32, {}, 5), 0);
}

TEST(Calibration, TheNewerStepCountsWhereBothSawAnOp)
{
    const Calibration older = learned({{"aten.add.Tensor", large, 9.0}, {"aten.add.Tensor", small, 0.01}});
    const Calibration newer = learned({{"aten.add.Tensor", large, 1.0}, {"aten.mul.Tensor", large, 2.0}});
    const Calibration both = merged(older, newer);
    const auto ms
        = [&](const char* op, Bytes bytes) { return calibratedMs(both, op, DType::float32, {}, roofline(bytes)); };
    EXPECT_DOUBLE_EQ(ms("aten.add.Tensor", large), 1.0);
    EXPECT_DOUBLE_EQ(ms("aten.add.Tensor", small), 0.01);
    EXPECT_DOUBLE_EQ(ms("aten.mul.Tensor", large), 2.0);
    EXPECT_DOUBLE_EQ(both.shortestMs, 0.01);
}

TEST(Calibration, StepsThatTellNothingAreRefusedWithTheReason)
{
    const std::vector<HandOp> ops{{"aten.add.Tensor", large, 1.0}};
    const auto refusal = [](const StepTrace& step) { return calibrate(step, "step.hrs").error().message; };
    EXPECT_EQ(refusal(*stepOf(ops, false)), "step.hrs was not measured: record a step on the GPU with --device cuda");
    StepTrace noKernels = *stepOf(ops, true);
    noKernels.info.measured->kernels = 0;
    noKernels.info.measured->notes = {"kernel times cannot be measured: there is no CUPTI"};
    EXPECT_EQ(refusal(noKernels),
              "step.hrs has no times of kernels: kernel times cannot be measured: there is no CUPTI");
    StepTrace elsewhere = *stepOf(ops, true);
    elsewhere.info.gpu = "cpu";
    EXPECT_EQ(refusal(elsewhere),
              "step.hrs was measured on cpu, and Headroom simulates no such GPU: there is nothing to calibrate");
}

TEST(Calibration, AMeasuredStepKeepsItsOwnTimes)
{
    const StepTracePtr step = stepOf({{"aten.add.Tensor", large, 1.5}}, true);
    EXPECT_EQ(calibrated(step, learned({{"aten.add.Tensor", large, 9.0}})), step);
}

class CalibrationFile : public testing::Test
{
protected:
    TemporaryFolder folder_;
    std::filesystem::path file_ = folder_.path() / "deeper" / "a100-80gb.json";
};

TEST_F(CalibrationFile, IsReadAsItWasWrittenAndGrows)
{
    EXPECT_EQ(*readCalibration(file_), std::nullopt);
    const Calibration first = learned({{"aten.add.Tensor", large, 1.0}});
    const Status written = addToCalibration(first, file_);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(*readCalibration(file_), first);
    const Calibration second = learned({{"aten.mul.Tensor", small, 0.5}});
    ASSERT_TRUE(addToCalibration(second, file_));
    EXPECT_EQ(*readCalibration(file_), merged(first, second));

    Calibration other = second;
    other.gpu = "h100-80gb";
    const Status refused = addToCalibration(other, file_);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("is the calibration of a100-80gb, not of h100-80gb"));
}

/// Programs before the name torch-headroom had a folder of theirs: what was learned there is found.
TEST_F(CalibrationFile, IsFoundInTheFolderOfTheOldName)
{
    const std::filesystem::path now = folder_.path() / "torch-headroom" / "calibration" / "a100-80gb.json";
    const std::filesystem::path old = folder_.path() / "headroom" / "calibration" / "a100-80gb.json";
    unsetenv("HEADROOM_CALIBRATION_DIR");
    setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
    EXPECT_EQ(calibrationFile("a100-80gb"), now);
    const Calibration first = learned({{"aten.add.Tensor", large, 1.0}});
    ASSERT_TRUE(addToCalibration(first, old));
    EXPECT_EQ(calibrationFile("a100-80gb"), old);
    EXPECT_EQ(*readCalibration(calibrationFile("a100-80gb")), first);
    EXPECT_EQ(calibrationFile("h100-80gb"), now.parent_path() / "h100-80gb.json");
    ASSERT_TRUE(addToCalibration(first, now));
    EXPECT_EQ(calibrationFile("a100-80gb"), now);
    unsetenv("XDG_CONFIG_HOME");
}

TEST_F(CalibrationFile, WhatIsNoCalibrationIsRefusedByName)
{
    for (
        const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
            {"{", ": not JSON at line 1, column 1: a JSON document was expected"},
            {"[]", ": is a list: expected a calibration of torch-headroom calibrate"},
            {R"({"headroom_calibration": 2})",
             ": headroom_calibration is 2: expected version 1; a newer Headroom wrote this"},
            {R"({"headroom_calibration": 1, "gpu": 3})", ": gpu is 3: expected a text"},
            {R"({"headroom_calibration": 1, "gpu": "x", "shortest_ms": -1})",
             ": shortest_ms is -1: expected a number, 0 or more"},
            {R"({"headroom_calibration": 1, "gpu": "x", "shortest_ms": 0, "ratio": 1})", ": ops is missing"},
            {R"({"headroom_calibration": 1, "gpu": "x", "shortest_ms": 0, "ratio": 1, "ops": [{"op": "a", "dtype": "f"}]})",
             ": ops[0].dtype is \"f\": expected an element type of PyTorch"},
            {R"({"headroom_calibration": 1, "gpu": "x", "shortest_ms": 0, "ratio": 1,
                  "ops": [{"op": "a", "dtype": "float32", "points": [[2, 1, 1], [1, 1, 1]]}]})",
             ": ops[0].points has a point that is out of order: expected points in ascending order of modelled ms"}}) {
        const auto result = calibrationFromJson(text, "gpu.json");
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().message, "gpu.json" + expected);
    }
}

} // namespace
} // namespace headroom
