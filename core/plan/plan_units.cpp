// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/plan_units.h"

#include "core/base/try.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

namespace headroom {

namespace {

using Names = std::unordered_map<std::string_view, int>;

/// The nearest module with a proper prefix as name: "A.layers.0.mlp" → "A.layers.0"; -1 for the root.
int enclosing(const Names& names, std::string_view fqn)
{
    for (std::size_t dot = fqn.rfind('.'); dot != std::string_view::npos; dot = fqn.rfind('.', dot - 1)) {
        const auto found = names.find(fqn.substr(0, dot));
        if (found != names.end())
            return found->second;
        if (dot == 0)
            break;
    }
    return -1;
}

bool isInside(std::string_view inner, std::string_view outer)
{
    return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.';
}

/// The request by module.
struct Wishes
{
    std::vector<bool> allowed; ///< the module may be checkpointed
    std::vector<bool> forced; ///< the module is pinned to recompute, or to be offloaded
};

/// Why no plan checkpoints or offloads a module that has no obstacle.
std::string whyNotAllowed(const ModuleStats& stats, const PlanRequest& request)
{
    const auto unit = std::ranges::find_if(request.fsdpUnits,
                                           [&](const std::string& fsdpUnit) { return isInside(fsdpUnit, stats.fqn); });
    if (unit != request.fsdpUnits.end())
        return "the module contains the FSDP unit `" + *unit + "`: expected a module inside of FSDP units";
    if (!request.acUnits.empty() && std::ranges::find(request.acUnits, stats.fqn) == request.acUnits.end())
        return "the module is not among the AC units: expected an --ac-unit";
    return "the module keeps no activations for backward";
}

Status applyPins(const PlanModules& modules, const PlanRequest& request, Wishes& wishes)
{
    const std::vector<ModuleStats>& stats = modules.info->stats;
    const std::vector<bool> allowedByUnits = wishes.allowed;
    for (const auto& [fqn, pin] : request.pins) {
        const auto found = std::ranges::find(stats, fqn, &ModuleStats::fqn);
        if (found == stats.end())
            return badInput("cannot pin `" + fqn + "`: no module of that name ran in the step");
        if (found->isLeaf)
            return badInput("cannot pin `" + fqn + "`: only modules with submodules can be checkpointed");
        const std::string what = pin == Pin::offload ? "` to be offloaded: " : "` to recompute: ";
        for (const std::string& obstacle : {pin == Pin::offload ? found->obstacleToOffload : "", found->obstacle})
            if (pin != Pin::save && !obstacle.empty())
                return badInput("cannot pin `" + fqn + what + obstacle);
        const auto module = static_cast<std::size_t>(found - stats.begin());
        if (pin != Pin::save && !allowedByUnits[module])
            return badInput("cannot pin `" + fqn + what + whyNotAllowed(*found, request));
        wishes.forced[module] = pin != Pin::save;
        for (std::size_t other = 0; other < stats.size(); ++other) {
            const bool around = isInside(fqn, stats[other].fqn);
            const bool inside = isInside(stats[other].fqn, fqn);
            if (around || inside || (pin == Pin::save && other == module))
                wishes.allowed[other] = false;
        }
    }
    for (std::size_t module = 0; module < stats.size(); ++module)
        if (wishes.forced[module] && !wishes.allowed[module])
            return badInput(
                "cannot pin `" + stats[module].fqn
                + (request.pins.at(stats[module].fqn) == Pin::offload ? "` to be offloaded" : "` to recompute")
                + ": a module around or inside is pinned, too");
    return {};
}

Result<Wishes> readWishes(const PlanModules& modules, const PlanRequest& request)
{
    const std::vector<ModuleStats>& stats = modules.info->stats;
    std::set<std::string_view> names;
    for (const ModuleStats& module : stats)
        names.insert(module.fqn);
    for (const auto* list : {&request.acUnits, &request.fsdpUnits})
        for (const std::string& fqn : *list)
            if (!names.contains(fqn))
                return badInput(std::string(list == &request.acUnits ? "AC" : "FSDP") + " unit `" + fqn
                                + "`: the model has no module of that name");

    Wishes wishes{std::vector<bool>(stats.size()), std::vector<bool>(stats.size())};
    const std::set<std::string_view> acUnits(request.acUnits.begin(), request.acUnits.end());
    for (std::size_t module = 0; module < stats.size(); ++module)
        wishes.allowed[module]
            = modules.modules[module].candidate && (acUnits.empty() || acUnits.contains(stats[module].fqn));
    // AC units cannot be supermodules of FSDP units.
    for (const std::string& unit : request.fsdpUnits)
        for (std::size_t module = 0; module < stats.size(); ++module)
            if (isInside(unit, stats[module].fqn))
                wishes.allowed[module] = false;
    RETURN_IF_ERROR(applyPins(modules, request, wishes));
    return wishes;
}

/// Sets the members of units that depend on other units.
void findTree(const PlanModules& modules, std::vector<PlanUnit>& units)
{
    std::vector<int> unitOf(modules.modules.size(), -1);
    for (std::size_t i = 0; i < units.size(); ++i) {
        unitOf[static_cast<std::size_t>(units[i].module)] = static_cast<int>(i);
        units[i].children.clear();
        units[i].parent = -1;
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
        PlanUnit& unit = units[i];
        unit.firstInside = unit.children.empty() ? static_cast<int>(i)
                                                 : units[static_cast<std::size_t>(unit.children.front())].firstInside;
        int module = modules.modules[static_cast<std::size_t>(unit.module)].parent;
        while (module >= 0 && unitOf[static_cast<std::size_t>(module)] < 0)
            module = modules.modules[static_cast<std::size_t>(module)].parent;
        if (module < 0)
            continue;
        unit.parent = unitOf[static_cast<std::size_t>(module)];
        units[static_cast<std::size_t>(unit.parent)].children.push_back(static_cast<int>(i));
    }
}

/// Drops units that run outside the forward of the module that contains the unit by name: the units inside a unit must
/// end right before the outer unit.
Status dropMisplaced(const PlanModules& modules, std::vector<PlanUnit>& units)
{
    std::vector<int> inside(units.size(), 0);
    std::vector<int> first(units.size());
    bool orderly = true;
    for (std::size_t i = 0; i < units.size(); ++i)
        first[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < units.size(); ++i)
        for (int outer = units[i].parent; outer >= 0; outer = units[static_cast<std::size_t>(outer)].parent) {
            ++inside[static_cast<std::size_t>(outer)];
            first[static_cast<std::size_t>(outer)]
                = std::min(first[static_cast<std::size_t>(outer)], static_cast<int>(i));
        }
    for (std::size_t i = 0; i < units.size(); ++i)
        orderly = orderly && static_cast<int>(i) - first[i] == inside[i];
    if (orderly)
        return {};

    const auto isInsideOf = [&](std::size_t unit, std::size_t outer) {
        int above = units[unit].parent;
        while (above >= 0 && above != static_cast<int>(outer))
            above = units[static_cast<std::size_t>(above)].parent;
        return above >= 0;
    };
    std::vector<bool> misplaced(units.size(), false);
    for (std::size_t outer = 0; outer < units.size(); ++outer) {
        bool contiguous = true;
        for (std::size_t i = units.size(); i-- > 0;) {
            const bool within = isInsideOf(i, outer);
            contiguous = contiguous && (i >= outer || within);
            if (within && (i > outer || !contiguous))
                misplaced[i] = true;
        }
    }
    std::vector<PlanUnit> kept;
    for (std::size_t i = 0; i < units.size(); ++i) {
        if (!misplaced[i])
            kept.push_back(units[i]);
        else if (units[i].forced)
            return badInput("cannot pin `" + modules.info->stats[static_cast<std::size_t>(units[i].module)].fqn
                            + "` to recompute: the module runs outside the forward of the parent module");
    }
    units = std::move(kept);
    findTree(modules, units);
    return {};
}

} // namespace

Result<PlanModules> PlanModules::create(ModuleInfoPtr info)
{
    if (info == nullptr || info->stats.empty())
        return badInput("the ModuleInfo has no modules: expected at least the root in mod_stats");
    PlanModules model;
    model.info = std::move(info);

    Names names;
    for (const ModuleStats& stats : model.info->stats)
        if (!names.emplace(stats.fqn, static_cast<int>(names.size())).second)
            return badInput("mod_stats names module `" + stats.fqn + "` twice: expected each name once");
    Names positions;
    for (std::size_t i = 0; i < model.info->fwPostOrder.size(); ++i)
        positions.emplace(model.info->fwPostOrder[i], static_cast<int>(i));

    for (const ModuleStats& stats : model.info->stats) {
        const auto position = positions.find(stats.fqn);
        if (position == positions.end())
            return badInput("module `" + stats.fqn
                            + "` is not in mod_order.fw_post_order: expected every module there");
        const bool candidate = !stats.isLeaf && stats.obstacle.empty() && (stats.activationForward > 0 || stats.saves)
            && !stats.slopes.empty();
        model.modules.push_back({position->second, enclosing(names, stats.fqn), candidate});
    }
    return model;
}

Result<std::vector<PlanUnit>> planUnits(const PlanModules& modules, const PlanRequest& request)
{
    ASSIGN_OR_RETURN(const Wishes wishes, readWishes(modules, request));
    std::vector<PlanUnit> units;
    const auto isOffloaded = [&](std::size_t module) {
        const auto pin = request.pins.find(modules.info->stats[module].fqn);
        return pin != request.pins.end() && pin->second == Pin::offload;
    };
    for (std::size_t module = 0; module < modules.modules.size(); ++module)
        if (wishes.allowed[module])
            units.push_back({static_cast<int>(module), -1, 0, wishes.forced[module], isOffloaded(module), {}});
    std::ranges::sort(units, {}, [&](const PlanUnit& unit) {
        return modules.modules[static_cast<std::size_t>(unit.module)].position;
    });
    findTree(modules, units);
    RETURN_IF_ERROR(dropMisplaced(modules, units));
    return units;
}

double gapTo(double boundMs, double recomputeMs)
{
    return recomputeMs > 0 ? std::max(0.0, (recomputeMs - boundMs) / recomputeMs) : 0;
}

Status checkWorldSize(const PlanRequest& request)
{
    if (request.worldSize < 1)
        return badInput("world size " + std::to_string(request.worldSize) + ": expected 1 or more");
    return {};
}

bool PlanRequest::mayOffload() const
{
    return offload || std::ranges::any_of(pins, [](const auto& pin) { return pin.second == Pin::offload; });
}

Result<std::map<std::string, Pin>> parsePins(std::span<const std::string> texts)
{
    std::map<std::string, Pin> pins;
    for (const std::string& text : texts) {
        const std::size_t equals = text.rfind('=');
        const std::string what = equals == std::string::npos ? "" : text.substr(equals + 1);
        if (equals == 0 || (what != "save" && what != "recompute" && what != "offload"))
            return badInput("--pin `" + text + "`: expected FQN=save, FQN=recompute or FQN=offload");
        const std::string fqn = text.substr(0, equals);
        const Pin decision = what == "save" ? Pin::save : what == "offload" ? Pin::offload : Pin::recompute;
        const auto [known, added] = pins.emplace(fqn, decision);
        if (!added && known->second != decision)
            return badInput("--pin names `" + fqn + "` twice, with different decisions: expected a single decision");
    }
    return pins;
}

std::string_view planStatusName(PlanStatus status)
{
    switch (status) {
    case PlanStatus::optimal:
        return "optimal";
    case PlanStatus::feasible:
        return "feasible";
    case PlanStatus::infeasible:
        return "infeasible";
    case PlanStatus::stopped:
        return "stopped";
    }
    return "";
}

} // namespace headroom
