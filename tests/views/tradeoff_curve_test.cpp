// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_curve.h"

#include <gmock/gmock.h>

namespace headroom {
namespace {

ModuleStats block(const std::string& fqn, Bytes memory = 400 * MiB, double ms = 2)
{
    ModuleStats module;
    module.fqn = fqn;
    module.isLeaf = false;
    module.sacMemory = memory;
    module.sacRuntimeMs = ms;
    module.slopes = {0.5, 1.5};
    module.intercepts = {0, -0.5};
    module.breakpoints = {0, 0.5, 1};
    return module;
}

ModuleInfo blocks()
{
    ModuleInfo info;
    info.stats = {block("GPT.layers.0"), block("GPT.layers.1"), block("GPT.layers.2", 500 * MiB), block("GPT.head")};
    ModuleStats norm;
    norm.fqn = "GPT.layers.0.norm";
    info.stats.push_back(norm);
    return info;
}

TEST(TradeOff, TimeIsTheUpperEnvelopeOfThePieces)
{
    const auto module = block("b");
    EXPECT_DOUBLE_EQ(recomputeMs(module, 0), 0);
    EXPECT_DOUBLE_EQ(recomputeMs(module, 0.4), 0.4);
    EXPECT_DOUBLE_EQ(recomputeMs(module, 0.5), 0.5);
    EXPECT_DOUBLE_EQ(recomputeMs(module, 1), 2);
    EXPECT_DOUBLE_EQ(recomputeMs(module, 0.75), 1.25);
}

TEST(TradeOff, CurveRunsFromAllKeptToAllDiscarded)
{
    const auto curve = tradeOffCurve(block("b"));
    ASSERT_EQ(curve.size(), 3u);
    EXPECT_DOUBLE_EQ(curve[0].kept, 400.0 * MiB);
    EXPECT_DOUBLE_EQ(curve[0].ms, 0);
    EXPECT_DOUBLE_EQ(curve[1].kept, 200.0 * MiB);
    EXPECT_DOUBLE_EQ(curve[1].ms, 0.5);
    EXPECT_DOUBLE_EQ(curve[2].kept, 0);
    EXPECT_DOUBLE_EQ(curve[2].ms, 2);
}

TEST(TradeOff, LeavesAndModulesThatKeepNothingHaveNoCurve)
{
    auto leaf = block("leaf");
    leaf.isLeaf = true;
    EXPECT_TRUE(tradeOffCurve(leaf).empty());
    EXPECT_TRUE(tradeOffCurve(block("empty", 0)).empty());
}

TEST(TradeOff, ClassReplacesNumbersOfAPathOnly)
{
    EXPECT_EQ(classOf("GPT.layers.12.mlp"), "GPT.layers.#.mlp");
    EXPECT_EQ(classOf("GPT.conv2d"), "GPT.conv2d");
    EXPECT_EQ(classOf("7"), "#");
    EXPECT_EQ(classOf(""), "");
}

TEST(TradeOff, PictureHoldsTheClassAndWhatThePlanChose)
{
    const auto info = blocks();
    Plan plan;
    plan.status = PlanStatus::optimal;
    plan.decisions = {{"GPT.layers.0", 0.5}, {"GPT.layers.1", 1}};
    const auto picture = tradeOffPicture(info, "GPT.layers.0", &plan);
    ASSERT_TRUE(picture.selected);
    EXPECT_EQ(picture.others.size(), 1u) << "layers.1 has the same curve as the selected one, head is of another class";
    EXPECT_TRUE(picture.hasPlan);
    EXPECT_DOUBLE_EQ(picture.chosen.ratio, 0.5);
    ASSERT_EQ(picture.choices.size(), 2u);
    EXPECT_DOUBLE_EQ(picture.choices[0].point.kept, 0);
    EXPECT_DOUBLE_EQ(picture.choices[1].point.kept, 500.0 * MiB);
    EXPECT_DOUBLE_EQ(picture.mostKept, 500.0 * MiB);
    EXPECT_DOUBLE_EQ(picture.mostMs, 2);
}

TEST(TradeOff, ModulesAtOnePointAreCounted)
{
    ModuleInfo info;
    for (int i = 0; i < 12; ++i)
        info.stats.push_back(block("GPT.layers." + std::to_string(i)));
    Plan plan;
    plan.status = PlanStatus::feasible;
    for (int i = 0; i < 5; ++i)
        plan.decisions["GPT.layers." + std::to_string(i)] = 1;
    const auto picture = tradeOffPicture(info, "GPT.layers.0", &plan);
    EXPECT_TRUE(picture.others.empty());
    ASSERT_EQ(picture.choices.size(), 2u);
    EXPECT_EQ(picture.choices[0].modules, 4);
    EXPECT_EQ(picture.choices[1].modules, 7);
}

TEST(TradeOff, AnInfeasiblePlanChoosesNothing)
{
    Plan plan;
    plan.status = PlanStatus::infeasible;
    EXPECT_FALSE(tradeOffPicture(blocks(), "GPT.layers.0", &plan).hasPlan);
    EXPECT_FALSE(tradeOffPicture(blocks(), "no.such", nullptr).selected);
}

TEST(TradeOff, TangentHasTheExchangeRateAsSlopeAndStaysInThePicture)
{
    Plan plan;
    plan.status = PlanStatus::optimal;
    plan.decisions = {{"GPT.layers.0", 0.5}};
    const auto picture = tradeOffPicture(blocks(), "GPT.layers.0", &plan);
    for (const double rate : {0.5, 4.0, 40.0}) {
        const auto piece = tangent(picture, rate);
        EXPECT_NEAR((piece.msBegin - piece.msEnd) / (piece.keptEnd - piece.keptBegin) * static_cast<double>(GiB), rate,
                    1e-9);
        EXPECT_GE(piece.keptBegin, 0);
        EXPECT_LE(piece.keptEnd, picture.mostKept);
        EXPECT_GE(piece.msEnd, -1e-9);
        EXPECT_LE(piece.msBegin, picture.mostMs + 1e-9);
        EXPECT_LT(piece.keptBegin, picture.chosen.kept);
        EXPECT_GT(piece.keptEnd, picture.chosen.kept);
    }
}

} // namespace
} // namespace headroom
