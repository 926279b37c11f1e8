// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <vector>

namespace headroom {

/// A module that is checkpointed (torch.utils.checkpoint, non-reentrant, with selective checkpointing).
struct CheckpointRegion
{
    ModuleId module;
    /// For each op of StepModel::regionOps(): whether its outputs are saved (true) or recomputed (false). Empty: all
    /// are recomputed.
    std::vector<bool> save;
};

/// Regions must not contain one another.
using CheckpointPlan = std::vector<CheckpointRegion>;

/// The step's timeline under a plan, by the semantics of PyTorch's non-reentrant selective checkpointing. Outputs of
/// saved ops are cached in forward. The first unpack of any tensor that the region packed runs the region again, up to
/// its last packed tensor. Recomputed tensors die as backward consumes them. Exact to the byte for a simulated trace.
///
/// An empty plan gives the recorded step. Time: one pass over the events and one over each region. Errors: a region's
/// `save` has another length than StepModel::regionOps(); regions nest; a module is unknown or cannot be checkpointed
/// (obstacles.h).
Result<Timeline> predict(const StepTrace& trace, const CheckpointPlan& plan);

/// Live bytes of the whole device at the boundaries of one checkpointed call.
struct HeldBytes
{
    Bytes begin = 0; ///< at the begin of its forward
    Bytes end = 0; ///< at the end of its forward; 0: an interrupted step never left it
    Bytes again = 0; ///< before its recomputation, the most over all backward passes; 0: it never runs again
    bool operator==(const HeldBytes&) const = default;
};

} // namespace headroom
