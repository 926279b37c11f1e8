// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/sac/module_info.h"

#include <vector>

namespace headroom {

/// The modules of a ModuleInfo for planners: the tree by name, and the order in which forwards end.
struct PlanModules
{
    struct Module
    {
        int position = 0; ///< position of its first call in fw_post_order
        int parent = -1; ///< nearest enclosing module, by name
        bool candidate = false; ///< has children, activations and a trade-off curve, and no obstacle to checkpointing
    };
    ModuleInfoPtr info;
    std::vector<Module> modules; ///< indexed as info->stats

    /// Errors (badInput): no modules, a name twice, a module that is not in fw_post_order.
    static Result<PlanModules> create(ModuleInfoPtr info);
};

/// A module that may be checkpointed under a request. Units are in the order in which their forwards end, so that the
/// units inside a unit directly precede it.
struct PlanUnit
{
    int module = 0; ///< index in PlanModules::modules
    int parent = -1; ///< nearest enclosing unit
    int firstInside = 0; ///< units firstInside to own index - 1 are inside it
    bool forced = false; ///< pinned to recompute
    std::vector<int> children;
};

/// The units of a request, by its pins, AC units and FSDP units, whatever its budget. Errors (badInput): a unit or pin
/// that names no module, a pin that cannot be met.
Result<std::vector<PlanUnit>> planUnits(const PlanModules& modules, const PlanRequest& request);

} // namespace headroom
