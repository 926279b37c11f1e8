// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/policy/step_solver.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

namespace headroom {

namespace {

constexpr int mostOffloadTries = 6; ///< problems that are solved for one budget
constexpr std::size_t mostRounded = 64; ///< whole plans near a solution of the linear relaxation
constexpr std::size_t mostPromising = 64; ///< ways of an arc that may replace that of such a plan
constexpr double goodGap = 0.02; ///< at this gap the rows are not searched
constexpr double offloadGap = 0.01; ///< gap of a search in rows
constexpr double narrower = 0.8; ///< the next time for hidden copies, if more copies were exposed than expected
constexpr double exposedTolerance = 0.02; ///< exposed copies beyond the expected ones, as a share of the plan's time
constexpr double shareOfRecompute = 0.5; ///< part of the remaining time for plans without offload
constexpr double shareOfImproving = 0.6; ///< part of the remaining time for changes of proposed plans
constexpr double shareOfSearch = 0.5; ///< part of the remaining time for a search of the rows
constexpr double sharesOfTime[] = {1, 0.5, 0.25}; ///< time for copies in relaxations
constexpr double leastGainMs = 1e-6;
constexpr std::size_t fewWays = 60; ///< ways beside those of the relaxation
constexpr std::size_t manyWays = 400;
constexpr std::size_t mostProvable = 4000; ///< a bound is not searched with more ways
constexpr double leastRecomputeMs = 2;
constexpr double leastMemoryLimitMs = 300;

double offloadCost(const Plan& plan)
{
    return plan.recomputeMs + plan.offload.exposedMs;
}

} // namespace

/// Searches plans with offload within a budget. The rows choose what moves, with the copies' time as a limit. Then the
/// clock decides when the tensors leave the device and come back.
class StepSolver::OffloadSearch
{
public:
    OffloadSearch(const StepSolver& solver, const OffloadProblem& problem, Bytes budget, Bytes host,
                  const SearchLimit& limit)
        : solver_(solver)
        , problem_(problem.rows)
        , schedule_(problem.schedule)
        , budget_(budget)
        , limit_(limit)
        , copies_(problem.copies)
        , host_(host)
    {
        copies_.host = host;
        forwardMs_ = std::accumulate(copies_.forwardMs.begin(), copies_.forwardMs.end(), 0.0);
    }

    Result<std::optional<PlanAnswer>> run()
    {
        const RowAnswer bound = relaxRows(problem_, budget_, atLeast, limit_, copies_, hints_);
        boundMs_ = withoutPrice(bound.boundMs);
        RETURN_IF_ERROR(search([this](Bytes budget, const CopyLimits& copies) { return near(budget, copies); }));
        RETURN_IF_ERROR(recomputeAlone());
        RETURN_IF_ERROR(searchRows(fewWays));
        RETURN_IF_ERROR(raiseBound());
        RETURN_IF_ERROR(searchRows(manyWays));
        if (best_) {
            best_->plan.msPerGiB = bound.msPerGiB;
            best_->plan.boundMs = std::min(boundMs_, belowMs_);
            best_->plan.gap = gapTo(best_->plan.boundMs, belowMs_);
            best_->plan.status = best_->plan.gap > 0 ? PlanStatus::feasible : PlanStatus::optimal;
        }
        return std::move(best_);
    }

private:
    using enum RowProblem::Memory;

    bool isOpen() const { return gapTo(boundMs_, belowMs_) > goodGap && !limit_.reached(); }

    /// The rows count a small price of hidden copies.
    double withoutPrice(double rowsMs) const
    {
        return std::max(0.0, rowsMs * (1 - copyPrice) - copyPrice * forwardMs_);
    }
    double withPrice(double ms) const { return (ms + copyPrice * forwardMs_) / (1 - copyPrice); }

    /// Searches plans without offload that take less than the best plan so far.
    Status recomputeAlone()
    {
        if (solver_.minMemoryPlan_.timeline->peak > budget_)
            return {};
        const bool moves = best_ && offloads(best_->regions); // else the plan of best() is preferred
        const double belowMs = moves ? belowMs_ : std::numeric_limits<double>::infinity();
        const double limitMs = limit_.remainingMs() * (best_ ? shareOfRecompute : 1);
        ASSIGN_OR_RETURN(std::optional<PlanAnswer> found,
                         solver_.bestBelow(budget_, belowMs, limit_.stop, std::max(limitMs, leastRecomputeMs)));
        if (!found)
            return {};
        setOffload(solver_.model_, found->regions, *found->timeline, found->plan); // of pinned modules
        if (const double ms = offloadCost(found->plan); ms <= belowMs_) {
            belowMs_ = ms;
            best_ = std::move(found);
        }
        return {};
    }

    /// Searches the best plans of the rows among the ways of the relaxation and `moreWays`.
    Status searchRows(std::size_t moreWays)
    {
        if (best_ && !isOpen())
            return {};
        const SearchLimit limit = SearchLimit::after(limit_.remainingMs() * shareOfSearch, limit_.stop);
        return search([&](Bytes budget, const CopyLimits& copies) -> Result<std::optional<Proposed>> {
            RowAnswer answer
                = solveRows(problem_, budget, atMost, offloadGap, limit, copies, withPrice(belowMs_), hints_, moreWays);
            if (!answer.plan)
                return std::optional<Proposed>();
            Value value = valueOf(answer.ways, budget);
            return std::optional(Proposed{std::move(value.plan), value.ms});
        });
    }

    /// Proves a better bound with whole ways, of which only those of better plans are left. The plan of the proof may
    /// fit.
    Status raiseBound()
    {
        if (!best_ || !isOpen())
            return {};
        const SearchLimit limit = SearchLimit::after(limit_.remainingMs() * shareOfSearch, limit_.stop);
        RowAnswer answer = solveRows(problem_, budget_, atLeast, offloadGap, limit, copies_, withPrice(belowMs_),
                                     hints_, mostProvable);
        boundMs_ = std::max(boundMs_, withoutPrice(answer.boundMs));
        if (!answer.plan)
            return {};
        RETURN_IF_ERROR(take(valueOf(answer.ways, budget_).plan));
        return {};
    }

    /// A plan of the rows, and the time that the rows expect; nullopt: none.
    struct Proposed
    {
        CheckpointPlan plan;
        double ms = 0;
    };

    /// A whole plan with its schedule of copies: bytes above the budget, and the time.
    struct Value
    {
        Bytes excess = 0;
        double ms = 0;
        CheckpointPlan plan;

        bool operator<(const Value& other) const
        {
            return std::pair(std::max<Bytes>(0, excess), ms + leastGainMs)
                < std::pair(std::max<Bytes>(0, other.excess), other.ms);
        }
    };

    /// Proposes a plan near the solutions of linear relaxations with less and less time for copies: what the relaxation
    /// takes for hidden may be exposed.
    Result<std::optional<Proposed>> near(Bytes budget, const CopyLimits& copies)
    {
        struct Near
        {
            Value value;
            WayShares ways;
            std::vector<std::vector<std::size_t>> promising;
        };
        std::vector<Near> found;
        for (const double share : sharesOfTime) {
            if (!found.empty() && limit_.reached())
                break;
            RowAnswer answer
                = relaxRows(problem_, budget, atMost, limit_, shortened(copies, share), hints_, mostPromising);
            std::optional<WayShares> plan = rounded(answer.relaxed, budget);
            if (!plan)
                continue;
            Value value = valueOf(*plan, budget);
            const bool isGood = value.excess <= 0 && gapTo(boundMs_, value.ms) <= goodGap;
            found.push_back({std::move(value), *std::move(plan), std::move(answer.promising)});
            if (isGood)
                break;
        }
        if (found.empty())
            return std::optional<Proposed>();
        std::ranges::stable_sort(found, std::less(), &Near::value);
        const double limitMs = limit_.remainingMs() * shareOfImproving;
        for (Near& own : found)
            improve(own.ways, own.value, budget, own.promising,
                    SearchLimit::after(limitMs / static_cast<double>(found.size()), limit_.stop));
        std::ranges::stable_sort(found, std::less(), &Near::value);
        for (std::size_t i = 1; i < found.size() && !limit_.reached(); ++i)
            if (found[i].value.ms < belowMs_)
                RETURN_IF_ERROR(take(found[i].value.plan));
        return std::optional(Proposed{std::move(found.front().value.plan), found.front().value.ms});
    }

    /// A whole plan near the shares of a linear relaxation: of the few parts with several ways, all choices are tried.
    /// The quickest that fits by the upper bound of the memory, or the one that exceeds the budget least. nullopt:
    /// there are no shares.
    std::optional<WayShares> rounded(const WayShares& shares, Bytes budget) const
    {
        std::vector<std::vector<ArcWay>> choices;
        for (std::size_t position = 0; position < problem_.positions();) {
            std::map<std::size_t, double> arcs; // share of the arcs that begin here
            for (const auto& [way, share] : shares)
                if (at(problem_.arcs()[way.arc].first) == position)
                    arcs[way.arc] += share;
            if (arcs.empty())
                return std::nullopt;
            const auto largest = std::ranges::max_element(arcs, {}, [](const auto& arc) { return arc.second; });
            std::vector<ArcWay>& ways = choices.emplace_back();
            for (const auto& [way, share] : shares)
                if (way.arc == largest->first)
                    ways.push_back(way);
            position = at(problem_.arcs()[largest->first].last);
        }
        std::size_t combinations = 1;
        for (std::vector<ArcWay>& ways : choices) {
            if (combinations * ways.size() > mostRounded)
                ways.resize(1);
            combinations *= ways.size();
        }
        std::optional<WayShares> best;
        std::pair least{std::numeric_limits<Bytes>::max(), std::numeric_limits<double>::infinity()}; // excess, ms
        for (std::size_t number = 0; number < combinations; ++number) {
            WayShares whole;
            std::size_t rest = number;
            for (const std::vector<ArcWay>& ways : choices) {
                whole.emplace_back(ways[rest % ways.size()], 1.0);
                rest /= ways.size();
            }
            if (least.first == 0 && recomputeMs(whole) >= least.second)
                continue;
            const Value value = valueOf(whole, budget);
            if (const std::pair own(std::max<Bytes>(0, value.excess), value.ms); own < least) {
                least = own;
                best = std::move(whole);
            }
        }
        return best;
    }

    double recomputeMs(const WayShares& ways) const
    {
        double ms = 0;
        for (const auto& [way, share] : ways)
            ms += problem_.effectOf(way).recomputeMs;
        return ms;
    }

    /// Replaces single ways by promising ones as long as the plan becomes better and time is left.
    void improve(WayShares& ways, Value& best, Bytes budget, const std::vector<std::vector<std::size_t>>& promising,
                 const SearchLimit& limit) const
    {
        std::size_t unchanged = 0;
        for (std::size_t place = 0; unchanged < ways.size(); place = (place + 1) % ways.size()) {
            ++unchanged;
            for (const std::size_t way : promising[ways[place].first.arc]) {
                if (limit.reached())
                    return;
                const ArcWay own = ways[place].first;
                const double more = problem_.effectOf({own.arc, way}).recomputeMs - problem_.effectOf(own).recomputeMs;
                if (way == own.way || (best.excess <= 0 && recomputeMs(ways) + more >= best.ms))
                    continue;
                const std::size_t before = std::exchange(ways[place].first.way, way);
                if (Value value = valueOf(ways, budget); value < best) {
                    best = std::move(value);
                    unchanged = 0;
                } else {
                    ways[place].first.way = before;
                }
            }
        }
    }

    Value valueOf(const WayShares& plan, Bytes budget) const
    {
        const std::vector<double> memory = problem_.memoryUnder(plan, atMost);
        std::vector<double> again(problem_.positions(), 0);
        double ms = 0;
        bool moves = false;
        for (const auto& [way, share] : plan) {
            const LocalEffect& effect = problem_.effectOf(way);
            moves = moves || effect.movedBytes > 0;
            again[at(problem_.arcs()[way.arc].last - 1)] += effect.recomputeMs;
            ms += effect.recomputeMs + (effect.movedBytes > 0 ? copyPrice * copyMs(copies_.link, effect) : 0);
        }
        Value value{static_cast<Bytes>(std::ranges::max(memory)) - budget, ms, problem_.planOf(plan)};
        if (!moves)
            return value;
        CopySchedule::Found found = schedule_.find(std::move(value.plan), memory, budget, again);
        value.ms += found.exposedMs;
        value.plan = std::move(found.plan);
        return value;
    }

    /// Tries proposals. Where a plan takes more memory than the rows expect, the next budget is smaller; where more
    /// copies are exposed, the next proposal has less time for copies.
    template <class Propose>
    Status search(const Propose& propose)
    {
        CopyLimits copies = copies_;
        Bytes rowsBudget = budget_;
        for (int i = 0; i < mostOffloadTries && (i == 0 || !limit_.reached()); ++i) {
            ASSIGN_OR_RETURN(std::optional<Proposed> proposed, propose(rowsBudget, copies));
            if (!proposed)
                break;
            ASSIGN_OR_RETURN(const Tried tried, take(std::move(proposed->plan)));
            if (tried.excess > 0)
                rowsBudget -= tried.excess;
            else if (tried.hostExcess > 0 && tried.hostExcess < copies.host)
                copies.host -= tried.hostExcess;
            else if (tried.hostExcess > 0 || tried.ms <= proposed->ms + exposedTolerance * tried.ms)
                break;
            else
                copies = shortened(std::move(copies), narrower);
        }
        return {};
    }

    static CopyLimits shortened(CopyLimits copies, double share)
    {
        for (std::vector<double>* times : {&copies.forwardMs, &copies.backwardMs})
            for (double& ms : *times)
                ms *= share;
        return copies;
    }

    /// What came of a plan: bytes above the budget and above the host memory, and the plan's time.
    struct Tried
    {
        Bytes excess = 0;
        Bytes hostExcess = 0;
        double ms = 0;
    };

    /// Predicts a plan, and keeps the plan if it is the best one so far.
    Result<Tried> take(CheckpointPlan regions)
    {

        ASSIGN_OR_RETURN(PlanAnswer found, solver_.predicted(std::move(regions)));
        Tried tried;
        tried.excess = found.timeline->peak - budget_;
        tried.hostExcess = host_ > 0 ? found.timeline->hostBytes - host_ : 0;
        tried.ms = found.plan.recomputeMs;
        if (tried.excess > 0 || tried.hostExcess > 0 || tried.ms >= belowMs_)
            return tried;
        clock(found);
        tried.ms = offloadCost(found.plan);
        if (tried.ms < belowMs_) {
            belowMs_ = tried.ms;
            best_ = std::move(found);
        }
        return tried;
    }

    void clock(PlanAnswer& found) const { setOffload(solver_.model_, found.regions, *found.timeline, found.plan); }

    const StepSolver& solver_;
    const RowProblem& problem_;
    const CopySchedule& schedule_;
    Bytes budget_;
    double belowMs_ = std::numeric_limits<double>::infinity(); ///< of the best plan
    const SearchLimit& limit_;
    RowHints hints_;
    CopyLimits copies_;
    Bytes host_ = 0; ///< as CopyLimits::host, but of the request
    double forwardMs_ = 0; ///< of all parts
    double boundMs_ = 0;
    std::optional<PlanAnswer> best_;
};

Result<const StepSolver::OffloadProblem*> StepSolver::offloadProblem(const std::stop_token& stop) const
{
    const std::lock_guard lock(mutex_);
    if (!offload_) {
        PartTree tree = tree_;
        tree.offloads = true;
        ASSIGN_OR_RETURN(RowProblem rows, RowProblem::create(model_, *events_, tree, worldSize_, stop));
        auto times = std::make_shared<const EventTimes>(eventTimes(*model_.trace(), model_.index()));
        offload_.emplace(
            OffloadProblem{std::move(rows), times, copyLimits(model_, *times, tree), {model_, *times, tree}});
        std::vector<std::vector<CopyLimits::Own>> own;
        for (std::size_t arc = 0; arc < offload_->rows.arcs().size(); ++arc) {
            std::vector<CopyLimits::Own>& ways = own.emplace_back(offload_->rows.waysOf(arc));
            for (std::size_t way = 0; offload_->copies.isChain && way < ways.size(); ++way)
                if (offload_->rows.effectOf({arc, way}).movedBytes > 0
                    || offload_->rows.arcs()[arc].last == static_cast<int>(offload_->rows.positions()))
                    ways[way] = offload_->schedule.ownOf(offload_->rows.planOf({{{arc, way}, 1.0}}),
                                                         offload_->rows.moduleOf(arc));
        }
        offload_->copies.own = std::make_shared<const std::vector<std::vector<CopyLimits::Own>>>(std::move(own));
    }
    return &*offload_;
}

Result<std::optional<PlanAnswer>> StepSolver::bestWithOffload(Bytes budget, Bytes host, const std::stop_token& stop,
                                                              double limitMs) const
{
    if (minTimePlan_.timeline->peak <= budget)
        return bestBelow(budget, std::numeric_limits<double>::infinity(), stop, limitMs);
    ASSIGN_OR_RETURN(const OffloadProblem* problem, offloadProblem(stop));
    const SearchLimit limit = SearchLimit::after(limitMs, stop);
    return OffloadSearch(*this, *problem, budget, host, limit).run();
}

Result<Bytes> StepSolver::leastWithOffload(const std::stop_token& stop) const
{
    ASSIGN_OR_RETURN(const OffloadProblem* problem, offloadProblem(stop));
    const std::lock_guard lock(mutex_);
    if (!leastWithOffload_) {
        leastWithOffload_ = minMemoryPlan_.timeline->peak;
        const SearchLimit limit = SearchLimit::after(leastMemoryLimitMs, stop);
        if (std::optional<CheckpointPlan> plan = minMemoryInRows(problem->rows, *leastWithOffload_, limit)) {
            ASSIGN_OR_RETURN(const PlanAnswer lean, predicted(std::move(*plan)));
            leastWithOffload_ = std::min(*leastWithOffload_, lean.timeline->peak);
        }
    }
    return *leastWithOffload_;
}

} // namespace headroom
