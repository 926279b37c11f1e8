// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise_search.h"

#include "core/plan/piecewise_relaxation.h"

#include <algorithm>
#include <chrono>

namespace headroom {

namespace {

using Clock = std::chrono::steady_clock;

/// After so long the best plan so far is given, with the gap that is left.
constexpr double mostSearchMs = 10000;

/// What a solver in floating point cannot tell apart.
double tolerance(double ms)
{
    return 1e-7 + 1e-6 * ms;
}

/// One search: the best plan so far, the bound, and which rows the relaxation has.
class Search
{
public:
    Search(const PiecewiseProblem& problem, Bytes budget, std::stop_token stop)
        : problem_(problem)
        , budget_(budget)
        , stop_(std::move(stop))
        , allRows_(problem.allRows())
    {
    }

    Result<PiecewiseSolution> run();

private:
    bool start();
    void improve(std::vector<bool> chosen);
    bool proven() const { return best_.discards.ms - best_.boundMs <= tolerance(best_.discards.ms); }
    bool refine(const std::vector<bool>& chosen);
    PiecewiseSolution finished();

    const PiecewiseProblem& problem_;
    Bytes budget_;
    std::stop_token stop_;
    std::vector<int> allRows_;
    std::vector<int> active_;
    std::size_t coarseness_ = PiecewiseModules::byMemoryAndTime;
    PiecewiseSolution best_;
};

/// A first plan; false when there is nothing to search.
bool Search::start()
{
    const auto units = problem_.units();
    std::vector<bool> forced(units.size());
    for (std::size_t unit = 0; unit < units.size(); ++unit)
        forced[unit] = units[unit].forced;
    if (const auto discards = problem_.allocate(forced, budget_, {}, PiecewiseProblem::Preference::later);
        problem_.peak(discards->bytes).bytes <= budget_) {
        best_.chosen = std::move(forced);
        best_.discards = *discards;
        best_.boundMs = discards->ms;
        return false;
    }
    improve(*problem_.mostDiscarding(budget_));
    active_ = {allRows_.back()};
    return true;
}

void Search::improve(std::vector<bool> chosen)
{
    auto discards = problem_.allocate(chosen, budget_, allRows_, PiecewiseProblem::Preference::later);
    if (discards && (best_.chosen.empty() || discards->ms < best_.discards.ms)) {
        best_.chosen = std::move(chosen);
        best_.discards = std::move(*discards);
    }
}

/// Makes the relaxation tighter where its solution cannot be placed: adds the row that is violated most. When none is,
/// its curves were too low: tells more units apart. False when there is nothing left to tighten.
bool Search::refine(const std::vector<bool>& chosen)
{
    const auto discards = problem_.allocate(chosen, budget_, active_, PiecewiseProblem::Preference::earlier);
    if (discards) {
        const PiecewiseProblem::Peak peak = problem_.peak(discards->bytes);
        if (peak.bytes > budget_) {
            active_.insert(std::ranges::upper_bound(active_, peak.row), peak.row);
            return true;
        }
    }
    return ++coarseness_ < PiecewiseModules::coarsenessCount;
}

PiecewiseSolution Search::finished()
{
    if (proven())
        best_.boundMs = best_.discards.ms;
    if (best_.status != PlanStatus::stopped)
        best_.status = proven() ? PlanStatus::optimal : PlanStatus::feasible;
    return std::move(best_);
}

Result<PiecewiseSolution> Search::run()
{
    const auto begin = Clock::now();
    best_.status = PlanStatus::feasible;
    if (!start())
        return finished();
    for (;;) {
        const std::chrono::duration<double, std::milli> spent = Clock::now() - begin;
        if (spent.count() >= mostSearchMs)
            return finished();
        PiecewiseRelaxation relaxation(problem_, budget_, active_, coarseness_);
        MilpOptions options;
        options.stop = stop_;
        options.limitMs = mostSearchMs - spent.count();
        const MilpResult solution = relaxation.solve(options);
        ++best_.solves;
        if (solution.status == MilpStatus::failed || solution.status == MilpStatus::infeasible)
            return Error{ErrorKind::internal,
                         "GLPK found no plan for a budget that has one: please report the model and the budget"};
        best_.boundMs = std::max(best_.boundMs, solution.bound);
        if (solution.status == MilpStatus::stopped || stop_.stop_requested()) {
            best_.status = PlanStatus::stopped;
            return finished();
        }
        if (solution.status != MilpStatus::timeout && !proven()) {
            const std::vector<bool> chosen = relaxation.place(solution, PiecewiseRelaxation::Order::outerFirst);
            improve(chosen);
            improve(relaxation.place(solution, PiecewiseRelaxation::Order::innerFirst));
            if (!proven() && solution.status == MilpStatus::optimal && refine(chosen))
                continue;
        }
        return finished();
    }
}

} // namespace

Result<PiecewiseSolution> searchPiecewise(const PiecewiseProblem& problem, Bytes budget, std::stop_token stop)
{
    return Search(problem, budget, std::move(stop)).run();
}

} // namespace headroom
