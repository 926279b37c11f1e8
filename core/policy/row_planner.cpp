// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/row_planner.h"

#include "core/plan/glpk_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

namespace headroom {

namespace {

constexpr int rowWindows = 64; ///< stretches of events, each of which has at most one new row a time
constexpr std::size_t newColumns = 3; ///< ways of one arc that are added at a time
constexpr std::size_t mostColumns = 20000; ///< problems with more ways are not searched for a proof
constexpr double budgetUnits = 1000; ///< the budget in the unit of the rows
constexpr double rowTolerance = 1e-3; ///< of a row in the linear relaxation, in these units
constexpr double costTolerance = 1e-6; ///< ms
constexpr double leastGap = 0.002; ///< of the search for the plan of least peak
constexpr double excessTimes = 1e4; ///< cost of one unit beyond the budget, in times of the slowest plan

/// One search, at one budget.
class RowSearch
{
public:
    /// Memory beyond the budget is avoided first, but allowed up to `most`.
    RowSearch(const RowProblem& problem, Bytes budget, Bytes most, RowProblem::Memory memory, double gap,
              const SearchLimit& limit)
        : problem_(problem)
        , memory_(memory)
        , budget_(budget)
        , bytesPerUnit_(static_cast<double>(std::max<Bytes>(most, 1)) / budgetUnits)
        , mostBeyond_(static_cast<double>(most - budget) / bytesPerUnit_)
        , gap_(gap)
        , limit_(limit)
    {
        double slowestMs = 1;
        for (std::size_t arc = 0; arc < problem.arcs().size(); ++arc) {
            std::vector<bool>& ways = ways_.emplace_back(problem.waysOf(arc), false);
            if (ways.empty())
                continue;
            ways.front() = ways.back() = true;
            slowestMs += std::ranges::max(std::views::iota(std::size_t{0}, ways.size())
                                          | std::views::transform([&](std::size_t way) {
                                                return problem.effectOf({arc, way}).recomputeMs;
                                            }));
        }
        beyondMs_ = excessTimes * slowestMs;
    }

    RowAnswer run()
    {
        RowAnswer answer;
        if (!relax()) {
            answer.boundMs = outOfBudget_ ? std::numeric_limits<double>::infinity() : 0;
            return answer;
        }
        answer.boundMs = relaxedMs_;
        const auto rowDuals = duals_.begin() + static_cast<std::ptrdiff_t>(problem_.positions());
        answer.msPerGiB = -std::accumulate(rowDuals, duals_.end(), 0.0) * static_cast<double>(GiB) / bytesPerUnit_;
        search(answer);
        if (answer.plan && addWaysUpTo(bestMs_))
            search(answer);
        if (answer.plan && hasAllWays_)
            answer.boundMs = std::max(answer.boundMs, std::min(boundMs_, bestMs_));
        return answer;
    }

private:
    using Row = RowProblem::Row;
    using Component = RowProblem::Component;

    /// Adds rows for events at which the shares exceed the budget by more than `beyond` units. Returns whether there
    /// are any.
    bool addRows(const WayShares& shares, double beyond)
    {
        const std::vector<double> memory = problem_.memoryUnder(shares, memory_);
        const double most = static_cast<double>(budget_) + beyond * bytesPerUnit_ + 0.5; // bytes are whole
        const std::size_t width = memory.size() / rowWindows + 1;
        const std::size_t known = rows_.size();
        for (std::size_t begin = 0; begin < memory.size(); begin += width) {
            const auto end = memory.begin() + static_cast<std::ptrdiff_t>(std::min(begin + width, memory.size()));
            const auto highest = std::max_element(memory.begin() + static_cast<std::ptrdiff_t>(begin), end);
            if (*highest <= most)
                continue;
            const auto event = static_cast<std::uint32_t>(highest - memory.begin());
            const auto passed = std::ranges::find(rows_ | std::views::reverse, event, &Row::event);
            // A row that the solution passed by the solver's tolerance becomes tighter.
            const Bytes limit
                = passed == rows_.rend() ? budget_ : passed->most - static_cast<Bytes>(std::ceil(*highest - most));
            rows_.push_back(problem_.rowAt(event, memory_, limit));
        }
        return rows_.size() > known;
    }

    /// Column 0 is the memory beyond the budget.
    void addTo(GlpkProblem& programme, const Row& row, const std::vector<ArcWay>& columns) const
    {
        std::vector<GlpkProblem::Term> terms{{0, -1}};
        for (std::size_t i = 0; i < columns.size(); ++i)
            if (const Bytes change = problem_.changeIn(row, columns[i]); change != 0)
                terms.push_back({static_cast<int>(i) + 1, static_cast<double>(change) / bytesPerUnit_});
        programme.addRow(terms, -GlpkProblem::infinity, static_cast<double>(row.most - row.bytes) / bytesPerUnit_);
    }

    Component everything() const
    {
        Component all{std::vector<std::size_t>(ways_.size()), std::vector<std::size_t>(rows_.size())};
        std::iota(all.arcs.begin(), all.arcs.end(), std::size_t{0});
        std::iota(all.rows.begin(), all.rows.end(), std::size_t{0});
        return all;
    }

    /// Sets up the programme of a component with the ways so far. Each position is covered by one way of one arc.
    std::vector<ArcWay> setUp(GlpkProblem& programme, const Component& component, bool integer) const
    {
        programme.addColumn(0, integer ? mostBeyond_ : GlpkProblem::infinity, beyondMs_);
        std::vector<ArcWay> columns;
        std::map<int, std::vector<GlpkProblem::Term>> covers; // by position
        for (const std::size_t arc : component.arcs) {
            const auto covered = std::views::iota(problem_.arcs()[arc].first, problem_.arcs()[arc].last);
            for (const int position : covered)
                covers[position];
            for (std::size_t way = 0; way < ways_[arc].size(); ++way) {
                if (!ways_[arc][way])
                    continue;
                const int number = programme.addColumn(0, integer ? 1 : GlpkProblem::infinity,
                                                       problem_.effectOf({arc, way}).recomputeMs, integer);
                for (const int position : covered)
                    covers[position].push_back({number, 1});
                columns.push_back({arc, way});
            }
        }
        for (const auto& [position, cover] : covers)
            programme.addRow(cover, 1, 1);
        for (const std::size_t row : component.rows)
            addTo(programme, rows_[row], columns);
        return columns;
    }

    static WayShares sharesIn(const std::vector<double>& values, const std::vector<ArcWay>& columns)
    {
        WayShares shares;
        for (std::size_t i = 0; i < columns.size(); ++i)
            if (values[i + 1] > 0)
                shares.emplace_back(columns[i], values[i + 1]);
        return shares;
    }

    /// Solves the linear relaxation over all events and ways. Returns false if no solution fits, or time is up.
    bool relax()
    {
        while (!limit_.reached()) {
            GlpkProblem programme;
            const std::vector<ArcWay> columns = setUp(programme, everything(), false);
            LinearResult result;
            for (bool more = true; more;) {
                result = programme.relax(std::max(limit_.remainingMs(), 1.0));
                if (result.status != MilpStatus::optimal || limit_.reached())
                    return false;
                const std::size_t known = rows_.size();
                more = addRows(sharesIn(result.values, columns), result.values.front() + rowTolerance);
                for (std::size_t row = known; row < rows_.size(); ++row)
                    addTo(programme, rows_[row], columns);
            }
            duals_ = result.duals;
            relaxedMs_ = result.objective;
            if (!addCheaperWays()) {
                outOfBudget_ = result.values.front() > mostBeyond_ * (1 - gap_) + rowTolerance;
                return !outOfBudget_;
            }
        }
        return false;
    }

    /// The ms by which a way costs more than the relaxation's duals pay for it.
    double reducedCost(const ArcWay& way) const
    {
        const PartArcs::Arc& arc = problem_.arcs()[way.arc];
        double cost = problem_.effectOf(way).recomputeMs;
        cost -= std::accumulate(duals_.begin() + arc.first, duals_.begin() + arc.last, 0.0);
        for (std::size_t row = 0; problem_.positions() + row < duals_.size(); ++row) // rows of the relaxation
            if (const double dual = duals_[problem_.positions() + row]; dual != 0)
                cost -= dual * static_cast<double>(problem_.changeIn(rows_[row], way)) / bytesPerUnit_;
        return cost;
    }

    /// Adds ways that would make the relaxation cheaper. Returns whether there are any.
    bool addCheaperWays()
    {
        bool any = false;
        for (std::size_t arc = 0; arc < ways_.size(); ++arc) {
            std::vector<std::pair<double, std::size_t>> cheaper;
            for (std::size_t way = 0; way < ways_[arc].size(); ++way)
                if (!ways_[arc][way])
                    if (const double cost = reducedCost({arc, way}); cost < -costTolerance)
                        cheaper.emplace_back(cost, way);
            std::ranges::sort(cheaper);
            cheaper.resize(std::min(cheaper.size(), newColumns));
            for (const auto& [cost, way] : cheaper)
                ways_[arc][way] = any = true;
        }
        return any;
    }

    /// Adds all ways that a plan of less than `ms` may have. Returns whether there are any new ones, and not too many.
    bool addWaysUpTo(double ms)
    {
        auto more = ways_;
        std::size_t count = 0;
        for (std::size_t arc = 0; arc < ways_.size(); ++arc)
            for (std::size_t way = 0; way < more[arc].size(); ++way) {
                more[arc][way] = more[arc][way] || relaxedMs_ + reducedCost({arc, way}) < ms;
                count += more[arc][way] ? 1 : 0;
            }
        hasAllWays_ = count <= mostColumns;
        return hasAllWays_ && std::exchange(ways_, std::move(more)) != ways_;
    }

    struct Found
    {
        MilpResult result;
        WayShares shares;
    };
    Found searchIn(const Component& component, double limitMs) const
    {
        GlpkProblem programme;
        const std::vector<ArcWay> columns = setUp(programme, component, true);
        Found found;
        found.result = programme.solve({limit_.stop, std::max(limitMs, 1.0), gap_, true, {}});
        for (std::size_t i = 0; i + 1 < found.result.values.size(); ++i)
            if (found.result.values[i + 1] > 0.5)
                found.shares.emplace_back(columns[i], 1.0);
        return found;
    }

    /// Searches the ways so far for a plan, until it fits at all events.
    void search(RowAnswer& answer)
    {
        std::map<Component, Found> known;
        for (bool more = true; more && !limit_.reached();) {
            const std::vector<Component> components = problem_.components(rows_, ways_);
            double ms = 0, bound = 0, beyond = 0;
            WayShares shares;
            bool all = true;
            for (std::size_t i = 0; i < components.size(); ++i) {
                const auto [place, added] = known.try_emplace(components[i]);
                Found& found = place->second;
                if (added) {
                    found = searchIn(components[i], limit_.remainingMs() / static_cast<double>(components.size() - i));
                    answer.nodes += found.result.nodes;
                }
                all = all && !found.result.values.empty();
                ms += found.result.objective;
                bound += found.result.bound;
                beyond = std::max(beyond, all ? found.result.values.front() : 0);
                shares.insert(shares.end(), found.shares.begin(), found.shares.end());
            }
            boundMs_ = bound;
            more = all && addRows(shares, mostBeyond_ > 0 ? beyond + rowTolerance : 0);
            if (all && !more && ms < bestMs_) {
                bestMs_ = ms;
                answer.plan = problem_.planOf(shares);
            }
        }
    }

    const RowProblem& problem_;
    RowProblem::Memory memory_;
    Bytes budget_;
    double bytesPerUnit_;
    double mostBeyond_; ///< units
    double gap_;
    const SearchLimit& limit_;
    double beyondMs_ = 0; ///< cost of one unit beyond the budget
    WaySet ways_; ///< in the programme
    std::vector<Row> rows_;
    std::vector<double> duals_; ///< of the relaxation: by position, then by row
    double relaxedMs_ = 0;
    double boundMs_ = 0; ///< of the last search
    double bestMs_ = std::numeric_limits<double>::infinity();
    bool outOfBudget_ = false; ///< no solution of the relaxation fits
    bool hasAllWays_ = false; ///< no way of a better plan is missing
};

} // namespace

RowAnswer solveRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, double gap,
                    const SearchLimit& limit)
{
    return RowSearch(problem, budget, budget, memory, gap, limit).run();
}

std::optional<CheckpointPlan> leanestInRows(const RowProblem& problem, Bytes most, const SearchLimit& limit)
{
    return RowSearch(problem, 0, most, RowProblem::Memory::atMost, leastGap, limit).run().plan;
}

} // namespace headroom
