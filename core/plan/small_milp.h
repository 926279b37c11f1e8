// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/plan/small_simplex.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace headroom {

/// A mixed integer linear programme (minimisation) of few rows and up to some thousand columns. A node of the search
/// tree with a hundred columns takes some 10 us; GLPK takes 50 us and more. Columns are at least 0, costs too.
///
/// Branch and bound. Where a row is a sum of whole columns, a node bounds the sum of those columns that have large
/// terms in another row (or large costs), as for special ordered sets (Beale and Tomlin: "Special facilities in a
/// general mathematical programming system for non-convex problems", 1970): a bound of one of many similar columns
/// changes nothing. A node leaves out the columns that no better solution has, by reduced costs.
class SmallMilp
{
public:
    static constexpr double unlimited = SmallSimplex::unlimited;

    SmallMilp(std::size_t columns, std::size_t whole); ///< the first `whole` columns must be whole
    void setColumn(std::size_t column, double cost, double most); ///< only columns that are not whole may be unlimited
    void addLimit(std::vector<double> terms, double most) { rows_.push_back({std::move(terms), most, true}); }
    void addSum(std::vector<double> terms, double sum) { rows_.push_back({std::move(terms), sum, false}); }

    /// Takes the whole columns of a solution. Returns the cost from which on solutions do not matter.
    using Visit = std::function<double(const std::vector<double>& values)>;
    /// Searches until no solution of less than `enough` is left, or time is up. Returns a lower bound of the solutions'
    /// cost, at most `enough` and what visit() returned last. Solutions come in no order.
    double search(double enough, const SearchLimit& limit, const Visit& visit) const;

private:
    class Tree;

    std::size_t whole_;
    std::vector<double> costs_, most_; ///< by column
    std::vector<LinearRow> rows_;
};

} // namespace headroom
