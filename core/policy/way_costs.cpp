// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/way_costs.h"

#include "core/base/curves.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

/// The ways that no other way dominates. Ways that hold less come first, so that a way comes after all that dominate
/// it.
std::vector<std::size_t> unbeaten(std::span<const WayCost> ways)
{
    std::vector<std::size_t> order(ways.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    std::ranges::sort(order, {},
                      [&](std::size_t i) { return std::tuple(ways[i].held, ways[i].high, ways[i].time, i); });
    std::vector<std::size_t> kept;
    std::map<Bytes, Picoseconds> least; // by highest memory: least time of the ways kept; it falls as memory rises
    for (const std::size_t i : order) {
        auto above = least.upper_bound(ways[i].high);
        if (above != least.begin() && std::prev(above)->second <= ways[i].time)
            continue;
        while (above != least.end() && above->second >= ways[i].time)
            above = least.erase(above);
        least[ways[i].high] = ways[i].time;
        kept.push_back(i);
    }
    return kept;
}

/// The corners of the lower hull of time over held bytes; `sorted` is by held, then time.
std::vector<std::size_t> hull(std::span<const WayCost> ways, const std::vector<std::size_t>& sorted)
{
    std::vector<std::size_t> corners = lowerHull(
        sorted, [&](std::size_t i) { return ways[i].held; }, [&](std::size_t i) { return ways[i].time; });
    std::ranges::transform(corners, corners.begin(), [&](std::size_t corner) { return sorted[corner]; });
    return corners;
}

} // namespace

std::vector<std::size_t> worthIt(std::span<const WayCost> ways, std::size_t most)
{
    std::vector<std::size_t> kept = unbeaten(ways);
    const auto order = [&](std::size_t i) { return std::tuple(ways[i].held, ways[i].time, i); };
    std::ranges::sort(kept, {}, order);
    if (kept.size() <= most)
        return kept;
    const std::vector<std::size_t> corners = hull(ways, kept);
    std::vector<std::size_t> others;
    std::ranges::set_difference(kept, corners, std::back_inserter(others), {}, order, order);
    kept = spreadEvenly(corners, most);
    const std::vector<std::size_t> more = spreadEvenly(others, most - kept.size());
    kept.insert(kept.end(), more.begin(), more.end());
    std::ranges::sort(kept, {}, order);
    return kept;
}

std::vector<Combination> bestSums(std::span<const std::vector<WayCost>> units, std::size_t most)
{
    struct Sum
    {
        Bytes held = 0;
        Picoseconds time = 0;
        std::size_t rest = 0; ///< index in the front before
        std::size_t way = 0;
    };
    std::vector<std::vector<Sum>> fronts{std::vector<Sum>(units.empty() ? 0 : 1)}; // after each unit
    for (const std::vector<WayCost>& ways : units) {
        const std::vector<Sum>& front = fronts.back();
        std::vector<Sum> all;
        all.reserve(front.size() * ways.size());
        for (std::size_t sum = 0; sum < front.size(); ++sum)
            for (std::size_t way = 0; way < ways.size(); ++way)
                all.push_back({front[sum].held + ways[way].held, front[sum].time + ways[way].time, sum, way});
        std::ranges::sort(all, {}, [](const Sum& sum) { return std::tuple(sum.held, sum.time, sum.rest, sum.way); });
        std::vector<Sum> kept;
        for (const Sum& sum : all)
            if (kept.empty() || sum.time < kept.back().time)
                kept.push_back(sum);
        fronts.push_back(spreadEvenly(kept, most));
    }
    std::vector<Combination> combinations;
    for (Sum sum : fronts.back()) {
        Combination ways(units.size());
        for (std::size_t unit = units.size(); unit-- > 0; sum = fronts[unit][sum.rest])
            ways[unit] = sum.way;
        combinations.push_back(std::move(ways));
    }
    return combinations;
}

std::vector<Combination> products(std::span<const std::vector<WayCost>> units, std::size_t most)
{
    if (units.empty())
        return {};
    const double each = std::floor(std::pow(static_cast<double>(most), 1.0 / static_cast<double>(units.size())) + 1e-9);
    std::vector<Combination> made{{}};
    for (const std::vector<WayCost>& ways : units) {
        const std::vector<std::size_t> some = worthIt(ways, std::max<std::size_t>(1, static_cast<std::size_t>(each)));
        std::vector<Combination> next;
        next.reserve(made.size() * some.size());
        for (const Combination& combination : made)
            for (const std::size_t way : some) {
                next.push_back(combination);
                next.back().push_back(way);
            }
        made = std::move(next);
    }
    return made;
}

} // namespace headroom
