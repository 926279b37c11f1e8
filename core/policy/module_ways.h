// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/part_tree.h"
#include "core/predict/module_effect.h"
#include "core/predict/storage_events.h"

#include <vector>

namespace headroom {

/// One way to checkpoint a module, or what is inside it, as predicted on the recorded step.
struct ModuleWay
{
    Bytes kept = 0; ///< from forward to backward, as ModuleEffect::kept
    double recomputeMs = 0;
    CheckpointPlan regions; ///< empty: everything is kept
};

/// The ways that the exact planner has for one module of the step, the rest being left as recorded, of which none keeps
/// less in less time: most kept first, each takes more time than the one before. Of a module around a few parts, only
/// as a whole. Empty for a module that the planner leaves alone: a leaf, one around many parts, one that saves nothing.
Result<std::vector<ModuleWay>> waysOf(const StepModel& model, const StorageEvents& events, const ModuleEffects& effects,
                                      const PartTree& tree, ModuleId module);

} // namespace headroom
