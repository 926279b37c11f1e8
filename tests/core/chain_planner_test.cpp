// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The search for a path against every path there is, on problems small enough for that.
#include "core/plan/chain_planner.h"
#include "core/plan/glpk_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace headroom {
namespace {

SearchLimit noLimit()
{
    return SearchLimit::after(60'000, {});
}

class RandomProblems
{
public:
    explicit RandomProblems(unsigned seed)
        : random_(seed)
    {
    }

    int number(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

    std::vector<ChainOption> options(int count)
    {
        std::vector<ChainOption> made{{0, number(50, 100) * unit, 0}}; // nothing is checkpointed
        for (int i = 1; i < count; ++i)
            made.push_back({-number(0, 20) * unit, number(40, 110) * unit, picoseconds(number(1, 40) / 8.0)});
        return made;
    }

    /// Every position of its own kind, with some wider arcs.
    ChainProblem different(int positions)
    {
        ChainProblem problem = frame(positions);
        problem.classes.assign(static_cast<std::size_t>(positions), -1);
        for (int position = 0; position < positions; ++position) {
            problem.arcs.push_back({position, position + 1, options(number(2, 4))});
            if (position + 2 <= positions && number(0, 2) == 0)
                problem.arcs.push_back({position, position + 2, options(number(1, 3))});
        }
        return problem;
    }

    /// `kinds` of positions in turn; `high` differs from position to position all the same.
    ChainProblem equal(int positions, int kinds, int count = 4)
    {
        ChainProblem problem = frame(positions);
        std::vector<std::vector<ChainOption>> of;
        for (int kind = 0; kind < kinds; ++kind)
            of.push_back(options(count));
        for (int position = 0; position < positions; ++position) {
            std::vector<ChainOption> own = of[static_cast<std::size_t>(position % kinds)];
            for (ChainOption& option : own)
                option.high += number(-8, 8) * unit;
            problem.arcs.push_back({position, position + 1, std::move(own)});
            problem.classes.push_back(position % kinds);
        }
        return problem;
    }

private:
    static constexpr Bytes unit = 3 * MiB + 512;

    ChainProblem frame(int positions)
    {
        ChainProblem problem;
        problem.positions = positions;
        problem.atBoundary = number(80, 120) * unit;
        problem.constant = number(10, 60) * unit;
        return problem;
    }

    std::mt19937 random_;
};

void forEachPath(const ChainProblem& problem, const std::function<void(const ChainPath&)>& visit)
{
    ChainPath path;
    const std::function<void(int)> extend = [&](int position) {
        if (position == problem.positions)
            return visit(path);
        for (std::size_t arc = 0; arc < problem.arcs.size(); ++arc) {
            if (problem.arcs[arc].first != position)
                continue;
            for (std::size_t option = 0; option < problem.arcs[arc].options.size(); ++option) {
                path.push_back({static_cast<int>(arc), static_cast<int>(option)});
                extend(problem.arcs[arc].last);
                path.pop_back();
            }
        }
    };
    extend(0);
}

std::optional<Picoseconds> leastTime(const ChainProblem& problem, Bytes budget)
{
    std::optional<Picoseconds> least;
    forEachPath(problem, [&](const ChainPath& path) {
        const ChainValue value = valueOf(problem, path);
        if (value.peak <= budget && (!least || value.time < *least))
            least = value.time;
    });
    return least;
}

Bytes leastPeak(const ChainProblem& problem)
{
    Bytes least = std::numeric_limits<Bytes>::max();
    forEachPath(problem, [&](const ChainPath& path) { least = std::min(least, valueOf(problem, path).peak); });
    return least;
}

void expectOptimal(const ChainProblem& problem, Bytes budget)
{
    SCOPED_TRACE(budget);
    const std::optional<Picoseconds> expected = leastTime(problem, budget);
    const ChainAnswer answer = solveChain(problem, budget, {{}, 60000, 0, std::nullopt});
    if (!expected) {
        EXPECT_EQ(answer.status, ChainStatus::infeasible);
        return;
    }
    ASSERT_EQ(answer.status, ChainStatus::optimal);
    EXPECT_EQ(answer.value.time, *expected);
    EXPECT_EQ(answer.bound, *expected);
    EXPECT_LE(answer.value.peak, budget);
    EXPECT_EQ(valueOf(problem, answer.path).time, answer.value.time);
}

TEST(ChainPlanner, findsTheLeastTimeOfDifferentParts)
{
    RandomProblems random(1);
    for (int i = 0; i < 120; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = random.different(random.number(1, 5));
        const Bytes least = leastPeak(problem);
        ASSERT_EQ(leastBudget(problem), least);
        for (const int percent : {0, 10, 30, 60, 100})
            expectOptimal(problem, least + (2 * problem.atBoundary - least) / 300 * percent);
        expectOptimal(problem, least - 1);
    }
}

TEST(ChainPlanner, findsTheLeastTimeOfEqualParts)
{
    RandomProblems random(2);
    for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = random.equal(6, random.number(1, 2));
        const Bytes least = leastBudget(problem);
        EXPECT_EQ(least, leastPeak(problem));
        for (const int percent : {0, 5, 20, 50})
            expectOptimal(problem, least + problem.atBoundary / 100 * percent / 2);
    }
}

TEST(ChainPlanner, boundsHoldAndPricesPay)
{
    RandomProblems random(3);
    for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = i % 2 == 0 ? random.equal(6, 1) : random.different(5);
        const Bytes budget = leastPeak(problem) + random.number(0, 40) * MiB;
        const ChainRelaxation relaxation = relax(problem, budget, *minMemoryPath(problem, budget), noLimit());
        const ChainLabels labels(problem, budget, relaxation.prices);
        EXPECT_LE(labels.bound(), static_cast<double>(*leastTime(problem, budget)) + 1000);
        // Any prices bound; no prices bound by zero.
        const ChainLabels free(problem, budget,
                               {std::vector<double>(static_cast<std::size_t>(problem.positions), 0.0), 0});
        EXPECT_EQ(free.bound(), 0);
    }
}

/// The linear programme with a column for each option, in ms and MiB.
double linearBound(const ChainProblem& problem, Bytes budget)
{
    GlpkProblem glpk;
    const auto count = static_cast<std::size_t>(problem.positions);
    std::vector<std::vector<GlpkProblem::Term>> rows(2 * count
                                                     + 1); // a choice each, memory at each, memory at the loss
    for (const ChainArc& arc : problem.arcs)
        for (const ChainOption& option : arc.options) {
            const int column = glpk.addColumn(0, GlpkProblem::infinity, milliseconds(option.time));
            for (int row = arc.first; row <= problem.positions; ++row) {
                const Bytes bytes = row < arc.last ? option.high : option.held;
                rows[count + static_cast<std::size_t>(row)].push_back(
                    {column, static_cast<double>(bytes) / static_cast<double>(MiB)});
                if (row < arc.last)
                    rows[static_cast<std::size_t>(row)].push_back({column, 1});
            }
        }
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const Bytes left = budget - (row == 2 * count ? problem.atBoundary : 0);
        if (row < count)
            glpk.addRow(rows[row], 1, 1);
        else
            glpk.addRow(rows[row], -GlpkProblem::infinity, static_cast<double>(left) / static_cast<double>(MiB));
    }
    return glpk.relax().objective;
}

TEST(ChainPlanner, pricesAreThoseOfTheLinearProgramme)
{
    RandomProblems random(10);
    int several = 0;
    for (int i = 0; i < 200; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = i % 2 == 0 ? random.equal(12, random.number(1, 2)) : random.different(9);
        const Bytes budget = leastBudget(problem) + random.number(0, 60) * MiB;
        const ChainRelaxation found = relax(problem, budget, *minMemoryPath(problem, budget), noLimit());
        const double expected = linearBound(problem, budget);
        EXPECT_NEAR(milliseconds(static_cast<Picoseconds>(found.bound)), expected, 1e-5 * (1 + expected));
        EXPECT_NEAR(ChainLabels(problem, budget, found.prices).bound(), found.bound, 1000);
        const auto priced = std::ranges::count_if(found.prices.position, [](double price) { return price > 0; });
        several += priced + (found.prices.loss > 0 ? 1 : 0) > 1 ? 1 : 0;
    }
    EXPECT_GT(several, 10) << "rows that share the price";
}

TEST(ChainPlanner, twoBoundsOfMemoryTogetherBoundBetter)
{
    RandomProblems random(11);
    int better = 0;
    for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem a = random.equal(6, 1);
        ChainProblem b = a;
        for (ChainArc& arc : b.arcs)
            for (std::size_t o = 1; o < arc.options.size(); ++o)
                arc.options[o].held -= (static_cast<Bytes>(o) - 2) * 30 * MiB;
        const Bytes budget = std::max(leastBudget(a), leastBudget(b)) + random.number(5, 60) * MiB;
        std::optional<Picoseconds> least;
        forEachPath(a, [&](const ChainPath& path) {
            if (valueOf(a, path).peak > budget || valueOf(b, path).peak > budget)
                return;
            EXPECT_LE(valueOf(mixed(a, b, 0.3), path).peak, budget);
            least = std::min(least.value_or(valueOf(a, path).time), valueOf(a, path).time);
        });
        const auto boundAt = [&](double share) {
            const ChainProblem problem = mixed(a, b, share);
            return relax(problem, budget, *minMemoryPath(problem, budget), noLimit()).bound;
        };
        const double alone = std::max(boundAt(0), boundAt(1));
        const double together = boundAt(strongestShare(a, b, budget, noLimit()));
        EXPECT_GE(together, alone);
        EXPECT_LE(together, least ? static_cast<double>(*least) + 1000 : together);
        better += together > 1.001 * alone ? 1 : 0;
    }
    EXPECT_GT(better, 10);
}

TEST(ChainPlanner, rowsOfARunThatAPathBreaksAreLookedAt)
{
    RandomProblems random(6);
    int broken = 0;
    for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = random.equal(6, 1);
        const Bytes budget = leastPeak(problem);
        const ChainPrices none{std::vector<double>(static_cast<std::size_t>(problem.positions), 0.0), 0};
        const SearchLimit limit = noLimit();
        const ChainLabels::Pass pass = ChainLabels(problem, budget, none).run(1000, std::nullopt, limit);
        ASSERT_TRUE(pass.complete && pass.path);
        const Picoseconds expected = *leastTime(problem, budget);
        EXPECT_LE(valueOf(problem, *pass.path).time, expected) << "rows are left out";
        EXPECT_EQ(valueOf(problem, *pass.path).peak > budget, pass.broken >= 0);
        broken += pass.broken >= 0 ? 1 : 0;
        const std::vector<bool> own(static_cast<std::size_t>(problem.positions), true);
        const ChainLabels::Pass exact = ChainLabels(problem, budget, none, own).run(1000, std::nullopt, limit);
        ASSERT_TRUE(exact.complete && exact.path);
        EXPECT_EQ(exact.broken, -1);
        EXPECT_EQ(valueOf(problem, *exact.path).time, expected);
        expectOptimal(problem, budget);
    }
    EXPECT_GT(broken, 5);
}

/// Equal parts whose options are any of six ops, a byte of each about as costly: labels from one end, in every order,
/// were 116,000.
TEST(ChainPlanner, equalPartsTakeFewLabels)
{
    std::mt19937 random(7);
    std::uniform_int_distribution<int> number(0, 1000);
    std::vector<ChainOption> options{{0, 0, 0}};
    for (int op = 0; op < 6; ++op) {
        const Bytes bytes = (8 + 6 * op) * MiB + 512 * number(random);
        const Picoseconds time = bytes / 1000 * (950 + number(random) / 10);
        for (std::size_t i = 0, count = options.size(); i < count; ++i)
            options.push_back({options[i].held - bytes, 0, options[i].time + time});
    }
    ChainProblem problem{24, {}, GiB * 8, 0, std::vector<int>(24, 0)};
    for (int position = 0; position < problem.positions; ++position)
        problem.arcs.push_back({position, position + 1, options});
    for (int i = 1; i < 7; ++i) {
        SCOPED_TRACE(i);
        const Bytes budget = problem.atBoundary - i * 500 * MiB + 123 * 512;
        const ChainAnswer answer = solveChain(problem, budget, {{}, 60000, 0, std::nullopt});
        EXPECT_EQ(answer.status, ChainStatus::optimal);
        EXPECT_LT(answer.nodes, 40000);
    }
}

TEST(ChainPlanner, optionsThatAreUnboundNeverDecideThePeak)
{
    RandomProblems random(8);
    int found = 0;
    for (int i = 0; i < 60; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = random.different(random.number(1, 5));
        const auto unbound = unboundOptions(problem);
        ChainProblem without = problem;
        for (std::size_t arc = 0; arc < problem.arcs.size(); ++arc)
            for (std::size_t o = 0; o < problem.arcs[arc].options.size(); ++o)
                if (unbound[arc][o]) {
                    without.arcs[arc].options[o].high = 0;
                    ++found;
                }
        forEachPath(problem, [&](const ChainPath& path) {
            EXPECT_EQ(valueOf(without, path).peak, valueOf(problem, path).peak);
        });
    }
    EXPECT_GT(found, 50);
}

TEST(ChainPlanner, whatTakesAsLongAsIsKnownIsNotLookedFor)
{
    RandomProblems random(9);
    for (int i = 0; i < 40; ++i) {
        SCOPED_TRACE(i);
        const ChainProblem problem = random.different(5);
        const Bytes budget = leastPeak(problem) + random.number(0, 40) * MiB;
        const Picoseconds least = *leastTime(problem, budget);
        const ChainAnswer better = solveChain(problem, budget, {{}, 60000, 0, least + 1});
        EXPECT_EQ(better.value.time, least);
        EXPECT_EQ(better.bound, least);
        const ChainAnswer none = solveChain(problem, budget, {{}, 60000, 0, least});
        EXPECT_EQ(none.bound, least) << "nothing takes less";
    }
}

TEST(ChainPlanner, aNarrowSearchSaysItsGap)
{
    RandomProblems random(5);
    const ChainProblem problem = random.different(5);
    const Bytes budget = leastBudget(problem) + 10 * MiB;
    const ChainAnswer answer = solveChain(problem, budget, {{}, 0, 0, std::nullopt});
    EXPECT_NE(answer.status, ChainStatus::infeasible);
    EXPECT_LE(answer.value.peak, budget);
    EXPECT_LE(answer.bound, *leastTime(problem, budget));
    EXPECT_GE(answer.value.time, *leastTime(problem, budget));
}

TEST(ChainPlanner, aStepWithoutPartsIsItsConstantMemory)
{
    ChainProblem problem;
    problem.constant = 10;
    problem.atBoundary = 20;
    EXPECT_EQ(leastBudget(problem), 20);
    EXPECT_EQ(solveChain(problem, 20).status, ChainStatus::optimal);
    EXPECT_EQ(solveChain(problem, 19).status, ChainStatus::infeasible);
}

} // namespace
} // namespace headroom
