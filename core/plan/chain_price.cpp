// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_price.h"

#include <algorithm>
#include <utility>

namespace headroom {

PathExcess excessOf(const ChainProblem& problem, Bytes budget, ChainPath path)
{
    PathExcess found{std::move(path), 0, {}};
    found.excess.reserve(at(problem.positions) + 1);
    Bytes held = 0;
    for (const ChainStep& step : found.path) {
        const ChainArc& arc = problem.arcs[at(step.arc)];
        const ChainOption& option = arc.options[at(step.option)];
        found.excess.resize(at(arc.last), held + option.high - budget);
        found.time += static_cast<double>(option.time);
        held += option.held;
    }
    found.excess.push_back(held + problem.atLoss - budget);
    return found;
}

ChainPath cheapestPath(const ChainProblem& problem, const ChainPrices& prices)
{
    struct Reached
    {
        double cost = never;
        ChainStep step;
    };
    struct Choice
    {
        int kind = -1; ///< class
        double price = 0;
        double cost = never;
        int option = 0;
    };
    std::vector<double> price(at(problem.positions) + 1, prices.loss); // of a byte that is held from there on
    for (std::size_t position = at(problem.positions); position-- > 0;)
        price[position] = price[position + 1] + prices.position[position];
    std::vector<Reached> best(price.size());
    best.front().cost = 0;
    Choice latest; // equal parts choose alike
    for (std::size_t i = 0; i < problem.arcs.size(); ++i) {
        const ChainArc& arc = problem.arcs[i];
        const double after = price[at(arc.last)];
        const double own = price[at(arc.first)] - after;
        const int kind = arc.last - arc.first == 1 && own == 0 ? problem.classes[at(arc.first)] : -1;
        if (kind < 0 || latest.kind != kind || latest.price != after) {
            latest = {kind, after, never, 0};
            for (std::size_t o = 0; o < arc.options.size(); ++o) {
                const ChainOption& option = arc.options[o];
                const double cost = static_cast<double>(option.time) + after * static_cast<double>(option.held)
                    + own * static_cast<double>(option.high);
                if (cost < latest.cost) {
                    latest.cost = cost;
                    latest.option = static_cast<int>(o);
                }
            }
        }
        const double cost = best[at(arc.first)].cost + latest.cost;
        if (Reached& label = best[at(arc.last)]; cost < label.cost)
            label = {cost, {static_cast<int>(i), latest.option}};
    }
    ChainPath path;
    for (int position = problem.positions; position > 0; position = problem.arcs[at(path.back().arc)].first)
        path.push_back(best[at(position)].step);
    std::ranges::reverse(path);
    return path;
}

} // namespace headroom
