// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_price.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace headroom {

namespace {

constexpr int mostDoublings = 60;
constexpr int mostHalvings = 24;

/// The path that is cheapest when each byte that is held costs `price` picoseconds.
ChainPath cheapest(const ChainProblem& problem, double price)
{
    struct Reached
    {
        double cost = std::numeric_limits<double>::infinity();
        ChainStep step;
    };
    std::vector<Reached> best(static_cast<std::size_t>(problem.positions) + 1);
    best.front().cost = 0;
    for (std::size_t i = 0; i < problem.arcs.size(); ++i) {
        const ChainArc& arc = problem.arcs[i];
        const double before = best[static_cast<std::size_t>(arc.first)].cost;
        Reached& after = best[static_cast<std::size_t>(arc.last)];
        for (std::size_t o = 0; o < arc.options.size(); ++o) {
            const ChainOption& option = arc.options[o];
            const double cost = before + static_cast<double>(option.time) + price * static_cast<double>(option.held);
            if (cost < after.cost)
                after = {cost, {static_cast<int>(i), static_cast<int>(o)}};
        }
    }
    ChainPath path;
    if (best.back().cost == std::numeric_limits<double>::infinity())
        return path;
    for (int position = problem.positions; position > 0;
         position = problem.arcs[static_cast<std::size_t>(path.back().arc)].first)
        path.push_back(best[static_cast<std::size_t>(position)].step);
    std::ranges::reverse(path);
    return path;
}

/// Where a path takes most memory: a position, or the number of positions for the loss.
int highestRow(const ChainProblem& problem, const ChainPath& path)
{
    Bytes held = 0;
    Bytes most = std::numeric_limits<Bytes>::min();
    int row = problem.positions;
    for (const ChainStep& step : path) {
        const ChainArc& arc = problem.arcs[static_cast<std::size_t>(step.arc)];
        const ChainOption& option = arc.options[static_cast<std::size_t>(step.option)];
        if (held + option.high > most) {
            most = held + option.high;
            row = arc.first;
        }
        held += option.held;
    }
    return held + problem.atLoss >= most ? problem.positions : row;
}

ChainPrices pricesAt(const ChainProblem& problem, int row, double price)
{
    ChainPrices prices{std::vector<double>(static_cast<std::size_t>(problem.positions), 0.0), 0};
    (row == problem.positions ? prices.loss : prices.position[static_cast<std::size_t>(row)]) = price;
    return prices;
}

} // namespace

ChainRelaxation relaxWithOnePrice(const ChainProblem& problem, Bytes budget)
{
    const auto fits = [&](const ChainPath& path) { return !path.empty() && valueOf(problem, path).peak <= budget; };
    double low = 0;
    double high = 1e-3; // picoseconds a byte
    ChainPath tooMuch = cheapest(problem, low);
    ChainPath enough = cheapest(problem, high);
    for (int i = 0; i < mostDoublings && !fits(enough); ++i) {
        low = std::exchange(high, 2 * high);
        tooMuch = std::exchange(enough, cheapest(problem, high));
    }
    for (int i = 0; i < mostHalvings; ++i) {
        const double middle = (low + high) / 2;
        ChainPath path = cheapest(problem, middle);
        (fits(path) ? high : low) = middle;
        (fits(path) ? enough : tooMuch) = std::move(path);
    }
    ChainRelaxation found{true, pricesAt(problem, highestRow(problem, tooMuch), high), std::move(enough)};
    if (found.rounded->empty())
        found.rounded.reset();
    return found;
}

} // namespace headroom
