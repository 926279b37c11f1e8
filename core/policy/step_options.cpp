// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_options.h"

#include "core/base/try.h"
#include "core/plan/chain_relaxation.h"
#include "core/policy/sharding.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <ranges>

namespace headroom {

namespace {

/// Budgets of the table that are tried for one budget of the step, where the table does not say exactly what it takes.
constexpr int mostTries = 10;
constexpr int fewTries = 3; ///< of a table that says what parts hold at least
constexpr double shareOfFirst = 0.75; ///< of the time that is left, for a table that has others after it
constexpr double shareOfBound = 0.5; ///< of the same, for the bound, where its plan may not fit

/// Where the strongest mixture of two bounds leaves a wide gap, others have plans that fit better.
constexpr double shareBeside = 1.0 / 16;

/// How close to its bound a search comes that tells whether its plan fits, and one that can prove nothing.
constexpr double fitGap = 0.01;
constexpr double unprovenGap = 0.001;

using Clock = std::chrono::steady_clock;

/// Sums of rounded times against rounded sums, in ms.
constexpr double tolerance = 1e-7;

double msPerGiB(double picosecondsPerByte)
{
    return picosecondsPerByte * static_cast<double>(GiB) / static_cast<double>(picoseconds(1));
}

} // namespace

Result<PredictedPlanPtr> StepOptions::predicted(CheckpointPlan regions) const
{
    ASSIGN_OR_RETURN(Timeline timeline, model_.predict(regions));
    return PredictedPlanPtr(std::make_shared<const PredictedPlan>(
        PredictedPlan{std::move(regions), perRank(std::move(timeline), worldSize_)}));
}

Result<StepOptionsPtr> StepOptions::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                           int worldSize, const std::stop_token& stop)
{
    using enum StepLayout::SharedArguments;
    const std::shared_ptr<StepOptions> options(new StepOptions(model, worldSize));
    for (const auto shared : {held, asRecorded}) {
        ASSIGN_OR_RETURN(OptionTable table, OptionTable::create(model, events, tree, worldSize, shared, stop));
        const bool another = table.sharesArguments();
        // Where a pin asks for a module whose arguments are shared, the second table has no way through the step.
        constexpr Bytes anything = std::numeric_limits<Bytes>::max() / 8;
        if (options->tables_.empty() || leanestPath(table.problem(), anything)) {
            const std::optional<std::uint32_t> turn = table.otherTurn();
            Turns& turns = options->tables_.emplace_back();
            turns.push_back(std::move(table));
            if (turn) {
                ASSIGN_OR_RETURN(OptionTable other,
                                 OptionTable::create(model, events, tree, worldSize, shared, stop, turn));
                turns.push_back(std::move(other));
            }
        }
        if (!another)
            break;
    }
    RETURN_IF_ERROR(options->findEnds(std::ranges::any_of(tree.units, &PartTree::Unit::forced)));
    return StepOptionsPtr(options);
}

/// Of the first table, which has every option.
Status StepOptions::findEnds(bool forced)
{
    const ChainProblem& chain = tables_.front().front().problem();
    const ChainPath quickest = forced ? solveChain(chain, std::numeric_limits<Bytes>::max() / 8).path : ChainPath();
    ASSIGN_OR_RETURN(const PredictedPlanPtr roomy, predicted(tables_.front().front().planOf(quickest)));
    roomy_ = leanest_ = roomy;
    for (const OptionTable& table : tables_ | std::views::join) {
        const Bytes least = leastBudget(table.problem());
        const std::optional<ChainPath> path = leanestPath(table.problem(), least);
        if (!path)
            continue;
        ASSIGN_OR_RETURN(const PredictedPlanPtr lean, predicted(table.planOf(*path)));
        if (lean->timeline.peak < leanest_->timeline.peak)
            leanest_ = lean;
    }
    return {};
}

Result<BestPlan> StepOptions::best(Bytes budget, const std::stop_token& stop, double limitMs) const
{
    if (roomy_->timeline.peak <= budget)
        return BestPlan{roomy_, true, roomy_->timeline.recomputeMs, 0, 0};
    BestPlan best{leanest_, false, std::numeric_limits<double>::infinity(), 0, 0};
    // One limit for all; the first table, which has most ways to look at, leaves the others little to find.
    const auto begin = Clock::now();
    for (std::size_t table = 0; table < tables_.size(); ++table) {
        const double used = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
        const double share = std::max(0.0, limitMs - used) * (table + 1 < tables_.size() ? shareOfFirst : 1);
        ASSIGN_OR_RETURN(BestPlan found,
                         bestOf(tables_[table], budget, best.predicted->timeline.recomputeMs, stop, share));
        best.nodes += found.nodes;
        best.boundMs = std::min(best.boundMs, found.boundMs);
        if (table == 0)
            best.msPerGiB = found.msPerGiB;
        if (found.predicted != nullptr) {
            best.predicted = found.predicted;
            best.msPerGiB = found.msPerGiB;
        }
    }
    const double ms = best.predicted->timeline.recomputeMs;
    best.proven = ms <= best.boundMs + tolerance * std::max(1.0, ms);
    best.boundMs = best.proven ? ms : std::min(best.boundMs, ms);
    return best;
}

/// The search of the tables of one way to count shared arguments for a plan that takes less than `belowMs`.
class StepOptions::Search
{
public:
    Search(const StepOptions& options, Bytes budget, double belowMs, const std::stop_token& stop, double limitMs)
        : options_(options)
        , budget_(budget)
        , belowMs_(belowMs)
        , limit_{Clock::now()
                     + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(limitMs)),
                 stop}
    {
    }

    /// Without a plan the bound says that there is none. What parts hold at least gives the bound. Its plan is the best
    /// one if it fits; else the table, which says what parts hold at most, has others that do: there is nothing to
    /// prove then.
    Result<BestPlan> run(const Turns& turns)
    {
        const OptionTable& first = turns.front();
        const double share = shareOf(first);
        double gap = 0;
        if (!first.exact()) {
            ASSIGN_OR_RETURN(const bool fits, search(first, relaxedAt(first, share), &best_.boundMs, 1, fitGap));
            gap = fits ? 0 : unprovenGap;
        }
        if (gap == 0) {
            ASSIGN_OR_RETURN(const bool done,
                             search(first, relaxedAt(first, share), &best_.boundMs, first.exact() ? mostTries : 1, 0));
            if (done || first.exact())
                return best_;
        }
        if (turns.size() > 1)
            RETURN_IF_ERROR(searchBoth(first, share, turns.back()));
        RETURN_IF_ERROR(search(turns.back(), turns.back().problem(), nullptr, mostTries, gap));
        return best_;
    }

private:
    /// Parts that hold less at the one turn than at the other: with the ways of either there are plans that fit
    /// although their table says that parts may hold more.
    Status searchBoth(const OptionTable& first, double share, const OptionTable& last)
    {
        double bound = 0;
        RETURN_IF_ERROR(search(first, relaxedAt(first, share), &best_.boundMs, fewTries, unprovenGap, false));
        RETURN_IF_ERROR(search(last, relaxedAt(last, shareOf(last)), &bound, fewTries, unprovenGap, false));
        best_.boundMs = std::min(best_.boundMs, bound);
        for (const double other : {share - shareBeside, share + shareBeside, share + 2 * shareBeside})
            if (other >= 0 && other <= 1 && belowMs_ - best_.boundMs > fitGap * belowMs_)
                RETURN_IF_ERROR(search(first, relaxedAt(first, other), nullptr, fewTries, unprovenGap, false));
        return {};
    }

    double shareOf(const OptionTable& table) const
    {
        return table.relaxedElsewhere() == nullptr
            ? 0
            : strongestShare(table.relaxed(), *table.relaxedElsewhere(), budget_, limit_);
    }

    /// Valid until the next call.
    const ChainProblem& relaxedAt(const OptionTable& table, double share)
    {
        return share <= 0 ? table.relaxed()
                          : mixture_.emplace(mixed(table.relaxed(), *table.relaxedElsewhere(), share));
    }

    /// Ends with true when there is nothing better to be found. `bound`, if not null, is raised to what the problem
    /// proves.
    Result<bool> search(const OptionTable& table, const ChainProblem& problem, double* bound, int tries, double gap,
                        bool proof = true)
    {
        const double share = bound != nullptr && !table.exact() ? shareOfBound : 1;
        Bytes problemBudget = budget_;
        for (int i = 0; i < tries && (best_.predicted == nullptr || limit_.remainingMs() > 0); ++i) {
            const ChainAnswer answer = solveChain(
                problem, problemBudget,
                {limit_.stop, std::max(limit_.remainingMs() * share, 1.0), gap, picoseconds(belowMs_), proof});
            best_.nodes += answer.nodes;
            const bool none = answer.status == ChainStatus::infeasible;
            if (bound != nullptr && i == 0) {
                *bound = std::max(*bound, none ? std::numeric_limits<double>::infinity() : milliseconds(answer.bound));
                best_.msPerGiB = msPerGiB(answer.price);
            }
            if (none || answer.value.time >= picoseconds(belowMs_))
                return bound != nullptr && *bound >= belowMs_ - tolerance;
            ASSIGN_OR_RETURN(PredictedPlanPtr plan, options_.predicted(table.planOf(answer.path)));
            const Bytes excess = plan->timeline.peak - budget_;
            if (excess <= 0 && plan->timeline.recomputeMs < belowMs_) {
                belowMs_ = plan->timeline.recomputeMs;
                best_.predicted = std::move(plan);
            }
            if (excess <= 0)
                return bound != nullptr && i == 0;
            problemBudget -= excess;
        }
        return false;
    }

    const StepOptions& options_;
    Bytes budget_;
    double belowMs_;
    SearchLimit limit_;
    std::optional<ChainProblem> mixture_;
    BestPlan best_;
};

Result<BestPlan> StepOptions::bestOf(const Turns& turns, Bytes budget, double belowMs, const std::stop_token& stop,
                                     double limitMs) const
{
    return Search(*this, budget, belowMs, stop, limitMs).run(turns);
}

} // namespace headroom
