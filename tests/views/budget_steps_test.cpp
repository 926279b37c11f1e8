// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/budget_steps.h"

#include "core/cost/nccl_memory.h"
#include "core/trace/step_trace_builder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace headroom {
namespace {

using testing::ElementsAre;

TEST(BudgetStep, Is64MiBOnALongAxisAndFinerOnAShortOne)
{
    EXPECT_EQ(budgetStep(60 * GiB), 64 * MiB);
    EXPECT_EQ(budgetPage(60 * GiB), 1 * GiB);
    EXPECT_EQ(budgetStep(GiB), 4 * MiB); // 5.1 MiB is a two-hundredth
    EXPECT_EQ(budgetStep(50 * MiB), 256 * KiB);
    EXPECT_EQ(budgetStep(0), 512); // never less than a block of the allocator
}

TEST(CardSizes, AreTheKnownCardsOnTheAxisWithWhatTheyGiveToTensors)
{
    std::vector<std::string> names;
    for (const auto& card : cardSizes(7 * GiB, 60 * GiB))
        names.push_back(card.name);
    EXPECT_THAT(names,
                ElementsAre("RTX 4060", "RTX 3060", "T4", "RTX 4070 Ti SUPER", "A10", "L4", "RTX 4090", "RTX 3090",
                            "V100-SXM2-32GB", "A100-SXM4-40GB", "L40S", "RTX 6000 Ada Generation", "RTX A6000"));
    // 23.64 GiB, less 490 MiB of context and two workspaces of cuBLAS of 8.125 MiB and one of cuBLASLt.
    const auto consumer = cardSizes(static_cast<Bytes>(23.1 * static_cast<double>(GiB)), 24 * GiB);
    ASSERT_FALSE(consumer.empty());
    EXPECT_EQ(consumer.front().name, "RTX 4090");
    EXPECT_EQ(consumer.front().bytes, 25'383'256'719 - 490 * MiB - (2 * 8'519'680 + MiB));
}

TEST(CardSizes, LeaveRoomForTheCommunicatorsOfTheStep)
{
    StepTraceBuilder builder;
    StepTraceBuilder::Op op;
    op.module = builder.addModule("Net", "Net", {});
    op.name = builder.string("c10d.collective");
    builder.mark(Mark::stepBegin);
    const OpId id = builder.beginOp(op);
    builder.collective(
        id,
        {CollectiveKind::allGather, 8, builder.group("world", std::array<std::uint32_t, 8>{0, 1, 2, 3, 4, 5, 6, 7})});
    builder.endOp(id, {});
    builder.mark(Mark::stepEnd);
    const StepTracePtr step = builder.finish().value();
    const auto bytesOf = [](const std::vector<CardSize>& cards) {
        return std::ranges::find(cards, "A100-SXM4-40GB", &CardSize::name)->bytes;
    };
    const Bytes alone = bytesOf(cardSizes(30 * GiB, 80 * GiB));
    const Bytes one = bytesOf(cardSizes(30 * GiB, 80 * GiB, step.get()));
    EXPECT_EQ(alone - one, ncclMemory(*step, topologyOf("a100-80gb")).bytes);
}

TEST(Stops, NextAndPrevious)
{
    const std::vector<Bytes> stops{10, 20, 30};
    EXPECT_EQ(nextStop(stops, 15, +1), 20);
    EXPECT_EQ(nextStop(stops, 20, +1), 30);
    EXPECT_EQ(nextStop(stops, 30, +1), 30);
    EXPECT_EQ(nextStop(stops, 15, -1), 10);
    EXPECT_EQ(nextStop(stops, 20, -1), 10);
    EXPECT_EQ(nextStop(stops, 10, -1), 10);
    EXPECT_EQ(nextStop({}, 5, +1), 5);
}

TEST(Stops, SnapWithinReachOnly)
{
    const std::vector<Bytes> stops{100, 200};
    EXPECT_EQ(snapped(stops, 104, 4), 100);
    EXPECT_EQ(snapped(stops, 105, 4), 105);
    EXPECT_EQ(snapped(stops, 150, 60), 100);
    EXPECT_EQ(snapped(stops, 151, 60), 200);
}

TEST(Drag, RoundsToWhatAPixelCanTell)
{
    EXPECT_EQ(roundedForDrag(10 * MiB + 5, 3.0 * static_cast<double>(MiB)), 10 * MiB);
    EXPECT_EQ(roundedForDrag(11 * MiB, 3.0 * static_cast<double>(MiB)), 12 * MiB);
    EXPECT_EQ(roundedForDrag(700, 1), 512);
}

std::vector<FrontierPoint> frontier()
{
    return {{10 * GiB, 100, 0}, {12 * GiB, 50, 0}, {16 * GiB, 30, 0}, {20 * GiB, 0, 0}};
}

TEST(Frontier, CostIsThatOfTheLargestPlanThatFits)
{
    EXPECT_DOUBLE_EQ(recomputeAt(frontier(), 9 * GiB), 100);
    EXPECT_DOUBLE_EQ(recomputeAt(frontier(), 10 * GiB), 100);
    EXPECT_DOUBLE_EQ(recomputeAt(frontier(), 12 * GiB - 1), 100);
    EXPECT_DOUBLE_EQ(recomputeAt(frontier(), 12 * GiB), 50);
    EXPECT_DOUBLE_EQ(recomputeAt(frontier(), 30 * GiB), 0);
}

} // namespace
} // namespace headroom
