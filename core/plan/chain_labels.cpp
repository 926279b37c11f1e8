// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/chain_labels.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace headroom {

namespace {

/// Times are whole: what does not come below the known path by one is not better, rounding of bounds aside.
constexpr double lessThanOne = 0.75;

std::size_t at(int index)
{
    return static_cast<std::size_t>(index);
}

} // namespace

ChainLabels::ChainLabels(const ChainProblem& problem, Bytes budget, ChainPrices prices)
    : problem_(problem)
    , budget_(budget)
    , price_(at(problem.positions) + 1)
    , rest_(at(problem.positions) + 1, std::numeric_limits<double>::infinity())
    , leanest_(at(problem.positions) + 1, std::numeric_limits<Bytes>::max() / 4)
    , cheapestFirst_(problem.arcs.size())
{
    price_.back() = prices.loss;
    for (std::size_t position = at(problem.positions); position-- > 0;)
        price_[position] = price_[position + 1] + prices.position[position];
    rest_.back() = prices.loss * static_cast<double>(problem.atLoss - budget);
    leanest_.back() = 0;
    for (std::size_t i = problem.arcs.size(); i-- > 0;) {
        const ChainArc& arc = problem.arcs[i];
        const double own = price_[at(arc.first)] - price_[at(arc.last)];
        const double after = price_[at(arc.last)];
        std::vector<double> cost;
        for (const ChainOption& option : arc.options) {
            cost.push_back(static_cast<double>(option.time) + after * static_cast<double>(option.held));
            const double bound = cost.back() + own * static_cast<double>(option.high - budget) + rest_[at(arc.last)];
            rest_[at(arc.first)] = std::min(rest_[at(arc.first)], bound);
            leanest_[at(arc.first)] = std::min(leanest_[at(arc.first)], leanest_[at(arc.last)] + option.held);
        }
        cheapestFirst_[i].resize(arc.options.size());
        std::iota(cheapestFirst_[i].begin(), cheapestFirst_[i].end(), 0);
        std::ranges::sort(cheapestFirst_[i], {}, [&](int option) { return cost[at(option)]; });
    }
}

double ChainLabels::boundOf(const Label& label, int position) const
{
    return static_cast<double>(label.time) + rest_[at(position)]
        + price_[at(position)] * static_cast<double>(label.held);
}

/// The labels of one position while they come in, option by option. Each option makes of sorted labels sorted ones, so
/// that they are merged rather than sorted, those of equal length first; what is beaten goes as soon as it meets what
/// beats it.
class ChainLabels::Front
{
public:
    void add(Labels labels)
    {
        if (labels.empty())
            return;
        parts_.push_back(std::move(labels));
        while (parts_.size() > 1 && parts_[parts_.size() - 2].size() <= 2 * parts_.back().size())
            mergeLast();
    }

    Labels take()
    {
        while (parts_.size() > 1)
            mergeLast();
        Labels labels = parts_.empty() ? Labels() : std::move(parts_.back());
        parts_.clear();
        return labels;
    }

private:
    void mergeLast()
    {
        const Labels last = std::move(parts_.back());
        parts_.pop_back();
        parts_.back() = merged(parts_.back(), last);
    }

    static Labels merged(const Labels& a, const Labels& b)
    {
        Labels all;
        all.reserve(a.size() + b.size());
        Picoseconds best = std::numeric_limits<Picoseconds>::max();
        for (auto x = a.begin(), y = b.begin(); x != a.end() || y != b.end();) {
            const bool first
                = y == b.end() || (x != a.end() && (x->held < y->held || (x->held == y->held && x->time <= y->time)));
            const Label& next = first ? *x++ : *y++;
            if (next.time >= best)
                continue;
            best = next.time;
            all.push_back(next);
        }
        return all;
    }

    std::vector<Labels> parts_;
};

void ChainLabels::extend(const Labels& from, int arc, double below, const SearchLimit& limit, Front& to) const
{
    const ChainArc& way = problem_.arcs[at(arc)];
    const Bytes most = budget_ - problem_.atLoss - leanest_[at(way.last)];
    const double after = price_[at(way.last)];
    std::vector<double> bounds; // of what comes after, for a label that holds as much as this one
    bounds.reserve(from.size());
    double least = std::numeric_limits<double>::infinity();
    for (const Label& label : from) {
        bounds.push_back(static_cast<double>(label.time) + rest_[at(way.last)]
                         + after * static_cast<double>(label.held));
        least = std::min(least, bounds.back());
    }
    for (const int o : cheapestFirst_[at(arc)]) {
        const ChainOption& option = way.options[at(o)];
        const double own = static_cast<double>(option.time) + after * static_cast<double>(option.held);
        if (least + own > below || limit.reached())
            return;
        Labels next;
        for (std::size_t i = 0; i < from.size(); ++i) {
            const Bytes held = from[i].held + option.held;
            if (bounds[i] + own <= below && option.high + from[i].held <= budget_ && held <= most)
                next.push_back({held, from[i].time + option.time, static_cast<std::uint32_t>(i), {arc, o}});
        }
        to.add(std::move(next));
    }
}

void ChainLabels::narrow(Labels& labels, int position, std::size_t width) const
{
    std::vector<std::pair<double, std::size_t>> order;
    order.reserve(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i)
        order.emplace_back(boundOf(labels[i], position), i);
    std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(width));
    order.resize(width);
    std::ranges::sort(order, {}, &std::pair<double, std::size_t>::second);
    Labels kept;
    kept.reserve(width);
    for (const auto& [bound, i] : order)
        kept.push_back(labels[i]);
    labels = std::move(kept);
}

ChainPath ChainLabels::pathTo(const std::vector<Labels>& labels, std::size_t end) const
{
    ChainPath path;
    std::size_t index = end;
    for (int position = problem_.positions; position > 0;) {
        const Label& label = labels[at(position)][index];
        path.push_back(label.step);
        index = label.before;
        position = problem_.arcs[at(label.step.arc)].first;
    }
    std::ranges::reverse(path);
    return path;
}

ChainLabels::Pass ChainLabels::run(std::size_t width, std::optional<Picoseconds> below, const SearchLimit& limit) const
{
    Pass pass;
    pass.complete = true;
    const double mustBeat = below ? static_cast<double>(*below) - lessThanOne : std::numeric_limits<double>::infinity();
    std::vector<Labels> labels(at(problem_.positions) + 1);
    std::vector<Front> fronts(labels.size());
    if (problem_.constant <= budget_)
        fronts.front().add({Label{}});
    std::size_t arc = 0;
    for (int position = 0; position <= problem_.positions; ++position) {
        Labels& here = labels[at(position)];
        here = fronts[at(position)].take();
        if (here.size() > width) {
            narrow(here, position, width);
            pass.complete = false;
        }
        pass.labels += here.size();
        if (limit.reached()) {
            pass.complete = false;
            return pass;
        }
        for (; arc < problem_.arcs.size() && problem_.arcs[arc].first == position; ++arc)
            extend(here, static_cast<int>(arc), mustBeat, limit, fronts[at(problem_.arcs[arc].last)]);
    }
    const Labels& ends = labels.back();
    const auto best = std::ranges::min_element(ends, {}, &Label::time);
    if (best != ends.end() && (!below || best->time < *below))
        pass.path = pathTo(labels, static_cast<std::size_t>(best - ends.begin()));
    return pass;
}

} // namespace headroom
