// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_options.h"

#include "core/base/try.h"
#include "core/policy/sharding.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <ranges>

namespace headroom {

namespace {

/// Budgets of the table that are tried for one budget of the step, where the table does not say exactly what it takes.
constexpr int mostTries = 10;
constexpr double shareOfFirst = 0.75; ///< of the time that is left, for a table that has others after it
constexpr double shareOfBound = 0.5; ///< of the same, for the bound, where its plan may not fit

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

/// The best plan of the tables' ways that takes less than `belowMs`. Without one the bound says that there is none.
Result<BestPlan> StepOptions::bestOf(const Turns& turns, Bytes budget, double belowMs, const std::stop_token& stop,
                                     double limitMs) const
{
    const auto end = Clock::now() + std::chrono::duration<double, std::milli>(limitMs);
    const auto left = [&] { return std::chrono::duration<double, std::milli>(end - Clock::now()).count(); };
    BestPlan best;
    // Ends with true when there is nothing better to be found.
    const auto search = [&](const OptionTable& table, bool relaxed, int mostTries, double gap) -> Result<bool> {
        const double share = relaxed && !table.exact() ? shareOfBound : 1;
        Bytes problemBudget = budget;
        for (int tries = 0; tries < mostTries && (best.predicted == nullptr || left() > 0); ++tries) {
            const ChainAnswer answer = solveChain(relaxed ? table.relaxed() : table.problem(), problemBudget,
                                                  {stop, std::max(left() * share, 1.0), gap, picoseconds(belowMs)});
            best.nodes += answer.nodes;
            const bool none = answer.status == ChainStatus::infeasible;
            const double bound = none ? std::numeric_limits<double>::infinity() : milliseconds(answer.bound);
            if (relaxed && tries == 0) {
                best.boundMs = std::max(best.boundMs, bound);
                best.msPerGiB = msPerGiB(answer.price);
            }
            if (none || answer.value.time >= picoseconds(belowMs))
                return best.boundMs >= belowMs - tolerance;
            ASSIGN_OR_RETURN(PredictedPlanPtr plan, predicted(table.planOf(answer.path)));
            const Bytes excess = plan->timeline.peak - budget;
            if (excess <= 0 && plan->timeline.recomputeMs < belowMs) {
                belowMs = plan->timeline.recomputeMs;
                best.predicted = std::move(plan);
            }
            if (excess <= 0)
                return relaxed && tries == 0;
            problemBudget -= excess;
        }
        return false;
    };
    // What parts hold at least gives the bound. Its plan is the best one if it fits; else the table, which says what
    // parts hold at most, has others that do: there is nothing to prove then.
    const OptionTable& first = turns.front();
    double gap = 0;
    if (!first.exact()) {
        ASSIGN_OR_RETURN(const bool fits, search(first, true, 1, fitGap));
        gap = fits ? 0 : unprovenGap;
    }
    if (gap == 0) {
        ASSIGN_OR_RETURN(const bool done, search(first, true, first.exact() ? mostTries : 1, 0));
        if (done || first.exact())
            return best;
    }
    RETURN_IF_ERROR(search(turns.back(), false, mostTries, gap));
    return best;
}

} // namespace headroom
