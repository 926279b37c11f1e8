// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_labels.h"

#include <algorithm>
#include <utility>

namespace headroom {

namespace {

constexpr double nsPerSortedOption = 33; ///< work of a sorted option

} // namespace

std::vector<double> ChainPrices::ofHeldBytes() const
{
    std::vector<double> prices(position.size() + 1, loss);
    for (std::size_t i = position.size(); i-- > 0;)
        prices[i] = prices[i + 1] + position[i];
    return prices;
}

ChainLabels::ChainLabels(const ChainProblem& problem, Bytes budget, const ChainPrices& prices, std::vector<bool> own)
    : problem_(&problem)
    , budget_(budget)
    , price_(prices.ofHeldBytes())
    , runOf_(at(problem.positions), -1)
    , arcsTo_(at(problem.positions) + 1)
{
    for (const ChainArc& arc : problem.arcs)
        SearchLimit::count(static_cast<double>(arc.options.size()), nsPerSortedOption);
    for (std::size_t arc = 0; arc < problem.arcs.size(); ++arc)
        arcsTo_[at(problem.arcs[arc].last)].push_back(static_cast<int>(arc));
    findRuns(prices.position, own);
    findBounds();
    sortOptions();
}

/// A position is in no run if the position's memory constraint has a price, a wider arc covers the position, or the
/// caller says so in `own`.
void ChainLabels::findRuns(const std::vector<double>& rowPrices, const std::vector<bool>& own)
{
    std::vector<bool> covered(at(problem_->positions), false); // by a wider arc
    for (const ChainArc& arc : problem_->arcs)
        if (arc.last - arc.first > 1)
            std::fill(covered.begin() + arc.first, covered.begin() + arc.last, true);
    const auto may = [&](std::size_t position) {
        return problem_->classes[position] >= 0 && !covered[position] && rowPrices[position] <= 0
            && (own.empty() || !own[position]);
    };
    for (std::size_t begin = 0, end = 0; begin < at(problem_->positions); begin = end) {
        for (end = begin + 1; end < at(problem_->positions) && may(begin) && may(end)
             && problem_->classes[end] == problem_->classes[begin];)
            ++end;
        if (end - begin > 1)
            std::fill(runOf_.begin() + static_cast<std::ptrdiff_t>(begin),
                      runOf_.begin() + static_cast<std::ptrdiff_t>(end), static_cast<int>(begin));
    }
}

bool ChainLabels::sameRun(int position, int other) const
{
    return other >= 0 && other < problem_->positions && isFree(at(position))
        && runOf_[at(position)] == runOf_[at(other)];
}

/// The time of an option plus the price of the option's memory: the option's share of the bound.
double ChainLabels::priceOf(const ChainOption& option, const ChainArc& arc) const
{
    const double after = price_[at(arc.last)];
    const double own = price_[at(arc.first)] - after;
    return static_cast<double>(option.time) + after * static_cast<double>(option.held)
        + own * static_cast<double>(option.high - budget_);
}

void ChainLabels::findBounds()
{
    const std::size_t count = at(problem_->positions) + 1;
    rest_.assign(count, infiniteCost);
    head_.assign(count, infiniteCost);
    leastNeed_.assign(count, unreachable);
    leastHeld_.assign(count, unreachable);
    rest_.back() = price_.back() * static_cast<double>(problem_->atBoundary - budget_);
    leastNeed_.back() = problem_->atBoundary;
    for (std::size_t i = problem_->arcs.size(); i-- > 0;) {
        const ChainArc& arc = problem_->arcs[i];
        for (const ChainOption& option : arc.options) {
            const Bytes need = option.held + leastNeed_[at(arc.last)];
            rest_[at(arc.first)] = std::min(rest_[at(arc.first)], priceOf(option, arc) + rest_[at(arc.last)]);
            leastNeed_[at(arc.first)]
                = std::min(leastNeed_[at(arc.first)], isFree(at(arc.first)) ? need : std::max(option.high, need));
        }
    }
    head_.front() = 0;
    leastHeld_.front() = 0;
    for (const ChainArc& arc : problem_->arcs)
        for (const ChainOption& option : arc.options) {
            head_[at(arc.last)] = std::min(head_[at(arc.last)], head_[at(arc.first)] + priceOf(option, arc));
            leastHeld_[at(arc.last)] = std::min(leastHeld_[at(arc.last)], leastHeld_[at(arc.first)] + option.held);
        }
}

void ChainLabels::sortOptions()
{
    cheapestFirst_.resize(problem_->arcs.size());
    cheapestBack_.resize(problem_->arcs.size());
    for (std::size_t i = 0; i < problem_->arcs.size(); ++i) {
        const ChainArc& arc = problem_->arcs[i];
        const auto sorted = [&](auto cost) {
            std::vector<std::pair<double, int>> costs;
            costs.reserve(arc.options.size());
            for (const ChainOption& option : arc.options)
                costs.emplace_back(cost(option), static_cast<int>(costs.size()));
            std::ranges::sort(costs);
            std::vector<int> order;
            order.reserve(costs.size());
            for (const auto& [price, option] : costs)
                order.push_back(option);
            return order;
        };
        const double after = price_[at(arc.last)];
        cheapestFirst_[i] = sorted([&](const ChainOption& option) {
            return static_cast<double>(option.time) + after * static_cast<double>(option.held);
        });
        cheapestBack_[i] = after == price_[at(arc.first)]
            ? cheapestFirst_[i]
            : sorted([&](const ChainOption& option) { return priceOf(option, arc); });
    }
}

/// Reorders the options within each run, least held bytes first, so that the run's memory constraints are violated only
/// if inevitable.
void ChainLabels::lineUp(ChainPath& path) const
{
    for (std::size_t begin = 0, end = 0; begin < path.size(); begin = end) {
        const int first = problem_->arcs[at(path[begin].arc)].first;
        for (end = begin + 1; end < path.size() && sameRun(first, problem_->arcs[at(path[end].arc)].first);)
            ++end;
        const std::vector<ChainOption>& options = problem_->arcs[at(path[begin].arc)].options;
        std::vector<int> taken;
        for (std::size_t i = begin; i < end; ++i)
            taken.push_back(path[i].option);
        if (end - begin > 1)
            std::ranges::stable_sort(taken, {}, [&](int option) { return options[at(option)].held; });
        for (std::size_t i = begin; i < end; ++i)
            path[i].option = taken[i - begin];
    }
}

int ChainLabels::brokenRow(const ChainPath& path) const
{
    Bytes held = 0;
    for (const ChainStep& step : path) {
        const ChainOption& option = problem_->option(step);
        if (held + option.high > budget_)
            return problem_->arcs[at(step.arc)].first;
        held += option.held;
    }
    return -1;
}

} // namespace headroom
