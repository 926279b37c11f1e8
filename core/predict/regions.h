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

/// A checkpointed call of a module: the unit of recomputation. A module with two calls has two regions.
struct Region
{
    CallId call;
    std::uint32_t enter = 0; ///< event
    std::uint32_t stop = 0; ///< event of the last pack, where recomputation stops
    std::uint32_t end = 0; ///< event that releases the arguments and the cache
    std::uint32_t firstPack = 0, endPack = 0;
    std::uint32_t firstOp = 0, endOp = 0;
};

/// The regions of a plan on a step.
struct Regions
{
    std::vector<Region> regions; ///< in the order of the calls
    std::vector<bool> saved; ///< by op: the outputs are in the region's cache; empty when the plan saves no op
};

/// Lays a plan out on a step. Only calls that begin before the event `end` are laid out, for a caller that replays no
/// further. Error: an unknown module, a module with an obstacle (obstacles.h), a module twice, a region inside another
/// region, a `save` of another length than countedOps() of its decidingCall().
Result<Regions> layOut(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan,
                       std::uint32_t end = StepIndex::never);

/// The name of an op of a checkpointed call in a policy: the op, and the number of earlier ops of that name in the
/// call.
struct RegionOpName
{
    StringId op;
    int index = 0;
    auto operator<=>(const RegionOpName&) const = default;
};
std::vector<RegionOpName> regionOpNames(const StepTrace& trace, std::span<const OpId> ops);

/// A call of a module as a region.
Region regionOf(const StepIndex& index, CallId call);

/// The call with the ops of CheckpointRegion::save: the module's first call that saves a tensor for backward (a call
/// without gradients is not checkpointed), else the module's first call; invalid if the module never ran.
CallId decidingCall(const StepIndex& index, ModuleId module);

/// The ops of a call that selective checkpointing counts (all but opWithoutIndex), in order.
std::vector<OpId> countedOps(const StepTrace& trace, const StepIndex::Call& call);

} // namespace headroom
