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

/// The cost of an option to checkpoint a part of a step, as the fields of ChainOption.
struct OptionCost
{
    Bytes held = 0;
    Bytes high = 0;
    Picoseconds time = 0;
    Picoseconds copy = 0; ///< of the moved storages to the host
};

/// Indices of the options that no other option dominates, sorted by held, then time; of equal options the first. If
/// there are more than `most`, corners of the lower hull of time over bytes are kept first.
std::vector<std::size_t> worthIt(std::span<const OptionCost> options, std::size_t most);

/// By unit: the index of an option.
using Combination = std::vector<std::size_t>;

/// At most `most` combinations that are not dominated in the sums of held and time.
std::vector<Combination> bestSums(std::span<const std::vector<OptionCost>> units, std::size_t most);

/// All combinations of a few options of each unit, at most `most` in total.
std::vector<Combination> products(std::span<const std::vector<OptionCost>> units, std::size_t most);

/// An op of a module that a checkpoint may save.
struct SavableOp
{
    std::size_t op = 0; ///< index in regionOps()
    double ms = 0; ///< recompute time that saving avoids
    bool random = false;
};

/// The ops of a module that a checkpoint may save and recomputes otherwise: the ops before the module's last saved
/// tensor, where recomputation stops.
std::vector<SavableOp> savableOpsThatRunAgain(const StepModel& model, ModuleId module);

/// Sets of ops to save, as CheckpointRegion::save, that are not dominated in bytes and recompute time: the lower convex
/// hull of all sets, and up to `more` other sets. `bytes` returns the bytes of saving a single op.
///
/// Random ops: a recomputation starts with the RNG state of the forward and skips saved ops. A random op that is
/// recomputed after a saved random op would draw other numbers. So a set saves the last random ops (in any number),
/// all, or none.
std::vector<std::vector<bool>> saveSets(const StepModel& model, ModuleId module,
                                        const std::function<Bytes(const SavableOp&)>& bytes, std::size_t more);

} // namespace headroom
