// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/policy.h"
#include "core/predict/module_effect.h"
#include "core/sac/step_sac.h"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace headroom {

/// How the ops of a checkpointed call are named in a policy: the op, and how many of its name ran before it.
struct RegionOpName
{
    StringId op;
    int index = 0;
    bool operator==(const RegionOpName&) const = default;
};
std::vector<RegionOpName> regionOpNames(const StepTrace& trace, std::span<const OpId> ops);

/// Whether the step was recorded from a program with several models, which have one root in the trace.
bool hasSeveralModels(const StepTrace& trace);

/// Modules of a step by name, also by the one that policies have.
using ModuleNames = std::unordered_map<std::string_view, ModuleId>;
ModuleNames moduleNames(const StepTrace& trace);

/// discardedShare() of each module that is checkpointed, as Plan::decisions.
std::map<std::string, double> decisionsOf(const StepTrace& trace, const CheckpointPlan& regions,
                                          std::span<const ModuleEffect> effects);

/// The document of regions that predict() takes, with what the plan decides and promises. What each of their calls
/// holds takes a replay of the step.
Policy policyOf(const StepModel& model, const CheckpointPlan& regions, const Plan& plan);

/// Finds the regions of plans that only say how much of a module to discard, one plan after another for the same step:
/// what all of them need of it is found once. Immutable; any thread may ask.
class PolicyMaker
{
public:
    explicit PolicyMaker(StepModel model);
    PolicyMaker(const PolicyMaker&) = delete;
    PolicyMaker& operator=(const PolicyMaker&) = delete;

    /// In the model's order. Errors: a plan that fits nothing, or of another step.
    Result<CheckpointPlan> regions(const Plan& plan) const;

    const StepModel& model() const noexcept { return model_; }

private:
    Result<CheckpointRegion> choose(ModuleId module, double discardRatio) const;

    StepModel model_;
    ModuleNames names_;
    ModuleRecords records_;
    StepSac sac_; ///< refers to records_
};

} // namespace headroom
