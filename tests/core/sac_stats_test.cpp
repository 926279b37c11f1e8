// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/python_int_set.h"
#include "core/sac/sac_stats.h"
#include "tests/core/squared_residual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

namespace headroom {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

std::filesystem::path referencePath(const std::string& name)
{
    return std::filesystem::path(HEADROOM_TEST_DATA) / "pytorch" / name;
}

/// One module of a reference file: what PyTorch collected, and what it made of that.
struct Reference
{
    std::string name;
    SacStats stats;
    Json greedy;
    Json tradeOff;
};

std::vector<Reference> references(const std::string& file)
{
    const Json document = Json::parse(std::ifstream(referencePath(file)));
    std::vector<Reference> result;
    for (const auto& [fqn, json] : document.items()) {
        const auto stats = parseSacStats(json.dump(), fqn);
        EXPECT_TRUE(stats.ok()) << stats.error().message;
        if (stats.ok())
            result.push_back({file + ": " + fqn, *stats, json["greedy"], json["tradeoff"]});
    }
    return result;
}

std::vector<Reference> allReferences()
{
    std::vector<Reference> result;
    for (const char* file : {"transformer_sacstats.json", "gpt2_small_12L_sacstats.json", "resnet50_sacstats.json",
                             "seed001_foo_sacstats.json"}) {
        auto modules = references(file);
        result.insert(result.end(), std::make_move_iterator(modules.begin()), std::make_move_iterator(modules.end()));
    }
    return result;
}

/// The points that are fitted: PyTorch's shift of the curve.
std::pair<std::vector<double>, std::vector<double>> fittedPoints(const std::vector<std::pair<double, double>>& curve)
{
    std::pair<std::vector<double>, std::vector<double>> points;
    for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
        points.first.push_back(curve[i].first);
        points.second.push_back(curve[i + 1].second);
    }
    return points;
}

TEST(SacStatsReader, readsEveryField)
{
    const auto stats = readSacStats(referencePath("seed001_foo_sacstats.json"));
    ASSERT_TRUE(stats.ok()) << stats.error().message;
    EXPECT_THAT(stats->funcNames, ElementsAre("t", "addmm", "relu_", "cos_", "sin_"));
    EXPECT_THAT(
        stats->runtimes,
        ElementsAre(0.0, 4.119585687382298e-07, 3.923414940364093e-07, 3.923414940364093e-07, 3.923414940364093e-07));
    EXPECT_THAT(stats->memory, ElementsAre(0, 0, 512, 512, 512));
    EXPECT_THAT(stats->viewLikeOps, ElementsAre(0));
    EXPECT_TRUE(stats->randOps.empty());
    EXPECT_THAT(stats->savedAutogradOps, ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(stats->inplaceOps, ElementsAre(std::pair(2, 1), std::pair(3, 1), std::pair(4, 1)));
    EXPECT_FALSE(stats->forceStoreRandom);
}

TEST(SacStatsReader, takesOneObjectWithoutAName)
{
    const Json module = Json::parse(std::ifstream(referencePath("seed001_foo_sacstats.json")))["Foo"];
    const auto stats = parseSacStats(module.dump(), "foo.json");
    ASSERT_TRUE(stats.ok()) << stats.error().message;
    EXPECT_EQ(stats->memory.size(), 5u);
    const auto named = parseSacStats(module.dump(), "foo.json", "Foo");
    ASSERT_FALSE(named.ok());
    EXPECT_EQ(named.error().message, "foo.json: holds a single module without a name, so 'Foo' cannot be selected");
}

TEST(SacStatsReader, selectsByName)
{
    const auto message = [](const Result<SacStats>& stats) { return stats.ok() ? "" : stats.error().message; };
    const auto path = referencePath("seed001_foo_sacstats.json");
    EXPECT_EQ(message(readSacStats(path, "Bar")), path.string() + ": has no module 'Bar'; it has Foo");
    const auto several = readSacStats(referencePath("transformer_sacstats.json"));
    EXPECT_THAT(message(several),
                ::testing::HasSubstr("has several modules, name a module: Transformer, Transformer.layers.0, "));
    EXPECT_THAT(message(several), ::testing::EndsWith(" and 5 more"));
    EXPECT_TRUE(readSacStats(referencePath("transformer_sacstats.json"), "Transformer").ok());
}

TEST(SacStatsReader, namesTheFieldThatIsWrong)
{
    const auto errorAfter = [](const std::function<void(Json&)>& change) {
        Json document = Json::parse(std::ifstream(referencePath("seed001_foo_sacstats.json")));
        change(document["Foo"]);
        const auto stats = parseSacStats(document.dump(), "foo.json");
        return stats.ok() ? std::string("accepted") : stats.error().message;
    };
    const std::string module = "foo.json: Foo.";
    EXPECT_EQ(errorAfter([](Json& foo) { foo.erase("memory"); }), module + "memory is missing");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["memory"][2] = -1; }),
              module + "memory[2] is -1: expected a whole number, 0 or more");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["memory"].erase(0); }),
              module + "memory has 4 elements, as many as func_names (5) were expected");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["runtimes"].push_back(1.0); }),
              module + "runtimes has 6 elements, as many as func_names (5) were expected");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["runtimes"][1] = nullptr; }),
              module + "runtimes[1] is null: expected a number, 0 or more");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["view_like_ops"][0] = 5; }),
              module + "view_like_ops[0] is 5: expected an op below 5 (the length of func_names)");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["rand_ops"] = {-1}; }),
              module + "rand_ops[0] is -1: expected an op below 5 (the length of func_names)");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["inplace_ops"][1] = {3}; }),
              module + "inplace_ops[1] is a list: expected a pair: [op, parent]");
    EXPECT_EQ(errorAfter([](Json& foo) {
                  foo["inplace_ops"][1] = {3, 9};
              }),
              module + "inplace_ops[1][1] is 9: expected an op below 5 (the length of func_names)");
    EXPECT_EQ(errorAfter([](Json& foo) { foo["force_store_random"] = "no"; }),
              module + "force_store_random is \"no\": expected true or false");
    EXPECT_EQ(errorAfter([](Json& foo) { foo = Json::array(); }), "foo.json: Foo is a list: expected an object");
    EXPECT_THAT(parseSacStats("{}", "foo.json").error().message, ::testing::StartsWith("foo.json: is no SACStats"));
}

// Orders of CPython 3.11.
TEST(PythonIntSet, iteratesAsCPython)
{
    const std::vector<int> values{100, 3, 7, 65, 1, 33};
    EXPECT_THAT(PythonIntSet(values).values(), ElementsAre(65, 1, 3, 100, 33, 7));
    const std::vector<int> many{1078, 639,  2825, 173,  3554, 1391, 1285, 1475, 3926, 566,  3672, 3529, 1547, 1543,
                                1885, 3563, 2130, 1581, 2637, 3550, 2439, 2789, 2290, 420,  2540, 3984, 3852, 3323,
                                2076, 1111, 1766, 2598, 2950, 2931, 973,  3835, 1233, 1791, 1057, 2134};
    EXPECT_THAT(PythonIntSet(many).values(),
                ElementsAre(1285, 2950, 1543, 2439, 2825, 1547, 3852, 3984, 2076, 1057, 420, 2598, 173, 1581, 1791,
                            1078, 566, 1475, 3529, 2637, 973, 1233, 2130, 3926, 1111, 3672, 2134, 1885, 3550, 3835,
                            3554, 2789, 1766, 3563, 2540, 1391, 2290, 2931, 3323, 639));
}

std::uint64_t orderHash(const PythonIntSet& set)
{
    std::uint64_t hash = 0;
    for (const int value : set.values())
        hash = hash * 31 + static_cast<std::uint64_t>(value) + 1;
    return hash;
}

// The same chain of operations on sets in CPython 3.11: sizes and hashes of the orders.
TEST(PythonIntSet, operationsKeepCPythonsOrder)
{
    struct Expected
    {
        int count;
        std::size_t size;
        std::uint64_t candidates;
        std::uint64_t difference;
    };
    const Expected expected[] = {
        {10, 5, 2897704ull, 1036407076ull},
        {40, 23, 8418192972634102870ull, 4306212893222820563ull},
        {170, 95, 10741521024776307091ull, 14344024083789385588ull},
        {1000, 561, 10576342451040191418ull, 3068358415032570035ull},
        {5000, 2799, 9329965443794712520ull, 13042405370914842243ull},
        {20000, 11190, 6851084208623950238ull, 10629723098925721679ull},
    };
    for (const auto& [count, size, candidatesHash, differenceHash] : expected) {
        const auto every = [n = count](int divisor, int from, int to) {
            std::vector<int> values;
            for (int i = 0; i < n; ++i) {
                if (i % divisor >= from && i % divisor <= to)
                    values.push_back(i);
            }
            return values;
        };
        std::vector<int> range(static_cast<std::size_t>(count));
        std::iota(range.begin(), range.end(), 0);
        const PythonIntSet heads(every(11, 3, 3));
        const PythonIntSet stored(every(17, 4, 4));
        PythonIntSet candidates;
        candidates.add(2);
        candidates.update(heads.difference(stored));
        candidates.update(PythonIntSet(range)
                              .difference(PythonIntSet(every(5, 0, 1)))
                              .difference(stored)
                              .difference(heads)
                              .difference(PythonIntSet(every(13, 2, 2))));
        EXPECT_EQ(candidates.size(), size) << count;
        EXPECT_EQ(orderHash(candidates), candidatesHash) << count;
        const std::vector<int> few{1, 2, 3};
        EXPECT_EQ(orderHash(PythonIntSet(range).difference(PythonIntSet(few))), differenceHash) << count;
    }
}

TEST(GreedyOrder, equalsPyTorch)
{
    for (const Reference& module : allReferences()) {
        const GreedyOrder order = greedyOrder(module.stats);
        EXPECT_THAT(order.recomputed, UnorderedElementsAreArray(module.stats.viewLikeOps)) << module.name;
        // The reference lists sets in ascending order.
        std::vector<int> stored = order.stored;
        std::ranges::sort(stored);
        EXPECT_EQ(Json(stored), module.greedy["stored_ops"]) << module.name;
        const Json& expected = module.greedy["msps_meta"];
        ASSERT_EQ(order.candidates.size(), expected.size()) << module.name;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(order.candidates[i].op, expected[i]["op_idx"]) << module.name << " " << i;
            EXPECT_EQ(order.candidates[i].memory, expected[i]["memory"]) << module.name << " " << i;
            EXPECT_EQ(order.candidates[i].ms, expected[i]["runtime"]) << module.name << " " << i;
            EXPECT_EQ(order.candidates[i].bytesPerMs, expected[i]["msps"]) << module.name << " " << i;
        }
    }
}

TEST(TradeOff, curveEqualsPyTorchToTheLastBit)
{
    for (const Reference& module : allReferences()) {
        const TradeOff tradeoff = tradeOff(module.stats);
        EXPECT_EQ(tradeoff.sacMemory, module.tradeOff["sac_memory"]) << module.name;
        EXPECT_EQ(tradeoff.sacRuntimeMs, module.tradeOff["sac_runtime"]) << module.name;
        EXPECT_EQ(Json(tradeoff.curve), module.tradeOff["tradeoff_curve"]) << module.name;
        EXPECT_EQ(tradeoff.slopes.size(), module.tradeOff["n_segments"]) << module.name;
        EXPECT_EQ(tradeoff.intercepts.size(), tradeoff.slopes.size()) << module.name;
        EXPECT_EQ(tradeoff.breakpoints.size(), tradeoff.slopes.size() + 1) << module.name;
    }
}

/// pwlf's fit of the same points.
PiecewiseFit pythonFit(const Json& tradeOff)
{
    return {tradeOff["fit_breaks"].get<std::vector<double>>(), tradeOff["slopes"].get<std::vector<double>>(),
            tradeOff["intercepts"].get<std::vector<double>>()};
}

// Both are least squares; pwlf finds the breakpoint by a random search and stops close to the best.
TEST(TradeOff, fitIsPyTorchsOrBetter)
{
    int same = 0;
    int better = 0;
    int open = 0;
    for (const Reference& module : allReferences()) {
        if (module.tradeOff["slopes"][0].is_null())
            continue;
        const TradeOff tradeoff = tradeOff(module.stats);
        const PiecewiseFit ours{tradeoff.breakpoints, tradeoff.slopes, tradeoff.intercepts};
        const PiecewiseFit theirs = pythonFit(module.tradeOff);
        const auto [x, y] = fittedPoints(tradeoff.curve);
        const double ourResidual = squaredResidual(ours, x, y);
        const double theirResidual = squaredResidual(theirs, x, y);
        EXPECT_LE(ourResidual, theirResidual * (1 + 1e-13) + 1e-29) << module.name;
        EXPECT_EQ(ours.breakpoints.front(), theirs.breakpoints.front()) << module.name;
        EXPECT_EQ(ours.breakpoints.back(), theirs.breakpoints.back()) << module.name;
        if (ourResidual < 1e-25 && ours.slopes.size() == 2) {
            ++open; // any breakpoint between the last two points is as good: the next test
            continue;
        }
        if (theirResidual - ourResidual > 1e-12) {
            ++better;
            continue;
        }
        ++same;
        for (std::size_t i = 0; i < ours.breakpoints.size(); ++i)
            EXPECT_NEAR(ours.breakpoints[i], theirs.breakpoints[i], 1e-6) << module.name;
        for (std::size_t i = 0; i < ours.slopes.size(); ++i) {
            EXPECT_NEAR(ours.slopes[i], theirs.slopes[i], 1e-5) << module.name;
            EXPECT_NEAR(ours.intercepts[i], theirs.intercepts[i], 1e-5) << module.name;
        }
    }
    EXPECT_EQ(same, 56);
    EXPECT_EQ(better, 3); // ResNet.layer1.0, .1 and .2
    EXPECT_EQ(open, 16);
}

// The last of five points is alone on its segment. pwlf's breakpoint is anywhere between the last two points, another
// one in each layer; ours is at the fourth point in all of them, and no residual is larger.
TEST(TradeOff, identicalLayersHaveIdenticalFits)
{
    std::vector<TradeOff> fits;
    std::vector<double> pythonBreakpoints;
    for (const Reference& module : references("transformer_sacstats.json")) {
        if (!module.name.ends_with(".attention"))
            continue;
        fits.push_back(tradeOff(module.stats));
        pythonBreakpoints.push_back(module.tradeOff["fit_breaks"][1]);
    }
    ASSERT_EQ(fits.size(), 4u);
    for (std::size_t i = 0; i < fits.size(); ++i) {
        EXPECT_EQ(fits[i].breakpoints, fits[0].breakpoints);
        EXPECT_EQ(fits[i].slopes, fits[0].slopes);
        EXPECT_EQ(fits[i].intercepts, fits[0].intercepts);
        EXPECT_EQ(fits[i].breakpoints[1], fits[i].curve[3].first);
        EXPECT_GT(pythonBreakpoints[i], fits[i].curve[3].first);
        if (i > 0) {
            EXPECT_NE(pythonBreakpoints[i], pythonBreakpoints[0]);
        }
    }
    // The first segment is identified, and equal; the second is the chord between the last two points.
    EXPECT_NEAR(fits[0].slopes[0], 0.7429862784296172, 1e-12);
    EXPECT_NEAR(fits[0].intercepts[0], 0.14070327134693494, 1e-12);
    EXPECT_NEAR(fits[0].slopes[1] * fits[0].curve[4].first + fits[0].intercepts[1], 1.0, 1e-12);
}

TEST(TradeOff, slopesNeedNotAscend)
{
    for (const Reference& module : references("resnet50_sacstats.json")) {
        if (!module.name.ends_with(": ResNet.layer1.0"))
            continue;
        const TradeOff tradeoff = tradeOff(module.stats);
        ASSERT_EQ(tradeoff.slopes.size(), 2u);
        EXPECT_NEAR(tradeoff.slopes[0], 1.20839, 1e-4);
        EXPECT_NEAR(tradeoff.slopes[1], 0, 1e-3);
        // Continuous all the same.
        const double at = tradeoff.breakpoints[1];
        EXPECT_NEAR(tradeoff.slopes[0] * at + tradeoff.intercepts[0], tradeoff.slopes[1] * at + tradeoff.intercepts[1],
                    1e-14);
        return;
    }
    FAIL() << "ResNet.layer1.0 is missing";
}

// PyTorch's fit is NaN here.
TEST(TradeOff, oneCandidateHasALevelSegment)
{
    const auto stats = readSacStats(referencePath("seed001_foo_sacstats.json"));
    ASSERT_TRUE(stats.ok());
    const TradeOff tradeoff = tradeOff(*stats);
    EXPECT_THAT(tradeoff.curve, ElementsAre(std::pair(0.01, 0.0), std::pair(1.01, 1.0)));
    EXPECT_THAT(tradeoff.slopes, ElementsAre(0.0));
    EXPECT_THAT(tradeoff.intercepts, ElementsAre(1.0));
    EXPECT_THAT(tradeoff.breakpoints, ElementsAre(0.01, 1.01));
}

TEST(TradeOff, withoutMemoryThereIsNothingToDiscard)
{
    const TradeOff nothing = tradeOff(SacStats{});
    EXPECT_TRUE(nothing.curve.empty());
    EXPECT_TRUE(nothing.slopes.empty());
    EXPECT_TRUE(nothing.breakpoints.empty());

    SacStats views;
    views.funcNames = {"t", "view"};
    views.runtimes = {0, 0.5};
    views.memory = {0, 0};
    views.viewLikeOps = {0, 1};
    EXPECT_TRUE(tradeOff(views).slopes.empty());
    EXPECT_EQ(tradeOff(views).sacRuntimeMs, 0.5);
}

TEST(TradeOff, withoutTimeEveryShareIsZero)
{
    SacStats free;
    free.funcNames = {"ones_like", "zeros_like"};
    free.runtimes = {0, 0};
    free.memory = {1024, 3072};
    const TradeOff tradeoff = tradeOff(free);
    EXPECT_THAT(tradeoff.curve, ElementsAre(std::pair(0.01, 0.0), std::pair(0.26, 0.0), std::pair(1.01, 0.0)));
    EXPECT_THAT(tradeoff.slopes, ElementsAre(0.0));
    EXPECT_THAT(tradeoff.intercepts, ElementsAre(0.0));
}

// In-place ops on what was there before the module are stored with all that follows them on that tensor, and so are
// random ops when the module has no tensor inputs.
TEST(GreedyOrder, storesWhatCannotBeMadeAgain)
{
    SacStats stats;
    stats.funcNames = {"add_", "mm", "mul_", "native_dropout", "relu_", "gelu"};
    stats.runtimes = {1, 2, 3, 4, 5, 6};
    stats.memory = {512, 1024, 512, 2048, 1024, 4096};
    stats.randOps = {3};
    stats.inplaceOps = {{0, 0}, {2, 0}, {4, 1}};
    const GreedyOrder order = greedyOrder(stats);
    EXPECT_THAT(order.stored, ElementsAre(0));
    ASSERT_EQ(order.candidates.size(), 3u);
    EXPECT_EQ(order.candidates[0].op, 5);
    EXPECT_EQ(order.candidates[1].op, 3);
    EXPECT_EQ(order.candidates[2].op, 1); // with relu_
    EXPECT_EQ(order.candidates[2].memory, 2048);
    EXPECT_EQ(order.candidates[2].ms, 7);

    stats.forceStoreRandom = true;
    EXPECT_THAT(greedyOrder(stats).stored, ElementsAre(0, 3));
    EXPECT_EQ(greedyOrder(stats).candidates.size(), 2u);

    // A group with two random ops beside another one: stored, though PyTorch's `True & 2` is 0.
    stats.inplaceOps = {{0, 0}, {4, 3}};
    stats.randOps = {1, 3, 4};
    EXPECT_THAT(greedyOrder(stats).stored, ElementsAre(0, 1, 3));
}

/// The least residual of two segments with a breakpoint on a fine grid, by solving the normal equations as they are.
double gridResidual(const std::vector<double>& x, const std::vector<double>& y)
{
    double best = 1e300;
    for (int step = 1; step < 4000; ++step) {
        const long double at = x.front() + (x.back() - x.front()) * step / 4000.0L;
        long double a[3][4] = {};
        for (std::size_t i = 0; i < x.size(); ++i) {
            const long double basis[3] = {1, x[i] - at, std::max<long double>(0, x[i] - at)};
            for (int r = 0; r < 3; ++r) {
                for (int c = 0; c < 3; ++c)
                    a[r][c] += basis[r] * basis[c];
                a[r][3] += basis[r] * y[i];
            }
        }
        for (int p = 0; p < 3; ++p) {
            for (int r = 0; r < 3; ++r) {
                if (r == p)
                    continue;
                const long double factor = a[r][p] / a[p][p];
                for (int c = p; c < 4; ++c)
                    a[r][c] -= factor * a[p][c];
            }
        }
        const long double value = a[0][3] / a[0][0];
        const long double slope = a[1][3] / a[1][1];
        const long double bend = a[2][3] / a[2][2];
        long double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const long double d = value + slope * (x[i] - at) + bend * std::max<long double>(0, x[i] - at) - y[i];
            sum += d * d;
        }
        best = std::min(best, static_cast<double>(sum));
    }
    return best;
}

TEST(PiecewiseFit, noBreakpointOfAGridIsBetter)
{
    std::uint64_t state = 12345;
    const auto random = [&state] {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        return static_cast<double>(state >> 11) / 9007199254740992.0;
    };
    for (int round = 0; round < 60; ++round) {
        const std::size_t count = 4 + static_cast<std::size_t>(random() * 12);
        std::vector<double> x(count);
        std::vector<double> y(count);
        double px = 0.01;
        double py = 0;
        for (std::size_t i = 0; i < count; ++i) {
            x[i] = px += 0.001 + random() * 0.2;
            // Rounds of three kinds: convex, concave, anything.
            const double rise = round % 3 == 0 ? static_cast<double>(i * i) : round % 3 == 1 ? 3 : random() * 9 - 3;
            y[i] = round % 3 == 1 ? std::sqrt(px) + 0.01 * random() : (py += 0.1 * rise * random());
        }
        const PiecewiseFit fit = fitPiecewise(x, y, 2);
        const double residual = squaredResidual(fit, x, y);
        EXPECT_LE(residual, gridResidual(x, y) * (1 + 1e-9) + 1e-18) << round;
        EXPECT_GE(fit.breakpoints[1], x[1]) << round;
        EXPECT_LE(fit.breakpoints[1], x[count - 2]) << round;
        const PiecewiseFit again = fitPiecewise(x, y, 2);
        EXPECT_EQ(fit.breakpoints, again.breakpoints);
        EXPECT_EQ(fit.slopes, again.slopes);
    }
}

TEST(PiecewiseFit, findsTheBendOfPointsOnTwoLines)
{
    const std::vector<double> x{0, 1, 2, 3, 4, 5, 6};
    std::vector<double> y;
    for (const double px : x)
        y.push_back(px < 2.5 ? px : 2.5 + 4 * (px - 2.5));
    const PiecewiseFit fit = fitPiecewise(x, y, 2);
    EXPECT_DOUBLE_EQ(fit.breakpoints[1], 2.5);
    EXPECT_NEAR(fit.slopes[0], 1, 1e-14);
    EXPECT_NEAR(fit.slopes[1], 4, 1e-14);
    EXPECT_NEAR(fit.intercepts[1], -7.5, 1e-13);
    const PiecewiseFit line = fitPiecewise(std::span(x).first(3), std::span(y).first(3), 1);
    EXPECT_DOUBLE_EQ(line.slopes[0], 1);
    EXPECT_NEAR(line.intercepts[0], 0, 1e-15);
    EXPECT_THAT(line.breakpoints, ElementsAre(0, 2));
}

} // namespace
} // namespace headroom
