// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/sac/module_info.h"

#include <vector>

namespace headroom {

/// The modules of a ModuleInfo for planners: the tree by name, and the order of the ends of forward.
struct PlanModules
{
    struct Module
    {
        int position = 0; ///< position of the module's first call in fw_post_order
        int parent = -1; ///< nearest enclosing module, by name
        bool candidate = false; ///< has children, activations and a trade-off curve, and no obstacle to checkpointing
    };
    ModuleInfoPtr info;
    std::vector<Module> modules; ///< indexed as info->stats

    /// Error (badInput): no modules, a name twice, a module that is not in fw_post_order.
    static Result<PlanModules> create(ModuleInfoPtr info);
};

/// A module that may be checkpointed under a request. Units are ordered by the end of forward, so that the units inside
/// a unit directly precede the outer unit.
struct PlanUnit
{
    int module = 0; ///< index in PlanModules::modules
    int parent = -1; ///< nearest enclosing unit
    int firstInside = 0; ///< units firstInside to own index - 1 are inside this unit
    bool forced = false; ///< pinned to recompute, or to be offloaded
    bool offloaded = false; ///< pinned to be offloaded
    std::vector<int> children;
};

/// The units of a request, by the pins, AC units and FSDP units, without regard to the budget. Error (badInput): a unit
/// or pin that names no module, a pin that cannot be met; the sentence names the module.
Result<std::vector<PlanUnit>> planUnits(const PlanModules& modules, const PlanRequest& request);

} // namespace headroom
