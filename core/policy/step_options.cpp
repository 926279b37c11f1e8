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

double msPerGiB(double picosecondsPerByte)
{
    return picosecondsPerByte * static_cast<double>(GiB) / static_cast<double>(picoseconds(1));
}

} // namespace

Result<PredictedPlanPtr> StepOptions::predicted(CheckpointPlan regions) const
{
    const Result<Timeline> timeline = model_.predict(regions);
    if (!timeline)
        return timeline.error();
    return PredictedPlanPtr(
        std::make_shared<const PredictedPlan>(PredictedPlan{std::move(regions), perRank(*timeline, worldSize_)}));
}

Result<StepOptionsPtr> StepOptions::create(const StepModel& model, const StorageEvents& events,
                                           const PiecewiseProblem& problem, int worldSize)
{
    const PartTree tree = PartTree::create(model, problem);
    Result<OptionTable> table = OptionTable::create(model, events, tree, worldSize);
    if (!table)
        return table.error();
    const std::shared_ptr<StepOptions> options(new StepOptions(model, *std::move(table), worldSize));
    const ChainProblem& chain = options->table_.problem();
    const bool forced = std::ranges::any_of(tree.units, &PartTree::Unit::forced);
    const ChainPath quickest = forced ? solveChain(chain, std::numeric_limits<Bytes>::max() / 8).path : ChainPath();
    const Result<PredictedPlanPtr> roomy = options->predicted(options->table_.planOf(quickest));
    if (!roomy)
        return roomy.error();
    const std::optional<ChainPath> lean = leanestPath(chain, leastBudget(chain));
    const Result<PredictedPlanPtr> leanest = options->predicted(options->table_.planOf(*lean));
    if (!leanest)
        return leanest.error();
    options->roomy_ = *roomy;
    options->leanest_ = (*leanest)->timeline.peak < (*roomy)->timeline.peak ? *leanest : *roomy;
    return StepOptionsPtr(options);
}

Result<BestPlan> StepOptions::best(Bytes budget, const std::stop_token& stop, double limitMs) const
{
    if (roomy_->timeline.peak <= budget)
        return BestPlan{roomy_, true, roomy_->timeline.recomputeMs, 0, 0};
    BestPlan best{leanest_, false, 0, 0, 0};
    Bytes tableBudget = budget;
    for (int tries = 0; tries < mostTries; ++tries) {
        const ChainAnswer answer = solveChain(table_.problem(), tableBudget, {stop, limitMs, 0, std::nullopt});
        best.nodes += answer.nodes;
        if (answer.status == ChainStatus::infeasible || answer.path.empty())
            break;
        Result<PredictedPlanPtr> plan = predicted(table_.planOf(answer.path));
        if (!plan)
            return plan.error();
        if (tries == 0) {
            best.boundMs = table_.exact() ? milliseconds(answer.bound) : 0;
            best.msPerGiB = msPerGiB(answer.price);
        }
        const Bytes excess = (*plan)->timeline.peak - budget;
        if (excess <= 0) {
            if ((*plan)->timeline.recomputeMs <= best.predicted->timeline.recomputeMs)
                best.predicted = *std::move(plan);
            best.proven = tries == 0 && answer.status == ChainStatus::optimal && table_.exact();
            break;
        }
        tableBudget -= excess;
    }
    if (!table_.exact() && !stop.stop_requested()) {
        // What parts may hold at least gives the bound, and the proof when nothing is better even so.
        const ChainAnswer relaxed = solveChain(table_.relaxed(), budget, {stop, limitMs, 0, std::nullopt});
        best.nodes += relaxed.nodes;
        best.boundMs = milliseconds(relaxed.bound);
        best.proven = picoseconds(best.predicted->timeline.recomputeMs) <= relaxed.bound;
    }
    if (best.proven)
        best.boundMs = best.predicted->timeline.recomputeMs;
    best.boundMs = std::min(best.boundMs, best.predicted->timeline.recomputeMs);
    return best;
}

} // namespace headroom
