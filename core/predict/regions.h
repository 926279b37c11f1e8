// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"
#include "core/timeline/timeline.h"

#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// The bytes that PyTorch's allocator of pinned host memory takes for a buffer: the next power of two
/// (at::CachingHostAllocator).
inline Bytes pinnedBytes(Bytes bytes)
{
    return static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

/// A storage that a call moves: that of saved tensors of an offloaded call, or of a checkpointed call that of an
/// argument, or of an output of a hosted op. In plans of
/// the planner, all packs of the storage are packs of the call, and the program has freed the storage when the backward
/// of the call begins: nothing else keeps the storage on the device.
struct MovedStorage
{
    StorageId storage;
    std::uint32_t region = 0;
};

/// A call of a module of a plan: the unit of recomputation and of offload. A module with two calls has two regions.
struct Region
{
    CallId call;
    std::uint32_t enter = 0; ///< event
    std::uint32_t stop = 0; ///< event of the last pack, where recomputation stops
    std::uint32_t end = 0; ///< event that releases the arguments and the cache
    std::uint32_t firstPack = 0, endPack = 0;
    std::uint32_t firstOp = 0, endOp = 0;

    std::optional<Offload> offload = {}; ///< nullopt: the call is checkpointed
    std::optional<Offload> hosted = {}; ///< of a checkpointed call that moves arguments or outputs
    bool hostsArguments = false;
    std::uint32_t number = none; ///< of the call, in a plan that offloads (Offload); none: the call saves nothing
    std::uint32_t leave = none; ///< event after which the moved storages leave the device
    std::uint32_t back = none; ///< event before which storages come back with Offload::afterUnpacks; none: no such event
    std::uint32_t firstMoved = 0, endMoved = 0; ///< in Regions::moved, in the order of first packs, or of ops
    std::uint32_t endArguments = 0; ///< in Regions::moved: arguments from firstMoved on, before the outputs of ops

    /// When storages of the call move; nullopt: none move.
    const std::optional<Offload>& moves() const { return offload ? offload : hosted; }
    static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);
};

/// The regions of a plan on a step.
struct Regions
{
    std::vector<Region> regions; ///< in the order of the calls
    std::vector<bool> saved; ///< by op: the outputs are in the region's cache; empty when the plan saves no op
    std::vector<MovedStorage> moved;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> movedPacks; ///< (pack, index in `moved`), ascending
    std::vector<std::pair<OpId, std::uint32_t>> movedOutputs; ///< (hosted op, index in `moved`), ascending
    std::vector<std::uint32_t> numbered; ///< by number of a call: the region; empty if the plan offloads nothing
};

/// Lays a plan out on a step. Only calls that begin before the event `end` are laid out, for a caller that replays no
/// further. Error: an unknown module, a module with an obstacle (obstacles.h), a module twice, a region inside another
/// region, a `save` of another length than countedOps() of its decidingCall().
Result<Regions> layOut(const StepTrace& trace, const StepIndex& index, const CheckpointPlan& plan,
                       std::uint32_t end = StepIndex::never);

/// The event of the first unpack of a tensor that a call packed; StepIndex::never if no tensor is unpacked.
std::uint32_t firstUnpackOf(const StepIndex& index, const StepIndex::Call& call);

/// The events at which backward unpacks tensors of these packs for the first time, ascending.
std::vector<std::uint32_t> unpacksOf(const StepIndex& index, std::uint32_t firstPack, std::uint32_t endPack);

/// By number of a pack in a call of the module: whether the saved tensor moves if the module is offloaded. A tensor
/// moves if that is possible in every call with as many packs, and if the tensor is no small one beside the others.
/// Calls with another number of packs than decidingCall() move nothing.
std::vector<bool> movedPacksOf(const StepTrace& trace, const StepIndex& index, ModuleId module);

/// The arguments of a module's calls that move with Hosted::arguments, as numbers among the different storages on the
/// device that are arguments of a call, in order. In every call that saves tensors, the argument was made before the
/// call, nothing but a checkpoint of the call keeps the argument on the device until backward, and the argument is not
/// small beside the others.
std::vector<int> movedArgumentsOf(const StepTrace& trace, const StepIndex& index, ModuleId module);

/// The storages among the arguments of a call with these numbers of movedArgumentsOf(). A call may have fewer
/// arguments.
std::vector<StorageId> argumentsOf(const StepTrace& trace, CallId call, const std::vector<int>& numbers);

/// The output storages of a hosted op that move: storages that the op made, and that are no small ones beside the
/// op's largest.
std::vector<StorageId> movedOutputsOf(const StepTrace& trace, const StepIndex& index, OpId op);

/// For each op of countedOps() of decidingCall(): whether the planner may host the op. In every call of the module, an
/// output of the op moves, and nothing but a checkpoint of the call keeps that output on the device until backward.
std::vector<bool> hostableOps(const StepTrace& trace, const StepIndex& index, ModuleId module);

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

/// Replays a step with the regions of a plan checkpointed. Time: a pass over the events and a pass over each region.
/// `events`, if not null, becomes the event that caused each change of the timeline.
Timeline replay(const StepTrace& trace, const StepIndex& index, const Regions& plan,
                std::vector<std::uint32_t>* events = nullptr);

/// Live bytes at the boundaries of each region, in the plan's order; as fast as replay().
std::vector<HeldBytes> replayBoundaries(const StepTrace& trace, const StepIndex& index, const Regions& plan);

} // namespace headroom
