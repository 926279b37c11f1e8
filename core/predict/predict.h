// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <vector>

namespace headroom {

/// A module whose forward is checkpointed (torch.utils.checkpoint, non-reentrant, selective).
struct CheckpointRegion
{
    ModuleId module;
    /// For each op of one forward call of the module, in order, ops of submodules included and SAC_IGNORED_OPS left
    /// out: is its output kept (true) or recomputed (false)? Empty: everything is recomputed.
    std::vector<bool> save;
};

/// Regions must not contain one another.
using CheckpointPlan = std::vector<CheckpointRegion>;

/// The step's timeline under a plan, by PyTorch's non-reentrant selective semantics: outputs of saved ops are cached in
/// forward; at the first unpack of any tensor that the region saved, the region runs again up to its last saved tensor;
/// recomputed tensors die as backward consumes them. Exact to the byte for a simulated trace.
///
/// With an empty plan this is the recorded step. Cost: one pass over the events and one over each region.
/// Errors: a region's `save` has another length than regionOps(); regions nest; a module that is unknown or cannot be
/// checkpointed (obstacles.h).
Result<Timeline> predict(const StepTrace& trace, const CheckpointPlan& plan);

/// What the device holds, everything counted, at the boundaries of one checkpointed call.
struct HeldBytes
{
    Bytes begin = 0; ///< of its forward
    Bytes end = 0; ///< of its forward; 0: an interrupted step never left it
    Bytes again = 0; ///< when it is about to run again, the most of its backward passes; 0: it never does
    bool operator==(const HeldBytes&) const = default;
};

/// The ops that CheckpointRegion::save numbers: those of the module's first call that saves something for backward.
std::vector<OpId> regionOps(const StepTrace& trace, ModuleId module);

/// Which of regionOps() may be kept: ops that allocate their outputs and whose outputs nothing changes later (views,
/// aliases and in-place ops may not: PyTorch raises, or the values would be wrong). None of a module that several
/// backward passes go through: PyTorch gives up what it keeps in the first. None of one in which ops of tensor
/// subclasses run.
std::vector<bool> savableOps(const StepTrace& trace, ModuleId module);

} // namespace headroom
