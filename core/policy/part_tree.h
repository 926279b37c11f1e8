// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan_units.h"
#include "core/predict/step_model.h"

#include <span>
#include <vector>

namespace headroom {

/// The modules that a request lets checkpoint, as a chain of parts (layers, blocks) in the order in which they first
/// run. What is inside a part (attention, feed-forward) is decided with it; a module around several parts (a stage, the
/// model itself) takes their place when it is checkpointed as a whole.
struct PartTree
{
    struct Unit
    {
        ModuleId module;
        bool forced = false; ///< pinned to recompute
        std::vector<int> inside; ///< nearest units
    };
    struct Around
    {
        int unit = 0;
        int first = 0, last = 0; ///< parts first .. last - 1

        /// Recomputes too much at once to be worth a look, unless it must be.
        bool isWide() const { return last - first > 8; }
    };
    std::vector<Unit> units;
    std::vector<int> parts; ///< units
    std::vector<Around> around; ///< only those whose parts follow one another

    /// A module is around parts when modules of one type repeat in it and it saves a good share of the step's
    /// activations: the stack of layers, not the experts of one layer.
    static PartTree create(const StepModel& model, const PlanModules& modules, std::span<const PlanUnit> units);
};

} // namespace headroom
