// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/part_tree.h"
#include "core/policy/step_layout.h"

#include <functional>
#include <vector>

namespace headroom {

/// Ways to checkpoint one part of a step, each predicted; none dominates another. Those that hold least come first.
struct PartOptions
{
    std::vector<CheckpointPlan> plans; ///< modules numbered from the part's module
    std::vector<LocalEffect> effects;
};

using MayCheckpoint = std::function<bool(ModuleId)>;

/// The ways to checkpoint a part: none of it, the part as a whole with sets of ops to save, and combinations of the
/// units inside it, each predicted as a whole. If a unit is pinned to recompute, only ways that checkpoint it. With
/// `onlyWhole`, for a module around several parts, only ways to checkpoint it as a whole.
Result<PartOptions> partOptions(const StepModel& model, const PartTree& tree, int unit, bool onlyWhole,
                                const LocalReplay& replay, const StepLayout::Place& place, const MayCheckpoint& may,
                                LocalNotes& notes);

} // namespace headroom
