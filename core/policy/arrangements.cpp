// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/arrangements.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace headroom {
namespace {

/// How a plan checkpoints a module and those inside of it: regions with modules numbered from it.
struct Way
{
    std::vector<std::pair<std::uint32_t, std::vector<bool>>> regions;
    std::size_t recomputed = 0; ///< number of ops

    bool operator<(const Way& other) const
    {
        return std::tie(recomputed, regions) < std::tie(other.recomputed, other.regions);
    }
    bool operator==(const Way& other) const { return regions == other.regions; }
};

/// Modules of which each can be checkpointed as each other.
using Alike = std::vector<ModuleId>;

/// One past the last module inside of `module`: modules are in depth-first order.
std::uint32_t endOf(const StepTrace& trace, ModuleId module)
{
    std::uint32_t end = module.value + 1;
    while (end < trace.modules.size() && trace.modules.parent[ModuleId(end)].valid()
           && trace.modules.parent[ModuleId(end)].value >= module.value)
        ++end;
    return end;
}

/// What two modules have in common if one can be checkpointed as the other: classes and numbers of ops inside of them.
std::vector<std::pair<std::string_view, std::size_t>> shapeOf(const StepModel& model, ModuleId module)
{
    const StepTrace& trace = *model.trace();
    std::vector<std::pair<std::string_view, std::size_t>> shape;
    for (std::uint32_t inside = module.value; inside < endOf(trace, module); ++inside)
        shape.emplace_back(trace.moduleType(ModuleId(inside)), model.regionOps(ModuleId(inside)).size());
    return shape;
}

/// Groups of alike modules with one parent, which the plan's regions are inside of.
std::vector<Alike> alikeModules(const StepModel& model)
{
    const StepTrace& trace = *model.trace();
    std::map<std::pair<ModuleId, std::vector<std::pair<std::string_view, std::size_t>>>, Alike> groups;
    for (std::uint32_t i = 1; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        if (!model.regionOps(module).empty())
            groups[{trace.modules.parent[module], shapeOf(model, module)}].push_back(module);
    }
    std::vector<Alike> found;
    for (auto& [key, modules] : groups)
        if (modules.size() > 1)
            found.push_back(std::move(modules));
    return found;
}

std::vector<Way> waysOf(const StepModel& model, const CheckpointPlan& plan, const Alike& modules)
{
    std::vector<Way> ways(modules.size());
    for (std::size_t i = 0; i < modules.size(); ++i) {
        const std::uint32_t end = endOf(*model.trace(), modules[i]);
        for (const CheckpointRegion& region : plan) {
            if (region.module.value < modules[i].value || region.module.value >= end)
                continue;
            ways[i].regions.emplace_back(region.module.value - modules[i].value, region.save);
            ways[i].recomputed += region.save.empty()
                ? model.regionOps(region.module).size()
                : static_cast<std::size_t>(std::ranges::count(region.save, false));
        }
    }
    return ways;
}

/// Spreads the ways, which are sorted, so that each part of the list has its share of each.
std::vector<Way> spread(const std::vector<Way>& sorted)
{
    std::vector<Way> result(sorted.size());
    // The bits of a place, read backwards, order places so that neighbours lie far apart.
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t place = 0; place < sorted.size(); ++place) {
        std::size_t reversed = 0;
        for (std::size_t bit = 1; bit < sorted.size(); bit <<= 1)
            reversed = reversed << 1 | ((place & bit) != 0 ? 1 : 0);
        places.emplace_back(reversed, place);
    }
    std::ranges::sort(places);
    for (std::size_t i = 0; i < sorted.size(); ++i)
        result[places[i].second] = sorted[i];
    return result;
}

/// The plan with other ways for the modules of one group.
CheckpointPlan rearranged(const StepTrace& trace, CheckpointPlan plan, const Alike& modules,
                          const std::vector<Way>& ways)
{
    std::erase_if(plan, [&](const CheckpointRegion& region) {
        return std::ranges::any_of(modules, [&](ModuleId module) {
            return module <= region.module && region.module.value < endOf(trace, module);
        });
    });
    for (std::size_t i = 0; i < modules.size(); ++i)
        for (const auto& [offset, save] : ways[i].regions)
            plan.push_back({ModuleId(modules[i].value + offset), save});
    std::ranges::sort(plan, {}, &CheckpointRegion::module);
    return plan;
}

} // namespace

std::vector<CheckpointPlan> arrangements(const StepModel& model, const CheckpointPlan& plan)
{
    const StepTrace& trace = *model.trace();
    using Order = std::function<std::vector<Way>(std::vector<Way>)>;
    const std::vector<Order> orders{
        [](std::vector<Way> sorted) { return sorted; },
        [](std::vector<Way> sorted) {
            std::ranges::reverse(sorted);
            return sorted;
        },
        spread,
    };
    std::vector<CheckpointPlan> found(orders.size(), plan);
    bool differ = false;
    for (const Alike& modules : alikeModules(model)) {
        std::vector<Way> ways = waysOf(model, plan, modules);
        if (std::ranges::all_of(ways, [&](const Way& way) { return way == ways.front(); }))
            continue;
        differ = true;
        std::sort(ways.begin(), ways.end());
        for (std::size_t order = 0; order < orders.size(); ++order)
            found[order] = rearranged(trace, std::move(found[order]), modules, orders[order](ways));
    }
    if (!differ)
        return {};
    std::erase_if(found, [&](const CheckpointPlan& other) {
        return std::ranges::equal(other, plan, [](const CheckpointRegion& a, const CheckpointRegion& b) {
            return a.module == b.module && a.save == b.save;
        });
    });
    return found;
}

} // namespace headroom
