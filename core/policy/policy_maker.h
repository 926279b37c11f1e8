// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/policy.h"
#include "core/predict/step_model.h"
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
    };
    Result<Choice> make(const Plan& plan) const;
    /// The policy of regions that are known; decisions of the plan do not matter.
    Choice describe(CheckpointPlan regions, const Plan& plan) const;
    /// By module of the regions: the share of what its savable ops make that is not kept.
    std::map<std::string, double> discardRatios(const CheckpointPlan& regions) const;

    const StepModel& model() const noexcept { return model_; }

private:
    Result<CheckpointRegion> choose(ModuleId module, double discardRatio) const;
    double discardRatio(const CheckpointRegion& region) const;

    StepModel model_;
    ModuleNames names_;
    ModuleRecords records_;
    StepSac sac_; ///< refers to records_
};

} // namespace headroom
