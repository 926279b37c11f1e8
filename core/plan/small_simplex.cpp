// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/small_simplex.h"

#include "core/plan/plan.h"

#include <algorithm>
#include <cmath>

namespace headroom {

namespace {

constexpr double exactTolerance = 1e-7; ///< of values
constexpr double reducedTolerance = 1e-9;
constexpr std::size_t columnsAtOnce = 8;
constexpr int mostPivots = 1000;
constexpr double nsPerMatrixEntry = 0.25; ///< work of a pass over the matrix
constexpr double nsPerColumn = 2; ///< work of a pass over the columns

std::size_t padded(std::size_t columns)
{
    return (columns + columnsAtOnce - 1) / columnsAtOnce * columnsAtOnce;
}

} // namespace

SmallSimplex::SmallSimplex(std::vector<double> costs, std::vector<double> most, const std::vector<LinearRow>& rows)
    : rows_(rows.size())
    , slack_(costs.size())
    , columns_(padded(slack_ + rows_))
    , costs_(std::move(costs))
    , matrix_(rows_ * columns_, 0)
    , least_(columns_, 0)
    , most_(std::move(most))
    , inverse_(rows_ * rows_)
{
    costs_.resize(columns_, 0);
    most_.resize(columns_, 0);
    for (std::size_t row = 0; row < rows_; ++row) {
        std::ranges::copy(rows[row].terms, matrix_.begin() + static_cast<std::ptrdiff_t>(row * columns_));
        matrix_[row * columns_ + slack_ + row] = 1;
        most_[slack_ + row] = rows[row].isLimit ? unlimited : 0;
        sums_.push_back(rows[row].sum);
    }
}

SmallSimplex::SmallSimplex(const SmallSimplex& all, const Columns& kept, const std::vector<LinearRow>& more)
    : rows_(all.rows_ + more.size())
    , slack_(kept.size())
    , columns_(padded(slack_ + rows_))
    , costs_(columns_, 0)
    , matrix_(rows_ * columns_, 0)
    , sums_(all.sums_)
    , least_(columns_, 0)
    , most_(columns_, 0)
    , inverse_(rows_ * rows_)
{
    SearchLimit::count(static_cast<double>(rows_ * columns_), nsPerMatrixEntry);
    for (std::size_t number = 0; number < slack_; ++number) {
        costs_[number] = all.costs_[kept[number]];
        least_[number] = all.least_[kept[number]];
        most_[number] = all.most_[kept[number]];
    }
    for (std::size_t row = 0; row < rows_; ++row) {
        double* const to = matrix_.data() + row * columns_;
        to[slack_ + row] = 1;
        if (row < all.rows_) {
            const double* const from = all.matrix_.data() + row * all.columns_;
            for (std::size_t number = 0; number < slack_; ++number)
                to[number] = from[kept[number]];
            most_[slack_ + row] = all.most_[all.slack_ + row];
        } else {
            const LinearRow& own = more[row - all.rows_];
            std::ranges::copy(own.terms, to);
            most_[slack_ + row] = own.isLimit ? unlimited : 0;
            sums_.push_back(own.sum);
        }
    }
}

SmallSimplex::Basis SmallSimplex::start() const
{
    Basis basis;
    for (std::size_t row = 0; row < rows_; ++row)
        basis.push_back(static_cast<std::uint32_t>(slack_ + row));
    return basis;
}

SmallSimplex::End SmallSimplex::solve(Basis basis, double enough)
{
    basis_ = std::move(basis);
    isAtMost_.assign(columns_, 0);
    bool isExact = false; // else the inverse and the reduced costs are changed ones
    const auto findAll = [&] {
        cost_ = -unlimited;
        isExact = setBasis() && findValues();
        return isExact;
    };
    if (!findAll())
        return End::failed;
    for (int pivot = 0; pivot < mostPivots; ++pivot) {
        std::size_t row = worstRow();
        if (!isExact && (row == rows_ || cost_ >= enough)) {
            if (!findAll())
                return End::failed;
            row = worstRow();
        }
        if (cost_ >= enough)
            return End::enough;
        if (row == rows_)
            return End::solved;
        const bool grows = values_[row] < least_[basis_[row]];
        if (!findChanges(row)) {
            if (isExact || !findAll())
                return End::failed;
            continue;
        }
        const Entering entering = enteringFor(grows);
        if (entering.column == columns_)
            return End::empty;
        isAtMost_[basis_[row]] = grows ? 0 : 1;
        exchange(row, static_cast<std::uint32_t>(entering.column));
        isExact = false;
        if (!findValues() && !findAll())
            return End::failed;
    }
    return End::failed;
}

std::vector<double> SmallSimplex::values() const
{
    std::vector<double> all(slack_);
    for (std::size_t column = 0; column < slack_; ++column)
        all[column] = isAtMost_[column] != 0 ? most_[column] : least_[column];
    for (std::size_t row = 0; row < rows_; ++row)
        if (basis_[row] < slack_)
            all[basis_[row]] = values_[row];
    return all;
}

bool SmallSimplex::matters(std::size_t column, double enough) const
{
    if (isBasic_[column] != 0)
        return true;
    return most_[column] > 0 && (isAtMost_[column] != 0 || least_[column] > 0 || cost_ + reduced_[column] < enough);
}

std::pair<double, double> SmallSimplex::growthOf(const std::vector<double>& terms, double part)
{
    SearchLimit::count(static_cast<double>(rows_ * columns_), nsPerMatrixEntry);
    changes_.assign(columns_, 0);
    for (std::size_t other = 0; other < rows_; ++other) {
        double times = 0;
        for (std::size_t row = 0; row < rows_; ++row)
            if (basis_[row] < slack_)
                times += terms[basis_[row]] * inverse_[row * rows_ + other];
        addRow(changes_, other, times);
    }
    for (std::size_t column = 0; column < slack_; ++column)
        changes_[column] -= terms[column];
    return {enteringFor(false).price * part, enteringFor(true).price * (1 - part)};
}

/// Computes the inverse and the reduced costs. Returns false if these are inexact.
bool SmallSimplex::setBasis()
{
    isBasic_.assign(columns_, 0);
    for (const std::uint32_t column : basis_)
        isBasic_[column] = 1;
    return invert() && findPrices();
}

/// Takes a column into the basis, after findChanges(row).
void SmallSimplex::exchange(std::size_t row, std::uint32_t column)
{
    SearchLimit::count(static_cast<double>(2 * rows_ * rows_ + columns_), nsPerMatrixEntry);
    const double times = reduced_[column] / changes_[column];
    for (std::size_t other = 0; other < columns_; ++other)
        reduced_[other] -= times * changes_[other];
    double* const own = inverse_.data() + row * rows_;
    const double by = 1 / changes_[column];
    for (std::size_t i = 0; i < rows_; ++i)
        own[i] *= by;
    for (std::size_t other = 0; other < rows_; ++other) {
        if (other == row)
            continue;
        double* const to = inverse_.data() + other * rows_;
        double change = 0;
        for (std::size_t i = 0; i < rows_; ++i)
            change += to[i] * matrix_[i * columns_ + column];
        for (std::size_t i = 0; change != 0 && i < rows_; ++i)
            to[i] -= change * own[i];
    }
    isBasic_[basis_[row]] = 0;
    isBasic_[column] = 1;
    basis_[row] = column;
}

/// Gauss and Jordan, with the largest pivots of the columns. Returns false if the basis is nearly singular.
bool SmallSimplex::invert()
{
    const std::size_t width = 2 * rows_;
    SearchLimit::count(static_cast<double>(2 * rows_ * rows_ * rows_), nsPerMatrixEntry);
    work_.assign(rows_ * width, 0);
    for (std::size_t row = 0; row < rows_; ++row) {
        for (std::size_t column = 0; column < rows_; ++column)
            work_[row * width + column] = matrix_[row * columns_ + basis_[column]];
        work_[row * width + rows_ + row] = 1;
    }
    for (std::size_t column = 0; column < rows_; ++column) {
        std::size_t pivot = column;
        for (std::size_t row = column + 1; row < rows_; ++row)
            if (std::abs(work_[row * width + column]) > std::abs(work_[pivot * width + column]))
                pivot = row;
        if (std::abs(work_[pivot * width + column]) < reducedTolerance)
            return false;
        for (std::size_t i = 0; pivot != column && i < width; ++i)
            std::swap(work_[pivot * width + i], work_[column * width + i]);
        const double by = 1 / work_[column * width + column];
        for (std::size_t i = column; i < width; ++i)
            work_[column * width + i] *= by;
        for (std::size_t row = 0; row < rows_; ++row)
            if (const double times = work_[row * width + column]; row != column && times != 0)
                for (std::size_t i = column; i < width; ++i)
                    work_[row * width + i] -= times * work_[column * width + i];
    }
    for (std::size_t row = 0; row < rows_; ++row)
        std::copy_n(work_.begin() + static_cast<std::ptrdiff_t>(row * width + rows_), rows_,
                    inverse_.begin() + static_cast<std::ptrdiff_t>(row * rows_));
    return true;
}

/// The reduced costs. Returns false if the costs are inexact.
bool SmallSimplex::findPrices()
{
    SearchLimit::count(static_cast<double>(rows_ * columns_), nsPerMatrixEntry);
    reduced_ = costs_;
    for (std::size_t row = 0; row < rows_; ++row) {
        double dual = 0;
        for (std::size_t other = 0; other < rows_; ++other)
            dual += costs_[basis_[other]] * inverse_[other * rows_ + row];
        addRow(reduced_, row, -dual);
    }
    return std::ranges::all_of(basis_,
                               [this](std::uint32_t column) { return std::abs(reduced_[column]) <= exactTolerance; });
}

/// The values of the basis, and the cost. Returns false if the values are inexact.
bool SmallSimplex::findValues()
{
    SearchLimit::count(static_cast<double>(columns_), nsPerColumn);
    std::vector<double> left = sums_;
    double cost = 0;
    signs_.resize(columns_);
    for (std::size_t column = 0; column < columns_; ++column) {
        signs_[column] = 0;
        if (isBasic_[column] != 0)
            continue;
        if (std::abs(reduced_[column]) > reducedTolerance)
            isAtMost_[column] = reduced_[column] < 0 && most_[column] < unlimited ? 1 : 0;
        if (least_[column] < most_[column])
            signs_[column] = isAtMost_[column] != 0 ? -1 : 1;
        const double value = isAtMost_[column] != 0 ? most_[column] : least_[column];
        if (value == 0)
            continue;
        cost += costs_[column] * value;
        for (std::size_t row = 0; row < rows_; ++row)
            left[row] -= matrix_[row * columns_ + column] * value;
    }
    values_.assign(rows_, 0);
    for (std::size_t row = 0; row < rows_; ++row) {
        for (std::size_t other = 0; other < rows_; ++other)
            values_[row] += inverse_[row * rows_ + other] * left[other];
        cost += costs_[basis_[row]] * values_[row];
    }
    for (std::size_t row = 0; row < rows_; ++row) {
        for (std::size_t other = 0; other < rows_; ++other)
            left[row] -= matrix_[row * columns_ + basis_[other]] * values_[other];
        if (std::abs(left[row]) > exactTolerance * std::max(1.0, std::abs(sums_[row])))
            return false;
    }
    cost_ = std::max(cost_, cost);
    return true;
}

void SmallSimplex::addRow(std::vector<double>& to, std::size_t row, double times) const
{
    if (times == 0)
        return;
    const double* const from = matrix_.data() + row * columns_;
    for (std::size_t begin = 0; begin < columns_; begin += columnsAtOnce)
        for (std::size_t column = begin; column < begin + columnsAtOnce; ++column)
            to[column] += times * from[column];
}

/// The row with the basic value farthest beyond the bounds; the number of rows if there is none.
std::size_t SmallSimplex::worstRow() const
{
    std::size_t worst = rows_;
    double most = exactTolerance;
    for (std::size_t row = 0; row < rows_; ++row) {
        const std::uint32_t column = basis_[row];
        const double beyond = std::max(least_[column] - values_[row], values_[row] - most_[column]);
        if (beyond > most) {
            most = beyond;
            worst = row;
        }
    }
    return worst;
}

/// By how much the row's column of the basis falls when another column grows. Returns false if that is inexact.
bool SmallSimplex::findChanges(std::size_t row)
{
    SearchLimit::count(static_cast<double>(rows_ * columns_), nsPerMatrixEntry);
    changes_.assign(columns_, 0);
    for (std::size_t other = 0; other < rows_; ++other)
        addRow(changes_, other, inverse_[row * rows_ + other]);
    for (std::size_t other = 0; other < rows_; ++other)
        if (std::abs(changes_[basis_[other]] - (other == row ? 1 : 0)) > exactTolerance)
            return false;
    return true;
}

/// The column that enters the basis if the column or the sum of changes_ grows, or falls.
SmallSimplex::Entering SmallSimplex::enteringFor(bool grows) const
{
    SearchLimit::count(static_cast<double>(columns_), nsPerColumn);
    Entering best{columns_};
    double reduced = unlimited, largest = 1; // of the best column: reduced cost and change
    for (std::size_t column = 0; column < columns_; ++column) {
        const double change = grows ? -changes_[column] * signs_[column] : changes_[column] * signs_[column];
        if (change <= exactTolerance)
            continue;
        const double own = std::abs(reduced_[column]) * largest, other = reduced * change; // no division
        if (own < other - reducedTolerance * change * largest || (own <= other && change > largest)) {
            reduced = std::abs(reduced_[column]);
            largest = change;
            best.column = column;
        }
    }
    best.price = reduced / largest;
    return best;
}

} // namespace headroom
