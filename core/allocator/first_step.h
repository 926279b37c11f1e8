// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <set>
#include <vector>

namespace headroom {

/// How the memory of a program's first step differs from the recorded step. The recorded step begins with gradients,
/// optimizer state and leftovers of the step before.
///
/// The first step begins with parameters, buffers and data. Optimizer state is made before the first op of the
/// parameter group, as in torch.optim, and SGD's momentum where SGD copies the gradients. A gradient that the program
/// never frees is made by the first op that uses the gradient, and so is what the program made in a step, as
/// GradScaler's scale. Leftovers do not exist: a leftover is a storage of the step before that the recorded step
/// replaces.
struct FirstStep
{
    /// A storage that gets a block in the step.
    struct Made
    {
        OpId op; ///< the block exists from this op on
        StorageId storage;
        double ms = 0; ///< when an optimizer's step begins with `op`, on the timeline's axis; otherwise infinite
    };
    std::set<StorageId> present; ///< storages of the allocator at the beginning of the first step
    std::vector<Made> made; ///< by op, then by storage
};

/// `start`: the storages of the allocator at the beginning of the recorded step.
FirstStep firstStep(const StepTrace& trace, const Timeline& timeline, const std::set<StorageId>& start);

} // namespace headroom
