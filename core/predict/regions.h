// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// One checkpointed call of a module: the unit that recomputes. A module that runs twice has two.
struct Region
{
    CallId call;
    std::uint32_t enter = 0; ///< event
    std::uint32_t stop = 0; ///< event of its last pack, where recomputation stops
    std::uint32_t end = 0; ///< event with which the last holder of its arguments and of its cache goes
    std::uint32_t firstPack = 0, endPack = 0;
    std::uint32_t firstOp = 0, endOp = 0;
};

/// A plan laid out on one step.
struct Regions
{
    std::vector<Region> regions; ///< in the order of their calls
    std::vector<bool> saved; ///< by op: its outputs are kept in the cache of its region; empty when no op is
};

/// Errors: unknown module, one with an obstacle (obstacles.h), a module twice, regions that contain one another, a
/// `save` of another length than the ops of its decidingCall(). `end`: only calls that begin before this event: a
/// caller that replays no further does not pay for the others.
Result<Regions> layOut(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan,
                       std::uint32_t end = StepIndex::never);

/// One call of a module as a region.
Region regionOf(const StepIndex& index, CallId call);

/// The call whose ops a plan numbers: the module's first one that saves something for backward (one without gradients
/// is not checkpointed), else its first; invalid when it never ran.
CallId decidingCall(const StepIndex& index, ModuleId module);

/// Ops of a call that selective checkpointing counts.
std::vector<OpId> countedOps(const StepTrace& trace, const StepIndex::Call& call);

} // namespace headroom
