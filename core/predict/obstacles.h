// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom {

struct StepIndex;

/// The reason why a module cannot be checkpointed: the recomputation would raise, or would start from other values than
/// the forward and give other gradients.
enum class CheckpointObstacle : std::uint8_t {
    none,
    argumentChanged, ///< an argument is changed in place, by the module or later
    stateChanged, ///< a tensor besides the arguments, such as a buffer, is changed in place before the module's
                  ///< recomputation
    stateUpdated, ///< an op computes with a state that the op itself changes, as a fake quantization's range
    changedTwice, ///< the module changes a tensor in place that other ops of forward or backward read afterwards
    stateReplaced, ///< the module computes with a tensor that the program has replaced by then, as a recurrent module's
                   ///< state
    secondOrder, ///< a backward pass builds a graph (create_graph). Autograd's order in that graph depends on the
                 ///< number of nodes that each thread has created, and recomputations create nodes
    castsOutliveBackward, ///< autocast's casts of weights are used again after a backward pass, but a recomputation
                          ///< empties autocast's cache
    ownCheckpoint, ///< the program already checkpoints the module or a part of the module
    inBackward, ///< a node's backward runs a part of the module to take separate gradients, as implicit layers do
    ownBackward, ///< a backward pass inside the module's forward uses tensors that the module saved
    inLargerGraph, ///< torch.compile compiled the module as a part of something larger; such graphs cannot be taken
                   ///< apart
    inCudaGraph, ///< CUDA graphs of torch.compile run ops of the module. Saved tensors stay in the graphs' pool until a
                 ///< later graph begins, and so the memory under a checkpoint cannot be predicted
    gathersInside, ///< FSDP gathers parameters inside the module; in a recomputation the parameters are alive at other
                   ///< times
    gathersInOrder, ///< ZeRO-3 gathers parameters inside the module. The choice, begin and duration of gathers depend
                    ///< on the order of all modules of the step, and a recomputation changes that order
};

/// The obstacle as a clause for the user: "one of its arguments is changed in place".
std::string_view obstacleText(CheckpointObstacle obstacle);

struct CheckpointObstacles
{
    CheckpointObstacle ofStep = CheckpointObstacle::none; ///< obstacle of every module and of ops outside of modules
    std::vector<CheckpointObstacle> ofModules; ///< by ModuleId; the step's obstacle included
    /// By ModuleId: what keeps the saved tensors of a module from being offloaded. Nothing runs again then, but graphs
    /// and hooks of the program may be in the way.
    std::vector<CheckpointObstacle> toOffload;
};

/// Finds the obstacles in a single pass over the ops of each module's calls.
CheckpointObstacles checkpointObstacles(const StepTrace& trace, const StepIndex& index);

} // namespace headroom
