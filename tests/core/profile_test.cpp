// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Traces of torch.profiler: real ones of several versions and cards (tests/data/profiles), and small ones whose values
// are known.
#include "core/profile/import.h"
#include "core/profile/profile.h"
#include "core/profile/profile_ops.h"
#include "core/profile/profile_reader.h"

#include "core/compare/step_comparison.h"
#include "core/cost/calibration.h"
#include "core/predict/predict.h"
#include "core/predict/step_clock.h"
#include "core/trace/step_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace headroom {
namespace {

using testing::HasSubstr;

const std::string folder = HEADROOM_TEST_DATA "/profiles/";

Result<Profile> read(const std::string& text)
{
    return readProfile(std::as_bytes(std::span(text)), "t.json");
}

StepTracePtr imported(const std::string& text, const ProfileRequest& request = {})
{
    const Result<Profile> profile = read(text);
    EXPECT_TRUE(profile.ok()) << profile.error().message;
    const Result<StepTracePtr> step = importProfile(profile.value(), "t.json", request);
    EXPECT_TRUE(step.ok()) << step.error().message;
    return step.value();
}

StepTracePtr importedFile(const std::string& name, const ProfileRequest& request = {})
{
    const Result<StepTracePtr> step = importProfile(folder + name, request);
    EXPECT_TRUE(step.ok()) << step.error().message;
    return step.value();
}

/// An event on the thread 1; `more` are further fields of its args.
std::string span(const std::string& category, const std::string& name, double begin, double duration,
                 const std::string& more = "\"Ev Idx\":0", int thread = 1)
{
    return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":9,"tid":)" + std::to_string(thread)
        + ",\"ts\":" + std::to_string(begin) + ",\"dur\":" + std::to_string(duration) + ",\"args\":{" + more + "}}";
}

std::string kernel(int correlation, double begin, double duration, int stream = 7)
{
    return R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":)" + std::to_string(stream)
        + ",\"ts\":" + std::to_string(begin) + ",\"dur\":" + std::to_string(duration)
        + ",\"args\":{\"device\":0,\"correlation\":" + std::to_string(correlation) + "}}";
}

std::string launch(int correlation, double begin, int thread = 1)
{
    return span("cuda_runtime", "cudaLaunchKernel", begin, 0.5, "\"correlation\":" + std::to_string(correlation),
                thread);
}

std::string memory(double at, Bytes bytes, std::uint64_t address, Bytes allocated)
{
    return R"({"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":9,"tid":1,"ts":)" + std::to_string(at)
        + R"(,"args":{"Device Type":1,"Device Id":0,"Bytes":)" + std::to_string(bytes)
        + ",\"Addr\":" + std::to_string(address) + ",\"Total Allocated\":" + std::to_string(allocated)
        + ",\"Total Reserved\":4194304}}";
}

std::string traceOf(const std::vector<std::string>& events)
{
    std::string text = R"({"schemaVersion":1,"traceEvents":[)";
    for (const std::string& event : events)
        text += (text.back() == '[' ? "" : ",") + event;
    return text + "]}";
}

/// "forward aten.mm 0.01 trace.layer", each op on a line.
std::string listed(const StepTrace& step)
{
    std::string text;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row) {
        const OpId op(row);
        char ms[32];
        std::snprintf(ms, sizeof ms, "%g", step.ops.ms[op]);
        text += std::string(phaseName(step.ops.phase[op])) + ' ' + std::string(step.opName(op)) + ' ' + ms + ' '
            + std::string(step.moduleFqn(step.ops.module[op])) + '\n';
    }
    return text;
}

double sumOfMs(const StepTrace& step)
{
    return std::accumulate(step.ops.ms.begin(), step.ops.ms.end(), 0.0);
}

TEST(Profile, KernelsBelongToTheInnermostOpAroundTheirLaunch)
{
    const StepTracePtr step = imported(traceOf({
        span("cpu_op", "aten::linear", 0, 20), span("cpu_op", "aten::addmm", 5, 10), launch(1, 8),
        span("cpu_op", "aten::add", 20, 10), span("cpu_op", "aten::empty", 21, 2), launch(2, 25), launch(3, 26),
        kernel(1, 100, 7), kernel(2, 107, 2), kernel(3, 108, 4, 8), // beside one another on two streams
        launch(4, 40), kernel(4, 120, 5), // of no op
        kernel(90, 95, 3), // launched before the trace began
    }));
    EXPECT_EQ(listed(*step), "forward aten.addmm 0.007 trace\nforward aten.add 0.006 trace\n");
    const MeasuredStep& measured = step->info.measured.value();
    EXPECT_EQ(measured.kernels, 4);
    EXPECT_DOUBLE_EQ(measured.kernelMs, 0.018);
    EXPECT_DOUBLE_EQ(measured.busyMs, 0.017); // 107 to 112 counts once
    EXPECT_DOUBLE_EQ(measured.withoutOpMs, 0.005);
    EXPECT_DOUBLE_EQ(measured.spanMs, 0.025);
    EXPECT_EQ(step->info.device, "cuda:0");
}

TEST(Profile, ALaunchOutsideOfOpsIsFoundByItsExternalId)
{
    std::string known = kernel(1, 50, 3);
    known.replace(known.find("\"device\""), 0, "\"External id\":77,");
    const StepTracePtr step
        = imported(traceOf({span("cpu_op", "aten::mul", 0, 5, "\"External id\":77"), launch(1, 30, 2), known}));
    EXPECT_EQ(listed(*step), "forward aten.mul 0.003 trace\n");
}

TEST(Profile, PhasesAndModulesComeFromAutogradLabelsAndSequenceNumbers)
{
    const StepTracePtr step = imported(traceOf({
        span("user_annotation", "ProfilerStep#3", 0, 100),
        span("python_function", "nn.Module: Net_0", 0, 40),
        span("python_function", "nn.Module: Linear_0", 10, 20),
        span("cpu_op", "aten::linear", 11, 10),
        span("cpu_op", "aten::addmm", 12, 8, "\"Sequence number\":5"),
        launch(1, 15),
        kernel(1, 16, 1),
        span("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 50, 20, "\"Sequence number\":5", 2),
        span("cpu_op", "AddmmBackward0", 51, 18, "\"Sequence number\":5", 2),
        span("cpu_op", "aten::mm", 55, 5, "\"a\":0", 2),
        launch(2, 56, 2),
        kernel(2, 57, 2),
        span("user_annotation", "Optimizer.step#SGD.step", 75, 20),
        span("cpu_op", "aten::_foreach_add_", 80, 5),
        launch(3, 82),
        kernel(3, 90, 3),
    }));
    EXPECT_EQ(listed(*step),
              "forward aten.addmm 0.001 trace.Net_0.Linear_0\n"
              "backward aten.mm 0.002 trace.Net_0.Linear_0\n"
              "optimizer aten._foreach_add_ 0.003 trace\n");
    EXPECT_THAT(step->info.measured->moduleMs,
                testing::ElementsAre(testing::DoubleEq(0.006), testing::DoubleEq(0.003), testing::DoubleEq(0.003)));
}

TEST(Profile, LabelsThatNameModulesAreTheirPaths)
{
    const StepTracePtr step = imported(traceOf({
        span("user_annotation", "layers.0", 0, 50),
        span("user_annotation", "layers.0.up", 5, 10),
        span("cpu_op", "aten::mm", 6, 5),
        span("user_annotation", "act", 20, 10),
        span("cpu_op", "aten::gelu", 21, 5),
        span("cpu_op", "aten::mul", 60, 5,
             "\"Module Hierarchy\":\"TOP(Net)::forward.SELF(Net)::f.head(Linear)::forward\""),
    }));
    EXPECT_EQ(listed(*step),
              "forward aten.mm 0.005 trace.layers.0.up\nforward aten.gelu 0.005 trace.layers.0.act\n"
              "forward aten.mul 0.005 trace.head\n");
    EXPECT_THAT(step->info.measured->notes.front(), HasSubstr("no kernels")) << "the CPU's times";
}

TEST(Profile, TheLastWholeStepIsTaken)
{
    const auto stepAt = [](int number, double begin, int ops) {
        std::string text = span("user_annotation", "ProfilerStep#" + std::to_string(number), begin, 90);
        for (int i = 0; i < ops; ++i)
            text += ',' + span("cpu_op", i < number ? "aten::mm" : "aten::add", begin + 1 + i, 0.5);
        return text;
    };
    const std::string trace = traceOf({stepAt(4, 0, 8), stepAt(5, 100, 8), stepAt(6, 200, 1)});
    const auto products = [](const StepTracePtr& step) {
        const std::string ops = listed(*step);
        int count = 0;
        for (std::size_t at = ops.find("aten.mm"); at != std::string::npos; at = ops.find("aten.mm", at + 1))
            ++count;
        return count;
    };
    EXPECT_EQ(products(imported(trace)), 5);
    EXPECT_EQ(products(imported(trace, {4, false, ""})), 4);
    EXPECT_EQ(products(imported(trace, {{}, true, ""})), 9);
    const auto missing = importProfile(read(trace).value(), "t.json", {7, false, ""});
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().message, "t.json has no step 7: expected --profile-step to be between 4 and 6");
}

TEST(Profile, WithoutLabelsStepsLieBetweenTheOptimizers)
{
    std::vector<std::string> events;
    for (int i = 0; i < 3; ++i) {
        events.push_back(span("cpu_op", i == 1 ? "aten::gelu" : "aten::relu", 100 * i + 1, 5));
        events.push_back(span("Operator", "Optimizer.step#SGD.step", 100 * i + 50, 10));
    }
    EXPECT_EQ(listed(*imported(traceOf(events))), "forward aten.relu 0.005 trace\n");
    EXPECT_EQ(listed(*imported(traceOf(events), {2, false, ""})), "forward aten.gelu 0.005 trace\n");
}

TEST(Profile, MemoryIsWhatTheAllocatorSaid)
{
    const StepTracePtr step = imported(traceOf({
        span("user_annotation", "ProfilerStep#1", 10, 90),
        span("cpu_op", "aten::relu", 20, 10),
        kernel(1, 30, 1),
        launch(1, 25),
        span("cpu_op", "aten::add", 40, 10),
        memory(5, 512, 99, 100'000),
        memory(21, 4096, 100, 104'096),
        memory(41, 1024, 200, 105'120),
        memory(45, -1024, 200, 104'096),
        memory(60, -2048, 77, 102'048),
    }));
    const Result<Timeline> timeline = predict(*step, {});
    ASSERT_TRUE(timeline.ok());
    EXPECT_EQ(step->info.measured->allocatedPeak, 105'120);
    EXPECT_EQ(step->info.measured->reservedPeak, 4'194'304);
    // The rest of what was there is one block, rounded up to 512 bytes.
    EXPECT_EQ(timeline->peak, roundedToBlock(100'000 - 2048) + 2048 + 4096 + 1024);
    EXPECT_EQ(total(timeline->start), roundedToBlock(100'000 - 2048) + 2048);
    EXPECT_EQ(step->storages.creator[StorageId(2)], OpId(0));
    EXPECT_EQ(step->storages.creator[StorageId(3)], OpId(1));
}

/// Bytes and flops of an op with these arguments; negative: they do not follow.
std::pair<Bytes, double> costOf(const std::string& name, const std::string& sizes, const std::string& types,
                                const std::string& values = "[]")
{
    const StepTracePtr step = imported(
        traceOf({span("cpu_op", name, 0, 1,
                      "\"Input Dims\":" + sizes + ",\"Input type\":" + types + ",\"Concrete Inputs\":" + values)}));
    return {step->ops.bytes[OpId(0)], step->ops.flops[OpId(0)]};
}

TEST(Profile, CostsFollowFromTheShapes)
{
    using Cost = std::pair<Bytes, double>;
    EXPECT_EQ(costOf("aten::mm", "[[4,8],[8,2]]", R"(["c10::BFloat16","c10::BFloat16"])"),
              Cost(2 * (32 + 16 + 8), 128));
    EXPECT_EQ(costOf("aten::addmm", "[[2],[4,8],[8,2],[],[]]", R"(["float","float","float","Scalar","Scalar"])"),
              Cost(4 * (2 + 32 + 16 + 8), 128));
    EXPECT_EQ(costOf("aten::add", "[[4,1],[3],[]]", R"(["float","float","Scalar"])"), Cost(4 * (4 + 3 + 12), 0));
    EXPECT_EQ(costOf("aten::eq", "[[4],[4]]", R"(["long int","long int"])"), Cost(8 * 8 + 4, 0));
    EXPECT_EQ(costOf("aten::mul_", "[[4],[]]", R"(["c10::Half","double"])"), Cost(2 * 8, 0));
    EXPECT_EQ(costOf("aten::_to_copy", "[[4],[],[]]", R"(["float","Scalar","Scalar"])", R"(["","15",""])"),
              Cost(4 * 4 + 4 * 2, 0));
    EXPECT_EQ(costOf("aten::sum", "[[2,3,5],[],[],[]]", R"(["float","ScalarList","Scalar","Scalar"])",
                     R"(["","[0, -1]","False",""])"),
              Cost(4 * (30 + 3), 0));
    EXPECT_EQ(
        costOf("aten::embedding", "[[10,4],[2,3],[],[],[]]", R"(["float","long int","Scalar","Scalar","Scalar"])"),
        Cost(4 * 40 + 8 * 6 + 4 * 24, 0));
    const std::string three
        = R"(["float","float","","ScalarList","ScalarList","ScalarList","Scalar","ScalarList","Scalar"])";
    // 8 x 8 points, 3 channels in, 6 out, filters of 3 x 3, stride 2, padding 1: 4 x 4 points.
    EXPECT_EQ(costOf("aten::convolution", "[[1,3,8,8],[6,3,3,3],[],[],[],[],[],[],[]]", three,
                     R"(["","","","[2, 2]","[1, 1]","[1, 1]","False","[0, 0]","1"])"),
              Cost(4 * (192 + 162 + 96), 2.0 * 16 * 162));
    // Nothing that does not follow is guessed.
    EXPECT_EQ(costOf("aten::convolution", "[[1,3,8,8],[6,3,3,3],[],[],[],[],[],[],[]]", three), Cost(0, 0));
    EXPECT_EQ(costOf("aten::cat", "[[[2],[3]],[]]", R"(["TensorList","Scalar"])"), Cost(0, 0)) << "no kernel";
    EXPECT_EQ(costOf("aten::add", "[[4],[3]]", R"(["float","float"])"), Cost(0, 0));
    EXPECT_EQ(costOf("aten::mm", "[[4,8],[8,-2]]", R"(["float","float"])"), Cost(0, 0));
    EXPECT_EQ(costOf("aten::mm", "[[90000000000000,8],[8,90000000000000]]", R"(["float","float"])"), Cost(0, 0));
    EXPECT_EQ(costOf("aten::some_new_op", "[[4]]", R"(["float"])"), Cost(0, 0));
}

/// A trace says no type of a list of tensors; the kernel's name does.
TEST(Profile, ListsOfTensorsHaveTheTypeOfTheirKernel)
{
    const auto cost = [](const std::string& op, const std::string& sizes, const std::string& types,
                         const std::string& values, const std::string& name) {
        std::string ran = kernel(1, 1, 3);
        ran.replace(ran.find("\"k\""), 3, '"' + name + '"');
        const StepTracePtr step = imported(
            traceOf({span("cpu_op", op, 0, 9,
                          "\"Input Dims\":" + sizes + ",\"Input type\":" + types + ",\"Concrete Inputs\":" + values),
                     launch(1, 1), ran}));
        return std::pair(step->ops.bytes[OpId(0)], step->ops.dtype[OpId(0)]);
    };
    const std::string joins = "[[[2,3],[2,5]],[]]";
    const std::string joined = R"(["TensorList","Scalar"])";
    EXPECT_EQ(cost("aten::cat", joins, joined, R"(["","-1"])", "CatArrayBatchedCopy<c10::Half, unsigned int, 2>"),
              std::pair(Bytes{2 * 2 * 16}, DType::float16));
    EXPECT_EQ(
        cost("aten::cat", joins, joined, R"(["","1"])", "CatArrayBatchedCopy<OpaqueType<4u>, unsigned int>").first,
        4 * 2 * 16);
    EXPECT_EQ(cost("aten::cat", joins, joined, R"(["","2"])", "CatArrayBatchedCopy<float>").first, 0) << "no dimension";
    EXPECT_EQ(cost("aten::cat", joins, joined, R"(["","1"])", "CatArrayBatchedCopy<Unknown>").first, 0);
    EXPECT_EQ(cost("aten::_foreach_mul_", "[[[10],[20]],[]]", joined, R"(["",""])",
                   "multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor<c10::BFloat16, 1>, float>"),
              std::pair(Bytes{2 * 2 * 30}, DType::bfloat16));
}

TEST(Profile, ReadsTorch19)
{
    const StepTracePtr step = importedFile("resnet50_v100_torch19.json.gz");
    const MeasuredStep& measured = step->info.measured.value();
    EXPECT_EQ(step->info.gpu, "v100-32gb");
    EXPECT_EQ(measured.kernels, 1516);
    EXPECT_NEAR(measured.kernelMs, 100.342, 1e-9);
    EXPECT_NEAR(measured.stepMs, 155.725, 1e-9);
    EXPECT_NEAR(sumOfMs(*step), measured.kernelMs, 1e-6) << "every kernel has an op";
    const auto count = [&](std::string_view name) {
        return std::ranges::count_if(step->ops.name, [&](StringId op) { return step->strings[op] == name; });
    };
    EXPECT_EQ(count("aten.convolution"), 53);
    EXPECT_EQ(count("aten.cudnn_convolution_backward"), 53);
    EXPECT_EQ(count("aten.cudnn_batch_norm_backward"), 53);
    EXPECT_EQ(measured.allocatedPeak, 2'791'636'480);
}

TEST(Profile, ReadsAmdAndStepsWithoutLabels)
{
    const StepTracePtr amd = importedFile("linear_mi250_torch25.json.gz");
    EXPECT_EQ(amd->info.measured->kernels, 16);
    EXPECT_THAT(listed(*amd), HasSubstr("forward aten.addmm 0.0244"));
    EXPECT_THAT(listed(*amd), HasSubstr("optimizer aten._foreach_add_ 0.00848"));
    EXPECT_NEAR(sumOfMs(*amd), amd->info.measured->kernelMs, 1e-9);
    const StepTracePtr alexnet = importedFile("alexnet_a100_torch21.json.gz");
    EXPECT_EQ(alexnet->info.gpu, "a100-40gb");
    EXPECT_EQ(alexnet->info.measured->kernels, 98);
    EXPECT_NEAR(sumOfMs(*alexnet), alexnet->info.measured->kernelMs, 1e-6);
}

/// tests/data/profiles/make_profiles.py says how long each kernel lasts.
TEST(Profile, EveryKernelOfAKnownTraceHasItsOp)
{
    const Result<Profile> profile = readProfile(folder + "mlp_gpu.json.gz");
    ASSERT_TRUE(profile.ok());
    const auto window = chooseWindow(profileWindows(*profile), {}, "");
    const ProfiledStep step = profiledStep(*profile, *window);
    std::int64_t kernels = 0;
    for (const ProfiledOp& op : step.ops) {
        double expected = 0;
        for (std::int64_t i = 0; i < op.kernels; ++i, ++kernels)
            expected += static_cast<double>(10 + kernels % 7) / 1000;
        EXPECT_NEAR(op.gpuMs, expected, 1e-9) << profile->texts[op.span->name] << ' ' << kernels;
    }
    EXPECT_EQ(kernels, step.kernels);
    EXPECT_GT(kernels, 100);
    EXPECT_EQ(step.withoutOpMs, 0);
}

TEST(Profile, IsLaidBesideThePrediction)
{
    const StepTracePtr predicted = readStepTrace(folder + "mlp.hrs").value();
    const StepTracePtr measured = importedFile("mlp_gpu.json.gz");
    const auto made = compareSteps(*predicted, *predict(*predicted, {}), measured, "t");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ((*made)->axis, StepComparison::Axis::ops);
    EXPECT_GE((*made)->pairs + 1, predicted->ops.size());
    EXPECT_TRUE((*made)->hasMemory);
    // Modules have what their ops have: the trace knows other names of them.
    double sum = 0;
    for (std::uint32_t row = 0; row < predicted->ops.size(); ++row)
        sum += std::max(0.0, (*made)->measuredMsOf(OpId(row)));
    EXPECT_NEAR((*made)->modules.front().measuredMs, sum, 1e-9);
    EXPECT_TRUE((*made)->modules.back().measured);
    EXPECT_THAT((*made)->note, HasSubstr("bound the step"));
    const StepTracePtr timesOnly = imported(traceOf({span("cpu_op", "aten::add", 0, 1)}));
    EXPECT_FALSE(compareSteps(*timesOnly, *predict(*timesOnly, {}), timesOnly, "t").value()->hasMemory);
}

TEST(Profile, CalibratesByShapesOrByAStep)
{
    const StepTracePtr trace = importedFile("mlp_gpu.json.gz", {{}, true, ""});
    const Result<Calibration> byShapes = calibrate(*trace, "t");
    ASSERT_TRUE(byShapes.ok()) << byShapes.error().message;
    EXPECT_EQ(byShapes->gpu, "a100-80gb");
    EXPECT_EQ(byShapes->base, TimeModel::kernel);
    EXPECT_TRUE(byShapes->classes.contains("matmul"));
    ASSERT_TRUE(byShapes->curves.contains({"aten.gelu", DType::float32}));
    const StepTracePtr predicted = readStepTrace(folder + "mlp.hrs").value();
    const Result<Calibration> byStep
        = calibrate(*withMeasuredTimes(predicted, *importedFile("mlp_gpu.json.gz"), "t").value(), "t");
    ASSERT_TRUE(byStep.ok()) << byStep.error().message;
    const auto& curve = byStep->curves.at({"aten.gelu.default", DType::float32});
    ASSERT_EQ(curve.size(), 1U);
    EXPECT_EQ(curve.front().count, 2);
    // Both know the op by the same cost; the first one's curve is found without the overload.
    const auto& unnamed = byShapes->curves.at({"aten.gelu", DType::float32});
    EXPECT_NEAR(unnamed.front().modelMs, curve.front().modelMs, 1e-12);
    EXPECT_NEAR(calibratedMs(*byShapes, "aten.gelu.default", DType::float32, {}, curve.front().modelMs),
                unnamed.front().measuredMs, 1e-12);
    EXPECT_TRUE(byStep->curves.contains({"aten._foreach_addcdiv_.ScalarList", DType::other}));
}

/// Ops of the class that takes 9 us in resources/kernel_times.json, each 18 us after the one before.
TEST(Profile, TheCpuIsCalibratedWithoutShapes)
{
    const auto traced = [](int ops) {
        std::string events;
        for (int i = 0; i < ops; ++i)
            events += span("cpu_op", "aten::relu", 100 + 18 * i, 8) + "," + launch(i + 1, 102 + 18 * i) + ","
                + kernel(i + 1, 110 + 18 * i, 5) + ",";
        return imported("[" + events + span("cpu_op", "aten::relu", 100 + 18 * ops + 9000, 8) + "]",
                        {{}, true, "a100-80gb"});
    };
    EXPECT_EQ(traced(100)->info.measured->cpuFactor, 0) << "less than a step";
    const Result<Calibration> learned = calibrate(*traced(300), "t");
    ASSERT_TRUE(learned.ok()) << learned.error().message;
    EXPECT_TRUE(learned->curves.empty());
    EXPECT_NEAR(learned->cpuFactor, 2, 1e-3);

    const auto clock = [](const StepTracePtr& step) { return *clockOf(*step, {}); };
    const StepTracePtr step = readStepTrace(folder + "mlp.hrs").value();
    Calibration fast = *learned;
    fast.cpuFactor = 0.5;
    EXPECT_EQ(clock(calibrated(step, fast)).gpuMs, clock(step).gpuMs);
    EXPECT_NEAR(clock(calibrated(step, *learned)).cpuMs / clock(calibrated(step, fast)).cpuMs, 4, 1e-2);
    // A calibration of kernels keeps what an older one knew of the CPU.
    const Calibration newer = *calibrate(*importedFile("mlp_gpu.json.gz"), "t");
    EXPECT_EQ(newer.cpuFactor, 0);
    EXPECT_EQ(calibrationFromJson(calibrationToJson(merged(*learned, newer)), "c")->cpuFactor, learned->cpuFactor);
}

TEST(Profile, CompositeOpsAreKnown)
{
    EXPECT_TRUE(isCompositeOp("aten::linear"));
    EXPECT_TRUE(isCompositeOp("aten::matmul"));
    EXPECT_FALSE(isCompositeOp("aten::addmm"));
    EXPECT_FALSE(isCompositeOp("aten::convolution"));
    EXPECT_FALSE(isCompositeOp("fbgemm::linear"));
}

} // namespace
} // namespace headroom
