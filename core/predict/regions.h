// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// One checkpointed call of a module: the unit of recomputation. A module that is called twice has two regions.
struct Region
{
    CallId call;
    std::uint32_t enter = 0; ///< event
    std::uint32_t stop = 0; ///< event of its last pack, where recomputation stops
    std::uint32_t end = 0; ///< event after which its arguments and its cache are released
    std::uint32_t firstPack = 0, endPack = 0;
    std::uint32_t firstOp = 0, endOp = 0;
};

/// The regions of a plan on one step.
struct Regions
{
    std::vector<Region> regions; ///< in the order of their calls
    std::vector<bool> saved; ///< by op: its outputs are in the cache of its region; empty when the plan saves no op
};

/// Lays a plan out on a step. Only calls that begin before the event `end` are laid out, for a caller that replays no
/// further. Errors: an unknown module, one with an obstacle (obstacles.h), a module twice, regions that contain one
/// another, a `save` of another length than countedOps() of its decidingCall().
Result<Regions> layOut(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan,
                       std::uint32_t end = StepIndex::never);

/// The name of an op of a checkpointed call in a policy: the op, and the number of ops of that name before it in the
/// call.
struct RegionOpName
{
    StringId op;
    int index = 0;
    auto operator<=>(const RegionOpName&) const = default;
};
std::vector<RegionOpName> regionOpNames(const StepTrace& trace, std::span<const OpId> ops);

/// One call of a module as a region.
Region regionOf(const StepIndex& index, CallId call);

/// The call that CheckpointRegion::save lists the ops of: the module's first call that saves a tensor for backward (a
/// call without gradients is not checkpointed), else its first call; invalid if it never ran.
CallId decidingCall(const StepIndex& index, ModuleId module);

/// The ops of a call that selective checkpointing counts (all but opWithoutIndex), in order.
std::vector<OpId> countedOps(const StepTrace& trace, const StepIndex::Call& call);

} // namespace headroom
