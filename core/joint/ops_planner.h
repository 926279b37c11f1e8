// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_plan.h"
#include "core/predict/module_effect.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace headroom {

/// Plans one step op by op, as PyTorch's activation_memory_budget does for a compiled graph
/// (torch/_functorch/partitioners.py, choose_saved_values_set). What all fractions share is computed once. Immutable; a
/// copy is cheap; any thread may ask.
class OpsPlanner
{
public:
    /// Errors: as buildJointGraph().
    static Result<OpsPlanner> create(StepModel model);

    const StepModel& model() const noexcept;
    const JointGraph& graph() const noexcept;

    /// What the default min-cut saves: the plan of fraction 1, and 100 % of every other.
    Bytes defaultSavedBytes() const noexcept;

    /// Of the step as it was recorded.
    Bytes recordedPeak() const noexcept;

    /// Errors: a fraction outside 0..1; measured times of another step; the solver gave up.
    Result<OpsPlan> plan(const OpsRequest& request) const;

    /// The plan for a fraction that takes no more at its peak than that of any larger one: plan()'s, or where another
    /// takes less, the one that choose() finds in the frontier of `points` fractions. Errors: as plan().
    Result<OpsPlan> planMonotone(const OpsRequest& request, int points = 101) const;

    /// The plan that saves exactly these, for a fraction that it was the answer for. Errors: one of them is not to be
    /// saved, or more has to be.
    Result<OpsPlan> planSaving(const std::vector<StorageId>& saved, double fraction) const;

    /// The step's timeline under a plan of this planner.
    Timeline timeline(const OpsPlan& plan) const;

    /// What a plan of this planner does to each module, by ModuleId.
    std::vector<ModuleEffect> effects(const OpsPlan& plan) const;

    /// Plans to choose from, by fraction, ascending: a smaller fraction never has a higher peak (as it has in PyTorch:
    /// issue 197838), and a higher peak always costs less. They are the best of the plans of `points` fractions, spread
    /// evenly over 0..1, and of others for the same fractions with lower peaks. The plan for a fraction is the last one
    /// that is not above it; the first one where all are: with less saved, the peak would rise. Ends early, with what
    /// it has, when asked to stop.
    Result<std::vector<OpsPlan>> frontier(const OpsRequest& request, int points,
                                          const std::stop_token& stop = {}) const;

    /// The plan of a frontier for a fraction, as above. The frontier is not empty.
    static const OpsPlan& choose(const std::vector<OpsPlan>& frontier, double fraction);

private:
    struct Shared;
    explicit OpsPlanner(std::shared_ptr<const Shared> shared);
    std::shared_ptr<const Shared> shared_;
};

} // namespace headroom
