// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/budget_steps.h"

#include <gmock/gmock.h>

namespace headroom {
namespace {

TEST(BudgetStep, Is64MiBOnALongAxisAndFinerOnAShortOne)
{
    EXPECT_EQ(budgetStep(60 * GiB), 64 * MiB);
    EXPECT_EQ(budgetPage(60 * GiB), 1 * GiB);
    EXPECT_EQ(budgetStep(GiB), 4 * MiB); // 5.1 MiB is a two-hundredth
    EXPECT_EQ(budgetStep(50 * MiB), 256 * KiB);
    EXPECT_EQ(budgetStep(0), 512); // never less than a block of the allocator
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
