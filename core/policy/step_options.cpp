// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/step_options.h"

#include "core/policy/sharding.h"

#include <algorithm>
#include <limits>

namespace headroom {

namespace {

/// Budgets of the table that are tried for one budget of the step, where the table does not say exactly what it takes.
constexpr int mostTries = 10;

/// Sums of rounded times against rounded sums, in ms.
constexpr double tolerance = 1e-7;

double msPerGiB(double picosecondsPerByte)
{
    return picosecondsPerByte * static_cast<double>(GiB) / static_cast<double>(picoseconds(1));
}

} // namespace

Result<PredictedPlanPtr> StepOptions::predicted(CheckpointPlan regions) const
{
    Result<Timeline> timeline = model_.predict(regions);
    if (!timeline)
        return timeline.error();
    return PredictedPlanPtr(std::make_shared<const PredictedPlan>(
        PredictedPlan{std::move(regions), perRank(*std::move(timeline), worldSize_)}));
}

Result<StepOptionsPtr> StepOptions::create(const StepModel& model, const StorageEvents& events,
                                           const PiecewiseProblem& problem, int worldSize)
{
    using enum StepLayout::SharedArguments;
    const PartTree tree = PartTree::create(model, problem);
    const std::shared_ptr<StepOptions> options(new StepOptions(model, worldSize));
    for (const auto shared : {held, asRecorded}) {
        Result<OptionTable> table = OptionTable::create(model, events, tree, worldSize, shared);
        if (!table)
            return table.error();
        const bool another = table->sharesArguments();
        // Where a pin asks for a module whose arguments are shared, the second table has no way through the step.
        constexpr Bytes anything = std::numeric_limits<Bytes>::max() / 8;
        if (options->tables_.empty() || leanestPath(table->problem(), anything))
            options->tables_.push_back(*std::move(table));
        if (!another)
            break;
    }
    if (const Status found = options->findEnds(std::ranges::any_of(tree.units, &PartTree::Unit::forced)); !found)
        return found.error();
    return StepOptionsPtr(options);
}

/// Of the first table, which has every option.
Status StepOptions::findEnds(bool forced)
{
    const ChainProblem& chain = tables_.front().problem();
    const ChainPath quickest = forced ? solveChain(chain, std::numeric_limits<Bytes>::max() / 8).path : ChainPath();
    const Result<PredictedPlanPtr> roomy = predicted(tables_.front().planOf(quickest));
    if (!roomy)
        return roomy.error();
    roomy_ = leanest_ = *roomy;
    for (const OptionTable& table : tables_) {
        const Bytes least = leastBudget(table.problem());
        const std::optional<ChainPath> path = leanestPath(table.problem(), least);
        if (!path)
            continue;
        const Result<PredictedPlanPtr> lean = predicted(table.planOf(*path));
        if (!lean)
            return lean.error();
        if ((*lean)->timeline.peak < leanest_->timeline.peak)
            leanest_ = *lean;
    }
    return {};
}

Result<BestPlan> StepOptions::best(Bytes budget, const std::stop_token& stop, double limitMs) const
{
    if (roomy_->timeline.peak <= budget)
        return BestPlan{roomy_, true, roomy_->timeline.recomputeMs, 0, 0};
    BestPlan best{leanest_, false, std::numeric_limits<double>::infinity(), 0, 0};
    for (const OptionTable& table : tables_) {
        Result<BestPlan> found = bestOf(table, budget, stop, limitMs);
        if (!found)
            return found.error();
        best.nodes += found->nodes;
        best.boundMs = std::min(best.boundMs, found->boundMs);
        if (found->predicted != nullptr
            && found->predicted->timeline.recomputeMs <= best.predicted->timeline.recomputeMs) {
            best.predicted = found->predicted;
            best.msPerGiB = found->msPerGiB;
        }
    }
    const double ms = best.predicted->timeline.recomputeMs;
    best.proven = ms <= best.boundMs + tolerance * std::max(1.0, ms);
    best.boundMs = best.proven ? ms : std::min(best.boundMs, ms);
    return best;
}

/// The best plan of one table. Without one the bound says that there is none.
Result<BestPlan> StepOptions::bestOf(const OptionTable& table, Bytes budget, const std::stop_token& stop,
                                     double limitMs) const
{
    BestPlan best;
    Bytes tableBudget = budget;
    for (int tries = 0; tries < mostTries; ++tries) {
        const ChainAnswer answer = solveChain(table.problem(), tableBudget, {stop, limitMs, 0, std::nullopt});
        best.nodes += answer.nodes;
        if (tries == 0) {
            best.boundMs = answer.status == ChainStatus::infeasible ? std::numeric_limits<double>::infinity()
                                                                    : milliseconds(answer.bound);
            best.msPerGiB = msPerGiB(answer.price);
        }
        if (answer.status == ChainStatus::infeasible)
            break;
        Result<PredictedPlanPtr> plan = predicted(table.planOf(answer.path));
        if (!plan)
            return plan.error();
        const Bytes excess = (*plan)->timeline.peak - budget;
        if (excess <= 0) {
            best.predicted = *std::move(plan);
            break;
        }
        tableBudget -= excess;
    }
    if (table.exact())
        return best;
    // What parts may hold at least gives the bound, and the proof when nothing is better even so.
    const ChainAnswer relaxed = solveChain(table.relaxed(), budget, {stop, limitMs, 0, std::nullopt});
    best.nodes += relaxed.nodes;
    best.boundMs = relaxed.status == ChainStatus::infeasible ? std::numeric_limits<double>::infinity()
                                                             : milliseconds(relaxed.bound);
    return best;
}

} // namespace headroom
