// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/module_memory.h"
#include "core/predict/step_model.h"

#include <cstdint>
#include <vector>

namespace headroom {

struct Regions;

/// What a plan does to one module, its submodules included. Bytes are those of what the module's ops made in forward
/// and what is still alive when the step turns from forward to backward: saved for backward, held by a checkpoint (its
/// arguments, the cached outputs of saved ops), or by the program. A step with several backward passes (gradient
/// accumulation, several losses) has several such turns. Then both figures are of the same one: where the recorded step
/// holds most of the module's, of equal ones the first.
struct ModuleEffect
{
    Bytes recorded = 0; ///< in the recorded step
    Bytes kept = 0; ///< under the plan
    double recomputeMs = 0; ///< time of the module's ops that run a second time, in the whole step
};

/// Discarded: the share of what the module holds at the turn that the plan frees, 0..1. What it makes and others hold
/// stays, as the result of a checkpointed layer that is the argument of the next one.
double discardedShare(const ModuleEffect& effect);

/// By ModuleId: a step under a plan beside the same step without one.
std::vector<ModuleEffect> moduleEffects(const ModuleTally& recorded, const ModuleTally& planned);

/// Tells for each module of one step where a plan saves memory and where it takes time, by the rules of predict(): the
/// root has all of its recomputeMs, and what predict() has less at the turn. Built once for a step; an answer costs
/// less than predict(). Immutable; of() may run on any thread.
class ModuleEffects
{
public:
    explicit ModuleEffects(StepModel model);

    /// By ModuleId: the step without a plan.
    const std::vector<ModuleEffect>& recorded() const noexcept { return recorded_; }

    /// By ModuleId. Errors: as predict().
    Result<std::vector<ModuleEffect>> of(const CheckpointPlan& plan) const;

private:
    ModuleTally replayed(const Regions& plan) const;

    StepModel model_;
    std::vector<std::uint32_t> events_; ///< what a tally has to go over
    ModuleTally tally_; ///< of the recorded step
    std::vector<ModuleEffect> recorded_;
};

} // namespace headroom
