// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace headroom {

/// A mixed integer linear programme (minimisation) of few rows and up to some thousand columns. A node of the search
/// tree takes some 10 us; GLPK takes 50 us and more. Columns are at least 0, costs too. Branch and bound with the dual
/// simplex method on a dense matrix, and with Gomory's mixed integer cuts at the root.
class SmallMilp
{
public:
    static constexpr double unlimited = std::numeric_limits<double>::infinity();

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
    struct Row
    {
        std::vector<double> terms; ///< by column
        double sum = 0;
        bool isLimit = false; ///< the terms may sum up to less
    };
    class Simplex;
    class Tree;
    struct Tight;
    Tight withCuts(const SmallMilp& tight, Simplex& simplex) const;

    std::size_t whole_;
    std::vector<double> costs_, most_; ///< by column
    std::vector<Row> rows_;
};

} // namespace headroom
