// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/offload_bound.h"

#include "core/plan/chain_problem.h"
#include "core/plan/glpk_problem.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace headroom {

namespace {

constexpr double budgetUnits = 1000; ///< the budget in the unit of the rows
constexpr double tolerance = 1e-6; ///< ms
constexpr double rowTolerance = 1e-3; ///< units
constexpr double errorShare = 8e-3; ///< of the known plan's time: error of a bound
constexpr double enoughGap = 5e-3; ///< between a bound and the mixture
constexpr std::size_t mostRounded = 64; ///< plans of OptionChoices
constexpr std::size_t mostRows = 100;
constexpr double nsPerComparison = 2.2; ///< work of a label or option that is compared with another
constexpr std::size_t mostLabels = 2000; ///< of a position

/// Finds the plan of least time at prices of memory.
class PricedPlans
{
public:
    /// The found time may be `errorMs` above the least.
    PricedPlans(const RowProblem& problem, const CopyLimits& copies, double errorMs)
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

    /// A plan and the time with exposed copies and prices.
    struct Found
    {
        OptionShares options;
        double ms = 0;
    };
    /// `costs` has what each option of each arc costs beside its copies. Without options if time is up.
    Found find(const std::vector<std::vector<double>>& costs, const SearchLimit& limit) const
    {
        const std::size_t positions = problem_.positions();
        std::vector<std::vector<Label>> labels(positions + 1);
        labels.front().push_back({});
        for (std::size_t arc = 0; arc < times_.size(); ++arc) {
            const auto first = static_cast<std::size_t>(problem_.arcs()[arc].first);
            const auto last = static_cast<std::size_t>(problem_.arcs()[arc].last);
            if (arc == 0 || problem_.arcs()[arc - 1].first < problem_.arcs()[arc].first)
                keepBestLabels(labels[first]);
            if (limit.reached() || labels[first].size() > mostLabels)
                return {};
            for (const std::size_t option : bestOptions(arc, costs[arc]))
                for (std::size_t from = 0; from < labels[first].size(); ++from) {
                    Label next = after(labels[first][from], arc, times_[arc][option]);
                    next.ms += costs[arc][option];
                    next.option = {arc, option};
                    next.from = from;
                    labels[last].push_back(next);
                }
        }
        keepBestLabels(labels.back());
        const Label* best = nullptr;
        for (const Label& label : labels.back())
            if (!best || label.ms + label.exposedMs() < best->ms + best->exposedMs())
                best = &label;
        Found found;
        if (!best)
            return found;
        found.ms = best->ms + best->exposedMs();
        for (std::size_t position = positions; position > 0;) {
            found.options.emplace_back(best->option, 1.0);
            position = static_cast<std::size_t>(problem_.arcs()[best->option.arc].first);
            best = &labels[position][best->from];
        }
        std::ranges::reverse(found.options);
        return found;
    }

    /// The time of a plan, by the same rules.
    double msOf(const OptionShares& options) const
    {
        Label label;
        for (const auto& [option, share] : options) {
            label = after(label, option.arc, times_[option.arc][option.option]);
            label.ms += problem_.effectOf(option).recomputeMs;
        }
        return label.ms + label.exposedMs();
    }

private:
    /// What an option adds to the copies of a plan, in ms.
    struct OptionTimes
    {
        double out = 0, in = 0; ///< copies
        double again = 0; ///< recomputation in the backward
        double tail = 0, lead = 0; ///< CopyLimits::Own
        double moreOut = 0, moreIn = 0;
        double idleOut = 0, idleIn = 0;
    };
    /// The parts before a position, with their copies to the host that are left when the last part's forward ends, and
    /// their copies back that must be made before the last part's backward begins.
    struct Label
    {
        double outMs = 0, inMs = 0;
        double idleOutMs = 0, idleInMs = 0; ///< idle time that may hide copies anywhere
        double ms = 0;

        double exposedMs() const { return std::max(0.0, outMs - idleOutMs) + std::max(0.0, inMs - idleInMs); }
        ArcOption option; ///< the last one
        std::size_t from = 0; ///< the label before
    };

    OptionTimes timesOf(const ArcOption& option) const
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
        times.lead = std::max(0.0, own.leadMs - times.again);
        times.moreOut = own.moreOutMs;
        times.moreIn = own.moreInMs;
        return times;
    }

    Label after(Label label, std::size_t arc, const OptionTimes& times) const
    {
        const auto first = static_cast<std::size_t>(problem_.arcs()[arc].first);
        const auto last = static_cast<std::size_t>(problem_.arcs()[arc].last);
        const bool begins = times.moreIn > 0;
        label.idleOutMs += times.idleOut;
        label.idleInMs += times.idleIn;
        label.outMs += times.out;
        label.inMs += times.in;
        for (std::size_t position = first; position < last; ++position) {
            label.outMs = std::max(0.0, label.outMs - copies_.forwardMs[position]);
            label.inMs = std::max(
                0.0, label.inMs - copies_.backwardMs[position] - (position + 1 == last && !begins ? times.again : 0));
        }
        label.outMs = std::max(0.0, std::max(label.outMs, times.tail) - times.moreOut);
        label.inMs = std::max(0.0, std::max(label.inMs, times.lead) - (begins ? times.moreIn + times.again : 0));
        return label;
    }

    /// Whether an option is no better than another option, if a ms of copies costs a ms, the most that copies cost.
    bool isWorse(const OptionTimes& times, double cost, const OptionTimes& than, double thanCost) const
    {
        return thanCost + above(than.out, times.out) + above(than.tail, times.tail) + above(than.lead, times.lead)
            + above(than.in - than.again, times.in - times.again) + above(times.moreOut, than.moreOut)
            + above(times.moreIn, than.moreIn) + above(times.idleOut, than.idleOut) + above(times.idleIn, than.idleIn)
            <= cost + leftOutMs_;
    }

    bool isWorse(const Label& label, const Label& than) const
    {
        return than.ms + above(than.outMs, label.outMs) + above(than.inMs, label.inMs)
            + above(label.idleOutMs, than.idleOutMs) + above(label.idleInMs, than.idleInMs)
            <= label.ms + leftOutMs_;
    }

    static double above(double a, double b) { return std::max(0.0, a - b); }

    /// Leaves out candidates that are worse than a cheaper candidate.
    template <typename T, typename Cost, typename IsWorse>
    static void keepBest(std::vector<T>& candidates, const Cost& cost, const IsWorse& isWorse)
    {
        std::ranges::sort(candidates, {}, cost);
        std::vector<T> best;
        for (const T& candidate : candidates) {
            SearchLimit::count(static_cast<double>(best.size() + 1), nsPerComparison);
            if (std::ranges::none_of(best, [&](const T& than) { return isWorse(candidate, than); }))
                best.push_back(candidate);
        }
        candidates = std::move(best);
    }

    std::vector<std::size_t> bestOptions(std::size_t arc, const std::vector<double>& costs) const
    {
        std::vector<std::size_t> options(costs.size());
        std::iota(options.begin(), options.end(), std::size_t{0});
        keepBest(
            options, [&](std::size_t option) { return costs[option]; },
            [&](std::size_t option, std::size_t than) {
                return isWorse(times_[arc][option], costs[option], times_[arc][than], costs[than]);
            });
        return options;
    }

    void keepBestLabels(std::vector<Label>& labels) const
    {
        keepBest(labels, &Label::ms, [&](const Label& label, const Label& than) { return isWorse(label, than); });
    }

    const RowProblem& problem_;
    const CopyLimits& copies_;
    double leftOutMs_; ///< options and labels are left out if others cost at most so much more
    std::vector<std::vector<OptionTimes>> times_; ///< by arc, by option
};

class Mixture
{
public:
    Mixture(const RowProblem& problem, const CopyLimits& copies, Bytes budget, double knownMs,
            std::vector<std::uint32_t>& events)
        : problem_(problem)
        , errorMs_(errorShare * knownMs)
        , plans_(problem, copies, errorMs_)
        , budget_(budget)
        , bytesPerUnit_(static_cast<double>(budget) / budgetUnits)
        , events_(events)
    {
        programme_.addRow({}, 1, 1);
        for (const std::uint32_t event : events)
            addRow(event);
    }

    OffloadBound run(double knownMs, double enoughMs, const SearchLimit& limit)
    {
        OffloadBound bound;
        std::vector<std::pair<int, double>> known{{0, 1.0}};
        for (std::size_t row = 0; row < rows_.size(); ++row)
            known.emplace_back(static_cast<int>(row) + 1, unitsLeft(rows_[row]));
        programme_.addColumnTo(known, knownMs);
        while (!limit.reached()) {
            const LinearResult mixed = programme_.relax(limit);
            if (mixed.status != MilpStatus::optimal)
                break;
            OptionShares shares;
            bound.plans.clear();
            for (std::size_t i = 0; i < columns_.size(); ++i)
                if (const double part = mixed.values[i + 1]; part > 0) {
                    bound.plans.push_back(columns_[i]);
                    for (const auto& [option, share] : columns_[i])
                        shares.emplace_back(option, share * part);
                }
            if (mixed.values.front() < 1 - rowTolerance && addRowFor(shares, mixed.values.front()))
                continue;
            const PricedPlans::Found found = plans_.find(costsAt(mixed.duals), limit);
            if (found.options.empty())
                break;
            double ms = found.ms - errorMs_;
            for (std::size_t row = 0; row < rows_.size(); ++row)
                ms += std::min(0.0, mixed.duals[row + 1]) * unitsLeft(rows_[row]);
            bound.ms = std::max(bound.ms, ms);
            if (bound.ms >= enoughMs
                || mixed.objective - ms <= errorMs_ + std::max(tolerance, enoughGap * mixed.objective))
                break;
            addPlan(found.options, plans_.msOf(found.options));
        }
        return bound;
    }

private:
    double unitsOf(const RowProblem::Row& row, const OptionShares& options) const
    {
        Bytes bytes = 0;
        for (const auto& [option, share] : options)
            bytes += problem_.changeIn(row, option);
        return static_cast<double>(bytes) / bytesPerUnit_;
    }

    double unitsLeft(const RowProblem::Row& row) const
    {
        return static_cast<double>(row.most - row.bytes) / bytesPerUnit_;
    }

    void addRow(std::uint32_t event)
    {
        const RowProblem::Row& row = rows_.emplace_back(problem_.rowAt(event, RowProblem::Memory::atLeast, budget_));
        std::vector<GlpkProblem::Term> terms;
        if (!columns_.empty())
            terms.push_back({0, unitsLeft(row)});
        for (std::size_t i = 0; i < columns_.size(); ++i)
            terms.push_back({static_cast<int>(i) + 1, unitsOf(row, columns_[i])});
        programme_.addRow(terms, -GlpkProblem::infinity, unitsLeft(row));
    }

    void addPlan(const OptionShares& options, double ms)
    {
        std::vector<std::pair<int, double>> rows{{0, 1.0}};
        for (std::size_t row = 0; row < rows_.size(); ++row)
            rows.emplace_back(static_cast<int>(row) + 1, unitsOf(rows_[row], options));
        programme_.addColumnTo(rows, ms);
        columns_.push_back(options);
    }

    /// `known` is the share of the known plan, which takes the budget at each event.
    bool addRowFor(const OptionShares& shares, double known)
    {
        std::vector<double> memory = problem_.memoryUnder(shares, RowProblem::Memory::atLeast);
        if (known > 0) {
            const std::vector<double> without = problem_.memoryUnder({}, RowProblem::Memory::atLeast);
            for (std::size_t event = 0; event < memory.size(); ++event)
                memory[event] += known * (static_cast<double>(budget_) - without[event]);
        }
        const auto highest = std::ranges::max_element(memory);
        const auto event = static_cast<std::uint32_t>(highest - memory.begin());
        if (*highest <= static_cast<double>(budget_) + rowTolerance * bytesPerUnit_ || rows_.size() >= mostRows
            || std::ranges::find(rows_, event, &RowProblem::Row::event) != rows_.end())
            return false;
        addRow(event);
        events_.push_back(event);
        return true;
    }

    std::vector<std::vector<double>> costsAt(const std::vector<double>& duals) const
    {
        std::vector<std::vector<double>> costs;
        for (std::size_t arc = 0; arc < problem_.arcs().size(); ++arc) {
            std::vector<double>& own = costs.emplace_back(problem_.optionCount(arc));
            for (std::size_t option = 0; option < own.size(); ++option)
                own[option] = problem_.effectOf({arc, option}).recomputeMs;
            for (std::size_t row = 0; row < rows_.size(); ++row) {
                const double price = -duals[row + 1] / bytesPerUnit_;
                if (price <= 0)
                    continue;
                const std::span<const double> changes = problem_.changesIn(rows_[row], arc);
                for (std::size_t option = 0; option < changes.size(); ++option)
                    own[option] += price * changes[option];
            }
        }
        return costs;
    }

    const RowProblem& problem_;
    double errorMs_;
    PricedPlans plans_;
    Bytes budget_;
    double bytesPerUnit_;
    std::vector<std::uint32_t>& events_;
    std::vector<RowProblem::Row> rows_;
    std::vector<OptionShares> columns_;
    GlpkProblem programme_;
};

} // namespace

OffloadBound boundOfMixtures(const RowProblem& problem, const CopyLimits& copies, Bytes budget,
                             std::vector<std::uint32_t>& events, double knownMs, double enoughMs,
                             const SearchLimit& limit)
{
    return Mixture(problem, copies, budget, knownMs, events).run(knownMs, enoughMs, limit);
}

std::optional<OptionChoices> choicesNear(const RowProblem& problem, const OptionShares& shares)
{
    OptionChoices choices;
    for (std::size_t position = 0; position < problem.positions();) {
        std::map<std::size_t, double> arcs; // share of the arcs that begin here
        for (const auto& [option, share] : shares)
            if (static_cast<std::size_t>(problem.arcs()[option.arc].first) == position)
                arcs[option.arc] += share;
        if (arcs.empty())
            return std::nullopt;
        const auto largest = std::ranges::max_element(arcs, {}, [](const auto& arc) { return arc.second; });
        std::vector<ArcOption>& options = choices.options.emplace_back();
        for (const auto& [option, share] : shares)
            if (option.arc == largest->first)
                options.push_back(option);
        position = static_cast<std::size_t>(problem.arcs()[largest->first].last);
    }
    for (std::vector<ArcOption>& options : choices.options) {
        if (choices.plans * options.size() > mostRounded)
            options.resize(1);
        choices.plans *= options.size();
    }
    return choices;
}

} // namespace headroom
