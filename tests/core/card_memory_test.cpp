// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"
#include "core/trace/step_trace_builder.h"

#include <gtest/gtest.h>

#include <numeric>

namespace headroom {
namespace {

// What getChosenWorkspaceSize() and getCUDABlasLtWorkspaceSize() of torch 2.11 return.
constexpr Bytes blas = 8'519'680;
constexpr Bytes blasHopper = 33'554'432;
constexpr Bytes blasLt = 1'048'576;

Bytes workspaces(const char* card)
{
    return cardMemory(*findDeviceSpec(card)).workspaces;
}

TEST(CardMemory, WorkspacesAreThoseOfBothThreadsByCard)
{
    EXPECT_EQ(workspaces("a100-80gb"), 2 * blas + blasLt);
    EXPECT_EQ(workspaces("t4-16gb"), 2 * blas + blasLt);
    EXPECT_EQ(workspaces("h100-80gb"), 2 * blasHopper + blasLt); // 65 MiB
    EXPECT_EQ(workspaces("b200-180gb"), 2 * blas + blasLt); // PyTorch asks for compute capability 9.0 alone
}

TEST(CardMemory, EveryCardHasItsContextNearTheEstimate)
{
    for (const DeviceSpec& spec : deviceSpecs()) {
        const CardMemory card = cardMemory(spec);
        EXPECT_EQ(card.total, spec.memory);
        EXPECT_EQ(card.usable(), card.total - card.context - card.workspaces);
        const double ratio
            = static_cast<double>(estimatedContext(spec.multiprocessors)) / static_cast<double>(card.context);
        EXPECT_GT(ratio, 0.7) << spec.name;
        EXPECT_LT(ratio, 1.3) << spec.name;
    }
    DeviceSpec unknown;
    unknown.memory = 10 * GiB;
    unknown.multiprocessors = 68;
    EXPECT_EQ(cardMemory(unknown).context, 284 * MiB);
    unknown.memory = 100 * MiB;
    EXPECT_EQ(cardMemory(unknown).usable(), 0);
}

TEST(CardMemory, AThreadThatMultipliesNoMatricesHasNoWorkspace)
{
    const DeviceSpec card = *findDeviceSpec("a100-80gb");
    const auto of = [&](const char* forward, const char* backward) {
        StepTraceBuilder builder;
        const ModuleId net = builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        for (const auto& [name, phase] : {std::pair(forward, Phase::forward), std::pair(backward, Phase::backward)}) {
            StepTraceBuilder::Op op;
            op.name = builder.string(name);
            op.module = net;
            op.phase = phase;
            builder.endOp(builder.beginOp(op), {});
        }
        builder.mark(Mark::stepEnd);
        const Result<StepTracePtr> step = builder.finish();
        return step ? cardMemory(card, **step).workspaces : -1;
    };
    EXPECT_EQ(of("aten.addmm.default", "aten.mm.default"), 2 * blas + blasLt);
    EXPECT_EQ(of("aten.mm.default", "aten.bmm.default"), 2 * blas);
    EXPECT_EQ(of("aten.convolution.default", "aten.mm.default"), blas);
    EXPECT_EQ(of("aten.relu.default", "aten.addmm.default"), blas + blasLt); // recomputed in autograd's thread
    EXPECT_EQ(of("aten.relu.default", "aten.threshold_backward.default"), 0);
}

TEST(CardMemory, CommunicatorsAreThoseOfTheGroupsThatTheStepUsed)
{
    StepTraceBuilder builder;
    builder.info.distributed = RankInfo{16, 8, 0};
    builder.info.gpu = "a100-80gb";
    const ModuleId net = builder.addModule("Net", "Net", {});
    const auto ranks = [](std::uint32_t count) {
        std::vector<std::uint32_t> list(count);
        std::iota(list.begin(), list.end(), 0);
        return list;
    };
    builder.group("unused", ranks(4));
    builder.mark(Mark::stepBegin);
    const auto collective = [&](CollectiveKind kind, const char* group, std::uint32_t count) {
        StepTraceBuilder::Op op;
        op.name = builder.string("c10d.collective");
        op.module = net;
        const OpId id = builder.beginOp(op);
        builder.collective(id, {kind, 8, builder.group(group, ranks(count))});
        builder.endOp(id, {});
    };
    collective(CollectiveKind::allGather, "world", 16);
    collective(CollectiveKind::reduceScatter, "world", 16);
    collective(CollectiveKind::allReduce, "pair", 2);
    collective(CollectiveKind::allReduce, "alone", 1);
    collective(CollectiveKind::allToAll, "experts", 8);
    builder.mark(Mark::stepEnd);
    const StepTracePtr step = builder.finish().value();
    const DeviceSpec a100 = *findDeviceSpec("a100-80gb");
    const CardMemory card = cardMemory(a100, *step);
    EXPECT_EQ(card.nccl, (NcclMemory{3, (688 + 544 + 688 + 7 * 448) * MiB}));
    EXPECT_EQ(card.allocators(), card.total - card.context - card.nccl.bytes);
    EXPECT_EQ(cardMemory(a100).nccl, NcclMemory{});
    // By channels: half as many of a V100, two of PCIe.
    EXPECT_EQ(cardMemory(*findDeviceSpec("v100-32gb"), *step).nccl.bytes, card.nccl.bytes / 2);
    EXPECT_NEAR(ncclMemory(*step, *findTopology("pcie4-25")).bytes, card.nccl.bytes / 12, 4);
    // A full card says how much of it is theirs.
    OutOfMemory event;
    event.requested = GiB;
    EXPECT_EQ(
        whyOutOfMemory(*step, event),
        "The program asked for 1.00 GiB, and the device had 0 B left. The card also holds NCCL's buffers (estimated, "
            + formatBytes(card.nccl.bytes) + " for 3 communicators), outside of PyTorch's memory.");
}

} // namespace
} // namespace headroom
