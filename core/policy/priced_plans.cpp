// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/priced_plans.h"

#include "core/plan/chain_problem.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

namespace headroom {

namespace {

constexpr double nsPerComparison = 2.2; ///< work of a label or option that is compared with another
constexpr std::size_t mostLabels = 2000; ///< of a position
constexpr double nsPerBeginning = 20; ///< work of a beginning that is compared with another
constexpr std::size_t mostBeginnings = 50000; ///< of plans, at a position

double above(double a, double b)
{
    return std::max(0.0, a - b);
}

/// Leaves out candidates that are worse than a cheaper candidate. Stops early where the limit is reached.
template <typename T, typename Cost, typename IsWorse>
void keepBest(std::vector<T>& candidates, const Cost& cost, const IsWorse& isWorse, const SearchLimit& limit)
{
    std::ranges::sort(candidates, {}, cost);
    std::vector<T> best;
    for (const T& candidate : candidates) {
        if (limit.reached())
            return;
        SearchLimit::count(static_cast<double>(best.size() + 1), nsPerComparison);
        if (std::ranges::none_of(best, [&](const T& than) { return isWorse(candidate, than); }))
            best.push_back(candidate);
    }
    candidates = std::move(best);
}

} // namespace

PricedPlans::PricedPlans(const RowProblem& problem, const CopyLimits& copies, double errorMs)
    : problem_(problem)
    , copies_(copies)
    , leftOutMs_(errorMs / static_cast<double>(2 * std::max<std::size_t>(problem.positions(), 1)))
{
    for (std::size_t arc = 0; arc < problem.arcs().size(); ++arc) {
        std::vector<OptionTimes>& times = times_.emplace_back();
        for (std::size_t option = 0; option < problem.optionCount(arc); ++option)
            times.push_back(timesOf({arc, option}));
    }
}

/// The options of the parts from `begin` to the last part, of a label of the end. `labelAt` returns a label by position
/// and number.
template <class LabelAt>
OptionShares PricedPlans::optionsTo(const Label& end, std::size_t begin, const LabelAt& labelAt) const
{
    OptionShares options;
    const Label* label = &end;
    for (std::size_t position = problem_.positions(); position > begin;) {
        options.emplace_back(label->option, 1.0);
        position = at(problem_.arcs()[label->option.arc].first);
        label = &labelAt(position, label->from);
    }
    std::ranges::reverse(options);
    return options;
}

PricedPlans::Found PricedPlans::find(const ByOption& costs, const SearchLimit& limit, std::size_t begin) const
{
    const std::size_t positions = problem_.positions();
    std::vector<std::vector<Label>> labels(positions + 1);
    labels[begin].push_back({});
    for (std::size_t arc = 0; arc < times_.size(); ++arc) {
        const std::size_t first = at(problem_.arcs()[arc].first), last = at(problem_.arcs()[arc].last);
        if (first < begin)
            continue;
        if (arc == 0 || at(problem_.arcs()[arc - 1].first) < first)
            keepBestLabels(labels[first], limit);
        if (limit.reached() || labels[first].size() > mostLabels)
            return {};
        for (const std::size_t option : bestOptions(arc, costs[arc], limit))
            for (std::size_t from = 0; from < labels[first].size(); ++from) {
                Label next = after(labels[first][from], arc, times_[arc][option]);
                next.ms += costs[arc][option];
                next.option = {arc, option};
                next.from = from;
                labels[last].push_back(next);
            }
    }
    keepBestLabels(labels.back(), limit);
    const auto msOf = [](const Label& label) { return label.ms + label.exposedMs(); };
    const auto best = std::ranges::min_element(labels.back(), {}, msOf);
    if (best == labels.back().end())
        return {};
    const auto labelAt
        = [&](std::size_t position, std::size_t number) -> const Label& { return labels[position][number]; };
    return {optionsTo(*best, begin, labelAt), msOf(*best)};
}

/// A beginning of a plan, the first parts, is left out if the beginning costs too much at the rows' prices, or takes no
/// less memory and time than another one.
class PricedPlans::Enumeration
{
public:
    Enumeration(const PricedPlans& plans, const std::vector<MemoryRow>& rows, const ByOption& costs, double belowMs,
                const SearchLimit& limit)
        : plans_(plans)
        , arcs_(plans.problem_.arcs())
        , positions_(plans.problem_.positions())
        , rows_(rows)
        , costs_(costs)
        , belowMs_(belowMs)
        , limit_(limit)
        , mostCost_(belowMs)
        , leastUnits_(restOf([](const auto& units) { return std::ranges::min(units); }, std::less()))
        , mostUnits_(restOf([](const auto& units) { return std::ranges::max(units); }, std::greater()))
        , beginnings_(positions_ + 1)
        , units_(rows.size(), 0)
    {
        for (const MemoryRow& row : rows)
            mostCost_ += row.price * row.left;
        add(beginnings_.front(), {});
    }

    std::optional<Found> run()
    {
        if (!findLeastCosts())
            return std::nullopt;
        for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
            const std::size_t first = at(arcs_[arc].first);
            if ((arc == 0 || at(arcs_[arc - 1].first) < first) && !keepBest(beginnings_[first]))
                return std::nullopt;
            if (!goOn(arc))
                return std::nullopt;
        }
        return best();
    }

private:
    struct Beginning
    {
        Label label; ///< with the cost at the prices
        double ms = 0; ///< time without the prices

        double leastCost() const { return label.ms - label.idleOutMs - label.idleInMs; }
    };
    struct Beginnings
    {
        std::vector<Beginning> list;
        std::vector<double> units; ///< by beginning, by row: the memory taken
    };

    const double* unitsOf(const Beginnings& beginnings, std::size_t number) const
    {
        return beginnings.units.data() + number * rows_.size();
    }
    void add(Beginnings& beginnings, const Beginning& beginning) ///< with units_
    {
        beginnings.list.push_back(beginning);
        beginnings.units.insert(beginnings.units.end(), units_.begin(), units_.end());
    }

    /// Finds the least cost of the parts from each position on. Returns false if time is up.
    bool findLeastCosts()
    {
        for (std::size_t position = 0; position < positions_; ++position) {
            const Found found = plans_.find(costs_, limit_, position);
            if (found.options.empty())
                return false;
            leastCosts_.push_back(found.ms - 2 * plans_.leftOutMs_ * static_cast<double>(positions_));
        }
        leastCosts_.push_back(0);
        return true;
    }

    /// By row, by position: the units that the parts from there on take at least, or at most.
    template <typename OfOptions, typename IsBetter>
    std::vector<std::vector<double>> restOf(const OfOptions& ofOptions, const IsBetter& isBetter) const
    {
        std::vector<std::vector<double>> rest;
        for (const MemoryRow& row : rows_) {
            std::vector<std::optional<double>> own(positions_ + 1);
            own.back() = 0;
            for (std::size_t arc = arcs_.size(); arc-- > 0;) {
                if (plans_.times_[arc].empty())
                    continue;
                const double units
                    = *own[at(arcs_[arc].last)] + (row.units[arc].empty() ? 0 : ofOptions(row.units[arc]));
                std::optional<double>& first = own[at(arcs_[arc].first)];
                if (!first || isBetter(units, *first))
                    first = units;
            }
            std::ranges::transform(own, std::back_inserter(rest.emplace_back()),
                                   [](const auto& units) { return *units; });
        }
        return rest;
    }

    /// Leaves out beginnings that take no less time and memory than another one. Returns false if time is up.
    bool keepBest(Beginnings& beginnings) const
    {
        std::vector<std::size_t> order(beginnings.list.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::sort(order, {}, [&](std::size_t number) { return beginnings.list[number].ms; });
        Beginnings best;
        for (const std::size_t number : order) {
            if (limit_.reached())
                return false;
            const Beginning& own = beginnings.list[number];
            const std::span units(unitsOf(beginnings, number), rows_.size());
            const auto isBetter = [&](std::size_t than) {
                const Beginning& other = best.list[than];
                return other.ms + other.label.mostExposedMs(own.label) <= own.ms
                    && std::equal(units.begin(), units.end(), unitsOf(best, than), std::greater_equal());
            };
            std::size_t than = 0;
            while (than < best.list.size() && !isBetter(than))
                ++than;
            SearchLimit::count(static_cast<double>(than + 1), nsPerBeginning);
            if (than < best.list.size())
                continue;
            best.list.push_back(own);
            best.units.insert(best.units.end(), units.begin(), units.end());
        }
        beginnings = std::move(best);
        return true;
    }

    /// Adds each option of an arc to each beginning. Returns false if time is up, or there are too many.
    bool goOn(std::size_t arc)
    {
        const std::size_t first = at(arcs_[arc].first), last = at(arcs_[arc].last);
        std::vector<std::pair<double, std::size_t>> options; // by the least cost
        for (std::size_t option = 0; option < plans_.times_[arc].size(); ++option) {
            const OptionTimes& times = plans_.times_[arc][option];
            options.emplace_back(costs_[arc][option] - times.idleOut - times.idleIn, option);
        }
        std::ranges::sort(options);
        for (std::size_t from = 0; from < beginnings_[first].list.size(); ++from) {
            if (limit_.reached() || beginnings_[last].list.size() > mostBeginnings)
                return false;
            for (const auto& [leastCost, option] : options) {
                const Beginning& before = beginnings_[first].list[from];
                SearchLimit::count(1, nsPerComparison);
                if (before.leastCost() + leastCost + leastCosts_[last] >= mostCost_)
                    break;
                Beginning next{plans_.after(before.label, arc, plans_.times_[arc][option]),
                               before.ms + plans_.problem_.effectOf({arc, option}).recomputeMs};
                next.label.ms += costs_[arc][option];
                next.label.option = {arc, option};
                next.label.from = from;
                if (next.ms + (last == positions_ ? next.label.exposedMs() : 0) < belowMs_
                    && fits(unitsOf(beginnings_[first], from), arc, option))
                    add(beginnings_[last], next);
            }
        }
        return true;
    }

    /// Adds the units of an option into units_. Returns whether the rows can still be kept.
    bool fits(const double* before, std::size_t arc, std::size_t option)
    {
        const std::size_t last = at(arcs_[arc].last);
        SearchLimit::count(static_cast<double>(rows_.size()), nsPerComparison);
        for (std::size_t row = 0; row < rows_.size(); ++row) {
            const std::vector<double>& own = rows_[row].units[arc];
            const double units = before[row] + (own.empty() ? 0 : own[option]);
            if (units + leastUnits_[row][last] > rows_[row].left + rowTolerance)
                return false;
            // Beginnings that leave enough for all later options are equal.
            units_[row] = std::max(units, rows_[row].left - mostUnits_[row][last]);
        }
        return true;
    }

    Found best() const
    {
        const auto msOf = [](const Beginning& plan) { return plan.ms + plan.label.exposedMs(); };
        const auto best = std::ranges::min_element(beginnings_.back().list, {}, msOf);
        if (best == beginnings_.back().list.end())
            return {{}, belowMs_};
        const auto labelAt = [&](std::size_t position, std::size_t number) -> const Label& {
            return beginnings_[position].list[number].label;
        };
        return {plans_.optionsTo(best->label, 0, labelAt), msOf(*best)};
    }

    const PricedPlans& plans_;
    const std::vector<PartArcs::Arc>& arcs_;
    std::size_t positions_;
    const std::vector<MemoryRow>& rows_;
    const ByOption& costs_;
    double belowMs_;
    const SearchLimit& limit_;
    double mostCost_; ///< of a plan that keeps the rows and takes belowMs_
    std::vector<double> leastCosts_; ///< by position
    std::vector<std::vector<double>> leastUnits_, mostUnits_; ///< by row, by position
    std::vector<Beginnings> beginnings_; ///< by position
    std::vector<double> units_; ///< of the next beginning
};

std::optional<PricedPlans::Found> PricedPlans::findWithin(const std::vector<MemoryRow>& rows, const ByOption& costs,
                                                          double belowMs, const SearchLimit& limit) const
{
    return Enumeration(*this, rows, costs, belowMs, limit).run();
}

double PricedPlans::msOf(const OptionShares& options) const
{
    Label label;
    for (const auto& [option, share] : options) {
        label = after(label, option.arc, times_[option.arc][option.option]);
        label.ms += problem_.effectOf(option).recomputeMs;
    }
    return label.ms + label.exposedMs();
}

double PricedPlans::Label::exposedMs() const
{
    return above(outMs, idleOutMs) + above(inMs, idleInMs);
}

double PricedPlans::Label::mostExposedMs(const Label& than) const
{
    return above(outMs, than.outMs) + above(inMs, than.inMs) + above(than.idleOutMs, idleOutMs)
        + above(than.idleInMs, idleInMs);
}

PricedPlans::OptionTimes PricedPlans::timesOf(const ArcOption& option) const
{
    const LocalEffect& effect = problem_.effectOf(option);
    const CopyLimits::Own& own = (*copies_.own)[option.arc][option.option];
    OptionTimes times;
    if (effect.movedBytes > 0) {
        times.out = copyMs(copies_.link, effect);
        times.in = times.out * copies_.link.toHost / copies_.link.fromHost;
    }
    times.again = own.againMs;
    times.idleOut = own.idleOutMs;
    times.idleIn = own.idleInMs;
    times.tail = own.tailMs;
    times.lead = above(own.leadMs, times.again);
    times.moreOut = own.moreOutMs;
    times.moreIn = own.moreInMs;
    return times;
}

PricedPlans::Label PricedPlans::after(Label label, std::size_t arc, const OptionTimes& times) const
{
    const std::size_t first = at(problem_.arcs()[arc].first), last = at(problem_.arcs()[arc].last);
    const bool begins = times.moreIn > 0;
    label.idleOutMs += times.idleOut;
    label.idleInMs += times.idleIn;
    label.outMs += times.out;
    label.inMs += times.in;
    for (std::size_t position = first; position < last; ++position) {
        label.outMs = above(label.outMs, copies_.forwardMs[position]);
        label.inMs
            = above(label.inMs, copies_.backwardMs[position] + (position + 1 == last && !begins ? times.again : 0));
    }
    label.outMs = above(std::max(label.outMs, times.tail), times.moreOut);
    label.inMs = above(std::max(label.inMs, times.lead), begins ? times.moreIn + times.again : 0);
    return label;
}

/// Whether an option is no better than another option, if a ms of copies costs a ms, the most that copies cost.
bool PricedPlans::isWorse(const OptionTimes& times, double cost, const OptionTimes& than, double thanCost) const
{
    return thanCost + above(than.out, times.out) + above(than.tail, times.tail) + above(than.lead, times.lead)
        + above(than.in - than.again, times.in - times.again) + above(times.moreOut, than.moreOut)
        + above(times.moreIn, than.moreIn) + above(times.idleOut, than.idleOut) + above(times.idleIn, than.idleIn)
        <= cost + leftOutMs_;
}

bool PricedPlans::isWorse(const Label& label, const Label& than) const
{
    return than.ms + than.mostExposedMs(label) <= label.ms + leftOutMs_;
}

std::vector<std::size_t> PricedPlans::bestOptions(std::size_t arc, const std::vector<double>& costs,
                                                  const SearchLimit& limit) const
{
    std::vector<std::size_t> options(costs.size());
    std::iota(options.begin(), options.end(), std::size_t{0});
    keepBest(
        options, [&](std::size_t option) { return costs[option]; },
        [&](std::size_t option, std::size_t than) {
            return isWorse(times_[arc][option], costs[option], times_[arc][than], costs[than]);
        },
        limit);
    return options;
}

void PricedPlans::keepBestLabels(std::vector<Label>& labels, const SearchLimit& limit) const
{
    keepBest(
        labels, &Label::ms, [&](const Label& label, const Label& than) { return isWorse(label, than); }, limit);
}

} // namespace headroom
