// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan_units.h"
#include "core/predict/step_model.h"

#include <span>
#include <vector>

namespace headroom {

/// The modules that a request allows to checkpoint, as a chain of parts (layers, blocks) in the order of first runs.
/// Units inside a part (attention, feed-forward) are options of the part. A module around several parts (a stage, the
/// model itself) replaces the parts when checkpointed as a whole.
struct PartTree
{
    struct Unit
    {
        ModuleId module;
        bool forced = false; ///< pinned to recompute, or to be offloaded
        bool offloaded = false; ///< pinned to be offloaded
        std::vector<int> inside; ///< nearest units inside this unit
    };
    struct Around
    {
        int unit = 0;
        int first = 0, last = 0; ///< the module contains parts first to last - 1

        /// Whether the module has too many parts to be an option without a pin.
        bool isWide() const { return last - first > 8; }
    };
    std::vector<Unit> units;
    std::vector<int> parts; ///< units
    std::vector<Around> around; ///< only modules with consecutive parts
    bool offloads = false; ///< saved tensors may go to host memory
    bool recomputes = true; ///< false: only modules that are pinned to recompute

    /// A module is around parts if modules of the same type repeat inside and the module saves a large share of the
    /// step's activations: the stack of layers, not the experts of a layer.
    static PartTree create(const StepModel& model, const PlanModules& modules, std::span<const PlanUnit> units);
};

} // namespace headroom
