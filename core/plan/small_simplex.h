// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace headroom {

/// A row of a linear programme: the terms sum up to `sum`, or to at most `sum`.
struct LinearRow
{
    std::vector<double> terms; ///< by column
    double sum = 0;
    bool isLimit = false; ///< the terms may sum up to less
};

/// A linear programme (minimisation) of few rows and up to some thousand columns, with the dual simplex method on a
/// dense matrix. After the columns of the programme there is a column for each row, the slack. Each solution is
/// computed from the basis alone, so that errors do not add up.
class SmallSimplex
{
public:
    static constexpr double unlimited = std::numeric_limits<double>::infinity();
    using Columns = std::vector<std::uint32_t>; ///< numbers
    using Basis = Columns; ///< by row

    /// `most`: by column; columns are at least 0.
    SmallSimplex(std::vector<double> costs, std::vector<double> most, const std::vector<LinearRow>& rows);
    /// The same programme with the columns `kept` only, ascending, and with more rows, of terms of these columns.
    SmallSimplex(const SmallSimplex& all, const Columns& kept, const std::vector<LinearRow>& more);

    std::size_t rows() const { return rows_; }
    std::size_t slack() const { return slack_; } ///< column of row 0
    std::vector<double>& least() { return least_; } ///< by column
    std::vector<double>& most() { return most_; }
    double costAt(std::size_t column) const { return costs_[column]; }
    double termAt(std::size_t row, std::size_t column) const { return matrix_[row * columns_ + column]; }
    double sumAt(std::size_t row) const { return sums_[row]; }
    Basis start() const; ///< the slacks

    enum class End {
        solved, ///< cost() is the least cost
        empty, ///< no values keep all rows
        enough, ///< the least cost is at least cost(), and that is enough
        failed, ///< too many pivots, or the basis is nearly singular: nothing is known
    };
    /// Goes on from the basis of a solution with any bounds of the columns.
    End solve(Basis basis, double enough);

    /// Of the last solution.
    double cost() const { return cost_; }
    const Basis& basis() const { return basis_; }
    std::vector<double> values() const; ///< by column, without slacks
    double priceOf(std::size_t row) const { return reduced_[slack_ + row]; }
    /// Whether a column may be 1 or more in a solution of less than `enough`.
    bool matters(std::size_t column, double enough) const;
    /// The least that the cost grows if a sum of columns falls to the whole number below, and above. `terms`: of the
    /// sum, by column; `part`: what the sum has above the whole number.
    std::pair<double, double> growthOf(const std::vector<double>& terms, double part);

private:
    struct Entering
    {
        std::size_t column = 0; ///< columns_: none
        double price = unlimited; ///< growth of the cost, by the growth of the leaving column
    };

    bool setBasis();
    void exchange(std::size_t row, std::uint32_t column);
    bool invert();
    bool findPrices();
    bool findValues();
    void addRow(std::vector<double>& to, std::size_t row, double times) const;
    std::size_t worstRow() const;
    bool findChanges(std::size_t row);
    Entering enteringFor(bool grows) const;

    std::size_t rows_, slack_;
    std::size_t columns_; ///< with slacks, and unused columns
    std::vector<double> costs_;
    std::vector<double> matrix_; ///< by row, by column
    std::vector<double> sums_; ///< by row
    std::vector<double> least_, most_; ///< by column
    Basis basis_;
    std::vector<double> inverse_; ///< of the basis
    std::vector<double> work_; ///< of invert()
    std::vector<double> values_; ///< of the basis
    double cost_ = 0;
    std::vector<double> reduced_; ///< by column: reduced costs
    std::vector<double> changes_; ///< by column: findChanges()
    std::vector<std::uint8_t> isBasic_, isAtMost_; ///< by column; a column that is not basic is at a bound
    std::vector<double> signs_; ///< by column: 1, may grow; -1, may fall; 0, neither, or basic
};

} // namespace headroom
