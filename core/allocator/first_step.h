// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <set>
#include <vector>

namespace headroom {

/// How the memory of a program's first step differs from that of the recorded one, which begins with gradients,
/// optimizer state and leftovers of the step before.
///
/// The first step begins with parameters, buffers and data. Optimizer state is made when the optimizer first steps,
/// before its first op, as torch.optim does; a gradient that the program never frees is made by the first op that uses
/// the gradient. Leftovers of the step before, which this step replaces, do not exist.
struct FirstStep
{
    /// A storage that gets its block in the step.
    struct Made
    {
        OpId op; ///< the block exists from this op on
        StorageId storage;
        double ms = 0; ///< when an optimizer's step begins with `op`, on the timeline's axis; otherwise infinite
    };
    std::set<StorageId> present; ///< storages of the allocator with which the first step begins
    std::vector<Made> made; ///< by op, then by storage
};

/// `start` are the storages of the allocator with which the recorded step begins.
FirstStep firstStep(const StepTrace& trace, const Timeline& timeline, const std::set<StorageId>& start);

} // namespace headroom
