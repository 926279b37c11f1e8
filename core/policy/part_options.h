// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_issue.h"
#include "core/policy/part_tree.h"
#include "core/policy/step_layout.h"

#include <functional>
#include <vector>

namespace headroom {

/// Checkpointing options of a part of a step, each predicted; none dominates another. Options that hold least come
/// first.
struct PartOptions
{
    std::vector<CheckpointPlan> plans; ///< modules numbered from the part's module
    std::vector<LocalEffect> effects;
};

/// Time in ms of an effect's copies to the host.
double copyMs(const HostLink& link, const LocalEffect& effect);

using MayCheckpoint = std::function<bool(ModuleId)>;

/// The checkpointing options of a part: no checkpoint, the part as a whole with sets of ops to save, and combinations
/// of the units inside, each predicted as a whole. If a unit is pinned to recompute, only options that checkpoint that
/// unit. With `onlyWhole`, for a module around several parts, only checkpoints of the whole module. Error: as
/// predict().
Result<PartOptions> partOptions(const StepModel& model, const PartTree& tree, int unit, bool onlyWhole,
                                const LocalReplay& replay, const StepLayout::PartEvents& partEvents,
                                const MayCheckpoint& may, LocalNotes& notes);

} // namespace headroom
