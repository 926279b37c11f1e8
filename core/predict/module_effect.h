// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/module_memory.h"
#include "core/predict/step_model.h"

#include <cstdint>
#include <vector>

namespace headroom {

struct Regions;

/// Effect of a plan on one module, its submodules included. Bytes are those that the module's ops allocated in forward
/// and that are alive when forward ends and backward begins: saved for backward, held by a checkpoint (its arguments,
/// the cached outputs of saved ops), or held by the program. A step with several backward passes (gradient
/// accumulation, several losses) has several such turns; then both figures are of the turn at which the recorded step
/// holds most of the module's bytes, the first of equal ones.
struct ModuleEffect
{
    Bytes recorded = 0; ///< bytes alive in the recorded step
    Bytes kept = 0; ///< bytes alive under the plan
    double recomputeMs = 0; ///< time of the module's ops that run a second time, in the whole step
};

/// The share of the module's recorded bytes that the plan frees, 0 to 1. A result that others hold stays alive: that of
/// a checkpointed layer is an argument of the next one.
double discardedShare(const ModuleEffect& effect);

/// By ModuleId: combines the tally of the recorded step with that of the step under a plan.
std::vector<ModuleEffect> moduleEffects(const ModuleTally& recorded, const ModuleTally& planned);

/// Computes the ModuleEffect of each module of a step, by the rules of predict(): the root's recomputeMs is that of
/// predict(), and its bytes differ as the timelines do at the turn. Built once for a step; of() takes less time than
/// predict(). Immutable; any thread may call of().
class ModuleEffects
{
public:
    explicit ModuleEffects(StepModel model);

    /// By ModuleId: the effects of the empty plan.
    const std::vector<ModuleEffect>& recorded() const noexcept { return recorded_; }

    /// By ModuleId: the effects of a plan. Errors: as predict().
    Result<std::vector<ModuleEffect>> of(const CheckpointPlan& plan) const;

private:
    ModuleTally replayed(const Regions& plan) const;

    StepModel model_;
    std::vector<std::uint32_t> events_; ///< events of the trace that a tally depends on
    ModuleTally tally_; ///< tally of the recorded step
    std::vector<ModuleEffect> recorded_;
};

} // namespace headroom
