// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace headroom {

/// What must happen to a module: `save` keeps all its activations, so that neither it nor a module inside or around it
/// is checkpointed; `recompute` checkpoints it.
enum class Pin { save, recompute };

/// What is asked of a planner.
struct PlanRequest
{
    Bytes budget = 0;
    int worldSize = 1; ///< FSDP: parameters and gradients are sharded over so many ranks, as in PyTorch's sac_milp
    std::vector<std::string> acUnits; ///< only these may be checkpointed; empty: any module with children
    std::vector<std::string> fsdpUnits; ///< no module that contains one of these is checkpointed
    std::map<std::string, Pin> pins; ///< fqn → what must happen to it
};

/// badInput when there are less ranks than one.
Status checkWorldSize(const PlanRequest& request);

enum class PlanStatus {
    optimal, ///< proven: gap 0, to a solver's tolerance of 1e-6
    feasible, ///< within the budget, not proven best: see gap
    infeasible, ///< nothing fits: see leastBudget and reason
    stopped, ///< ended by the caller before there was an answer
};
std::string_view planStatusName(PlanStatus status);

/// What a planner answers. Plain values; JSON keys are a contract.
struct Plan
{
    PlanStatus status = PlanStatus::infeasible;
    Bytes budget = 0;
    int worldSize = 1;
    Bytes peak = -1; ///< of the plan; -1 when infeasible
    Bytes baselinePeak = 0; ///< PyTorch's baseline: without checkpointing, on one GPU
    double recomputeMs = 0;
    double stepMs = 0; ///< forward and backward without recomputation
    double boundMs = 0; ///< no plan recomputes less than this
    double gap = 0; ///< (recomputeMs - boundMs) / recomputeMs
    double solveMs = 0; ///< wall time
    std::int64_t nodes = 0; ///< of search trees, and labels of dynamic programmes, that were looked at
    /// The price of memory at the budget: what a little more of it saves, for each GiB, by the linear relaxation. 0
    /// where nothing is recomputed, and in PyTorch's formulation, where it was not asked.
    double msPerGiB = 0;
    /// fqn → share discarded: of a plan of a step what discardedShare() says of it, of PyTorch's formulation its own
    /// variable, the share of the module's SAC memory.
    std::map<std::string, double> decisions;
    Bytes leastBudget = 0; ///< the smallest budget for which a plan exists
    struct
    {
        std::string module;
        std::string phase;
    } binding; ///< where the plan is tightest
    std::string reason; ///< infeasible: one sentence that says why, and what would help
};

} // namespace headroom
