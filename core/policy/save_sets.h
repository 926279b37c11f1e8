// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"
#include "core/predict/step_model.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace headroom {

/// The cost of one way to checkpoint a part of a step, as the fields of ChainOption.
struct WayCost
{
    Bytes held = 0;
    Bytes high = 0;
    Picoseconds time = 0;
};

/// Indices of the ways that no other way dominates, sorted by held, then time; of equal ways the first. If there are
/// more than `most`, corners of the lower hull of time over bytes are kept first.
std::vector<std::size_t> worthIt(std::span<const WayCost> ways, std::size_t most);

/// By unit: the index of one of its ways.
using Combination = std::vector<std::size_t>;

/// At most `most` combinations that are not dominated in the sums of held and time.
std::vector<Combination> bestSums(std::span<const std::vector<WayCost>> units, std::size_t most);

/// All combinations of a few ways of each unit, at most `most` in total.
std::vector<Combination> products(std::span<const std::vector<WayCost>> units, std::size_t most);

/// An op of a module that a checkpoint may save.
struct SavableOp
{
    std::size_t op = 0; ///< index in regionOps()
    double ms = 0; ///< recompute time that saving it avoids
    bool random = false;
};

/// The ops of a module that a checkpoint may save and that run again otherwise: those before the module's last saved
/// tensor, where recomputation stops.
std::vector<SavableOp> savableOpsThatRunAgain(const StepModel& model, ModuleId module);

/// Sets of ops to save, as CheckpointRegion::save, that are not dominated in bytes and recompute time: the lower convex
/// hull of all sets, and up to `more` of the others. `bytes` returns the bytes of saving one op alone.
///
/// Random ops: a recomputation starts with the RNG state of the forward and skips saved ops. A random op that runs
/// again after a saved one would draw other numbers. So a set saves the last random ops (any number of them), all, or
/// none.
std::vector<std::vector<bool>> saveSets(const StepModel& model, ModuleId module,
                                        const std::function<Bytes(const SavableOp&)>& bytes, std::size_t more);

} // namespace headroom
