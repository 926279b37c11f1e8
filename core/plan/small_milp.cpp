// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/small_milp.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

namespace headroom {

namespace {

constexpr double wholeTolerance = 1e-7; ///< of values
constexpr double leastDifference = 1e-9; ///< of terms
constexpr double columnsTried = 20'000; ///< of all sums whose growth is computed for a node
constexpr std::size_t mostTried = 10; ///< such sums
constexpr std::size_t columnsOfNode = 150; ///< as much work has a node without columns
constexpr double nsPerNodeColumn = 40; ///< work of a node, beside the solution
constexpr std::size_t mostStored = 50'000'000; ///< columns of open nodes: 200 MB

} // namespace

/// The search tree.
class SmallMilp::Tree
{
public:
    Tree(const SmallMilp& programme)
        : all_(programme.costs_, programme.most_, programme.rows_)
        , whole_(programme.whole_)
    {
        for (std::size_t row = 0; row < programme.rows_.size(); ++row)
            if (isSumOfWhole(programme.rows_[row]))
                sums_.push_back(row);
        auto root = std::make_shared<Rest>();
        root->basis = all_.start();
        root->columns.resize(stored_ = all_.slack());
        std::iota(root->columns.begin(), root->columns.end(), 0U);
        open_.push({-unlimited, addNode({noNode, {}, 0, false, std::move(root)})});
    }

    double search(double enough, const SearchLimit& limit, const Visit& visit)
    {
        enough_ = enough;
        while (!open_.empty() && open_.top().first < std::min(enough_, found_)) {
            std::size_t next = open_.top().second;
            open_.pop();
            while (next != noNode) { // down to a solution, or until there is none
                if (limit.reached() || stored_ > mostStored) {
                    open_.push({nodes_[next].cost, next});
                    return bound();
                }
                next = expand(next, visit);
            }
        }
        return bound();
    }

private:
    using Columns = SmallSimplex::Columns;
    static constexpr std::size_t noNode = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t noRow = noNode;

    /// A whole number: a column, or the sum of a row's terms of the columns with more than `above`.
    struct Whole
    {
        std::size_t column = 0;
        std::size_t row = noRow; ///< noRow: a column
        std::size_t by = 0; ///< row of the terms that are compared; number of rows: costs
        double above = 0;
    };
    /// What is left of the programme below a solved node.
    struct Rest
    {
        SmallSimplex::Basis basis;
        Columns columns; ///< ascending; all others are 0
        Columns closed; ///< ascending; of `columns`, at most 0
    };
    /// A node bounds a whole number, beside what the nodes above bound.
    struct Node
    {
        std::size_t parent = noNode;
        Whole whole;
        double bound = 0;
        bool isLeast = false; ///< a lower bound; else an upper bound
        std::shared_ptr<const Rest> rest; ///< of the parent, until the node is solved
        double cost = -unlimited; ///< lower bound
    };
    struct Branch
    {
        Whole whole;
        double value = 0;
        double down = 0, up = 0; ///< lower bounds of the cost
    };
    /// The programme of a node.
    struct Local
    {
        Columns columns, closed;
        SmallSimplex simplex;

        bool isClosed(std::uint32_t column) const { return std::ranges::binary_search(closed, column); }
    };

    double bound() const { return std::min({open_.empty() ? unlimited : open_.top().first, found_, enough_}); }

    bool isSumOfWhole(const LinearRow& row) const
    {
        bool isWhole = !row.isLimit && row.sum == std::round(row.sum);
        for (std::size_t column = 0; isWhole && column < row.terms.size(); ++column) {
            const double term = row.terms[column];
            isWhole = term == 0 || (column < whole_ && term > 0 && term == std::round(term));
        }
        return isWhole;
    }

    std::size_t addNode(Node node)
    {
        nodes_.push_back(std::move(node));
        return nodes_.size() - 1;
    }

    double termOf(std::size_t by, std::uint32_t column) const
    {
        return by == all_.rows() ? all_.costAt(column) : all_.termAt(by, column);
    }
    bool isIn(const Whole& sum, std::uint32_t column) const { return termOf(sum.by, column) > sum.above; }

    std::vector<double> termsOf(const Whole& sum, const Columns& columns) const
    {
        std::vector<double> terms;
        for (const std::uint32_t column : columns)
            terms.push_back(isIn(sum, column) ? all_.termAt(sum.row, column) : 0);
        return terms;
    }

    bool isSum(const Node& node) const { return node.parent != noNode && node.whole.row != noRow; }
    /// Whether the bound of a node's sum leaves only 0 for columns.
    bool closes(const Node& node) const
    {
        return isSum(node) && node.bound == (node.isLeast ? all_.sumAt(node.whole.row) : 0);
    }

    /// nullopt: the bounds leave nothing.
    std::optional<Local> localOf(std::size_t node, const Rest& rest) const
    {
        SmallSimplex::Basis basis = rest.basis;
        std::ranges::sort(basis);
        SearchLimit::count(static_cast<double>(rest.columns.size() + columnsOfNode), nsPerNodeColumn);
        Columns columns, closed;
        const bool closesSome = closes(nodes_[node]);
        const Whole& whole = nodes_[node].whole;
        for (const std::uint32_t column : rest.columns) {
            const bool isOut
                = closesSome && all_.termAt(whole.row, column) != 0 && isIn(whole, column) != nodes_[node].isLeast;
            const bool isBasic = isOut && std::ranges::binary_search(basis, column); // leaves with the first pivots
            if (isOut && !isBasic)
                continue;
            columns.push_back(column);
            if (isBasic || std::ranges::binary_search(rest.closed, column))
                closed.push_back(column);
        }
        SmallSimplex simplex(all_, columns, boundsOfSums(node, columns));
        for (const std::uint32_t column : closed)
            simplex.most()[numberOf(columns, column)] = 0;
        if (!boundColumns(node, columns, simplex))
            return std::nullopt;
        return Local{std::move(columns), std::move(closed), std::move(simplex)};
    }

    /// Rows for the sums that the node and the nodes above bound, the latter first.
    std::vector<LinearRow> boundsOfSums(std::size_t node, const Columns& columns) const
    {
        std::vector<LinearRow> rows;
        for (; node != noNode; node = nodes_[node].parent) {
            const Node& own = nodes_[node];
            if (!isSum(own) || closes(own))
                continue;
            LinearRow& row = rows.emplace_back(LinearRow{termsOf(own.whole, columns), own.bound, true});
            if (own.isLeast) {
                row.sum = -row.sum;
                for (double& term : row.terms)
                    term = -term;
            }
        }
        std::ranges::reverse(rows);
        return rows;
    }

    static std::size_t numberOf(const Columns& columns, std::uint32_t column)
    {
        const auto found = std::ranges::lower_bound(columns, column);
        return found != columns.end() && *found == column ? static_cast<std::size_t>(found - columns.begin()) : noNode;
    }

    /// Bounds the columns that the node and the nodes above bound. Returns false if no value is left for a column.
    bool boundColumns(std::size_t node, const Columns& columns, SmallSimplex& simplex) const
    {
        for (; node != noNode; node = nodes_[node].parent) {
            const Node& own = nodes_[node];
            if (own.parent == noNode || isSum(own))
                continue;
            const std::size_t number = numberOf(columns, static_cast<std::uint32_t>(own.whole.column));
            if (number == noNode && own.isLeast)
                return false;
            if (number == noNode)
                continue;
            double& least = simplex.least()[number];
            double& most = simplex.most()[number];
            (own.isLeast ? least : most) = own.isLeast ? std::max(least, own.bound) : std::min(most, own.bound);
            if (least > most)
                return false;
        }
        return true;
    }

    /// The parent's basis in the numbers of a node's programme. The node's own row, if any, begins with the slack.
    SmallSimplex::Basis localBasis(const Rest& rest, const Local& local) const
    {
        SmallSimplex::Basis basis;
        for (const std::uint32_t column : rest.basis)
            basis.push_back(static_cast<std::uint32_t>(column < all_.slack()
                                                           ? numberOf(local.columns, column)
                                                           : column - all_.slack() + local.simplex.slack()));
        while (basis.size() < local.simplex.rows())
            basis.push_back(static_cast<std::uint32_t>(local.simplex.slack() + basis.size()));
        return basis;
    }

    /// What better solutions may need.
    Rest restOf(const Local& local) const
    {
        const SmallSimplex& simplex = local.simplex;
        Rest left;
        for (const std::uint32_t column : simplex.basis())
            left.basis.push_back(column < simplex.slack()
                                     ? local.columns[column]
                                     : static_cast<std::uint32_t>(column - simplex.slack() + all_.slack()));
        for (std::size_t number = 0; number < local.columns.size(); ++number)
            if (const std::uint32_t column = local.columns[number];
                column >= whole_ || simplex.matters(number, enough_)) {
                left.columns.push_back(column);
                if (local.isClosed(column))
                    left.closed.push_back(column);
            }
        return left;
    }

    /// Solves a node. Returns the child to go on with; noNode: there is none.
    std::size_t expand(std::size_t node, const Visit& visit)
    {
        const std::shared_ptr<const Rest> rest = std::move(nodes_[node].rest);
        if (rest.use_count() == 1)
            stored_ -= rest->columns.size();
        std::optional<Local> local = localOf(node, *rest);
        if (!local)
            return noNode;
        SmallSimplex& simplex = local->simplex;
        SmallSimplex::End end = simplex.solve(localBasis(*rest, *local), enough_);
        if (end == SmallSimplex::End::failed)
            end = simplex.solve(simplex.start(), enough_);
        if (end == SmallSimplex::End::failed) {
            found_ = std::min(found_, nodes_[node].cost); // the bound remains
            return noNode;
        }
        const double cost = std::max(simplex.cost(), nodes_[node].cost);
        if (end == SmallSimplex::End::empty || cost >= enough_)
            return noNode;
        const std::vector<double> values = simplex.values();
        const std::optional<Branch> branch = bestBranch(*local, values, cost);
        if (!branch) {
            found_ = std::min(found_, cost);
            enough_ = std::min(enough_, visit(wholeValues(local->columns, values)));
            return noNode;
        }
        const auto left = std::make_shared<const Rest>(restOf(*local));
        const double below = std::floor(branch->value);
        std::size_t next = noNode;
        for (const bool isLeast : {branch->down > branch->up, branch->down <= branch->up}) {
            const double least = isLeast ? branch->up : branch->down;
            if (least >= enough_)
                continue;
            const std::size_t child = addNode({node, branch->whole, isLeast ? below + 1 : below, isLeast, left, least});
            if (next == noNode)
                next = child;
            else
                open_.push({least, child});
        }
        if (next != noNode)
            stored_ += left->columns.size();
        return next;
    }

    /// The whole number that has a part, and raises the bounds of both sides most; nullopt: there is none.
    std::optional<Branch> bestBranch(Local& local, const std::vector<double>& values, double cost) const
    {
        std::optional<Branch> best;
        const auto key = [](const Branch& branch) { return std::minmax(branch.down, branch.up); };
        const auto take = [&](Branch own, const std::vector<double>& terms) {
            const auto [down, up] = local.simplex.growthOf(terms, own.value - std::floor(own.value));
            own.down = cost + down;
            own.up = cost + up;
            if (!best || key(own) > key(*best))
                best = own;
        };
        for (const Branch& own : sumsWithPart(local, values))
            take(own, termsOf(own.whole, local.columns));
        if (best)
            return best;
        std::vector<double> terms(local.columns.size(), 0);
        for (std::size_t number = 0; number < local.columns.size(); ++number)
            if (const std::uint32_t column = local.columns[number]; column < whole_ && hasPart(values[number])) {
                terms[number] = 1;
                take({{column}, values[number]}, terms);
                terms[number] = 0;
            }
        return best;
    }

    static bool hasPart(double value) { return std::abs(value - std::round(value)) > wholeTolerance; }

    /// Of the sums of rows those between columns that differ most, by the rows' prices.
    std::vector<Branch> sumsWithPart(const Local& local, const std::vector<double>& values) const
    {
        using Used = std::vector<std::pair<std::uint32_t, double>>; // columns, and the values
        Used all;
        for (std::size_t number = 0; number < local.columns.size(); ++number)
            if (local.columns[number] < whole_ && values[number] > wholeTolerance)
                all.emplace_back(local.columns[number], values[number]);
        std::vector<std::pair<double, Branch>> found; // with the difference
        for (const std::size_t row : sums_) {
            Used used; // with what the columns take of the sum
            for (const auto& [column, value] : all)
                if (const double term = all_.termAt(row, column); term != 0)
                    used.emplace_back(column, term * value);
            for (std::size_t by = 0; used.size() > 1 && by <= all_.rows(); ++by) {
                const double price = by == all_.rows() ? 1 : std::abs(local.simplex.priceOf(by));
                if (price < leastDifference)
                    continue;
                std::ranges::sort(used, {}, [&](const auto& own) { return termOf(by, own.first); });
                addSums({0, row, by, 0}, price, used, found);
            }
        }
        const std::size_t tried = std::clamp(
            static_cast<std::size_t>(columnsTried / static_cast<double>(values.size() + 1)), std::size_t{1}, mostTried);
        const auto kept = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), tried));
        std::ranges::partial_sort(found, kept, std::greater<>(), [](const auto& own) { return own.first; });
        std::vector<Branch> sums;
        for (auto own = found.begin(); own != kept; ++own)
            sums.push_back(own->second);
        return sums;
    }

    /// `used`: columns and their parts of the sum, ascending by the terms that are compared.
    void addSums(Whole sum, double price, const std::vector<std::pair<std::uint32_t, double>>& used,
                 std::vector<std::pair<double, Branch>>& found) const
    {
        double above = 0, aboveTerms = 0, below = 0, belowTerms = 0; // of the columns
        for (const auto& [column, value] : used) {
            above += value;
            aboveTerms += value * termOf(sum.by, column);
        }
        for (std::size_t i = 0; i + 1 < used.size(); ++i) {
            const auto& [column, value] = used[i];
            const double term = termOf(sum.by, column), next = termOf(sum.by, used[i + 1].first);
            above -= value;
            aboveTerms -= value * term;
            below += value;
            belowTerms += value * term;
            if (next - term < leastDifference || !hasPart(above))
                continue;
            const double part = above - std::floor(above);
            sum.above = (term + next) / 2;
            found.emplace_back(price * part * (1 - part) * (aboveTerms / above - belowTerms / below),
                               Branch{sum, above});
        }
    }

    std::vector<double> wholeValues(const Columns& columns, const std::vector<double>& values) const
    {
        std::vector<double> whole(whole_, 0);
        for (std::size_t number = 0; number < columns.size(); ++number)
            if (columns[number] < whole_)
                whole[columns[number]] = std::round(values[number]);
        return whole;
    }

    SmallSimplex all_;
    std::size_t whole_;
    std::vector<std::size_t> sums_; ///< rows that are sums of whole columns
    double enough_ = 0;
    double found_ = unlimited; ///< least cost of a solution, or bound of a node that failed
    std::vector<Node> nodes_;
    std::size_t stored_ = 0; ///< columns of all Rest objects that open nodes have
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

double SmallMilp::search(double enough, const SearchLimit& limit, const Visit& visit) const
{
    return Tree(*this).search(enough, limit, visit);
}

} // namespace headroom
