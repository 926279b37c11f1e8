// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/policy.h"
#include "core/policy/step_layout.h"
#include "core/predict/module_memory.h"
#include "core/predict/regions.h"
#include "core/sac/step_sac.h"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// By event: bytes of casts of weights that may be freed earlier than recorded; empty: none. The first recomputation in
/// backward empties autocast's cache, casts of other parts included. From the first unpack of a cast until the last
/// release, autograd holds the cast, so that the events in between are left out.
std::vector<Bytes> castsThatMayBeGone(const StepModel& model, const StorageEvents& events);

/// Whether the recorded program has several models, with a root `models` in the trace.
bool hasSeveralModels(const StepTrace& trace);

/// Modules of a step by fqn, and by policyFqn().
using ModuleNames = std::unordered_map<std::string_view, ModuleId>;
ModuleNames moduleNames(const StepTrace& trace);

/// Plan::decisions of a plan of regions: discardedShare() of each checkpointed module.
std::map<std::string, double> decisionsOf(const StepTrace& trace, const CheckpointPlan& regions,
                                          std::span<const ModuleEffect> effects);

/// Policy::Module::offload of a region; nullopt for a checkpointed module.
std::optional<Policy::Moves> movesOf(const StepModel& model, const CheckpointRegion& region);

/// The policy of `regions`, with the decisions and predicted figures of `plan`. Replays the step once for the bytes
/// that each call holds.
Policy policyOf(const StepModel& model, const CheckpointPlan& regions, const Plan& plan);

/// Finds the regions of plans that have discard ratios only, for many plans of a step. Data that all plans share is
/// computed once. Immutable; any thread may use the object.
class PolicyMaker
{
public:
    explicit PolicyMaker(StepModel model);
    PolicyMaker(const PolicyMaker&) = delete;
    PolicyMaker& operator=(const PolicyMaker&) = delete;

    /// The regions of a plan, in the model's order of modules. Error (badInput): a plan that is infeasible or stopped,
    /// a module that the step does not have; as opPolicy(), with the module's name in front.
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
