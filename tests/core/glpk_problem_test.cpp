// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/glpk_problem.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>

namespace headroom {
namespace {

using Term = GlpkProblem::Term;

/// A knapsack of `size` items whose weights are their values: hard to prove.
void fillKnapsack(GlpkProblem& problem, int size)
{
    std::mt19937 random(7);
    std::vector<Term> weights;
    double sum = 0;
    for (int i = 0; i < size; ++i) {
        const double weight = std::uniform_int_distribution<int>(1 << 20, 1 << 21)(random) * 2;
        weights.push_back({problem.addColumn(0, 1, -weight, true), weight});
        sum += weight;
    }
    problem.addRow(weights, -GlpkProblem::infinity, std::floor(sum / 4) * 2 + 1);
}

TEST(GlpkProblem, solvesALinearProgramme)
{
    GlpkProblem problem;
    const int x = problem.addColumn(0, GlpkProblem::infinity, -3);
    const int y = problem.addColumn(0, 4, -5);
    const Term row[] = {{x, 3}, {y, 2}};
    problem.addRow(row, -GlpkProblem::infinity, 18);
    const MilpResult result = problem.solve();
    ASSERT_EQ(result.status, MilpStatus::optimal);
    EXPECT_NEAR(result.objective, -30, 1e-9);
    EXPECT_NEAR(result.values[0], 10.0 / 3, 1e-9);
    EXPECT_NEAR(result.values[1], 4, 1e-9);
}

TEST(GlpkProblem, solvesInIntegers)
{
    GlpkProblem problem;
    const int x = problem.addColumn(0, 10, -5, true);
    const int y = problem.addColumn(0, 10, -4, true);
    const Term first[] = {{x, 6}, {y, 4}};
    problem.addRow(first, -GlpkProblem::infinity, 24);
    const Term second[] = {{x, 1}, {y, 2}};
    problem.addRow(second, -GlpkProblem::infinity, 6);
    const MilpResult result = problem.solve();
    ASSERT_EQ(result.status, MilpStatus::optimal);
    EXPECT_NEAR(result.objective, -20, 1e-9);
    EXPECT_EQ(result.bound, result.objective);
    EXPECT_EQ(result.values, (std::vector<double>{4, 0}));
}

TEST(GlpkProblem, saysInfeasible)
{
    GlpkProblem problem;
    const int x = problem.addColumn(0, 1, 1, true);
    const Term twice[] = {{x, 2}};
    problem.addRow(twice, 3, GlpkProblem::infinity);
    EXPECT_EQ(problem.solve().status, MilpStatus::infeasible);

    GlpkProblem odd;
    const int y = odd.addColumn(0, 9, 1, true);
    const Term even[] = {{y, 2}};
    odd.addRow(even, 5, 5);
    EXPECT_EQ(odd.solve().status, MilpStatus::infeasible) << "only the integers have no solution";
}

TEST(GlpkProblem, endsAtItsTimeLimitWithABound)
{
    GlpkProblem problem;
    fillKnapsack(problem, 60);
    MilpOptions options;
    options.limitMs = 120;
    const MilpResult result = problem.solve(options);
    ASSERT_TRUE(result.status == MilpStatus::feasible || result.status == MilpStatus::timeout);
    EXPECT_TRUE(std::isfinite(result.bound));
    if (result.status == MilpStatus::feasible) {
        EXPECT_LE(result.bound, result.objective);
    }
}

TEST(GlpkProblem, endsAtAGap)
{
    for (const bool cuts : {false, true}) {
        GlpkProblem problem;
        fillKnapsack(problem, 60);
        MilpOptions options;
        options.limitMs = 60000;
        options.gap = 0.01;
        options.cuts = cuts;
        const MilpResult result = problem.solve(options);
        ASSERT_TRUE(result.status == MilpStatus::feasible || result.status == MilpStatus::optimal);
        EXPECT_LE(result.bound, result.objective);
        EXPECT_LE(result.objective - result.bound, 0.0101 * std::abs(result.objective));
    }
}

TEST(GlpkProblem, stopsWhenAsked)
{
    GlpkProblem problem;
    fillKnapsack(problem, 60);
    std::stop_source source;
    MilpOptions options;
    options.stop = source.get_token();
    options.limitMs = 60000;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        source.request_stop();
    });
    EXPECT_EQ(problem.solve(options).status, MilpStatus::stopped);
}

TEST(GlpkProblem, anErrorInsideGlpkEndsTheSolveOnly)
{
    testing::internal::CaptureStdout();
    GlpkProblem other;
    other.addColumn(0, 1, 1);
    {
        GlpkProblem problem;
        const int x = problem.addColumn(0, 1, 1);
        const Term row[] = {{x, 1}, {x + 5, 1}}; // GLPK aborts the process for a column that is not there
        problem.addRow(row, 0, 1);
        EXPECT_EQ(problem.solve().status, MilpStatus::failed);
    }
    EXPECT_EQ(other.solve().status, MilpStatus::failed) << "it was in the environment that was thrown away";
    GlpkProblem next;
    next.addColumn(2, 3, 1);
    EXPECT_NEAR(next.solve().objective, 2, 1e-12);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << "JSON may stand there";
}

} // namespace
} // namespace headroom
