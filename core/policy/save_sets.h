// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_model.h"

#include <functional>
#include <vector>

namespace headroom {

/// An op of a module that a checkpoint may keep.
struct SavableOp
{
    std::size_t op = 0; ///< in regionOps()
    double ms = 0; ///< that keeping it saves
    bool random = false;
};

/// What of a module's ops a checkpoint may keep and would run again otherwise: those before the module's last saved
/// tensor, where recomputation stops.
std::vector<SavableOp> savableOpsThatRunAgain(const StepModel& model, ModuleId module);

/// Sets of ops to keep, as CheckpointRegion::save, that are worth it: least time for what they hold. The lower convex
/// hull of all sets, and up to `more` of the others. `bytes` says what keeping an op alone costs.
///
/// Random ops: recomputation begins with the random state of the forward, so that an op that is kept must not be
/// followed by one that runs again, which would draw other numbers. A set keeps the last of them, all, or none.
std::vector<std::vector<bool>> saveSets(const StepModel& model, ModuleId module,
                                        const std::function<Bytes(const SavableOp&)>& bytes, std::size_t more);

} // namespace headroom
