// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_solver.h"

#include "core/base/try.h"
#include "core/plan/chain_planner.h"
#include "core/policy/shard_options.h"

#include <algorithm>
#include <limits>
#include <ranges>
#include <set>

namespace headroom {

namespace {

/// Number of table budgets that are tried for one budget of the step, if the table's memory is not exact.
constexpr int mostTries = 10;
constexpr int mostRelaxedTries = 3; ///< the same for a table with lower bounds of the memory
constexpr double shareOfTimeForFirst = 0.75; ///< part of the remaining time for a table with others after it
constexpr double shareOfTimeForBound = 0.5; ///< part of the remaining time for a bound if its plan may not fit

/// Distance of further mixtures of two lower bounds from the strongest one. If that leaves a wide gap, their plans may
/// fit better.
constexpr double mixtureStep = 1.0 / 16;

constexpr double fitGap = 0.01; ///< gap of a search that only tells whether its plan fits
constexpr double unprovenGap = 0.001; ///< gap of a search that cannot prove a plan optimal
constexpr double rowsGap = 0.005; ///< gap of a search in rows
constexpr double leastRowsMs = 50; ///< the rows are not searched in less time after the tables
constexpr double lateLimitMs = 200; ///< of a search of the tables after that of the rows
constexpr int hintParts = 16; ///< budgets with hints, and one
constexpr double hintsLimitMs = 10'000;
constexpr double minMemoryLimitMs = 300; ///< of the search in rows for the plan of least peak
constexpr double leastMemoryLimitMs = 300; ///< the same with offload
constexpr double nsPerPredictedEvent = 20; ///< work of an event of a predicted step

/// Unlimited memory, small enough to add to.
constexpr Bytes unlimitedBudget = std::numeric_limits<Bytes>::max() / 8;

/// Difference in ms between a rounded sum of times and the sum of the rounded times.
constexpr double tolerance = 1e-7;

double msPerGiB(double picosecondsPerByte)
{
    return picosecondsPerByte * static_cast<double>(GiB) / static_cast<double>(picoseconds(1));
}

/// Replaces the plan of `best`; what is known of the bound stays.
void takePlan(PlanAnswer& best, PlanAnswer found)
{
    best.regions = std::move(found.regions);
    best.timeline = std::move(found.timeline);
    best.plan.recomputeMs = found.plan.recomputeMs;
}

double gapOf(const PlanAnswer& best)
{
    return gapTo(best.plan.boundMs, best.plan.recomputeMs);
}

} // namespace

Result<PlanAnswer> StepSolver::predicted(CheckpointPlan regions) const
{
    ASSIGN_OR_RETURN(Timeline timeline, model_.predict(regions));
    SearchLimit::count(static_cast<double>(model_.trace()->events.size()), nsPerPredictedEvent);
    PlanAnswer found;
    found.regions = std::move(regions);
    found.timeline = std::make_shared<const Timeline>(perRank(std::move(timeline), worldSize_));
    found.plan.recomputeMs = found.timeline->recomputeMs;
    return found;
}

Result<StepSolverPtr> StepSolver::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                         int worldSize, const std::stop_token& stop)
{
    using enum StepLayout::SharedArguments;
    const std::shared_ptr<StepSolver> solver(new StepSolver(model, events, tree, worldSize));
    for (const auto shared : {held, asRecorded}) {
        ASSIGN_OR_RETURN(OptionTable table, OptionTable::create(model, events, tree, worldSize, shared, stop));
        const bool another = table.sharesArguments();
        // If a module with shared arguments is pinned to recompute, the second table has no path through the step.
        if (solver->tables_.empty() || minMemoryPath(table.problem(), unlimitedBudget)) {
            const std::optional<std::uint32_t> boundary = table.otherBoundary();
            Boundaries& boundaries = solver->tables_.emplace_back();
            boundaries.push_back(std::move(table));
            if (boundary) {
                ASSIGN_OR_RETURN(OptionTable other,
                                 OptionTable::create(model, events, tree, worldSize, shared, stop, boundary));
                boundaries.push_back(std::move(other));
            }
        }
        if (!another)
            break;
    }
    RETURN_IF_ERROR(solver->findEnds());
    if (solver->isNoChain_)
        RETURN_IF_ERROR(solver->findMinMemoryInRows(stop));
    return StepSolverPtr(solver);
}

/// Finds the quickest and the leanest plan. The first table has every option. A table sees what is saved at one
/// boundary from forward to backward only: where a step has several (models with a backward each, several backward
/// passes), the plan that recomputes all parts may be leaner than those of the tables.
Status StepSolver::findEnds()
{
    const bool forced = std::ranges::any_of(tree_.units, &PartTree::Unit::forced);
    const ChainProblem& chain = tables_.front().front().problem();
    const ChainPath minTimePlan = forced ? solveChain(chain, unlimitedBudget).path : ChainPath();
    ASSIGN_OR_RETURN(minTimePlan_, predicted(tables_.front().front().planOf(minTimePlan)));
    minMemoryPlan_ = minTimePlan_;
    for (const OptionTable& table : tables_ | std::views::join) {
        const Bytes least = leastBudget(table.problem());
        const std::optional<ChainPath> path = minMemoryPath(table.problem(), least);
        if (!path)
            continue;
        ASSIGN_OR_RETURN(PlanAnswer lean, predicted(table.planOf(*path)));
        if (lean.timeline->peak < minMemoryPlan_.timeline->peak)
            minMemoryPlan_ = std::move(lean);
    }
    if (!tree_.recomputes)
        return {};
    CheckpointPlan everything;
    for (const int part : tree_.parts)
        everything.push_back({tree_.units[static_cast<std::size_t>(part)].module, {}});
    std::ranges::sort(everything, {}, &CheckpointRegion::module);
    ASSIGN_OR_RETURN(PlanAnswer all, predicted(std::move(everything)));
    isNoChain_ = all.timeline->peak < minMemoryPlan_.timeline->peak;
    if (isNoChain_ && !forced)
        minMemoryPlan_ = std::move(all);
    return {};
}

Result<const RowProblem*> StepSolver::rows(const std::stop_token& stop) const
{
    const std::lock_guard lock(mutex_);
    if (!rows_) {
        ASSIGN_OR_RETURN(rows_, RowProblem::create(model_, *events_, tree_, worldSize_, stop));
    }
    return &*rows_;
}

Status StepSolver::findMinMemoryInRows(const std::stop_token& stop)
{
    ASSIGN_OR_RETURN(const RowProblem* problem, rows(stop));
    const SearchLimit limit = SearchLimit::after(minMemoryLimitMs, stop);
    if (const OptionShares plan = minMemoryInRows(*problem, minMemoryPlan_.timeline->peak, limit); !plan.empty()) {
        ASSIGN_OR_RETURN(PlanAnswer lean, predicted(problem->planOf(plan)));
        if (lean.timeline->peak < minMemoryPlan_.timeline->peak)
            minMemoryPlan_ = std::move(lean);
    }
    return {};
}

/// Searches the tables of one way to count shared arguments for a plan that takes less than `belowMs`.
class StepSolver::Search
{
public:
    Search(const StepSolver& solver, Bytes budget, double belowMs, const std::stop_token& stop, double limitMs)
        : solver_(solver)
        , budget_(budget)
        , belowMs_(belowMs)
        , limit_(SearchLimit::after(limitMs, stop))
    {
    }

    /// The lower bound of the memory gives the bound of the time. Its plan is optimal if it fits. Otherwise the upper
    /// bound of the memory gives plans that fit, which cannot be proven optimal. Without a plan the result's bound says
    /// that none takes less than `belowMs`.
    Result<PlanAnswer> run(const Boundaries& boundaries)
    {
        const OptionTable& first = boundaries.front();
        const double share = shareOf(first);
        double gap = 0;
        if (!first.exact()) {
            ASSIGN_OR_RETURN(const bool fits, search(first, relaxedAt(first, share), &best_.plan.boundMs, 1, fitGap));
            gap = fits ? 0 : unprovenGap;
        }
        if (gap == 0) {
            ASSIGN_OR_RETURN(
                const bool done,
                search(first, relaxedAt(first, share), &best_.plan.boundMs, first.exact() ? mostTries : 1, 0));
            if (done || first.exact())
                return best_;
        }
        if (boundaries.size() > 1)
            RETURN_IF_ERROR(searchBoth(first, share, boundaries.back()));
        RETURN_IF_ERROR(search(boundaries.back(), boundaries.back().problem(), nullptr, mostTries, gap));
        return best_;
    }

private:
    /// Searches the lower bounds of both boundaries: the upper bounds leave out plans of parts that hold less at one
    /// boundary than at the other.
    Status searchBoth(const OptionTable& first, double share, const OptionTable& last)
    {
        double bound = 0;
        RETURN_IF_ERROR(
            search(first, relaxedAt(first, share), &best_.plan.boundMs, mostRelaxedTries, unprovenGap, false));
        RETURN_IF_ERROR(search(last, relaxedAt(last, shareOf(last)), &bound, mostRelaxedTries, unprovenGap, false));
        best_.plan.boundMs = std::min(best_.plan.boundMs, bound);
        for (const double other : {share - mixtureStep, share + mixtureStep, share + 2 * mixtureStep})
            if (other >= 0 && other <= 1 && belowMs_ - best_.plan.boundMs > fitGap * belowMs_)
                RETURN_IF_ERROR(search(first, relaxedAt(first, other), nullptr, mostRelaxedTries, unprovenGap, false));
        return {};
    }

    double shareOf(const OptionTable& table) const
    {
        return table.relaxedElsewhere() == nullptr
            ? 0
            : strongestShare(table.relaxed(), *table.relaxedElsewhere(), budget_, limit_);
    }

    /// The mixture of the table's two lower bounds; valid until the next call.
    const ChainProblem& relaxedAt(const OptionTable& table, double share)
    {
        return share <= 0 ? table.relaxed()
                          : mixture_.emplace(mixed(table.relaxed(), *table.relaxedElsewhere(), share));
    }

    /// Searches one problem for plans that fit. Returns true if it proves that no better plan exists. `bound`, if not
    /// null, is raised to the bound that the problem proves.
    Result<bool> search(const OptionTable& table, const ChainProblem& problem, double* bound, int tries, double gap,
                        bool proof = true)
    {
        const double share = bound != nullptr && !table.exact() ? shareOfTimeForBound : 1;
        Bytes problemBudget = budget_;
        for (int i = 0; i < tries && (!best_.fits() || limit_.remainingMs() > 0); ++i) {
            const ChainAnswer answer = solveChain(
                problem, problemBudget,
                {limit_.stop, std::max(limit_.remainingMs() * share, 1.0), gap, picoseconds(belowMs_), proof});
            best_.plan.nodes += answer.nodes;
            const bool none = answer.status == ChainStatus::infeasible;
            if (bound != nullptr && i == 0) {
                *bound = std::max(*bound, none ? std::numeric_limits<double>::infinity() : milliseconds(answer.bound));
                best_.plan.msPerGiB = msPerGiB(answer.price);
            }
            if (none || answer.value.time >= picoseconds(belowMs_))
                return bound != nullptr && *bound >= belowMs_ - tolerance;
            ASSIGN_OR_RETURN(PlanAnswer found, solver_.predicted(table.planOf(answer.path)));
            const Bytes excess = found.timeline->peak - budget_;
            if (excess <= 0 && found.plan.recomputeMs < belowMs_) {
                belowMs_ = found.plan.recomputeMs;
                takePlan(best_, std::move(found));
            }
            if (excess <= 0)
                return bound != nullptr && i == 0;
            problemBudget -= excess;
        }
        return false;
    }

    const StepSolver& solver_;
    Bytes budget_;
    double belowMs_;
    SearchLimit limit_;
    std::optional<ChainProblem> mixture_;
    PlanAnswer best_;
};

/// All searches share one limit. The first table has the most options and leaves the others little to find.
Status StepSolver::searchTables(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const
{
    for (std::size_t table = 0; table < tables_.size(); ++table) {
        const double share
            = std::max(0.0, limit.remainingMs()) * (table + 1 < tables_.size() ? shareOfTimeForFirst : 1);
        ASSIGN_OR_RETURN(PlanAnswer found,
                         Search(*this, budget, best.plan.recomputeMs, limit.stop, share).run(tables_[table]));
        best.plan.nodes += found.plan.nodes;
        best.plan.boundMs = std::min(best.plan.boundMs, found.plan.boundMs);
        if (table == 0)
            best.plan.msPerGiB = found.plan.msPerGiB;
        if (found.fits()) {
            best.plan.msPerGiB = found.plan.msPerGiB;
            takePlan(best, std::move(found));
        }
    }
    return {};
}

/// The lower bound of the memory gives the bound of the time. If its plan does not fit, the upper bound of the memory
/// gives one that is likely to.
Status StepSolver::searchRows(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const
{
    using enum RowProblem::Memory;
    ASSIGN_OR_RETURN(const RowProblem* problem, rows(limit.stop));
    for (const auto memory : {atLeast, atMost}) {
        Bytes rowsBudget = budget;
        for (int i = 0; i < mostRelaxedTries && !limit.reached(); ++i) {
            const RowAnswer answer
                = solveRows(*problem, rowsBudget, memory, rowsGap, limit, std::nullopt, best.plan.recomputeMs);
            best.plan.nodes += answer.nodes;
            if (memory == atLeast && i == 0 && answer.boundMs > best.plan.boundMs) {
                best.plan.boundMs = answer.boundMs;
                best.plan.msPerGiB = answer.msPerGiB;
            }
            if (!answer.plan)
                break;
            ASSIGN_OR_RETURN(PlanAnswer found, predicted(*answer.plan));
            const Bytes excess = found.timeline->peak - budget;
            if (excess <= 0 && found.plan.recomputeMs < best.plan.recomputeMs)
                takePlan(best, std::move(found));
            if (excess <= 0)
                return {};
            rowsBudget -= excess;
        }
    }
    return {};
}

/// The tables have all that a chain needs, but some of their memory is not exact. The rows may do better.
Status StepSolver::searchChain(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const
{
    RETURN_IF_ERROR(searchTables(budget, limit, best));
    const double ms = best.plan.recomputeMs;
    best.plan.boundMs = std::min(best.plan.boundMs, ms);
    if (gapOf(best) > fitGap && limit.remainingMs() >= leastRowsMs)
        RETURN_IF_ERROR(searchRows(budget, limit, best));
    return {};
}

/// The tables have no bound, but a plan where the rows' time was up.
Status StepSolver::searchNoChain(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const
{
    best.plan.boundMs = 0;
    RETURN_IF_ERROR(searchRows(budget, limit, best));
    if (const double bound = best.plan.boundMs; gapOf(best) > fitGap) {
        RETURN_IF_ERROR(searchTables(budget, SearchLimit::after(lateLimitMs, limit.stop), best));
        best.plan.boundMs = bound;
    }
    return {};
}

Result<PlanAnswer> StepSolver::best(Bytes budget, const std::stop_token& stop, double limitMs) const
{
    ASSIGN_OR_RETURN(std::optional<PlanAnswer> found,
                     bestBelow(budget, std::numeric_limits<double>::infinity(), stop, limitMs));
    return *std::move(found);
}

Result<std::optional<PlanAnswer>> StepSolver::bestBelow(Bytes budget, double belowMs, const std::stop_token& stop,
                                                        double limitMs) const
{
    PlanAnswer best = minTimePlan_;
    best.plan.boundMs = best.plan.recomputeMs;
    if (best.timeline->peak > budget) {
        best = minMemoryPlan_;
        best.plan.recomputeMs = std::min(best.plan.recomputeMs, belowMs);
        best.plan.boundMs = std::numeric_limits<double>::infinity();
        const SearchLimit limit = SearchLimit::after(limitMs, stop);
        RETURN_IF_ERROR(isNoChain_ ? searchNoChain(budget, limit, best) : searchChain(budget, limit, best));
        if (best.plan.recomputeMs >= belowMs)
            return std::optional<PlanAnswer>();
    }
    const double ms = best.plan.recomputeMs;
    const bool isProven = ms <= best.plan.boundMs + tolerance * std::max(1.0, ms);
    best.plan.status = isProven ? PlanStatus::optimal : PlanStatus::feasible;
    best.plan.boundMs = isProven ? ms : std::min(best.plan.boundMs, ms);
    best.plan.gap = gapOf(best);
    return std::optional(std::move(best));
}

Result<const StepSolver::OffloadProblem*> StepSolver::offloadProblem(const std::stop_token& stop) const
{
    std::unique_lock lock(mutex_);
    if (!turns_.wait(lock, stop))
        return stoppedMeasuring();
    if (!offload_) {
        Result<OffloadProblem> made = turns_.make(lock, [&] { return makeOffloadProblem(stop); });
        if (!made)
            return made.error();
        offload_.emplace(*std::move(made));
    }
    return &*offload_;
}

Result<StepSolver::OffloadProblem> StepSolver::makeOffloadProblem(const std::stop_token& stop) const
{
    PartTree tree = tree_;
    tree.offloads = true;
    ASSIGN_OR_RETURN(RowProblem rows, RowProblem::create(model_, *events_, tree, worldSize_, stop));
    auto times = std::make_shared<const EventTimes>(eventTimes(*model_.trace(), model_.index()));
    CopyLimits copies = copyLimits(model_, *times, tree, rows);
    OffloadProblem problem{
        std::move(rows), times, std::move(copies), expectedLimits(model_, tree), {model_, *times, tree}, {}, {}};
    std::vector<std::vector<CopyLimits::Own>> own;
    for (std::size_t arc = 0; arc < problem.rows.arcs().size(); ++arc) {
        std::vector<CopyLimits::Own>& ofArc = own.emplace_back(problem.rows.optionCount(arc));
        const PartArcs::Arc& where = problem.rows.arcs()[arc];
        for (std::size_t option = 0; option < ofArc.size(); ++option) {
            const LocalEffect& effect = problem.rows.effectOf({arc, option});
            if (problem.copies.isChain
                && (effect.movedBytes > 0 || where.last == static_cast<int>(problem.rows.positions())))
                ofArc[option]
                    = problem.schedule.ownOf(problem.rows.planOf({{{arc, option}, 1.0}}), problem.rows.moduleOf(arc));
            problem.copies.setTimes(ofArc[option], problem.rows, {arc, option}, problem.schedule);
        }
    }
    problem.copies.own = std::make_shared<const std::vector<std::vector<CopyLimits::Own>>>(std::move(own));
    problem.findHints(minTimePlan_.timeline->peak, stop);
    problem.leastPeak = minMemoryPlan_.timeline->peak;
    const SearchLimit limit = SearchLimit::after(leastMemoryLimitMs, stop);
    problem.leanest = minMemoryInRows(problem.rows, problem.leastPeak, limit);
    std::ranges::sort(problem.leanest, {}, [](const auto& share) { return share.first.arc; });
    if (!problem.leanest.empty()) {
        ASSIGN_OR_RETURN(PlanAnswer lean, predicted(problem.rows.planOf(problem.leanest)));
        problem.leastPeak = std::min(problem.leastPeak, lean.timeline->peak);
        setOffload(model_, lean.regions, *lean.timeline, lean.plan);
        problem.leanestMs = lean.plan.costMs();
    }
    if (stop.stop_requested()) // with some of the hints, later plans would depend on this stop
        return stoppedMeasuring();
    return problem;
}

void StepSolver::OffloadProblem::findHints(Bytes most, const std::stop_token& stop)
{
    const SearchLimit limit = SearchLimit::after(hintsLimitMs, stop);
    for (int part = 1; part < hintParts; ++part) {
        const Bytes budget = most / hintParts * part;
        RowHints used;
        const RowAnswer answer = relaxRows(rows, budget, RowProblem::Memory::atLeast, limit, copies, used);
        if (answer.relaxed.empty())
            continue;
        used.events.clear();
        for (std::vector<bool>& options : used.options)
            options.assign(options.size(), false);
        for (const auto& [option, share] : answer.relaxed)
            used.options[option.arc][option.option] = true;
        if (answer.reduced)
            for (const auto& [event, price] : answer.reduced->memory)
                if (price > 0)
                    used.events.push_back(event);
        hints.emplace_back(budget, std::move(used));
    }
}

RowHints StepSolver::OffloadProblem::hintsNear(Bytes budget) const
{
    const auto above = std::ranges::lower_bound(hints, budget, {}, &std::pair<Bytes, RowHints>::first);
    RowHints near;
    std::set<std::uint32_t> events;
    for (auto known = above == hints.begin() ? above : above - 1; known != hints.end() && known <= above; ++known) {
        if (near.options.empty())
            near.options = known->second.options;
        addOptions(near.options, known->second.options);
        events.insert(known->second.events.begin(), known->second.events.end());
    }
    near.events.assign(events.begin(), events.end());
    return near;
}

Result<Bytes> StepSolver::leastWithOffload(const std::stop_token& stop) const
{
    ASSIGN_OR_RETURN(const OffloadProblem* problem, offloadProblem(stop));
    return problem->leastPeak;
}

} // namespace headroom
