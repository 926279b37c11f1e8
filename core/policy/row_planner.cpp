// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/row_planner.h"

#include "core/base/try.h"
#include "core/plan/chain_problem.h"
#include "core/plan/glpk_problem.h"
#include "core/policy/policy_maker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <span>
#include <utility>

namespace headroom {

namespace {

constexpr double nsPerRowEvent = 5; ///< work of an event of the memory under a solution
constexpr int rowWindows = 64; ///< stretches of events; each stretch gets at most one new row at a time
constexpr std::size_t newColumns = 3; ///< options of an arc that are added at a time
constexpr std::size_t mostColumns = 20000; ///< problems with more options are not searched for a proof
constexpr double rowTolerance = 1e-3; ///< of a row in the linear relaxation, in units of bytesPerUnit_
constexpr double costTolerance = 1e-6; ///< ms
constexpr double leastGap = 0.002; ///< of the search for the plan of least peak
constexpr double notLimited = std::numeric_limits<double>::infinity();
constexpr double excessTimes = 1e4; ///< cost of a unit above the budget, in times of the slowest plan

/// A search at a budget.
class RowSearch
{
public:
    /// Memory above the budget (slack) is avoided first, but allowed up to `most`.
    RowSearch(const RowProblem& problem, Bytes budget, Bytes most, RowProblem::Memory memory, double gap,
              const SearchLimit& limit, const std::optional<CopyLimits>& copies = {}, double belowMs = notLimited)
        : problem_(problem)
        , copies_(copies)
        , memory_(memory)
        , budget_(budget)
        , bytesPerUnit_(static_cast<double>(std::max<Bytes>(most, 1)) / budgetUnits)
        , mostBeyond_(static_cast<double>(most - budget) / bytesPerUnit_)
        , gap_(gap)
        , belowMs_(belowMs)
        , limit_(limit)
    {
        double slowestMs = 1;
        for (std::size_t arc = 0; arc < problem.arcs().size(); ++arc) {
            std::vector<bool>& options = options_.emplace_back(problem.optionCount(arc), false);
            if (options.empty())
                continue;
            options.front() = options.back() = true;
            slowestMs += std::ranges::max(std::views::iota(std::size_t{0}, options.size())
                                          | std::views::transform([&](std::size_t option) {
                                                return problem.effectOf({arc, option}).recomputeMs;
                                            }));
        }
        beyondMs_ = excessTimes * slowestMs;
        reduced_.resize(problem.arcs().size());
    }

    /// Starts from what an earlier search found.
    void startFrom(const RowHints& hints)
    {
        addOptions(options_, hints.options);
        for (const std::uint32_t event : hints.events)
            rows_.push_back(problem_.rowAt(event, memory_, budget_));
    }

    RowHints hints() const
    {
        std::set<std::uint32_t> events;
        std::ranges::transform(rows_, std::inserter(events, events.end()), &Row::event);
        return {options_, {events.begin(), events.end()}};
    }

    RowAnswer run(bool integer = true, std::size_t moreOptions = 0)
    {
        RowAnswer answer;
        if (!relax()) {
            answer.boundMs = outOfBudget_ ? std::numeric_limits<double>::infinity() : 0;
            return answer;
        }
        answer.boundMs = relaxedMs_;
        answer.relaxed = relaxedShares_;
        const auto rowDuals = duals_.begin() + static_cast<std::ptrdiff_t>(problem_.positions() + copyRows());
        answer.msPerGiB = -std::accumulate(rowDuals, duals_.end(), 0.0) * static_cast<double>(GiB) / bytesPerUnit_;
        if (!integer && isBound() && copies_->isChain)
            answer.reduced = reduced();
        if (!integer || relaxedMs_ >= belowMs_)
            return answer;
        if (copies_ && !addBestOptions(belowMs_, moreOptions) && memory_ == RowProblem::Memory::atLeast)
            return answer; // without all options there is no better bound
        search(answer);
        const OptionSet known = options_;
        if (answer.plan && !copies_ && addBestOptions(bestMs_, mostColumns) && options_ != known)
            search(answer);
        if (hasAllOptions_)
            answer.boundMs = std::max(answer.boundMs, std::min({boundMs_, bestMs_, belowMs_}));
        return answer;
    }

private:
    using Row = RowProblem::Row;
    using Component = RowProblem::Component;

    /// Adds rows for events where the shares exceed the budget by over `beyond` units. Returns whether a row was added.
    bool addRows(const OptionShares& shares, double beyond)
    {
        const std::vector<double> memory = problem_.memoryUnder(shares, memory_);
        SearchLimit::count(static_cast<double>(memory.size()), nsPerRowEvent);
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

    /// Number of columns before the options: the memory above the budget (slack), for each direction the exposed
    /// copies, and those with idle time; by position and direction the time that copies of the parts from there on
    /// leave.
    std::size_t firstOption() const { return copies_ ? 5 + 2 * problem_.positions() : 1; }
    /// Number of rows between the positions and the memory constraints: copies of each direction by position, for a
    /// bound the same for copies that the position's part itself cannot hide; idle time, and host memory.
    std::size_t copyRows() const { return copies_ ? (isBound() ? 4 : 2) * problem_.positions() + 3 : 0; }
    bool isBound() const { return copies_ && copies_->own; }
    double price() const { return isBound() ? 0 : copyPrice; }

    /// What an option adds to the rows of copies.
    struct Copies
    {
        double out = 0; ///< ms
        double in = 0; ///< ms
        double host = 0; ///< in the unit of the rows
    };
    Copies copiesOf(const ArcOption& option) const
    {
        const LocalEffect& effect = problem_.effectOf(option);
        if (effect.movedBytes <= 0)
            return {};
        const double out = copyMs(copies_->link, effect);
        return {out, copies_->backMs(out), static_cast<double>(effect.pinned) / bytesPerUnit_};
    }

    double costOf(const ArcOption& option) const
    {
        return problem_.effectOf(option).recomputeMs + (copies_ ? price() * copiesOf(option).out : 0);
    }

    CopyLimits::Own ownOf(const ArcOption& option) const
    {
        return isBound() ? (*copies_->own)[option.arc][option.option] : CopyLimits::Own();
    }

    /// What an option has in the rows before the memory constraints: calls visit(row, coefficient).
    template <class Visit>
    void forEachTerm(const ArcOption& option, Visit visit) const
    {
        const PartArcs::Arc& arc = problem_.arcs()[option.arc];
        for (int position = arc.first; position < arc.last; ++position)
            visit(position, 1.0);
        if (!copies_)
            return;
        const int positions = static_cast<int>(problem_.positions());
        const Copies copies = copiesOf(option);
        const CopyLimits::Own own = ownOf(option);
        const int rows = positions + static_cast<int>(copyRows());
        const auto visitBoth = [&](int row, double out, double in) {
            if (out != 0)
                visit(row, out);
            if (in != 0)
                visit(row + 1, in);
        };
        visitBoth(rows - 3, -own.idleOutMs, -own.idleInMs);
        if (copies.host > 0 && copies_->host > 0)
            visit(rows - 1, copies.host);
        if (isBound() && !copies_->isChain) {
            visitBoth(positions, copies.out - own.againMs, copies.in - own.againMs);
            return;
        }
        const bool ends = arc.first + 1 < arc.last; // at another position
        const double moreIn = own.againMs + own.moreInMs;
        visitBoth(positions + 2 * arc.first, copies.out - (ends ? 0 : own.moreOutMs), copies.in - (ends ? 0 : moreIn));
        if (ends)
            visitBoth(positions + 2 * (arc.last - 1), -own.moreOutMs, -moreIn);
        if (isBound())
            visitBoth(3 * positions + 2 * (arc.last - 1), own.tailMs, std::max(0.0, own.leadMs - own.againMs));
    }

    void addCopyRows(GlpkProblem& programme, const std::vector<ArcOption>& columns) const
    {
        const int positions = static_cast<int>(problem_.positions());
        std::vector<std::vector<GlpkProblem::Term>> rows(copyRows());
        const int idle = static_cast<int>(copyRows()) - 3;
        for (int row = 0; row < idle; ++row) {
            const int own = row % (2 * positions), later = own < 2 * (positions - 1) ? 5 + own + 2 : 3 + row % 2;
            rows[at(row)].push_back({later, -1});
            if (row < 2 * positions)
                rows[at(row)].push_back({5 + row, 1});
        }
        for (const int direction : {0, 1})
            rows[at(idle + direction)] = {{3 + direction, 1}, {1 + direction, -1}};
        for (std::size_t i = 0; i < columns.size(); ++i)
            forEachTerm(columns[i], [&](int row, double coefficient) {
                if (row >= positions)
                    rows[at(row - positions)].push_back({static_cast<int>(i + firstOption()), coefficient});
            });
        for (int row = 0; row < static_cast<int>(rows.size()); ++row) {
            const bool isLeft = row < 2 * positions; // time of a position that copies leave
            const std::vector<double>& times = row % 2 == 0 ? copies_->forwardMs : copies_->backwardMs;
            const double ms = isLeft ? times[at(row / 2)] : 0;
            const double most = row == idle + 2 ? static_cast<double>(copies_->host) / bytesPerUnit_ : ms;
            programme.addRow(rows[at(row)], isLeft ? ms : -GlpkProblem::infinity, most);
        }
    }

    /// Adds an option to the programme of everything(), whose rows are those of setUp().
    void addTo(GlpkProblem& programme, const ArcOption& option) const
    {
        std::vector<std::pair<int, double>> rows;
        forEachTerm(option, [&](int row, double coefficient) { rows.emplace_back(row, coefficient); });
        const auto first = static_cast<int>(problem_.positions() + copyRows());
        for (std::size_t row = 0; row < rows_.size(); ++row)
            if (const Bytes change = problem_.changeIn(rows_[row], option); change != 0)
                rows.emplace_back(first + static_cast<int>(row), static_cast<double>(change) / bytesPerUnit_);
        programme.addColumnTo(rows, costOf(option));
    }

    /// Column 0 is the slack.
    void addTo(GlpkProblem& programme, const Row& row, const std::vector<ArcOption>& columns) const
    {
        std::vector<GlpkProblem::Term> terms{{0, -1}};
        for (std::size_t i = 0; i < columns.size(); ++i)
            if (const Bytes change = problem_.changeIn(row, columns[i]); change != 0)
                terms.push_back({static_cast<int>(i + firstOption()), static_cast<double>(change) / bytesPerUnit_});
        programme.addRow(terms, -GlpkProblem::infinity, static_cast<double>(row.most - row.bytes) / bytesPerUnit_);
    }

    Component everything() const
    {
        Component all{std::vector<std::size_t>(options_.size()), std::vector<std::size_t>(rows_.size())};
        std::iota(all.arcs.begin(), all.arcs.end(), std::size_t{0});
        std::iota(all.rows.begin(), all.rows.end(), std::size_t{0});
        return all;
    }

    /// Sets up the programme of a component with the options so far. Each position is covered by a single option of a
    /// single arc.
    std::vector<ArcOption> setUp(GlpkProblem& programme, const Component& component, bool integer) const
    {
        programme.addColumn(0, integer ? mostBeyond_ : GlpkProblem::infinity, beyondMs_);
        for (std::size_t column = 1; column < firstOption(); ++column) {
            // A part's own backward needs the first tensors at its begin, and the last ones at its end.
            const double least
                = column >= 5 && column % 2 == 0 && !isBound() ? copies_->backwardMs[(column - 5) / 2] / 2 : 0;
            programme.addColumn(least, GlpkProblem::infinity, column < 3 ? 1 : 0);
        }
        std::vector<ArcOption> columns;
        std::map<int, std::vector<GlpkProblem::Term>> covers; // by position
        for (const std::size_t arc : component.arcs) {
            const auto covered = std::views::iota(problem_.arcs()[arc].first, problem_.arcs()[arc].last);
            for (const int position : covered)
                covers[position];
            for (std::size_t option = 0; option < options_[arc].size(); ++option) {
                if (!options_[arc][option] || !problem_.has({arc, option}))
                    continue;
                const int number
                    = programme.addColumn(0, integer ? 1 : GlpkProblem::infinity, costOf({arc, option}), integer);
                for (const int position : covered)
                    covers[position].push_back({number, 1});
                columns.push_back({arc, option});
            }
        }
        for (const auto& [position, cover] : covers)
            programme.addRow(cover, 1, 1);
        if (copies_)
            addCopyRows(programme, columns);
        for (const std::size_t row : component.rows)
            addTo(programme, rows_[row], columns);
        return columns;
    }

    OptionShares sharesIn(const std::vector<double>& values, const std::vector<ArcOption>& columns) const
    {
        OptionShares shares;
        for (std::size_t i = 0; i < columns.size(); ++i)
            if (values[i + firstOption()] > 0)
                shares.emplace_back(columns[i], values[i + firstOption()]);
        return shares;
    }

    /// Solves the linear relaxation over all events and options. Returns false if no solution fits, or time is up.
    bool relax()
    {
        GlpkProblem programme;
        std::vector<ArcOption> columns = setUp(programme, everything(), false);
        while (!limit_.reached()) {
            LinearResult result;
            for (bool more = true; more;) {
                result = programme.relax(limit_);
                if (result.status != MilpStatus::optimal || limit_.reached())
                    return false;
                const std::size_t known = rows_.size();
                more = addRows(sharesIn(result.values, columns), result.values.front() + rowTolerance);
                for (std::size_t row = known; row < rows_.size(); ++row)
                    addTo(programme, rows_[row], columns);
            }
            duals_ = result.duals;
            setCopyPrices();
            relaxedMs_ = result.objective;
            relaxedShares_ = sharesIn(result.values, columns);
            const std::size_t known = columns.size();
            addCheaperOptions(columns);
            if (columns.size() == known) {
                outOfBudget_ = result.values.front() > mostBeyond_ * (1 - gap_) + rowTolerance;
                return !outOfBudget_;
            }
            for (std::size_t column = known; column < columns.size(); ++column)
                addTo(programme, columns[column]);
        }
        return false;
    }

    /// What a ms of copies of the parts from a position on costs, by the duals of the rows of copies.
    void setCopyPrices()
    {
        const std::size_t positions = problem_.positions();
        for (const std::size_t direction : {0, 1}) {
            copyPrices_[direction].assign(positions, 0);
            for (std::size_t position = 0; copies_ && position < positions; ++position)
                copyPrices_[direction][position] = -duals_[positions + 2 * position + direction];
        }
    }

    ReducedCosts reduced() const
    {
        const std::size_t positions = problem_.positions(), first = positions + copyRows();
        ReducedCosts costs{relaxedMs_, reduced_, {}, copyPrices_, {duals_.begin(), duals_.begin() + positions}, {}};
        for (std::size_t row = 0; row < 2 * positions; ++row)
            costs.late[row % 2].push_back(-duals_[3 * positions + row]);
        for (std::size_t row = 0; row < rows_.size(); ++row)
            costs.memory[rows_[row].event] += std::max(0.0, -duals_[first + row]) / bytesPerUnit_;
        return costs;
    }

    /// The reduced costs of the options of an arc: the ms minus what the relaxation's duals pay for the option.
    std::vector<double> reducedCosts(std::size_t arc) const
    {
        const PartArcs::Arc& own = problem_.arcs()[arc];
        const std::size_t positions = problem_.positions(), before = at(own.last) - 1;
        const double paid = std::accumulate(duals_.begin() + own.first, duals_.begin() + own.last, 0.0);
        const bool ordered = !isBound() || copies_->isChain;
        const double allOut = copyPrices_[0][before], allIn = copyPrices_[1][before];
        const std::size_t from = ordered ? at(own.first) : 0;
        const double out = copyPrices_[0][from], in = copyPrices_[1][from];
        const double tail = isBound() ? duals_[3 * positions + 2 * before] : 0;
        const double lead = isBound() ? duals_[3 * positions + 2 * before + 1] : 0;
        std::vector<double> costs(problem_.optionCount(arc));
        for (std::size_t option = 0; option < costs.size(); ++option) {
            const double again = problem_.effectOf({arc, option}).recomputeMs;
            costs[option] = problem_.has({arc, option}) ? again - paid : notLimited;
            if (!copies_)
                continue;
            const CopyLimits::Own ends = ownOf({arc, option});
            const std::size_t last = positions + copyRows() - 1;
            if (isBound()) {
                costs[option] += duals_[last - 2] * ends.idleOutMs + duals_[last - 1] * ends.idleInMs;
                costs[option] -= ordered ? allIn * (ends.againMs + ends.moreInMs) + allOut * ends.moreOutMs
                                         : (out + in) * ends.againMs;
            }
            const Copies copies = copiesOf({arc, option});
            if (copies.out <= 0)
                continue;
            costs[option] += (price() + out) * copies.out + in * copies.in - tail * ends.tailMs
                - lead * std::max(0.0, ends.leadMs - ends.againMs);
            if (copies_->host > 0)
                costs[option] -= duals_[last] * copies.host;
        }
        const std::size_t first = positions + copyRows();
        for (std::size_t row = 0; first + row < duals_.size(); ++row) { // rows of the relaxation
            const double price = duals_[first + row] / bytesPerUnit_;
            if (price == 0)
                continue;
            const std::span<const double> changes = problem_.changesIn(rows_[row], arc);
            for (std::size_t option = 0; option < changes.size(); ++option)
                costs[option] -= price * changes[option];
        }
        return costs;
    }

    /// Appends options that would make the relaxation cheaper.
    void addCheaperOptions(std::vector<ArcOption>& columns)
    {
        for (std::size_t arc = 0; arc < options_.size(); ++arc) {
            std::vector<std::pair<double, std::size_t>> cheaper;
            const std::vector<double>& costs = reduced_[arc] = reducedCosts(arc);
            for (std::size_t option = 0; option < options_[arc].size(); ++option)
                if (costs[option] < -costTolerance && !options_[arc][option])
                    cheaper.emplace_back(costs[option], option);
            std::ranges::sort(cheaper);
            for (const auto& [cost, option] : cheaper | std::views::take(newColumns)) {
                options_[arc][option] = true;
                columns.push_back({arc, option});
            }
        }
    }

    /// Adds the options that a plan of less than `ms` may have; of more than `most` those with the least reduced cost.
    /// Returns whether all were added.
    bool addBestOptions(double ms, std::size_t most)
    {
        std::vector<std::pair<double, ArcOption>> more;
        for (std::size_t arc = 0; arc < options_.size(); ++arc) {
            for (std::size_t option = 0; option < options_[arc].size(); ++option)
                if (const double cost = reduced_[arc][option]; !options_[arc][option] && relaxedMs_ + cost < ms)
                    more.emplace_back(cost, ArcOption{arc, option});
        }
        hasAllOptions_ = more.size() <= most;
        if (!hasAllOptions_) {
            std::ranges::nth_element(more, more.begin() + static_cast<std::ptrdiff_t>(most), {},
                                     &std::pair<double, ArcOption>::first);
            more.resize(most);
        }
        for (const auto& [cost, option] : more)
            options_[option.arc][option.option] = true;
        return hasAllOptions_;
    }

    struct Found
    {
        MilpResult result;
        OptionShares shares;
    };
    Found searchIn(const Component& component, double limitMs) const
    {
        GlpkProblem programme;
        const std::vector<ArcOption> columns = setUp(programme, component, true);
        Found found;
        found.result = programme.solve({limit_.stop, std::max(limitMs, 1.0), gap_, true, {}});
        for (std::size_t i = 0; i + firstOption() < found.result.values.size(); ++i)
            if (found.result.values[i + firstOption()] > 0.5)
                found.shares.emplace_back(columns[i], 1.0);
        return found;
    }

    /// Searches the options so far for a plan, until the plan fits at all events.
    void search(RowAnswer& answer)
    {
        std::map<Component, Found> known;
        boundMs_ = 0;
        for (bool more = true; more && !limit_.reached();) {
            // The rows of copies connect all arcs.
            const std::vector<Component> components
                = copies_ ? std::vector<Component>{everything()} : problem_.components(rows_, options_);
            double ms = 0, bound = 0, beyond = 0;
            OptionShares shares;
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
            boundMs_ = std::max(boundMs_, bound);
            more = all && addRows(shares, mostBeyond_ > 0 ? beyond + rowTolerance : 0);
            if (all && !more && ms < bestMs_) {
                bestMs_ = answer.plannedMs = ms;
                answer.plan = problem_.planOf(shares);
                answer.options = std::move(shares);
            }
        }
    }

    const RowProblem& problem_;
    std::optional<CopyLimits> copies_;
    RowProblem::Memory memory_;
    Bytes budget_;
    double bytesPerUnit_;
    double mostBeyond_; ///< units
    double gap_;
    double belowMs_; ///< plans that take as long are not searched
    const SearchLimit& limit_;
    double beyondMs_ = 0; ///< cost of a unit above the budget
    OptionSet options_; ///< in the programme
    std::vector<Row> rows_;
    std::vector<std::vector<double>> reduced_; ///< by arc, by option: reducedCosts()
    std::vector<double> duals_; ///< of the relaxation: by position, then by row
    std::array<std::vector<double>, 2> copyPrices_; ///< by direction, by position: setCopyPrices()
    double relaxedMs_ = 0;
    OptionShares relaxedShares_;
    double boundMs_ = 0; ///< of the last search
    double bestMs_ = std::numeric_limits<double>::infinity();
    bool outOfBudget_ = false; ///< no solution of the relaxation fits
    bool hasAllOptions_ = false; ///< no option of a better plan is missing
};

} // namespace

RowAnswer solveRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, double gap,
                    const SearchLimit& limit, const std::optional<CopyLimits>& copies, double belowMs,
                    const RowHints& hints, std::size_t moreOptions)
{
    RowSearch search(problem, budget, budget, memory, gap, limit, copies, belowMs);
    search.startFrom(hints);
    return search.run(true, moreOptions);
}

RowAnswer relaxRows(const RowProblem& problem, Bytes budget, RowProblem::Memory memory, const SearchLimit& limit,
                    const CopyLimits& copies, RowHints& hints)
{
    RowSearch search(problem, budget, budget, memory, 0, limit, copies);
    search.startFrom(hints);
    RowAnswer answer = search.run(false);
    hints = search.hints();
    return answer;
}

OptionShares minMemoryInRows(const RowProblem& problem, Bytes most, const SearchLimit& limit)
{
    return RowSearch(problem, 0, most, RowProblem::Memory::atMost, leastGap, limit).run().options;
}

} // namespace headroom
