// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"
#include "core/cost/card_memory.h"
#include "core/cost/op_issue.h"
#include "core/cost/op_signature.h"
#include "core/predict/predict.h"
#include "core/trace/graph_ops.h"
#include "core/trace/step_trace_builder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace headroom {
namespace {

constexpr Bytes blas = 8'519'680;
constexpr Bytes blasHopper = 33'554'432;

DeviceSpec card(const char* name)
{
    return *findDeviceSpec(name);
}

TEST(Workspaces, TheProgramsVariablesSizeThoseOfCublas)
{
    const DeviceSpec h100 = card("h100-80gb");
    EXPECT_EQ(blasWorkspaces(h100, ":4096:2:16:8").blas, blas);
    EXPECT_EQ(blasWorkspaces(h100, ":0:0", "0").blas, 0);
    EXPECT_EQ(blasWorkspaces(h100, ":0:0", "0").blasLt, 0);
    EXPECT_EQ(blasWorkspaces(h100, {}, "32768").blasLt, 32 * MiB);
    for (const char* broken : {"4096:2", ":4096", ":4096:x", ":4096:2:", ":-1:2", ":99999999999:9", "::"})
        EXPECT_EQ(blasWorkspaces(h100, broken).blas, blasHopper) << broken;
}

struct Images
{
    DType dtype = DType::float16;
    bool channelsLast = false;
    std::int64_t groups = 1;
    std::int64_t filter = 5;
};

OpSignature::Value numbers(std::vector<std::int64_t> values)
{
    return {OpSignature::Value::ValueType::integers, {}, std::move(values)};
}

DType dtypeOf(const std::string& name)
{
    for (std::size_t row = 0; row < dtypeCount; ++row)
        if (dtypeName(static_cast<DType>(row)) == name)
            return static_cast<DType>(row);
    return name == "bool" ? DType::boolean : DType::other;
}

/// A value of tests/data/pytorch/kernel_scratch.json.
OpSignature::Value valueOf(const nlohmann::json& value)
{
    if (value.is_number() || value.is_boolean())
        return numbers({value.is_boolean() ? value.get<bool>() : value.get<std::int64_t>()});
    if (value.is_array())
        return numbers(value.get<std::vector<std::int64_t>>());
    if (!value.is_object() || !value.contains("dtype"))
        return {};
    TensorShape shape;
    shape.dtype = dtypeOf(value["dtype"]);
    shape.itemSize = shape.dtype == DType::boolean                        ? 1
        : shape.dtype == DType::float64 || shape.dtype == DType::int64    ? 8
        : shape.dtype == DType::float16 || shape.dtype == DType::bfloat16 ? 2
                                                                          : 4;
    shape.sizes = value["sizes"].get<std::vector<std::int64_t>>();
    shape.strides = value["strides"].get<std::vector<std::int64_t>>();
    return {OpSignature::Value::ValueType::tensor, {shape}, {}};
}

TEST(KernelScratch, IsWhatPyTorchsKernelsAllocate)
{
    const auto document = nlohmann::json::parse(std::ifstream(HEADROOM_TEST_DATA "/pytorch/kernel_scratch.json"));
    for (const nlohmann::json& row : document["rows"]) {
        OpSignature signature;
        for (const nlohmann::json& argument : row["arguments"])
            signature.arguments.push_back(valueOf(argument));
        for (const nlohmann::json& result : row["results"])
            signature.results.push_back(valueOf(result));
        const auto bytes
            = static_cast<double>(kernelScratch(row["op"].get<std::string>(), signature, card("h100-80gb")));
        const auto measured = row["scratch"].get<double>();
        if (row["exact"].get<bool>())
            EXPECT_EQ(bytes, measured) << row;
        else
            EXPECT_NEAR(bytes, measured, 0.02 * measured) << row;
    }
}

OpSignature::Value tensor(std::vector<std::int64_t> sizes, const Images& images)
{
    const auto c = sizes[1];
    const auto points = sizes[2] * sizes[3];
    TensorShape shape;
    shape.dtype = images.dtype;
    shape.itemSize = static_cast<std::uint8_t>(images.dtype == DType::float32 ? 4 : 2);
    shape.strides = images.channelsLast ? std::vector{c * points, std::int64_t{1}, sizes[3] * c, c}
                                        : std::vector{c * points, points, sizes[3], std::int64_t{1}};
    shape.sizes = std::move(sizes);
    return {OpSignature::Value::ValueType::tensor, {shape}, {}};
}

/// 32 images of 96 channels, 256 filters of 5x5: the convolution whose workspace cuDNN 7 told.
OpSignature convolution(const Images& images)
{
    const std::int64_t out = images.groups == 1 ? 256 : 96;
    OpSignature call;
    call.modes = convolutionTF32;
    call.arguments = {tensor({32, 96, 27, 27}, images),
                      tensor({out, 96 / images.groups, images.filter, images.filter}, images),
                      {},
                      numbers({1, 1}),
                      numbers({2, 2}),
                      numbers({1, 1}),
                      numbers({0}),
                      numbers({0, 0}),
                      numbers({images.groups})};
    call.results = {tensor({32, out, 27, 27}, images)};
    return call;
}

/// A product, the convolution, a product and the convolution again, its result freed before.
/// `place`: where its ops allocate.
StepTracePtr step(const Images& images, std::vector<std::pair<std::string, std::string>> settings = {},
                  std::uint32_t place = 0)
{
    StepTraceBuilder builder;
    builder.info.settings = std::move(settings);
    const ModuleId net = builder.addModule("Net", "Net", {});
    const auto run = [&](const char* name, Phase phase, Bytes bytes, std::span<const std::int64_t> signature) {
        StepTraceBuilder::Op call;
        call.name = builder.string(name);
        call.module = net;
        call.phase = phase;
        const OpId op = builder.beginOp(call);
        const StorageId made = builder.alloc(bytes, Category::activation, op);
        builder.setStream(op, streamOfPlace(place));
        builder.setStream(made, place);
        StepTraceBuilder::OpResult result;
        result.signature = signature;
        builder.endOp(op, result);
        builder.free(made);
    };
    const std::vector<std::int64_t> signature = encoded(convolution(images));
    builder.mark(Mark::stepBegin);
    run("aten.mm.default", Phase::forward, 30 * MiB, {});
    run("aten.convolution.default", Phase::forward, 12 * MiB, signature);
    run("aten.addmm.default", Phase::backward, 30 * MiB, {});
    builder.mark(Mark::stepEnd);
    const Result<StepTracePtr> finished = builder.finish();
    EXPECT_TRUE(finished.ok());
    return *finished;
}

TEST(Workspaces, CuDNNCopiesAllThreeTensorsForTensorCores)
{
    const auto most = [](const Images& images, const char* name) {
        return workspacesOf(*step(images), card(name)).mostDuringAnOp();
    };
    constexpr Bytes half = 2 * (Bytes{32} * 96 * 729 + Bytes{32} * 256 * 729 + Bytes{256} * 96 * 25);
    EXPECT_EQ(most({}, "v100-32gb"), half);
    // The warning of cuDNN 7 for this convolution, less its result's second half: the result was float32 then.
    EXPECT_NEAR(29'600'043 - 2 * 32 * 256 * 729, half, 0.001 * 29'600'043);
    EXPECT_EQ(most({DType::bfloat16}, "a100-80gb"), half);
    EXPECT_EQ(most({DType::bfloat16}, "v100-32gb"), 0);
    EXPECT_EQ(most({DType::float32}, "a100-80gb"), 2 * half); // TF32
    EXPECT_EQ(most({DType::float32}, "v100-32gb"), 0);
    EXPECT_EQ(most({DType::float16, true}, "a100-80gb"), 0);
    EXPECT_EQ(most({DType::float16, false, 96}, "a100-80gb"), 0);
}

/// The filters of a 1x1 convolution lie in memory as both layouts have them: the images decide.
TEST(Workspaces, FiltersOfOnePointAreNotChannelsLast)
{
    Images images;
    images.filter = 1;
    constexpr Bytes half = 2 * (Bytes{32} * 96 * 729 + Bytes{32} * 256 * 729 + Bytes{256} * 96);
    EXPECT_EQ(workspacesOf(*step(images), card("v100-32gb")).mostDuringAnOp(), half);
    images.channelsLast = true;
    EXPECT_EQ(workspacesOf(*step(images), card("v100-32gb")).mostDuringAnOp(), 0);
}

TEST(Workspaces, TheAllocatorHoldsThem)
{
    const StepTracePtr trace = step({});
    const Timeline timeline = *predict(*trace, {});
    const DeviceSpec a100 = card("a100-80gb");
    const Workspaces workspaces = workspacesOf(*trace, a100);
    using Kept = Workspaces::Kept;
    EXPECT_EQ(workspaces.kept,
              (std::vector<Kept>{{OpId(0), blas}, {OpId(2), blas}, {OpId(2), MiB}})); // autograd's thread, with a bias
    const AllocatorRun without = simulateAllocator(*trace, timeline, {});
    const AllocatorRun with = simulateAllocator(*trace, timeline, {}, workspaces);
    EXPECT_EQ(without.stats.allocatedPeak, 30 * MiB);
    // At the convolution its result and workspace lie beside cuBLAS's blocks; they are the step's after next, too.
    const Bytes atConvolution = 12 * MiB + (workspaces.mostDuringAnOp() + 511) / 512 * 512;
    EXPECT_EQ(with.stats.allocatedPeak, std::max(30 * MiB, atConvolution) + 2 * blas + MiB);
    EXPECT_EQ(with.start.allocated, 2 * blas + MiB);
    EXPECT_GT(with.stats.reservedPeak, without.stats.reservedPeak + 2 * blas);

    // The card is full in cuBLAS's last block; a convolution without room for its workspace runs without.
    AllocatorRules rules;
    rules.capacity = 40 * MiB;
    const AllocatorRun full = simulateAllocator(*trace, timeline, rules, workspaces);
    ASSERT_TRUE(full.failure);
    EXPECT_NE(full.failure->op, OpId(1));
    rules.capacity = 72 * MiB;
    EXPECT_FALSE(simulateAllocator(*trace, timeline, rules, workspaces).failure);
}

TEST(KernelScratch, FilesMayHaveAnyNumbers)
{
    const auto sum = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, int itemSize) {
        TensorShape shape;
        shape.sizes = std::move(sizes);
        shape.strides = std::move(strides);
        shape.itemSize = itemSize;
        OpSignature signature;
        signature.arguments = {{OpSignature::Value::ValueType::tensor, {shape}, {}}, numbers({0})};
        signature.results = {{OpSignature::Value::ValueType::tensor, {TensorShape()}, {}}};
        return kernelScratch("aten.sum.dim_IntList", signature, card("h100-80gb"));
    };
    EXPECT_GT(sum({8192, 4096}, {4096, 1}, 4), 0);
    constexpr std::int64_t huge = std::int64_t{1} << 62;
    EXPECT_EQ(sum({huge, 4096}, {4096, 1}, 4), 0);
    EXPECT_EQ(sum({8192, 4096}, {huge, 1}, 4), 0);
    EXPECT_EQ(sum({-1, 4096}, {4096, 1}, 4), 0);
    EXPECT_EQ(sum({8192, 4096}, {4096, 1}, 0), 0);
    EXPECT_EQ(sum({8192, 4096}, {4096}, 4), 0);
    EXPECT_EQ(sum({0, 4096}, {4096, 1}, 4), 0);
}

TEST(KernelScratch, LiesBesideTheResultsOfTheOp)
{
    const StepTracePtr trace = step({});
    const Timeline timeline = *predict(*trace, {});
    Workspaces workspaces;
    workspaces.scratch = {0, 100 * MiB, 0};
    AllocatorRules rules;
    const AllocatorRun run = simulateAllocator(*trace, timeline, rules, workspaces);
    EXPECT_EQ(run.stats.allocatedPeak, 112 * MiB);
    EXPECT_EQ(run.start.allocated, 0) << "the op gave the memory back";
    rules.capacity = 110 * MiB;
    const AllocatorRun full = simulateAllocator(*trace, timeline, rules, workspaces);
    ASSERT_TRUE(full.failure);
    EXPECT_EQ(full.failure->op, OpId(1)) << "a kernel without scratch memory cannot run";
}

/// A graph frees them between its captures, which have them in its pool one after the other.
TEST(Workspaces, AGraphHasItsOwnInItsPool)
{
    const std::uint32_t place = placeOf(3, 1);
    const StepTracePtr trace = step({}, {}, place);
    using Kept = Workspaces::Kept;
    const Workspaces workspaces = workspacesOf(*trace, card("a100-80gb"));
    EXPECT_EQ(workspaces.kept, (std::vector<Kept>{{OpId(0), blas, place}, {OpId(2), MiB, place}}));
    EXPECT_GT(opIssues(*trace)[0].cpuMs, 0);
    EXPECT_EQ(opIssues(*trace)[2].cpuMs, 0) << "the graph is launched as one";
    EXPECT_GT(opIssues(*step({}))[2].cpuMs, 0);
}

TEST(Workspaces, TheStepKnowsWhatItsProgramSet)
{
    const StepTracePtr none = step({}, {{"CUBLAS_WORKSPACE_CONFIG", ":0:0"}, {"CUBLASLT_WORKSPACE_SIZE", "0"}});
    EXPECT_TRUE(workspacesOf(*none, card("a100-80gb")).kept.empty());
    const StepTracePtr small = step({}, {{"CUBLAS_WORKSPACE_CONFIG", ":16:8"}});
    EXPECT_EQ(workspacesOf(*small, card("a100-80gb")).keptBytes(), 2 * 128 * KiB + MiB);
}

} // namespace
} // namespace headroom
