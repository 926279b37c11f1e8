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

/// Equal for two arcs only if both have equal ways.
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
    return {ErrorKind::internal, "measuring the ways to checkpoint the step was stopped"};
}

Result<PartArcs> PartArcs::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                  const std::vector<bool>& shared, const MayCheckpoint& may, const PlaceOf& placeOf,
                                  const std::stop_token& stop)
{
    PartArcs found;
    found.arcs = arcsOf(tree);
    LocalNotes notes;
    std::map<std::vector<std::uint64_t>, std::size_t> kindOf;
    for (std::size_t number = 0; number < found.arcs.size(); ++number) {
        if (stop.stop_requested())
            return stoppedMeasuring();
        Arc& arc = found.arcs[number];
        arc.replay = std::make_shared<const LocalReplay>(
            model, events, tree.units[static_cast<std::size_t>(arc.unit)].module, shared, notes);
        const auto [known, added] = kindOf.emplace(signatureOf(arc, tree), found.kinds.size());
        if (added) {
            Kind& kind = found.kinds.emplace_back();
            if (!arc.hidden) {
                ASSIGN_OR_RETURN(kind.options,
                                 partOptions(model, tree, arc.unit, arc.last - arc.first > 1, *arc.replay, placeOf(arc),
                                             may, notes));
            }
        }
        arc.kind = known->second;
        found.kinds[arc.kind].arcs.push_back(number);
    }
    return found;
}

CheckpointPlan inStep(CheckpointPlan plan, ModuleId part)
{
    for (CheckpointRegion& region : plan)
        region.module = ModuleId(region.module.value + part.value);
    return plan;
}

} // namespace headroom
