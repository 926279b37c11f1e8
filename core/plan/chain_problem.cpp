// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headroom {

namespace {

constexpr double perMs = 1e9;

} // namespace

Picoseconds picoseconds(double ms)
{
    return std::llround(ms * perMs);
}

double milliseconds(Picoseconds time)
{
    return static_cast<double>(time) / perMs;
}

ChainValue valueOf(const ChainProblem& problem, const ChainPath& path)
{
    ChainValue value{0, problem.constant};
    Bytes held = 0;
    for (const ChainStep& step : path) {
        const ChainOption& option = problem.option(step);
        value.peak = std::max(value.peak, option.high + held);
        value.time += option.time;
        held += option.held;
    }
    value.peak = std::max(value.peak, problem.atBoundary + held);
    return value;
}

ChainProblem mixed(const ChainProblem& a, const ChainProblem& b, double shareOfB)
{
    const auto between
        = [&](Bytes x, Bytes y) { return x + static_cast<Bytes>(std::floor(shareOfB * static_cast<double>(y - x))); };
    ChainProblem both = a;
    both.atBoundary = between(a.atBoundary, b.atBoundary);
    both.constant = between(a.constant, b.constant);
    for (std::size_t arc = 0; arc < a.arcs.size(); ++arc)
        for (std::size_t o = 0; o < a.arcs[arc].options.size(); ++o) {
            const ChainOption& other = b.arcs[arc].options[o];
            ChainOption& option = both.arcs[arc].options[o];
            option.held = between(option.held, other.held);
            option.high = between(option.high, other.high);
        }
    for (std::size_t position = 0; position < both.classes.size(); ++position)
        if (b.classes[position] != a.classes[position])
            both.classes[position] = -1;
    return both;
}

// A path that holds less can go on like every path that holds more, so that a label for each position is enough.
std::optional<ChainPath> minMemoryPath(const ChainProblem& problem, Bytes budget)
{
    struct Label
    {
        Bytes held = unreachable;
        ChainStep step;
    };
    if (problem.constant > budget)
        return std::nullopt;
    std::vector<Label> best(at(problem.positions) + 1);
    best.front().held = 0;
    for (std::size_t i = 0; i < problem.arcs.size(); ++i) {
        const ChainArc& arc = problem.arcs[i];
        const Bytes before = best[at(arc.first)].held;
        if (before == unreachable)
            continue;
        Label& after = best[at(arc.last)];
        for (std::size_t o = 0; o < arc.options.size(); ++o)
            if (arc.options[o].high + before <= budget && before + arc.options[o].held < after.held)
                after = {before + arc.options[o].held, {static_cast<int>(i), static_cast<int>(o)}};
    }
    if (best.back().held == unreachable || problem.atBoundary + best.back().held > budget)
        return std::nullopt;
    ChainPath path;
    for (int position = problem.positions; position > 0; position = problem.arcs[at(path.back().arc)].first)
        path.push_back(best[at(position)].step);
    std::ranges::reverse(path);
    return path;
}

std::vector<std::vector<bool>> unboundOptions(const ChainProblem& problem)
{
    std::vector<std::vector<bool>> unbound(problem.arcs.size());
    std::vector<Bytes> need(at(problem.positions) + 1, unreachable); // by position: least memory for the rest
    need.back() = problem.atBoundary;
    for (std::size_t i = problem.arcs.size(); i-- > 0;) {
        const ChainArc& arc = problem.arcs[i];
        Bytes& least = need[at(arc.first)];
        for (const ChainOption& option : arc.options) {
            const Bytes after = option.held + need[at(arc.last)];
            unbound[i].push_back(option.high <= after);
            least = std::min(least, std::max(option.high, after));
        }
    }
    return unbound;
}

Bytes leastBudget(const ChainProblem& problem)
{
    Bytes enough = std::max(problem.constant, problem.atBoundary);
    for (const ChainArc& arc : problem.arcs)
        for (const ChainOption& option : arc.options)
            enough = std::max(enough, option.high);
    while (!minMemoryPath(problem, enough)) // some options hold more than the recorded step
        enough *= 2;
    Bytes least = enough;
    for (Bytes low = 0; low < least;) {
        const Bytes middle = low + (least - low) / 2;
        if (minMemoryPath(problem, middle))
            least = middle;
        else
            low = middle + 1;
    }
    return least;
}

} // namespace headroom
