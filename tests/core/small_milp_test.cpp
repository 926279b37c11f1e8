// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/glpk_problem.h"
#include "core/plan/small_milp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace headroom;

namespace {

/// A programme like that of groups of parts: sums of counts, and limits that some columns relieve.
struct Programme
{
    std::size_t whole = 0;
    std::vector<double> costs, most; ///< by column
    struct Row
    {
        std::vector<double> terms;
        double sum = 0;
        bool isLimit = false;
    };
    std::vector<Row> rows;

    SmallMilp small() const
    {
        SmallMilp made(costs.size(), whole);
        for (std::size_t column = 0; column < costs.size(); ++column)
            made.setColumn(column, costs[column], most[column]);
        for (const Row& row : rows)
            row.isLimit ? made.addLimit(row.terms, row.sum) : made.addSum(row.terms, row.sum);
        return made;
    }
    MilpResult byGlpk() const
    {
        GlpkProblem problem;
        for (std::size_t column = 0; column < costs.size(); ++column)
            problem.addColumn(0, most[column], costs[column], column < whole);
        for (const Row& row : rows) {
            std::vector<GlpkProblem::Term> terms;
            for (std::size_t column = 0; column < costs.size(); ++column)
                if (row.terms[column] != 0)
                    terms.push_back({static_cast<int>(column), row.terms[column]});
            problem.addRow(terms, row.isLimit ? -GlpkProblem::infinity : row.sum, row.sum);
        }
        return problem.solve({{}, 60000, 0, true, {}});
    }
};

Programme randomProgramme(std::mt19937& random)
{
    const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
    const auto real = [&](double most) { return std::uniform_real_distribution<double>(0, most)(random); };
    const int groups = 1 + below(3), limits = 1 + below(3), options = 2 + below(12), around = below(4);
    Programme made;
    made.whole = static_cast<std::size_t>(groups * options + around); // the last ones are of two parts each
    const std::size_t columns = made.whole + 1; // the last one relieves the first limit
    made.costs.assign(columns, 0);
    made.most.assign(columns, 0);
    std::vector<double> sizes;
    for (int group = 0; group < groups; ++group) {
        sizes.push_back(1 + below(16));
        made.rows.push_back({std::vector<double>(columns, 0), sizes.back(), false});
    }
    for (int limit = 0; limit < limits; ++limit)
        made.rows.push_back({std::vector<double>(columns, 0), 0, true});
    for (std::size_t column = 0; column < made.whole; ++column) {
        const std::size_t group = column % static_cast<std::size_t>(groups);
        const bool keeps = column < static_cast<std::size_t>(groups); // takes most, and costs nothing
        made.costs[column] = keeps ? 0 : real(2);
        made.most[column] = sizes[group];
        made.rows[group].terms[column] += 1;
        const int times = column < static_cast<std::size_t>(groups * options) ? 1 : 2;
        if (times == 2) {
            const auto other = static_cast<std::size_t>(below(groups));
            made.rows[other].terms[column] += 1;
            made.most[column] = std::floor(std::min(sizes[group], sizes[other]) / (other == group ? 2 : 1));
        }
        for (int limit = 0; limit < limits; ++limit) {
            Programme::Row& row = made.rows[static_cast<std::size_t>(groups + limit)];
            row.terms[column] = times * (keeps ? 10 : 10 - 4 * made.costs[column] - real(2));
            row.sum += keeps ? sizes[group] * 10 * (0.35 + real(0.7)) : 0;
        }
    }
    made.costs.back() = 1;
    made.most.back() = below(2) == 0 ? SmallMilp::unlimited : 3;
    made.rows[static_cast<std::size_t>(groups)].terms.back() = -1;
    return made;
}

} // namespace

TEST(SmallMilp, findsTheLeastCostOfGlpk)
{
    std::mt19937 random(3);
    int solved = 0, empty = 0, better = 0;
    for (int i = 0; i < 600; ++i) {
        SCOPED_TRACE(i);
        const Programme programme = randomProgramme(random);
        const MilpResult expected = programme.byGlpk();
        ASSERT_TRUE(expected.status == MilpStatus::optimal || expected.status == MilpStatus::infeasible);
        const double most = 1e4; // more than a solution costs
        double least = most;
        const double bound
            = programme.small().search(most, SearchLimit::after(10000, {}), [&](const std::vector<double>& values) {
                  double cost = 0;
                  for (std::size_t column = 0; column < values.size(); ++column) {
                      cost += programme.costs[column] * values[column];
                      EXPECT_EQ(values[column], std::round(values[column]));
                      EXPECT_LE(values[column], programme.most[column]);
                  }
                  for (const Programme::Row& row : programme.rows) {
                      double sum = 0;
                      for (std::size_t column = 0; column < values.size(); ++column)
                          sum += row.terms[column] * values[column];
                      if (!row.isLimit)
                          EXPECT_NEAR(sum, row.sum, 1e-5);
                      else if (row.terms.back() != 0)
                          cost += std::max(0.0, sum - row.sum);
                      else
                          EXPECT_LE(sum, row.sum + 1e-5);
                  }
                  least = std::min(least, cost);
                  return least;
              });
        if (expected.status == MilpStatus::infeasible) {
            ++empty;
            EXPECT_EQ(bound, most);
            continue;
        }
        ++solved;
        EXPECT_NEAR(bound, expected.objective, 1e-5);
        EXPECT_NEAR(least, expected.objective, 1e-5);
        const SmallMilp small = programme.small();
        const auto ignore = [](const std::vector<double>&) { return SmallMilp::unlimited; };
        for (const double share : {0.5, 0.9, 1.0}) // nothing above is searched
            EXPECT_NEAR(small.search(share * expected.objective, SearchLimit::after(10000, {}), ignore),
                        share * expected.objective, 1e-5);
        for (const double limitMs : {0.0, 0.001, 0.01, 0.1}) {
            const double early = small.search(most, SearchLimit::after(limitMs, {}), ignore);
            EXPECT_LE(early, expected.objective + 1e-5);
            better += early > 0 ? 1 : 0;
        }
    }
    EXPECT_GT(solved, 200);
    EXPECT_GT(empty, 5);
    EXPECT_GT(better, 200);
}

// A bound of one of many similar columns changes nothing: the tree must bound many at once.
TEST(SmallMilp, closesTheGapOfProgrammesOfManySimilarColumns)
{
    constexpr std::size_t choices = 6, options = 400, limits = 3;
    for (const unsigned seed : {1U, 2U, 3U, 4U, 5U}) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const auto real
            = [&](double least, double most) { return std::uniform_real_distribution<double>(least, most)(random); };
        SmallMilp programme(choices * options, choices * options);
        std::vector<double> costs;
        std::vector<std::vector<double>> takes(limits, std::vector<double>(choices * options, 0));
        for (std::size_t choice = 0; choice < choices; ++choice) {
            std::vector<double> one(choices * options, 0);
            const double weight = real(0.5, 1);
            for (std::size_t column = choice * options; column < (choice + 1) * options; ++column) {
                const double cost = costs.emplace_back(real(0, 4));
                one[column] = 1;
                programme.setColumn(column, cost, 1);
                // A mixture of all and nothing takes less than a column between.
                for (std::vector<double>& taken : takes)
                    taken[column] = 20 - weight * cost * cost + real(0, 0.5);
            }
            programme.addSum(one, 1);
        }
        for (std::vector<double>& taken : takes)
            programme.addLimit(std::move(taken), choices * real(14, 17));
        double least = 1e4;
        const double bound
            = programme.search(least, SearchLimit::after(50, {}), [&](const std::vector<double>& values) {
                  return least = std::min(least, std::inner_product(values.begin(), values.end(), costs.begin(), 0.0));
              });
        EXPECT_LT(least, 1e4);
        EXPECT_NEAR(bound, least, 1e-5);
    }
}
