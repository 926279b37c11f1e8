// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/sac/sac_stats.h"

#include <vector>

namespace headroom {

/// Which ops of one module to keep, for least recomputation under a memory budget
/// (sac_ilp.py, get_optimal_checkpointing_policy_per_module; solved exactly, in whole bytes).
struct OpPolicy
{
    std::vector<bool> save; ///< one an op of SacStats
    Bytes memory = 0; ///< kept
    double recomputeMs = 0;
    double gap = 0; ///< no other policy saves more than (1 + gap) times as much time; 0 for every model seen so far
};

/// `memoryBudget`: share 0..1 of the module's SAC memory that may be kept. Random ops all or none, views recomputed,
/// in-place ops with their parent. Errors: budget outside 0..1; infeasible when what must be kept exceeds it.
Result<OpPolicy> opPolicy(const SacStats& stats, double memoryBudget);

} // namespace headroom
