// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/part_arcs.h"

#include "core/base/try.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headroom {

namespace {

std::vector<PartArcs::Arc> arcsOf(const PartTree& tree)
{
    std::vector<PartArcs::Arc> arcs;
    for (std::size_t part = 0; part < tree.parts.size(); ++part)
        arcs.push_back({tree.parts[part], static_cast<int>(part), static_cast<int>(part) + 1, false, {}, 0});
    for (const PartTree::Around& around : tree.around) {
        const bool forced = tree.units[static_cast<std::size_t>(around.unit)].forced;
        if (!forced && around.isWide())
            continue;
        arcs.push_back({around.unit, around.first, around.last, false, {}, 0});
        for (int part = around.first; forced && part < around.last; ++part)
            arcs[static_cast<std::size_t>(part)].hidden = true;
    }
    std::ranges::stable_sort(arcs, [](const PartArcs::Arc& a, const PartArcs::Arc& b) {
        return a.first != b.first ? a.first < b.first : a.last - a.first < b.last - b.first;
    });
    return arcs;
}

/// Equal for two arcs only if both have equal options.
std::vector<std::uint64_t> signatureOf(const PartArcs::Arc& arc, const PartTree& tree)
{
    const ModuleId part = tree.units[static_cast<std::size_t>(arc.unit)].module;
    std::vector<std::uint64_t> key = arc.replay->signature();
    const auto sign = [&](auto&& self, int unit) -> void {
        const PartTree::Unit& inner = tree.units[static_cast<std::size_t>(unit)];
        key.push_back(inner.module.value - part.value);
        key.push_back((inner.forced ? 1 : 0) + (arc.hidden ? 2 : 0) + (arc.last - arc.first > 1 ? 4 : 0)
                      + (inner.offloaded ? 8 : 0));
        for (const int inside : inner.inside)
            self(self, inside);
    };
    sign(sign, arc.unit);
    return key;
}

} // namespace

Error stoppedMeasuring()
{
    return {ErrorKind::internal, "measuring the options to checkpoint the step was stopped"};
}

Result<PartArcs> PartArcs::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                  const SharedOf& sharedOf, const MayCheckpoint& may, const PartEventsOf& partEventsOf,
                                  const std::stop_token& stop)
{
    PartArcs found;
    found.arcs = arcsOf(tree);
    LocalNotes notes;
    std::map<std::vector<std::uint64_t>, std::size_t> classOf;
    for (std::size_t number = 0; number < found.arcs.size(); ++number) {
        if (stop.stop_requested())
            return stoppedMeasuring();
        Arc& arc = found.arcs[number];
        arc.replay = std::make_shared<const LocalReplay>(
            model, events, tree.units[static_cast<std::size_t>(arc.unit)].module, sharedOf(arc), notes);
        const auto [known, added] = classOf.emplace(signatureOf(arc, tree), found.classes.size());
        if (added) {
            ArcClass& arcClass = found.classes.emplace_back();
            if (!arc.hidden) {
                ASSIGN_OR_RETURN(arcClass.options,
                                 partOptions(model, tree, arc.unit, arc.last - arc.first > 1, *arc.replay,
                                             partEventsOf(arc), may, notes));
            }
        }
        arc.arcClass = known->second;
        found.classes[arc.arcClass].arcs.push_back(number);
    }
    return found;
}

ModuleId inStep(ModuleId module, ModuleId part)
{
    return ModuleId(module.value + part.value);
}

CheckpointPlan inStep(CheckpointPlan plan, ModuleId part)
{
    for (CheckpointRegion& region : plan)
        region.module = inStep(region.module, part);
    return plan;
}

void addOptions(OptionSet& to, const OptionSet& more)
{
    for (std::size_t arc = 0; arc < more.size(); ++arc)
        for (std::size_t option = 0; option < more[arc].size(); ++option)
            to[arc][option] = to[arc][option] || more[arc][option];
}

} // namespace headroom
