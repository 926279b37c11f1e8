// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/sac/module_info.h"

#include <vector>

namespace headroom {

/// The modules of a ModuleInfo as planners see them: who contains whom by name, and in which order forwards end.
struct PlanModules
{
    struct Module
    {
        int position = 0; ///< of the first call in fw_post_order
        int parent = -1; ///< nearest enclosing module, by name
        bool candidate = false; ///< has children, keeps activations, has a trade-off curve, and nothing is in the way
    };
    ModuleInfoPtr info;
    std::vector<Module> modules; ///< as info->stats

    /// Errors (badInput): no modules, a name twice, a module that is not in fw_post_order.
    static Result<PlanModules> create(ModuleInfoPtr info);
};

/// A module that may be checkpointed under a request. Units are in the order in which their forwards end, so that those
/// inside a unit come right before it.
struct PlanUnit
{
    int module = 0; ///< index in PlanModules::modules
    int parent = -1; ///< nearest enclosing unit
    int firstInside = 0; ///< units firstInside .. own index - 1 are inside it
    bool forced = false; ///< pinned to recompute
    std::vector<int> children;
};

/// The units of a request, for every planner: its pins, AC units and FSDP units count, its budget does not. Errors
/// (badInput): a unit or pin that names no module, a pin that cannot be kept.
Result<std::vector<PlanUnit>> planUnits(const PlanModules& modules, const PlanRequest& request);

} // namespace headroom
