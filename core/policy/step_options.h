// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_planner.h"
#include "core/policy/option_table.h"
#include "core/policy/policy_maker.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// A plan of one step, predicted.
struct PredictedPlan
{
    CheckpointPlan regions;
    Timeline timeline; ///< as one rank of the request sees it
};
using PredictedPlanPtr = std::shared_ptr<const PredictedPlan>;

/// A plan under a budget.
struct BestPlan
{
    PredictedPlanPtr predicted; ///< null: there is none
    bool proven = false; ///< none of the table's plans takes less time
    double boundMs = 0; ///< none of them takes less than this
    double msPerGiB = 0; ///< what one more GiB would save
    std::int64_t nodes = 0;

    /// The share of its time that a better plan may save.
    double gap() const
    {
        const double ms = predicted->timeline.recomputeMs;
        return proven || ms <= 0 ? 0 : (ms - boundMs) / ms;
    }
};

/// All that can be had for one request, whatever its budget: the tables of its options and the ends of its range. Every
/// plan that it hands out was predicted on the step. Immutable; any thread may ask.
class StepOptions
{
public:
    /// Errors are those of predict(), and stoppedMeasuring().
    static Result<std::shared_ptr<const StepOptions>> create(const StepModel& model, const StorageEvents& events,
                                                             const PartTree& tree, int worldSize,
                                                             const std::stop_token& stop = {});

    const PredictedPlanPtr& leanest() const { return leanest_; } ///< of least peak
    const PredictedPlanPtr& roomy() const { return roomy_; } ///< of least time, whatever the memory

    /// The budget is not below the leanest plan's peak.
    Result<BestPlan> best(Bytes budget, const std::stop_token& stop, double limitMs) const;

private:
    StepOptions(const StepModel& model, int worldSize)
        : model_(model)
        , worldSize_(worldSize)
    {
    }
    Result<PredictedPlanPtr> predicted(CheckpointPlan regions) const;
    Status findEnds(bool forced);
    /// One table, or two where it is not exact: with the turn that bounds best, then with the one whose plans fit.
    using Turns = std::vector<OptionTable>;
    Result<BestPlan> bestOf(const Turns& turns, Bytes budget, double belowMs, const std::stop_token& stop,
                            double limitMs) const;

    StepModel model_;
    std::vector<Turns> tables_; ///< the best plan is in one of them
    int worldSize_;
    PredictedPlanPtr leanest_;
    PredictedPlanPtr roomy_;
};
using StepOptionsPtr = std::shared_ptr<const StepOptions>;

} // namespace headroom
