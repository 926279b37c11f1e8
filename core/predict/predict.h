// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <compare>
#include <limits>
#include <optional>
#include <vector>

namespace headroom {

/// How the saved tensors of a module go to host memory in forward, and come back in backward. The calls of the plan's
/// modules that save tensors are numbered in the order of the forwards. `n` is the number of a call.
struct Offload
{
    int wait = 0; ///< the tensors leave the device at the end of the forward of call n + wait
    int ahead = 0; ///< the tensors come back when the backward of call n + ahead begins, at the latest of call n
    bool moves = true; ///< false: nothing moves; the module's calls only count
    static constexpr int all = std::numeric_limits<int>::max();
    /// So many storages of a call, in the order of the copies back, come back `ahead` calls early. The others come
    /// back when the call's own backward begins.
    int prefetch = all;
    /// The early storages come back when the backward of call n + ahead has unpacked so many different saved tensors,
    /// and needs another one. 0: when that backward begins.
    int afterUnpacks = 0;
    auto operator<=>(const Offload&) const = default;
};

/// What a checkpointed module keeps for the recomputation and sends to host memory in forward: saved outputs, and
/// arguments. All of that comes back before the recomputation.
struct Hosted
{
    /// For each op of CheckpointRegion::save: whether the saved outputs go to the host. Empty: none.
    std::vector<bool> ops = {};
    Offload when = {}; ///< as of an offloaded module; the recomputation is the begin of the backward
    bool arguments = false; ///< whether the arguments by movedArgumentsOf() (regions.h) go to the host
    auto operator<=>(const Hosted&) const = default;
};

/// A module of a plan. Either the module is checkpointed (torch.utils.checkpoint, non-reentrant, with selective
/// checkpointing), or its saved tensors are offloaded (torch.autograd.graph.saved_tensors_hooks).
struct CheckpointRegion
{
    ModuleId module;
    /// For each op of StepModel::regionOps(): whether the outputs are saved (true) or recomputed (false). Empty: all
    /// are recomputed. Without a meaning for an offloaded module.
    std::vector<bool> save = {};
    std::optional<Offload> offload = {}; ///< nullopt: the module is checkpointed
    std::optional<Hosted> hosted = {}; ///< of a checkpointed module; nullopt: all stays on the device
};

/// No region may contain another region.
using CheckpointPlan = std::vector<CheckpointRegion>;

/// The step's timeline under a plan, by the semantics of PyTorch's non-reentrant selective checkpointing. Outputs of
/// saved ops are cached in forward. The first unpack of any tensor that the region packed recomputes the region, up to
/// the last packed tensor. Recomputed tensors die as backward consumes the tensors. Exact to the byte for a simulated
/// trace.
///
/// An empty plan gives the recorded step. Time: a pass over the events and a pass over each region. Error: a region's
/// `save` has another length than StepModel::regionOps(); regions nest; a module is unknown or cannot be checkpointed
/// (obstacles.h).
Result<Timeline> predict(const StepTrace& trace, const CheckpointPlan& plan);

/// Live bytes of the whole device at the boundaries of a checkpointed call.
struct HeldBytes
{
    Bytes begin = 0; ///< at the begin of the forward
    Bytes end = 0; ///< at the end of the forward; 0: an interrupted step never left the forward
    Bytes again = 0; ///< before the recomputation, the most over all backward passes; 0: no recomputation
    bool operator==(const HeldBytes&) const = default;
};

} // namespace headroom
