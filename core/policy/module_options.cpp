// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/module_options.h"

#include "core/base/try.h"
#include "core/policy/part_options.h"

#include <algorithm>
#include <tuple>

namespace headroom {

namespace {

/// Leaves out dominated options.
std::vector<ModuleOption> worthIt(std::vector<ModuleOption> options)
{
    std::ranges::sort(options, {},
                      [](const ModuleOption& option) { return std::tuple(option.recomputeMs, option.kept); });
    std::vector<ModuleOption> kept;
    for (ModuleOption& option : options)
        if (kept.empty() || option.kept < kept.back().kept)
            kept.push_back(std::move(option));
    return kept;
}

} // namespace

Result<std::vector<ModuleOption>> moduleOptions(const StepModel& model, const StorageEvents& events,
                                                const ModuleEffects& effects, const PartTree& tree, ModuleId module)
{
    const auto unit = std::ranges::find(tree.units, module, &PartTree::Unit::module);
    if (unit == tree.units.end() || effects.recorded()[module.value].recorded == 0)
        return std::vector<ModuleOption>();
    const auto number = static_cast<int>(unit - tree.units.begin());
    const auto around = std::ranges::find(tree.around, number, &PartTree::Around::unit);
    if (around != tree.around.end() && around->isWide())
        return std::vector<ModuleOption>();

    // The step as a chain of this single part: shared arguments count as the part's own.
    const StepLayout layout(model, events, {module}, 1, StepLayout::SharedArguments::held);
    LocalNotes notes;
    const LocalReplay replay(model, events, module, layout.shared(), notes);
    const StepLayout::PartEvents partEvents = layout.partEvents(replay, module, 0, 1);
    const MayCheckpoint any = [](ModuleId) { return true; };
    const bool onlyWhole = around != tree.around.end();
    ASSIGN_OR_RETURN(PartOptions part, partOptions(model, tree, number, onlyWhole, replay, partEvents, any, notes));

    // Selects first by the change of held bytes, then by the exact effect of each remaining plan.
    std::vector<ModuleOption> options{{}};
    for (std::size_t i = 0; i < part.plans.size(); ++i) {
        ModuleOption option{partEvents.of(part.effects[i]).held, part.effects[i].recomputeMs, part.plans[i]};
        for (CheckpointRegion& region : option.regions)
            region.module = ModuleId(region.module.value + module.value);
        options.push_back(std::move(option));
    }
    options = worthIt(std::move(options));
    for (ModuleOption& option : options) {
        ASSIGN_OR_RETURN(const std::vector<ModuleEffect> found, effects.of(option.regions));
        option.kept = found[module.value].kept;
        option.recomputeMs = found[module.value].recomputeMs;
    }
    return worthIt(std::move(options));
}

} // namespace headroom
