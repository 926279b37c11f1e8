// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom {

struct StepIndex;

/// The reason why a module cannot be checkpointed: its recomputation would raise, or would start from other values than
/// its forward and give other gradients.
enum class CheckpointObstacle : std::uint8_t {
    none,
    argumentChanged, ///< an argument is changed in place, by the module or after it
    stateChanged, ///< it reads another tensor, such as a buffer, that is changed in place before it would run again
    stateUpdated, ///< an op of it computes with a state that the op itself changes, as a fake quantization's range
    changedTwice, ///< it changes a tensor in place that other ops of forward or backward read afterwards
    stateReplaced, ///< it computes with a tensor that the program has replaced by then, as a recurrent module's state
    secondOrder, ///< a backward pass builds a graph (create_graph). The order in which autograd runs that graph depends
                 ///< on how many nodes each thread has created, and recomputations create nodes
    castsOutliveBackward, ///< autocast's casts of weights are used again after a backward pass, but a recomputation
                          ///< empties autocast's cache
    ownCheckpoint, ///< the program already checkpoints the module or a part of it
    inBackward, ///< a backward runs a part of it to take gradients of its own, as implicit layers do
    ownBackward, ///< a backward pass inside its forward uses tensors that it saved
    inLargerGraph, ///< torch.compile compiled it as a part of something larger, whose graphs cannot be taken apart
    gathersInside, ///< FSDP gathers parameters inside it, which are alive at other times when it runs again
    gathersInOrder, ///< ZeRO-3 gathers parameters inside it: which ones, when and for how long depends on the order of
                    ///< all modules of the step, of which a recomputation makes another one
};

/// The obstacle as a clause for the user: "one of its arguments is changed in place".
std::string_view obstacleText(CheckpointObstacle obstacle);

struct CheckpointObstacles
{
    CheckpointObstacle ofStep = CheckpointObstacle::none; ///< obstacle of every module and of ops outside of modules
    std::vector<CheckpointObstacle> ofModules; ///< by ModuleId; the step's obstacle included
};

/// Finds the obstacles in one pass over the ops of each module's calls.
CheckpointObstacles checkpointObstacles(const StepTrace& trace, const StepIndex& index);

} // namespace headroom
