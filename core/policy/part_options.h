// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/part_tree.h"
#include "core/policy/step_layout.h"

#include <functional>
#include <vector>

namespace headroom {

/// Ways to checkpoint one part of a step, each predicted, of which none beats another where it was measured; those that
/// hold least come first.
struct PartOptions
{
    std::vector<CheckpointPlan> plans; ///< modules counted from the part's
    std::vector<LocalEffect> effects;
};

using MayCheckpoint = std::function<bool(ModuleId)>;

/// All that may be worth it for a part: nothing, the part as a whole with ops to save, and what is inside it in every
/// combination, predicted together. Where a unit is pinned to recompute, only ways that do.
Result<PartOptions> optionsOfPart(const StepModel& model, const PartTree& tree, int unit, const LocalReplay& replay,
                                  const StepLayout::Place& place, const MayCheckpoint& may, LocalNotes& notes);

/// For a module around several parts: only as a whole.
Result<PartOptions> optionsOfWhole(const StepModel& model, const PartTree& tree, int unit, const LocalReplay& replay,
                                   const StepLayout::Place& place, const MayCheckpoint& may, LocalNotes& notes);

} // namespace headroom
