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

/// Makes policies of plans, one after another for the same step: what all of them need of the step is found once.
/// Immutable; make() may run on any thread.
class PolicyMaker
{
public:
    explicit PolicyMaker(StepModel model);
    PolicyMaker(const PolicyMaker&) = delete;
    PolicyMaker& operator=(const PolicyMaker&) = delete;

    struct Choice
    {
        Policy policy;
        CheckpointPlan regions; ///< the same for predict()
        std::vector<ModuleEffect> effects; ///< by ModuleId: what they do
    };
    /// Errors: a plan that fits nothing, or of another step. The policy's ratios are the plan's decisions.
    Result<Choice> make(const Plan& plan) const;
    /// The policy of regions that are known; decisions of the plan do not matter: the policy's ratios say what is
    /// discarded. Errors: as predict().
    Result<Choice> describe(CheckpointPlan regions, const Plan& plan) const;
    /// discardedShare() of each module that is checkpointed, as Plan::decisions.
    std::map<std::string, double> decisionsOf(const Choice& choice) const;

    const StepModel& model() const noexcept { return model_; }
    const ModuleEffects& effects() const noexcept { return effects_; }

private:
    Result<CheckpointRegion> choose(ModuleId module, double discardRatio) const;

    StepModel model_;
    ModuleEffects effects_;
    ModuleNames names_;
    ModuleRecords records_;
    StepSac sac_; ///< refers to records_
};

} // namespace headroom
