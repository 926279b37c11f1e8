// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_curve.h"

#include <gmock/gmock.h>

#include <map>

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

TEST(TradeOff, NamesOfAClassDifferInNumbersOfThePathOnly)
{
    EXPECT_TRUE(sameClass("GPT.layers.12.mlp", "GPT.layers.7.mlp"));
    EXPECT_FALSE(sameClass("GPT.layers.12.mlp", "GPT.layers.7.attn"));
    EXPECT_FALSE(sameClass("GPT.layers.12.mlp", "GPT.layers.12"));
    EXPECT_FALSE(sameClass("GPT.layers.12", "GPT.layers.12.mlp"));
    EXPECT_FALSE(sameClass("GPT.conv1", "GPT.conv2"));
    EXPECT_FALSE(sameClass("GPT.1", "GPT.x"));
    EXPECT_TRUE(sameClass("7", "12"));
    EXPECT_TRUE(sameClass("", ""));
    EXPECT_FALSE(sameClass("", "7"));
}

/// A plan by the share of its memory that each module discards, as PyTorch estimates it.
PlannedPoint discards(const ModuleInfo& info, const std::map<std::string, double>& ratios)
{
    return [&info, ratios](const std::string& fqn) {
        const auto found = ratios.find(fqn);
        return tradeOffPoint(*findModule(info, fqn), found == ratios.end() ? 0 : found->second);
    };
}

TEST(TradeOff, PictureHoldsTheClassAndWhatThePlanChose)
{
    const auto info = blocks();
    const auto picture
        = tradeOffPicture(info, "GPT.layers.0", discards(info, {{"GPT.layers.0", 0.5}, {"GPT.layers.1", 1}}));
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
    std::map<std::string, double> ratios;
    for (int i = 0; i < 5; ++i)
        ratios["GPT.layers." + std::to_string(i)] = 1;
    const auto picture = tradeOffPicture(info, "GPT.layers.0", discards(info, ratios));
    EXPECT_TRUE(picture.others.empty());
    ASSERT_EQ(picture.choices.size(), 2u);
    EXPECT_EQ(picture.choices[0].modules, 4);
    EXPECT_EQ(picture.choices[1].modules, 7);
}

TEST(TradeOff, WithoutAPlanNothingIsChosen)
{
    EXPECT_FALSE(tradeOffPicture(blocks(), "GPT.layers.0", PlannedPoint()).hasPlan);
    EXPECT_FALSE(tradeOffPicture(blocks(), "no.such", PlannedPoint()).selected);
}

TEST(TradeOff, WaysOfThePlannerStandBeforePyTorchsEstimate)
{
    const auto info = blocks();
    const std::vector<ModuleOption> options{{400 * MiB, 0, {}}, {300 * MiB, 0.5, {}}, {100 * MiB, 3, {}}};
    const std::map<std::string, ModuleEffect> effects{{"GPT.layers.0", {400 * MiB, 300 * MiB, 0.5}},
                                                      {"GPT.layers.1", {400 * MiB, 100 * MiB, 3}},
                                                      {"GPT.layers.2", {400 * MiB, 100 * MiB, 3}}};
    const auto planned = [&](const std::string& fqn) { return plannedPoint(effects.at(fqn)); };
    const auto picture = tradeOffPicture(info, "GPT.layers.0", planned, options);
    ASSERT_EQ(picture.curve.size(), 3u);
    EXPECT_DOUBLE_EQ(picture.curve[1].ratio, 0.25);
    EXPECT_DOUBLE_EQ(picture.curve[1].kept, 300.0 * MiB);
    EXPECT_EQ(picture.estimate.size(), tradeOffCurve(info.stats.front()).size());
    EXPECT_TRUE(picture.others.empty());
    EXPECT_TRUE(picture.hasPlan);
    EXPECT_DOUBLE_EQ(picture.chosen.ms, 0.5);
    ASSERT_EQ(picture.choices.size(), 1u);
    EXPECT_EQ(picture.choices[0].modules, 2);
    EXPECT_DOUBLE_EQ(picture.mostKept, 400.0 * MiB);
    EXPECT_DOUBLE_EQ(picture.mostMs, 3);
    EXPECT_FALSE(tradeOffPicture(info, "GPT.layers.0", {}, options).hasPlan);
    EXPECT_FALSE(tradeOffPicture(info, "no.such", planned, options).selected);
}

TEST(TradeOff, OfVeryManyWaysTheEndsAreDrawn)
{
    std::vector<ModuleOption> options;
    for (int i = 0; i <= 1000; ++i)
        options.push_back({(1000 - i) * MiB, double(i), {}});
    const auto points = optionPoints(options);
    EXPECT_EQ(points.size(), 100u);
    EXPECT_EQ(points.front().ms, 0);
    EXPECT_EQ(points.back().ms, 1000);
    EXPECT_TRUE(optionPoints({}).empty());
    EXPECT_EQ(optionPoints({options[5]}).size(), 1u);
}

TEST(TradeOff, FewPointsAreCornersOfTheHullAndTheChosenOne)
{
    // kept 10, 8, 6, 3, 0: 8 lies above the line from 10 to 6.
    const std::vector<TradeOffPoint> points{{0, 10, 0}, {0.2, 8, 1.5}, {0.4, 6, 2}, {0.7, 3, 6}, {1, 0, 12}};
    const auto few = fewPoints(points, nullptr);
    ASSERT_EQ(few.size(), 4u);
    EXPECT_EQ(few[1].kept, 6);
    const auto withChosen = fewPoints(points, &points[1]);
    ASSERT_EQ(withChosen.size(), 5u);
    EXPECT_EQ(withChosen[1].kept, 8);
    EXPECT_EQ(fewPoints(points, &points[2]).size(), 4u) << "it is a corner";
}

TEST(TradeOff, TangentHasTheExchangeRateAsSlopeAndStaysInThePicture)
{
    const auto info = blocks();
    const auto picture = tradeOffPicture(info, "GPT.layers.0", discards(info, {{"GPT.layers.0", 0.5}}));
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
