// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/axis_map.h"
#include "views/plot/number_text.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(AxisMap, MapsThereAndBack)
{
    const AxisMap x{{200, 400}, 46, 1046};
    EXPECT_DOUBLE_EQ(x.toPixel(200), 46);
    EXPECT_DOUBLE_EQ(x.toPixel(400), 1046);
    EXPECT_DOUBLE_EQ(x.toPixel(250), 296);
    EXPECT_DOUBLE_EQ(x.toData(296), 250);
    EXPECT_DOUBLE_EQ(x.dataPerPixel(), 0.2);
}

TEST(AxisMap, VerticalAxisRunsUpwards)
{
    const AxisMap y{{0, 100}, 500, 100}; // bottom, top
    EXPECT_DOUBLE_EQ(y.toPixel(0), 500);
    EXPECT_DOUBLE_EQ(y.toPixel(100), 100);
    EXPECT_DOUBLE_EQ(y.toData(300), 50);
    EXPECT_DOUBLE_EQ(y.dataPerPixel(), 0.25);
}

TEST(AxisMap, ZoomLeavesTheValueUnderThePointerWhereItIs)
{
    const AxisRange all{0, 1000};
    const AxisMap x{{200, 600}, 0, 400};
    for (const double pixel : {0.0, 100.0, 399.0}) {
        const double value = x.toData(pixel);
        const auto closer = x.zoomed(2, pixel, all, 1e-3);
        EXPECT_DOUBLE_EQ(closer.length(), 200);
        EXPECT_NEAR((AxisMap{closer, 0, 400}.toData(pixel)), value, 1e-9);
    }
}

TEST(AxisMap, ZoomStopsAtTheLimitsAndAtTheShortestRange)
{
    const AxisRange all{0, 1000};
    const AxisMap x{{900, 1000}, 0, 100};
    EXPECT_EQ(x.zoomed(1e-9, 50, all, 1), all);
    EXPECT_DOUBLE_EQ(x.zoomed(1e12, 50, all, 5).length(), 5);
    const auto wider = x.zoomed(0.5, 0, all, 1); // would reach beyond the end
    EXPECT_DOUBLE_EQ(wider.end, 1000);
    EXPECT_DOUBLE_EQ(wider.begin, 800);
}

TEST(AxisMap, PanStopsAtTheLimitsWithoutChangingTheLength)
{
    const AxisRange all{0, 1000};
    const AxisMap x{{100, 300}, 0, 100};
    EXPECT_EQ(x.panned(10, all), (AxisRange{80, 280})); // to the right: earlier times come in
    EXPECT_EQ(x.panned(1000, all), (AxisRange{0, 200}));
    EXPECT_EQ(x.panned(-1000, all), (AxisRange{800, 1000}));
}

TEST(AxisMap, ClampedKeepsWhatFits)
{
    EXPECT_EQ(clamped({2, 4}, {0, 10}), (AxisRange{2, 4}));
    EXPECT_EQ(clamped({-2, 4}, {0, 10}), (AxisRange{0, 6}));
    EXPECT_EQ(clamped({8, 12}, {0, 10}), (AxisRange{6, 10}));
    EXPECT_EQ(clamped({-8, 12}, {0, 10}), (AxisRange{0, 10}));
}

struct TickCase
{
    AxisRange range;
    int mostSteps;
    double first, step;
    int count, decimals;
};

TEST(Ticks, AreAtOneTwoOrFiveTimesAPowerOfTen)
{
    const TickCase cases[] = {
        {{0, 70}, 7, 0, 10, 8, 0},      {{0, 69.9}, 7, 0, 10, 7, 0},      {{0, 830}, 9, 0, 100, 9, 0},
        {{3, 9}, 10, 3, 1, 7, 0},       {{0, 0.3}, 4, 0, 0.1, 4, 1},      {{576.1, 576.9}, 5, 576.2, 0.2, 4, 1},
        {{0, 1e-3}, 5, 0, 2e-4, 6, 4},  {{-0.03, 1.06}, 4, 0, 0.5, 3, 1}, {{0, 24}, 5, 0, 5, 5, 0},
        {{12.5, 13.1}, 1, 13, 1, 1, 0},
    };
    for (const auto& expected : cases) {
        const auto ticks = niceTicks(expected.range, expected.mostSteps);
        SCOPED_TRACE(testing::Message() << expected.range.begin << " to " << expected.range.end);
        EXPECT_NEAR(ticks.first, expected.first, 1e-9);
        EXPECT_NEAR(ticks.step, expected.step, 1e-12);
        EXPECT_EQ(ticks.count, expected.count);
        EXPECT_EQ(ticks.decimals, expected.decimals);
    }
}

TEST(Ticks, OfNothingAreNone)
{
    EXPECT_EQ(niceTicks({5, 5}, 4).count, 0);
    EXPECT_EQ(niceTicks({0, 10}, 0).count, 0);
}

TEST(ByteUnit, IsTheLargestThatTheNumberFills)
{
    EXPECT_STREQ(byteUnitFor(70e9).name, "GiB");
    EXPECT_STREQ(byteUnitFor(1024.0 * 1024 * 1024).name, "GiB");
    EXPECT_STREQ(byteUnitFor(1024.0 * 1024 * 1024 - 1).name, "MiB");
    EXPECT_STREQ(byteUnitFor(2048).name, "KiB");
    EXPECT_STREQ(byteUnitFor(0).name, "B");
}

TEST(NumberText, KeepsUnitAndDecimals)
{
    EXPECT_EQ(bytesText(47'750'000'000), QStringLiteral("44.5 GiB"));
    EXPECT_EQ(bytesText(512, 2), QStringLiteral("512 B"));
    EXPECT_EQ(bytesText(-3 * MiB, 2), QStringLiteral("-3.00 MiB"));
    EXPECT_EQ(msText(576.184), QStringLiteral("576.18 ms"));
    EXPECT_EQ(msText(0.0421), QStringLiteral("0.042 ms"));
    EXPECT_EQ(msText(12'304), QStringLiteral("12.30 s"));
}

TEST(ZoomStack, GoesBackStepByStep)
{
    ZoomStack stack({0, 100});
    EXPECT_FALSE(stack.zoomedIn());
    EXPECT_FALSE(stack.pop());
    stack.push({10, 60});
    stack.push({20, 30});
    stack.push({20, 30}); // nothing new
    EXPECT_EQ(stack.current(), (AxisRange{20, 30}));
    EXPECT_TRUE(stack.pop());
    EXPECT_EQ(stack.current(), (AxisRange{10, 60}));
    EXPECT_TRUE(stack.pop());
    EXPECT_EQ(stack.current(), (AxisRange{0, 100}));
    EXPECT_FALSE(stack.pop());
}

TEST(ZoomStack, OneWheelTurnIsOneStep)
{
    ZoomStack stack({0, 100});
    stack.push({10, 90});
    for (int notch = 1; notch < 5; ++notch)
        stack.replaceTop({10.0 + notch, 90.0 - notch});
    EXPECT_EQ(stack.current(), (AxisRange{14, 86}));
    EXPECT_TRUE(stack.pop());
    EXPECT_EQ(stack.current(), (AxisRange{0, 100}));
    stack.replaceTop({40, 50}); // never over the bottom
    EXPECT_EQ(stack.all(), (AxisRange{0, 100}));
}

TEST(ZoomStack, KeepsItsStepsWhenTheStepGetsLongerOrShorter)
{
    ZoomStack stack({0, 100});
    stack.push({60, 90});
    stack.setAll({0, 120});
    EXPECT_EQ(stack.current(), (AxisRange{60, 90}));
    stack.setAll({0, 80});
    EXPECT_EQ(stack.current(), (AxisRange{50, 80}));
    stack.showAll();
    EXPECT_EQ(stack.current(), (AxisRange{0, 80}));
}

} // namespace
} // namespace headroom
