// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace headroom {
namespace {

using ::testing::ElementsAre;
using Point = std::pair<long, double>;

std::vector<std::size_t> hullOf(const std::vector<Point>& points)
{
    return lowerHull(
        points, [](const Point& p) { return p.first; }, [](const Point& p) { return p.second; });
}

TEST(Curves, HullLeavesOutWhatLiesOnOrAboveIt)
{
    EXPECT_THAT(hullOf({}), ElementsAre());
    EXPECT_THAT(hullOf({{3, 1}}), ElementsAre(0));
    EXPECT_THAT(hullOf({{0, 4}, {1, 2}, {2, 1.5}, {4, 0}}), ElementsAre(0, 1, 3));
    EXPECT_THAT(hullOf({{0, 3}, {1, 2}, {2, 1}, {3, 0}}), ElementsAre(0, 3)); // all on one line
}

TEST(Curves, HullIsTheSameFromTheOtherEnd)
{
    std::mt19937 random(5);
    for (int run = 0; run < 200; ++run) {
        std::vector<Point> points;
        for (long x = 0; x < 12; ++x)
            points.emplace_back(x, static_cast<double>(random() % 20));
        const std::vector<std::size_t> hull = hullOf(points);
        for (std::size_t i = 0; i < points.size(); ++i) { // no point lies below the hull
            const auto right = std::max<std::ptrdiff_t>(1, std::ranges::lower_bound(hull, i) - hull.begin());
            const Point& a = points[hull[static_cast<std::size_t>(right - 1)]];
            const Point& b = points[hull[static_cast<std::size_t>(right)]];
            const double line = a.second
                + (b.second - a.second) * static_cast<double>(points[i].first - a.first)
                    / static_cast<double>(b.first - a.first);
            EXPECT_GE(points[i].second, line - 1e-9);
        }
        std::ranges::reverse(points);
        std::vector<std::size_t> mirrored = hullOf(points);
        std::ranges::reverse(mirrored);
        std::ranges::transform(mirrored, mirrored.begin(), [&](std::size_t i) { return points.size() - 1 - i; });
        EXPECT_EQ(mirrored, hull);
    }
}

TEST(Curves, SpreadKeepsBothEnds)
{
    std::vector<int> values(10);
    std::iota(values.begin(), values.end(), 0);
    EXPECT_THAT(spreadEvenly(values, 4), ElementsAre(0, 3, 6, 9));
    EXPECT_THAT(spreadEvenly(values, 1), ElementsAre(9));
    EXPECT_EQ(spreadEvenly(values, 10), values);
}

} // namespace
} // namespace headroom
