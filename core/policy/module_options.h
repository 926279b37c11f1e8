// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/part_tree.h"
#include "core/predict/live_memory.h"
#include "core/predict/module_memory.h"

#include <vector>

namespace headroom {

/// A checkpointing option of a module or of modules inside, predicted on the recorded step.
struct ModuleOption
{
    Bytes kept = 0; ///< bytes kept from forward to backward, as ModuleEffect::kept
    double recomputeMs = 0;
    CheckpointPlan regions; ///< empty: nothing is checkpointed
};

/// StepPlanner's Pareto-optimal options to checkpoint a module, the rest of the step as recorded, by descending `kept`
/// and ascending `recomputeMs`. A module around a few parts is checkpointed only as a whole. Empty for a module that
/// the planner never checkpoints: a leaf, a module around many parts, a module that saves nothing. Error: as
/// partOptions().
Result<std::vector<ModuleOption>> moduleOptions(const StepModel& model, const StorageEvents& events,
                                                const ModuleEffects& effects, const PartTree& tree, ModuleId module);

} // namespace headroom
