// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/sac/sac_stats.h"

#include <vector>

namespace headroom {

/// The ops of a module to save for least recomputation under a memory budget (sac_ilp.py,
/// get_optimal_checkpointing_policy_per_module; solved exactly, in whole bytes).
struct OpPolicy
{
    std::vector<bool> save; ///< by op of SacStats
    Bytes memory = 0; ///< bytes of the saved ops
    double recomputeMs = 0;
    double gap = 0; ///< no other policy saves more than (1 + gap) times as much time; 0: proven optimal
};

/// Solves for a `memoryBudget`, the share (0 to 1) of the module's SAC memory that may be saved. Random ops are saved
/// all or none, views are recomputed, in-place ops are treated as the parents. Error: a budget outside 0 to 1
/// (badInput); an op that must be both saved and recomputed, or a budget below what must be saved (infeasible).
Result<OpPolicy> opPolicy(const SacStats& stats, double memoryBudget);

} // namespace headroom
