// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/small_milp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <utility>

namespace headroom {

namespace {

constexpr double valueTolerance = 1e-7; ///< of values
constexpr double reducedTolerance = 1e-9;
constexpr std::size_t columnsAtOnce = 8; ///< columns
constexpr int mostPivots = 100; ///< of a node
constexpr int mostCutRounds = 20; ///< of cuts
constexpr std::size_t mostCuts = 20;
constexpr double leastRoundGain = 0.01; ///< of a round, as a share of all rounds
constexpr double leastPart = 0.02; ///< cuts of columns closer to a whole number are weak, or not exact
constexpr double largestTerm = 1e4; ///< of a cut
constexpr double nsPerMatrixEntry = 0.25; ///< work of a pass over the matrix

} // namespace

/// The dual simplex method. After the columns of the programme there is a column for each row, the slack. Each state is
/// computed from the basis alone, so that errors do not add up.
class SmallMilp::Simplex
{
public:
    using Basis = std::vector<std::uint32_t>; ///< by row: a column

    explicit Simplex(const SmallMilp& programme)
        : rows_(programme.rows_.size())
        , slack_(programme.costs_.size())
        , columns_((slack_ + rows_ + columnsAtOnce - 1) / columnsAtOnce * columnsAtOnce)
        , costs_(programme.costs_)
        , matrix_(rows_ * columns_, 0)
        , least_(columns_, 0)
        , most_(programme.most_)
        , inverse_(rows_ * rows_)
    {
        costs_.resize(columns_, 0);
        most_.resize(columns_, 0);
        for (std::size_t row = 0; row < rows_; ++row) {
            const Row& own = programme.rows_[row];
            std::ranges::copy(own.terms, matrix_.begin() + static_cast<std::ptrdiff_t>(row * columns_));
            matrix_[row * columns_ + slack_ + row] = 1;
            most_[slack_ + row] = own.isLimit ? unlimited : 0;
            sums_.push_back(own.sum);
        }
    }

    std::size_t rows() const { return rows_; }
    std::size_t slack() const { return slack_; } ///< column of row 0
    std::vector<double>& least() { return least_; } ///< by column
    std::vector<double>& most() { return most_; }

    Basis start() const
    {
        Basis basis;
        for (std::size_t row = 0; row < rows_; ++row)
            basis.push_back(static_cast<std::uint32_t>(slack_ + row));
        return basis;
    }

    enum class End {
        solved, ///< cost() is the least cost
        empty, ///< no values keep all rows
        enough, ///< the least cost is at least cost(), and that is enough
        failed, ///< too many pivots, or the basis is nearly singular: nothing is known
    };
    /// Goes on from the basis of a state with any bounds of the columns.
    End solve(Basis basis, double enough)
    {
        basis_ = std::move(basis);
        cost_ = -unlimited;
        isAtMost_.assign(columns_, 0);
        for (int pivot = 0; pivot < mostPivots; ++pivot) {
            if (!findValues())
                return End::failed;
            if (cost_ >= enough)
                return End::enough;
            const std::size_t row = worstRow();
            if (row == rows_)
                return End::solved;
            const bool grows = values_[row] < least_[basis_[row]];
            if (!findChanges(row))
                return End::failed;
            const Entering entering = enteringFor(grows);
            if (entering.column == columns_)
                return End::empty;
            isAtMost_[basis_[row]] = grows ? 0 : 1;
            basis_[row] = static_cast<std::uint32_t>(entering.column);
        }
        return End::failed;
    }

    double cost() const { return cost_; }
    const Basis& basis() const { return basis_; }
    double valueAt(std::size_t row) const { return values_[row]; } ///< of the column of the basis

    std::vector<double> values(std::size_t columns) const
    {
        std::vector<double> all(columns);
        for (std::size_t column = 0; column < columns; ++column)
            all[column] = isAtMost_[column] != 0 ? most_[column] : least_[column];
        for (std::size_t row = 0; row < rows_; ++row)
            if (basis_[row] < columns)
                all[basis_[row]] = values_[row];
        return all;
    }

    /// The least that the cost grows if the column of the basis falls to the whole number below, and above.
    std::pair<double, double> growthAt(std::size_t row)
    {
        if (!findChanges(row))
            return {0, 0};
        const double part = values_[row] - std::floor(values_[row]);
        return {enteringFor(false).price * part, enteringFor(true).price * (1 - part)};
    }

    /// Gomory's mixed integer cut of a row's column of the basis; nullopt if the column is whole, or the cut inexact.
    std::optional<Row> cutAt(std::size_t row, std::size_t whole)
    {
        const double part = values_[row] - std::floor(values_[row]);
        if (basis_[row] >= whole || part < leastPart || part > 1 - leastPart || !findChanges(row))
            return std::nullopt;
        // The times of the columns' distances from the bounds are at least 1, in sum.
        std::vector<double> terms(columns_, 0);
        double least = 1;
        for (std::size_t column = 0; column < slack_ + rows_; ++column) {
            if (isBasis_[column] != 0 || least_[column] == most_[column])
                continue;
            const bool isAtMost = isAtMost_[column] != 0;
            const double change = isAtMost ? -changes_[column] : changes_[column];
            const double above = change - std::floor(change);
            double times = change >= 0 ? change / part : -change / (1 - part);
            if (column < whole)
                times = above <= part ? above / part : (1 - above) / (1 - part);
            if (times > largestTerm)
                return std::nullopt;
            terms[column] = isAtMost ? -times : times;
            least += terms[column] * (isAtMost ? most_[column] : least_[column]);
        }
        for (std::size_t other = 0; other < rows_; ++other) { // without slacks
            const double times = terms[slack_ + other];
            addRow(terms, other, -times);
            least -= times * sums_[other];
        }
        terms.resize(slack_);
        double largest = valueTolerance;
        for (const double term : terms)
            largest = std::max(largest, std::abs(term));
        for (double& term : terms)
            term /= -largest;
        return Row{std::move(terms), -least / largest, true};
    }

private:
    struct Entering
    {
        std::size_t column = 0; ///< columns_: none
        double price = unlimited; ///< growth of the cost, by the growth of the leaving column
    };

    /// The values of the basis. Returns false if the values are inexact.
    bool findValues()
    {
        SearchLimit::count(static_cast<double>(2 * rows_ * (columns_ + rows_ * rows_)), nsPerMatrixEntry);
        if (!invert())
            return false;
        reduced_ = costs_;
        for (std::size_t row = 0; row < rows_; ++row) {
            double dual = 0;
            for (std::size_t other = 0; other < rows_; ++other)
                dual += costs_[basis_[other]] * inverse_[other * rows_ + row];
            addRow(reduced_, row, -dual);
        }
        isBasis_.assign(columns_, 0);
        for (const std::uint32_t column : basis_) {
            isBasis_[column] = 1;
            if (std::abs(reduced_[column]) > valueTolerance)
                return false;
        }
        std::vector<double> left = sums_;
        double cost = 0;
        for (std::size_t column = 0; column < columns_; ++column) {
            if (isBasis_[column] != 0)
                continue;
            if (std::abs(reduced_[column]) > reducedTolerance)
                isAtMost_[column] = reduced_[column] < 0 && most_[column] < unlimited ? 1 : 0;
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
            if (std::abs(left[row]) > valueTolerance * std::max(1.0, std::abs(sums_[row])))
                return false;
        }
        cost_ = std::max(cost_, cost);
        return true;
    }

    /// Gauss and Jordan, with the largest pivots of the columns.
    bool invert()
    {
        const std::size_t width = 2 * rows_;
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

    void addRow(std::vector<double>& to, std::size_t row, double times) const
    {
        if (times == 0)
            return;
        const double* from = matrix_.data() + row * columns_;
        for (std::size_t begin = 0; begin < columns_; begin += columnsAtOnce)
            for (std::size_t column = begin; column < begin + columnsAtOnce; ++column)
                to[column] += times * from[column];
    }

    std::size_t worstRow() const
    {
        std::size_t worst = rows_;
        double most = valueTolerance;
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
    bool findChanges(std::size_t row)
    {
        SearchLimit::count(static_cast<double>(rows_ * columns_), nsPerMatrixEntry);
        changes_.assign(columns_, 0);
        for (std::size_t other = 0; other < rows_; ++other)
            addRow(changes_, other, inverse_[row * rows_ + other]);
        for (std::size_t other = 0; other < rows_; ++other)
            if (std::abs(changes_[basis_[other]] - (other == row ? 1 : 0)) > valueTolerance)
                return false;
        return true;
    }

    /// The column that enters the basis if the column of findChanges() grows, or falls.
    Entering enteringFor(bool grows) const
    {
        Entering best{columns_};
        double largest = 0;
        for (std::size_t column = 0; column < columns_; ++column) {
            const double change = grows == (isAtMost_[column] == 0) ? -changes_[column] : changes_[column];
            if (change <= valueTolerance || isBasis_[column] != 0 || least_[column] == most_[column])
                continue;
            const double price = std::abs(reduced_[column]) / change;
            if (price < best.price - reducedTolerance || (price <= best.price && change > largest)) {
                best = {column, price};
                largest = change;
            }
        }
        return best;
    }

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
    std::vector<std::uint8_t> isBasis_, isAtMost_; ///< by column; a column that is no basis is at a bound
};

/// Branch and bound.
class SmallMilp::Tree
{
public:
    Tree(Simplex simplex, std::size_t whole, Simplex::Basis basis)
        : simplex_(std::move(simplex))
        , whole_(whole)
        , least_(simplex_.least())
        , most_(simplex_.most())
    {
        open_.push({-unlimited, addNode({noNode, 0, 0, false, std::move(basis)})});
    }

    double search(double enough, const SearchLimit& limit, const Visit& visit)
    {
        enough_ = enough;
        while (!open_.empty() && open_.top().first < std::min(enough_, found_)) {
            std::size_t next = open_.top().second;
            open_.pop();
            while (next != noNode) { // down to a solution, or until there is none
                if (limit.reached()) {
                    open_.push({nodes_[next].cost, next});
                    return bound();
                }
                next = expand(next, visit);
            }
        }
        return bound();
    }

private:
    static constexpr std::size_t noNode = std::numeric_limits<std::size_t>::max();
    struct Node
    {
        std::size_t parent = noNode;
        std::size_t column = 0;
        double bound = 0; ///< of the column
        bool isLeast = false; ///< the column's lower bound; else the upper bound
        Simplex::Basis basis; ///< of the parent
        double cost = -unlimited; ///< lower bound
    };

    double bound() const { return std::min({open_.empty() ? unlimited : open_.top().first, found_, enough_}); }

    std::size_t addNode(Node node)
    {
        nodes_.push_back(std::move(node));
        return nodes_.size() - 1;
    }

    void setBounds(std::size_t node)
    {
        simplex_.least() = least_;
        simplex_.most() = most_;
        for (; nodes_[node].parent != noNode; node = nodes_[node].parent) {
            const Node& own = nodes_[node];
            double& least = simplex_.least()[own.column];
            double& most = simplex_.most()[own.column];
            if (own.isLeast)
                least = std::max(least, own.bound);
            else
                most = std::min(most, own.bound);
        }
    }

    /// Solves a node. Returns the child to go on with; noNode: there is none.
    std::size_t expand(std::size_t node, const Visit& visit)
    {
        setBounds(node);
        Simplex::End end = simplex_.solve(nodes_[node].basis, enough_);
        if (end == Simplex::End::failed)
            end = simplex_.solve(simplex_.start(), enough_);
        if (end == Simplex::End::failed) {
            found_ = std::min(found_, nodes_[node].cost); // the bound remains
            return noNode;
        }
        const double cost = std::max(simplex_.cost(), nodes_[node].cost);
        if (end == Simplex::End::empty || cost >= enough_)
            return noNode;
        const Branch branch = bestBranch(cost);
        if (branch.row == simplex_.rows()) {
            found_ = std::min(found_, cost);
            enough_ = std::min(enough_, visit(wholeValues()));
            return noNode;
        }
        const std::uint32_t column = simplex_.basis()[branch.row];
        const double below = std::floor(simplex_.valueAt(branch.row));
        std::size_t next = noNode;
        for (const bool isLeast : {branch.down > branch.up, branch.down <= branch.up}) {
            const double least = isLeast ? branch.up : branch.down;
            if (least >= enough_)
                continue;
            const std::size_t child
                = addNode({node, column, isLeast ? below + 1 : below, isLeast, simplex_.basis(), least});
            if (next == noNode)
                next = child;
            else
                open_.push({least, child});
        }
        return next;
    }

    struct Branch
    {
        std::size_t row = 0; ///< of the basis
        double down = 0, up = 0; ///< lower bounds of the cost
    };
    /// The column that is not whole, and raises the bounds of both sides most; the number of rows if all are whole.
    Branch bestBranch(double cost)
    {
        Branch best{simplex_.rows()};
        const auto key = [](const Branch& branch) { return std::minmax(branch.down, branch.up); };
        for (std::size_t row = 0; row < simplex_.rows(); ++row) {
            const double value = simplex_.valueAt(row);
            if (simplex_.basis()[row] >= whole_ || std::abs(value - std::round(value)) < valueTolerance)
                continue;
            const auto [down, up] = simplex_.growthAt(row);
            const Branch own{row, cost + down, cost + up};
            if (best.row == simplex_.rows() || key(own) > key(best))
                best = own;
        }
        return best;
    }

    std::vector<double> wholeValues() const
    {
        std::vector<double> values = simplex_.values(whole_);
        for (double& value : values)
            value = std::round(value);
        return values;
    }

    Simplex simplex_;
    std::size_t whole_;
    std::vector<double> least_, most_; ///< by column, at the root
    double enough_ = 0;
    double found_ = unlimited; ///< least cost of a solution, or bound of a node that failed
    std::vector<Node> nodes_;
    using Open = std::pair<double, std::size_t>; ///< lower bound, and node
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
};

SmallMilp::SmallMilp(std::size_t columns, std::size_t whole)
    : whole_(whole)
    , costs_(columns, 0)
    , most_(columns, 0)
{
}

void SmallMilp::setColumn(std::size_t column, double cost, double most)
{
    costs_[column] = cost;
    most_[column] = most;
}

/// The rows with cuts that bind, and the basis to go on from.
struct SmallMilp::Tight
{
    SmallMilp programme;
    Simplex::Basis basis;
};

/// Leaves out the cuts that do not bind in a solved state, and adds cuts of the state.
SmallMilp::Tight SmallMilp::withCuts(const SmallMilp& tight, Simplex& simplex) const
{
    Tight next{*this, {}};
    std::vector<Row>& rows = next.programme.rows_;
    const auto slackOf = [&](std::size_t row) { return static_cast<std::uint32_t>(simplex.slack() + row); };
    std::map<std::uint32_t, std::uint32_t> slacks; // of the rows that stay
    for (std::size_t row = 0; row < simplex.rows(); ++row) {
        const bool isCut = row >= rows_.size();
        if (isCut && std::ranges::find(simplex.basis(), slackOf(row)) != simplex.basis().end())
            continue;
        slacks[slackOf(row)] = slackOf(isCut ? rows.size() : row);
        if (isCut)
            rows.push_back(tight.rows_[row]);
    }
    for (const std::uint32_t column : simplex.basis())
        if (column < simplex.slack())
            next.basis.push_back(column);
        else if (const auto slack = slacks.find(column); slack != slacks.end())
            next.basis.push_back(slack->second);
    for (std::size_t row = 0; row < simplex.rows() && rows.size() < rows_.size() + mostCuts; ++row)
        if (std::optional<Row> cut = simplex.cutAt(row, whole_)) {
            next.basis.push_back(slackOf(rows.size()));
            rows.push_back(*std::move(cut));
        }
    return next;
}

double SmallMilp::search(double enough, const SearchLimit& limit, const Visit& visit) const
{
    Tight tight{*this, {}};
    Simplex simplex(*this);
    tight.basis = simplex.start();
    Simplex::End end = simplex.solve(tight.basis, enough);
    double gained = 0;
    for (int round = 0; round < mostCutRounds && end == Simplex::End::solved && !limit.reached(); ++round) {
        Tight next = withCuts(tight.programme, simplex);
        Simplex cut(next.programme);
        end = cut.solve(next.basis, enough);
        // Cuts that are all but parallel to others would make the basis singular.
        const double gain = cut.cost() - simplex.cost();
        if (end == Simplex::End::failed || gain < leastRoundGain * gained)
            break;
        gained += gain;
        next.basis = cut.basis();
        tight = std::move(next);
        simplex = std::move(cut);
    }
    return Tree(std::move(simplex), whole_, std::move(tight.basis)).search(enough, limit, visit);
}

} // namespace headroom
