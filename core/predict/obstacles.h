// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom {

struct StepIndex;

/// Why a module cannot be checkpointed: its recomputation would raise, or would start from other values than the
/// forward and give other gradients.
enum class CheckpointObstacle : std::uint8_t {
    none,
    argumentChanged, ///< one of its arguments is changed in place, by the module or by what runs after it
    stateChanged, ///< it reads a tensor from outside, such as a buffer, that is changed in place before backward is
                  ///< over
    secondOrder, ///< the step has a backward pass that builds a graph of itself (create_graph). In which order autograd
                 ///< goes through that graph depends on how many nodes each of its threads has made before, and
                 ///< recomputations make some
    castsOutliveBackward, ///< weights that autocast cast before a backward pass are used again after it, but
                          ///< recomputations empty autocast's cache
    ownCheckpoint, ///< the program checkpoints a part of it already
    ownBackward, ///< a backward pass inside of its forward goes through what it has saved
    gathersInside, ///< what FSDP gathers for parts of it is there at other times when it runs again
};

/// What is said of such a module: "one of its arguments is changed in place".
std::string_view obstacleText(CheckpointObstacle obstacle);

struct CheckpointObstacles
{
    CheckpointObstacle ofStep = CheckpointObstacle::none; ///< of all that runs in it, in a module or not
    std::vector<CheckpointObstacle> ofModules; ///< the step's included
};

/// One pass over the ops of each module's calls.
CheckpointObstacles checkpointObstacles(const StepTrace& trace, const StepIndex& index);

} // namespace headroom
