// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_problem.h"
#include "core/plan/small_milp.h"
#include "core/policy/chain_search.h"

#include <boost/container_hash/hash.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace headroom {

namespace {

constexpr double leastPrice = 1e-7; ///< of a constraint
constexpr double equalShare = 1e-3; ///< columns are equal up to this share of the time that a bound may gain
constexpr double leastExceeded = 0.02; ///< of a constraint that is added: of the time that a bound may gain, or units
constexpr double termTolerance = 1e-7; ///< of values
constexpr std::size_t mostRows = 64; ///< more take too long
constexpr std::size_t mostPlans = 40; ///< tried
constexpr std::size_t mostCompared = 200; ///< columns of the same parts
constexpr double nsPerTerm = 30; ///< work of a term of a column
constexpr double nsPerColumnPair = 4; ///< work of a pair of columns

} // namespace

/// The groups of parts, and the programme of the counts.
class CountSearch::Groups
{
public:
    Groups(const RelaxedChain& chain, double enoughMs, const SearchLimit& limit)
        : problem_(chain.problem)
        , copies_(chain.copies)
        , costs_(chain.costs)
        , arcs_(chain.problem.arcs())
        , positions_(chain.problem.positions())
        , budget_(chain.budget)
        , unit_(static_cast<double>(chain.budget) / budgetUnits)
        , gainMs_(enoughMs - chain.costs.boundMs)
        , equalMs_(gainMs_ * equalShare)
    {
        findGroups();
        addCopyRows();
        for (const auto& [event, price] : costs_.memory)
            if (price * unit_ > leastPrice)
                addMemoryRow(event);
        if (copies_.host > 0)
            rows_.push_back({Row::Kind::host, 0, 0, static_cast<double>(copies_.host) / unit_});
        findColumns(limit);
    }

    std::size_t rows() const { return sizes_.size() + rows_.size(); }

    /// Adds the constraints that a plan exceeds most, for the next findColumns().
    void addExceeded(const OptionShares& plan)
    {
        for (const std::size_t direction : {0, 1})
            addExceededCopies(direction, plan);
        const PlanMemory memory(problem_, RowProblem::Memory::atLeast, plan);
        const std::uint32_t event = memory.highestEvent();
        if (static_cast<double>(memory.highest() - budget_) > leastExceeded * unit_
            && std::ranges::find(memory_, event, &RowProblem::Row::event) == memory_.end())
            addMemoryRow(event);
    }

    /// The columns of the rows so far.
    void findColumns(const SearchLimit& limit)
    {
        columns_.clear();
        numbers_.clear();
        for (std::size_t arc = 0; arc < arcs_.size() && !limit.reached(); ++arc)
            for (std::size_t option = 0; option < problem_.optionCount(arc); ++option)
                if (costs_.options[arc][option] < gainMs_)
                    add({arc, option});
        leaveOutWorse();
    }

    SmallMilp programme() const
    {
        // Columns after the counts, for each direction: exposed copies beside idle time, and exposed copies.
        const std::size_t beside = columns_.size(), exposed = beside + 2;
        SmallMilp programme(exposed + 2, columns_.size());
        for (std::size_t number = 0; number < columns_.size(); ++number)
            programme.setColumn(number, columns_[number].terms.front(),
                                static_cast<double>(columns_[number].options.size()));
        for (const std::size_t direction : {0, 1}) {
            programme.setColumn(beside + direction, 0, SmallMilp::unlimited);
            programme.setColumn(exposed + direction, 1, SmallMilp::unlimited);
        }
        const auto termsOf = [&](std::size_t row) {
            std::vector<double> terms(exposed + 2, 0);
            for (std::size_t number = 0; number < columns_.size(); ++number)
                terms[number] = columns_[number].terms[1 + row];
            return terms;
        };
        for (std::size_t group = 0; group < sizes_.size(); ++group)
            programme.addSum(termsOf(group), sizes_[group]);
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const Row& own = rows_[row];
            std::vector<double> terms = termsOf(sizes_.size() + row);
            if (own.kind == Row::Kind::copies || own.kind == Row::Kind::late)
                terms[beside + own.direction] = -1;
            if (own.kind == Row::Kind::idle) {
                terms[beside + own.direction] = 1;
                terms[exposed + own.direction] = -1;
            }
            programme.addLimit(std::move(terms), own.most);
        }
        return programme;
    }

    /// A plan with these counts; nullopt: the parts overlap. Parts that move more come first, as first copies have most
    /// time. Recomputation comes late, and gives the copies back of the parts before more time.
    std::optional<OptionShares> planOf(const std::vector<double>& counts) const
    {
        std::vector<std::size_t> order;
        for (std::size_t number = 0; number < columns_.size(); ++number)
            if (counts[number] > 0)
                order.push_back(number);
        std::ranges::sort(order, {}, [&](std::size_t number) {
            const ArcOption& option = columns_[number].options.front();
            const PartArcs::Arc& arc = arcs_[option.arc];
            const OptionCopies times = copies_.timesOf(problem_, option);
            return std::tuple(arc.first - arc.last, columns_[number].options.size(), -times.out, times.again);
        });
        std::vector<const ArcOption*> beginning(positions_, nullptr); // by position: the option that begins there
        std::vector<bool> covered(positions_, false);
        for (const std::size_t number : order) {
            double left = counts[number];
            for (const ArcOption& option : columns_[number].options) {
                const PartArcs::Arc& arc = arcs_[option.arc];
                const auto first = covered.begin() + arc.first, last = covered.begin() + arc.last;
                if (left < 0.5 || std::find(first, last, true) != last)
                    continue;
                left -= 1;
                std::fill(first, last, true);
                beginning[at(arc.first)] = &option;
            }
        }
        if (std::ranges::find(covered, false) != covered.end())
            return std::nullopt;
        OptionShares plan;
        for (const ArcOption* option : beginning)
            if (option)
                plan.emplace_back(*option, 1.0);
        return plan;
    }

private:
    /// A constraint.
    struct Row
    {
        enum class Kind {
            copies, ///< of the parts from `number` on
            late, ///< the same, from number + 1 on, with what the part at `number` cannot hide
            idle,
            memory, ///< `number` in memory_
            host
        };
        Kind kind = Kind::copies;
        std::size_t direction = 0;
        std::size_t number = 0;
        double most = 0;
    };
    /// Options that are alike, of as many arcs.
    struct Column
    {
        std::vector<double> terms; ///< cost, then by row; at most the terms of each option
        std::vector<ArcOption> options; ///< in the order of the chain
    };

    /// Positions that the relaxation pays alike.
    void findGroups()
    {
        std::map<std::array<long, 3>, std::size_t> known;
        for (std::size_t position = 0; position < positions_; ++position) {
            const std::array<long, 3> paid{std::lround(costs_.cover[position] / equalMs_),
                                           std::lround(costs_.idle[0][position] / leastPrice),
                                           std::lround(costs_.idle[1][position] / leastPrice)};
            const auto [group, isNew] = known.emplace(paid, sizes_.size());
            if (isNew)
                sizes_.push_back(0);
            groupOf_.push_back(group->second);
            ++sizes_[group->second];
        }
    }

    void addMemoryRow(std::uint32_t event)
    {
        const RowProblem::Row row = problem_.rowAt(event, RowProblem::Memory::atLeast, budget_);
        rows_.push_back({Row::Kind::memory, 0, memory_.size(), static_cast<double>(row.most - row.bytes) / unit_});
        memory_.push_back(row);
    }

    /// The rows of copies that have a price.
    void addCopyRows()
    {
        for (const std::size_t direction : {0, 1}) {
            const std::vector<double>& late = costs_.late[direction];
            double price = 0;
            forEachCopyRow(direction, [&](const Row& row) {
                const double own
                    = row.kind == Row::Kind::copies ? costs_.idle[direction][row.number] - price : late[row.number];
                if (own > leastPrice)
                    addCopyRow(row);
                if (row.kind == Row::Kind::late)
                    price = costs_.idle[direction][row.number] + late[row.number];
            });
        }
    }

    /// All rows of copies of a direction.
    template <class Visit>
    void forEachCopyRow(std::size_t direction, const Visit& visit) const
    {
        const std::vector<double>& ms = direction == 0 ? copies_.forwardMs : copies_.backwardMs;
        double left = std::accumulate(ms.begin(), ms.end(), 0.0);
        for (std::size_t position = 0; position < positions_; ++position) {
            visit({Row::Kind::copies, direction, position, left});
            left -= ms[position];
            visit({Row::Kind::late, direction, position, left});
        }
    }

    void addCopyRow(const Row& row)
    {
        const auto isIdle
            = [&](const Row& own) { return own.kind == Row::Kind::idle && own.direction == row.direction; };
        if (std::ranges::none_of(rows_, isIdle))
            rows_.push_back({Row::Kind::idle, row.direction, 0, 0});
        rows_.push_back(row);
    }

    /// Adds of each kind the row of copies that a plan exceeds most, if the plan exceeds all of rows_ less.
    void addExceededCopies(std::size_t direction, const OptionShares& plan)
    {
        std::vector<OptionCopies> times;
        for (const auto& [option, share] : plan)
            times.push_back(copies_.timesOf(problem_, option));
        const auto excessOf = [&](const Row& row) {
            double ms = -row.most;
            for (std::size_t part = 0; part < plan.size(); ++part)
                ms += termOf(row, plan[part].first, times[part]);
            return ms;
        };
        double known = 0;
        for (const Row& row : rows_)
            if (row.direction == direction && (row.kind == Row::Kind::copies || row.kind == Row::Kind::late))
                known = std::max(known, excessOf(row));
        for (const auto kind : {Row::Kind::copies, Row::Kind::late}) {
            std::optional<Row> most;
            double mostMs = known + leastExceeded * gainMs_;
            forEachCopyRow(direction, [&](const Row& row) {
                if (const double ms = row.kind == kind ? excessOf(row) : 0; ms > mostMs) {
                    mostMs = ms;
                    most = row;
                }
            });
            if (most)
                addCopyRow(*most);
        }
        SearchLimit::count(static_cast<double>(4 * positions_ * plan.size()), nsPerTerm);
    }

    double termOf(const Row& row, const ArcOption& option, const OptionCopies& times) const
    {
        const PartArcs::Arc& arc = arcs_[option.arc];
        const bool isOut = row.direction == 0;
        const auto from = [&](std::size_t position) { // copies of the parts from a position on
            const double own = at(arc.first) >= position ? isOut ? times.out : times.in : 0;
            return own - (at(arc.last) > position ? isOut ? times.moreOut : times.again + times.moreIn : 0);
        };
        switch (row.kind) {
        case Row::Kind::copies:
            return from(row.number);
        case Row::Kind::late:
            return from(row.number + 1) + (at(arc.last) == row.number + 1 ? isOut ? times.tail : times.lead : 0);
        case Row::Kind::idle:
            return isOut ? -times.idleOut : -times.idleIn;
        case Row::Kind::memory:
            return static_cast<double>(problem_.changeIn(memory_[row.number], option)) / unit_;
        case Row::Kind::host:
            return static_cast<double>(problem_.effectOf(option).pinned) / unit_;
        }
        return 0;
    }

    void add(const ArcOption& option)
    {
        const auto rounded = [&](double ms) { return std::floor(ms / equalMs_ + termTolerance) * equalMs_; }; // down
        SearchLimit::count(static_cast<double>(rows()), nsPerTerm);
        const OptionCopies times = copies_.timesOf(problem_, option);
        std::vector<double> terms(1 + rows(), 0);
        terms.front() = rounded(problem_.effectOf(option).recomputeMs);
        for (int position = arcs_[option.arc].first; position < arcs_[option.arc].last; ++position)
            terms[1 + groupOf_[at(position)]] += 1;
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const double term = termOf(rows_[row], option, times);
            const bool isTime = rows_[row].kind != Row::Kind::memory && rows_[row].kind != Row::Kind::host;
            terms[1 + sizes_.size() + row] = isTime ? rounded(term) : term;
        }
        const auto [known, isNew] = numbers_.emplace(std::move(terms), columns_.size());
        if (isNew)
            columns_.push_back({known->first, {}});
        columns_[known->second].options.push_back(option);
    }

    /// No solution needs a column that takes no less than another column of the same arcs, or of more.
    void leaveOutWorse()
    {
        std::ranges::sort(columns_, {}, &Column::terms);
        const auto groups = static_cast<std::ptrdiff_t>(1 + sizes_.size());
        std::map<std::vector<double>, std::vector<std::size_t>> known; // by parts: columns
        std::vector<Column> kept;
        for (Column& own : columns_) {
            std::vector<std::size_t>& alike = known[{own.terms.begin() + 1, own.terms.begin() + groups}];
            const auto isBetter = [&](std::size_t number) {
                const Column& by = kept[number];
                return std::equal(own.terms.begin() + groups, own.terms.end(), by.terms.begin() + groups,
                                  std::greater_equal())
                    && std::ranges::includes(by.options, own.options, {}, &ArcOption::arc, &ArcOption::arc);
            };
            const auto compared = std::span(alike).first(std::min(alike.size(), mostCompared));
            SearchLimit::count(static_cast<double>(compared.size()), nsPerColumnPair);
            if (std::ranges::any_of(compared, isBetter))
                continue;
            alike.push_back(kept.size());
            kept.push_back(std::move(own));
        }
        columns_ = std::move(kept);
    }

    const RowProblem& problem_;
    const CopyLimits& copies_;
    const ReducedCosts& costs_;
    const std::vector<PartArcs::Arc>& arcs_;
    std::size_t positions_;
    Bytes budget_;
    double unit_; ///< bytes
    double gainMs_; ///< by which the bound may exceed the relaxation's
    double equalMs_;
    std::vector<std::size_t> groupOf_; ///< by position
    std::vector<double> sizes_; ///< by group: positions
    std::vector<Row> rows_; ///< after the groups' rows
    std::vector<RowProblem::Row> memory_;
    struct Hash
    {
        std::size_t operator()(const std::vector<double>& terms) const
        {
            return boost::hash_range(terms.begin(), terms.end());
        }
    };
    std::unordered_map<std::vector<double>, std::size_t, Hash> numbers_; ///< of columns, by Column::terms
    std::vector<Column> columns_;
};

double CountSearch::boundBelow(double enoughMs, const SearchLimit& limit, const Try& tryPlan) const
{
    if (enoughMs <= chain_.costs.boundMs)
        return enoughMs;
    Groups groups(chain_, enoughMs, limit);
    double boundMs = chain_.costs.boundMs;
    std::size_t tried = 0;
    for (bool isMore = true; isMore && groups.rows() <= mostRows && !limit.reached();) {
        const std::size_t rows = groups.rows();
        const auto visit = [&](const std::vector<double>& counts) {
            std::optional<OptionShares> plan = groups.planOf(counts);
            if (plan)
                groups.addExceeded(*plan);
            return plan && tried++ < mostPlans ? enoughMs = tryPlan(*std::move(plan)) : enoughMs;
        };
        boundMs = std::max(boundMs, groups.programme().search(enoughMs, limit, visit));
        isMore = groups.rows() > rows && boundMs < enoughMs;
        if (isMore)
            groups.findColumns(limit);
    }
    return std::min(boundMs, enoughMs);
}

} // namespace headroom
