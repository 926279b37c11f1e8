// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/module_ways.h"

#include "core/base/try.h"
#include "core/policy/part_options.h"

#include <algorithm>
#include <tuple>

namespace headroom {

namespace {

/// Leaves out dominated ways.
std::vector<ModuleWay> worthIt(std::vector<ModuleWay> ways)
{
    std::ranges::sort(ways, {}, [](const ModuleWay& way) { return std::tuple(way.recomputeMs, way.kept); });
    std::vector<ModuleWay> kept;
    for (ModuleWay& way : ways)
        if (kept.empty() || way.kept < kept.back().kept)
            kept.push_back(std::move(way));
    return kept;
}

} // namespace

Result<std::vector<ModuleWay>> waysOf(const StepModel& model, const StorageEvents& events, const ModuleEffects& effects,
                                      const PartTree& tree, ModuleId module)
{
    const auto unit = std::ranges::find(tree.units, module, &PartTree::Unit::module);
    if (unit == tree.units.end() || effects.recorded()[module.value].recorded == 0)
        return std::vector<ModuleWay>();
    const auto number = static_cast<int>(unit - tree.units.begin());
    const auto around = std::ranges::find(tree.around, number, &PartTree::Around::unit);
    if (around != tree.around.end() && around->isWide())
        return std::vector<ModuleWay>();

    // The step as a chain of this single part: shared arguments count as the part's own.
    const StepLayout layout(model, events, {module}, 1, StepLayout::SharedArguments::held);
    LocalNotes notes;
    const LocalReplay replay(model, events, module, layout.shared(), notes);
    const StepLayout::Place place = layout.place(replay, module, 0, 1);
    const MayCheckpoint any = [](ModuleId) { return true; };
    const bool onlyWhole = around != tree.around.end();
    ASSIGN_OR_RETURN(PartOptions options, partOptions(model, tree, number, onlyWhole, replay, place, any, notes));

    // Selects first by the change of held bytes, then by the exact effect of each remaining plan.
    std::vector<ModuleWay> ways{{}};
    for (std::size_t i = 0; i < options.plans.size(); ++i) {
        ModuleWay way{place.of(options.effects[i]).held, options.effects[i].recomputeMs, options.plans[i]};
        for (CheckpointRegion& region : way.regions)
            region.module = ModuleId(region.module.value + module.value);
        ways.push_back(std::move(way));
    }
    ways = worthIt(std::move(ways));
    for (ModuleWay& way : ways) {
        ASSIGN_OR_RETURN(const std::vector<ModuleEffect> found, effects.of(way.regions));
        way.kept = found[module.value].kept;
        way.recomputeMs = found[module.value].recomputeMs;
    }
    return worthIt(std::move(ways));
}

} // namespace headroom
