// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/curves.h"
#include "core/base/try.h"
#include "core/policy/step_planner.h"
#include "core/policy/step_solver.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace headroom {

namespace {

constexpr double shortLimitMs = 100; ///< time limit of the search for one point
constexpr double mostGap = 0.01; ///< a point with a larger gap is searched once more, with the long limit
constexpr double longLimitMs = 2000;
constexpr std::size_t fewestTold = 6; ///< intermediate frontiers with fewer points are not reported

/// Orders 0 .. count - 1: both ends first, then halves, quarters and so on.
std::vector<std::size_t> farApartFirst(std::size_t count)
{
    std::vector<std::size_t> order{0};
    if (count > 1)
        order.push_back(count - 1);
    for (std::size_t stride = std::bit_ceil(count) / 2; stride > 0; stride /= 2)
        for (std::size_t i = stride; i + 1 < count; i += 2 * stride)
            order.push_back(i);
    return order;
}

/// The points of the frontier so far.
class Frontier
{
public:
    Frontier(const StepSolver& options, const PlanRequest& request, const std::stop_token& stop)
        : options_(options)
        , request_(request)
        , stop_(stop)
    {
    }

    /// Solves a budget, and notes that no better plan has a peak between that of its plan and the budget.
    Status ask(Bytes budget)
    {
        ASSIGN_OR_RETURN(const std::optional<PlanAnswer> best, solve(budget));
        if (!best)
            return {};
        const Timeline& timeline = *best->timeline;
        const double gap = best->plan.gap;
        const auto& offload = best->plan.offload;
        const FrontierPoint found{timeline.peak,     timeline.recomputeMs, gap,         0,
                                  offload.exposedMs, offload.moved,        offload.host};
        // A plan with a lower peak that takes no longer: the points above it are no break points.
        for (auto above = points_.upper_bound(timeline.peak);
             above != points_.end() && above->second.point.costMs() >= found.costMs();) {
            budget = std::max(budget, above->second.upTo);
            above = points_.erase(above);
        }
        Known& known = points_[timeline.peak];
        const Bytes upTo = std::max({known.upTo, budget, timeline.peak});
        if (known.upTo == 0 || gap < known.point.gap)
            known.point = found;
        known.upTo = upTo;
        return {};
    }

    /// The budget right below the point with the widest unknown gap before it; 0: no gap is left.
    Bytes widestGap() const
    {
        Bytes widest = 0;
        Bytes budget = 0;
        for (auto point = points_.begin(); point != points_.end(); ++point) {
            const auto next = std::next(point);
            if (next != points_.end() && next->first - 1 - point->second.upTo > widest) {
                widest = next->first - 1 - point->second.upTo;
                budget = next->first - 1;
            }
        }
        return budget;
    }

    std::size_t size() const { return points_.size(); }

    std::vector<FrontierPoint> result(std::size_t most) const
    {
        std::vector<FrontierPoint> front;
        for (const auto& [peak, known] : points_) {
            if (front.empty() || known.point.costMs() < front.back().costMs())
                front.push_back(known.point);
            front.back().upTo = std::max(front.back().upTo, known.upTo); // also of a plan that takes no less time
        }
        return spreadEvenly(front, most);
    }

private:
    struct Known
    {
        FrontierPoint point;
        Bytes upTo = 0; ///< no budget from the point's peak up to here allows less time
    };
    /// The best plan at a budget; nullopt if none was found, as may be below the least peak without offload.
    Result<std::optional<PlanAnswer>> solve(Bytes budget) const
    {
        if (request_.offload)
            return options_.bestWithOffload(budget, request_.hostMemory, stop_, longLimitMs);
        if (options_.minMemoryPlan().timeline->peak > budget)
            return std::optional<PlanAnswer>();
        ASSIGN_OR_RETURN(PlanAnswer best, options_.best(budget, stop_, shortLimitMs));
        if (best.plan.gap > mostGap && !stop_.stop_requested()) {
            ASSIGN_OR_RETURN(best, options_.best(budget, stop_, longLimitMs));
        }
        return std::optional(std::move(best));
    }

    const StepSolver& options_;
    const PlanRequest& request_;
    const std::stop_token& stop_;
    std::map<Bytes, Known> points_; ///< by peak
};

} // namespace

std::vector<FrontierPoint> withoutWorse(std::vector<FrontierPoint> points)
{
    std::ranges::stable_sort(points, {},
                             [](const FrontierPoint& point) { return std::pair(point.peak, point.costMs()); });
    std::vector<FrontierPoint> lower;
    for (const FrontierPoint& point : points)
        if (lower.empty() || point.costMs() < lower.back().costMs())
            lower.push_back(point);
    return lower;
}

bool movesAny(std::span<const FrontierPoint> points)
{
    return std::ranges::any_of(points, [](const FrontierPoint& point) { return point.movedBytes > 0; });
}

bool isComplete(std::span<const FrontierPoint> frontier)
{
    for (std::size_t i = 0; i < frontier.size(); ++i)
        if (frontier[i].gap > 0 || (i + 1 < frontier.size() && frontier[i].upTo + 1 < frontier[i + 1].peak))
            return false;
    return !frontier.empty();
}

Result<std::vector<FrontierPoint>> breakPoints(const StepSolver& options, const PlanRequest& request, int points,
                                               const std::stop_token& stop, const FrontierWatch& grown)
{
    Bytes least = options.minMemoryPlan().timeline->peak;
    if (request.offload) {
        ASSIGN_OR_RETURN(least, options.leastWithOffload(stop));
    }
    const Bytes most = std::max(least, options.minTimePlan().timeline->peak);
    const auto wanted = static_cast<std::size_t>(std::max(points, 2));
    Frontier frontier(options, request, stop);
    const auto tell = [&] {
        if (grown && frontier.size() >= fewestTold)
            grown(frontier.result(wanted));
    };
    for (const std::size_t i : farApartFirst(wanted)) {
        if (stop.stop_requested())
            break;
        const Bytes budget = least
            + static_cast<Bytes>(static_cast<double>(most - least) * static_cast<double>(i)
                                 / static_cast<double>(wanted - 1));
        RETURN_IF_ERROR(frontier.ask(i + 1 == wanted ? most : budget));
        tell();
    }
    // Then budgets in the gaps between the plans found.
    for (std::size_t tries = 0; tries < 2 * wanted && frontier.size() < wanted && !stop.stop_requested(); ++tries) {
        const Bytes budget = frontier.widestGap();
        if (budget == 0)
            break;
        RETURN_IF_ERROR(frontier.ask(budget));
        tell();
    }
    return frontier.result(wanted);
}

} // namespace headroom
