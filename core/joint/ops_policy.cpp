// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_policy.h"

#include "core/base/try.h"
#include "core/joint/op_obstacles.h"
#include "core/policy/policy_maker.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headroom {
namespace {

/// The plan's decisions on a module as a region. Sets `repeats` if the plan recomputes an op of the module.
CheckpointRegion regionOf(const StepModel& model, const OpsPlan& plan, ModuleId module, bool& repeats)
{
    const StepTrace& trace = *model.trace();
    const std::vector<OpId> ops = model.regionOps(module);
    const std::vector<bool> savable = model.savableOps(module);
    CheckpointRegion region{module, std::vector<bool>(ops.size(), false)};
    bool randomSaved = false;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        repeats = repeats || std::ranges::binary_search(plan.recomputed, ops[i]);
        if (!savable[i])
            continue;
        region.save[i] = std::ranges::any_of(trace.ops.outputs[ops[i]], [&](StorageId storage) {
            return std::ranges::binary_search(plan.saved, storage);
        });
        // A random op that is recomputed after a saved random op would draw other numbers, and so is saved, too.
        const bool random = trace.ops.flags[ops[i]] & opRandom;
        region.save[i] = region.save[i] || (random && randomSaved);
        randomSaved = randomSaved || (random && region.save[i]);
    }
    return region;
}

bool isDifferentiated(const StepIndex& index, ModuleId module)
{
    return std::ranges::any_of(index.callsOf[module.value],
                               [&](CallId call) { return index.calls[call.value].saves(); });
}

/// The outermost modules that can be checkpointed, among `modules` and the modules inside, in the model's order.
std::vector<ModuleId> withoutObstacles(const StepTrace& trace, const std::vector<ModuleId>& modules,
                                       const std::vector<std::string_view>& obstacles)
{
    enum class Place : std::uint8_t { outside, open, taken };
    std::vector<Place> places(trace.modules.size(), Place::outside);
    std::vector<ModuleId> found;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) { // parents come first
        const ModuleId parent = trace.modules.parent[ModuleId(i)];
        if (parent.valid())
            places[i] = places[parent.value];
        if (std::ranges::find(modules, ModuleId(i)) != modules.end())
            places[i] = Place::open;
        if (places[i] != Place::open || !obstacles[i].empty())
            continue;
        places[i] = Place::taken;
        found.emplace_back(i);
    }
    return found;
}

} // namespace

std::vector<ModuleId> blocksOf(const StepTrace& trace)
{
    const auto count = static_cast<std::uint32_t>(trace.modules.size());
    std::vector<bool> parent(count, false); // has children and is called
    std::vector<bool> called(count, false); // false of a ModuleList
    std::map<std::pair<ModuleId, StringId>, int> alike;
    for (std::uint32_t i = 0; i < count; ++i)
        if (const ModuleId above = trace.modules.parent[ModuleId(i)]; above.valid())
            parent[above.value] = true;
    for (const ModuleId module : trace.calls.module)
        called[module.value] = true;
    for (std::uint32_t i = 0; i < count; ++i)
        parent[i] = parent[i] && called[i];
    for (std::uint32_t i = 0; i < count; ++i)
        if (parent[i])
            ++alike[{trace.modules.parent[ModuleId(i)], trace.modules.type[ModuleId(i)]}];
    std::vector<bool> inside(count, false);
    std::vector<ModuleId> blocks;
    for (std::uint32_t i = 0; i < count; ++i) {
        const ModuleId above = trace.modules.parent[ModuleId(i)];
        inside[i] = above.valid() && inside[above.value];
        if (!parent[i] || !above.valid() || inside[i] || alike[{above, trace.modules.type[ModuleId(i)]}] < 2)
            continue;
        blocks.emplace_back(i);
        inside[i] = true;
    }
    if (blocks.empty() && count > 0)
        blocks.emplace_back(0U);
    return blocks;
}

Result<Policy> opsPolicy(const StepModel& model, const OpsPlan& plan, std::span<const ModuleId> modules)
{
    const StepTrace& trace = *model.trace();
    const std::vector<std::string_view> obstacles = opsObstacles(trace, model.index());
    for (const ModuleId module : modules)
        if (!obstacles[module.value].empty())
            return badInput(std::string(trace.moduleFqn(module))
                            + " cannot be checkpointed: " + std::string(obstacles[module.value]));
    std::vector<ModuleId> chosen(modules.begin(), modules.end());
    if (chosen.empty())
        chosen = withoutObstacles(trace, blocksOf(trace), obstacles);
    CheckpointPlan regions;
    for (const ModuleId module : chosen) {
        bool repeats = false;
        CheckpointRegion region = regionOf(model, plan, module, repeats);
        if (repeats && isDifferentiated(model.index(), module))
            regions.push_back(std::move(region));
    }
    ASSIGN_OR_RETURN(const Timeline timeline, model.predict(regions));
    Plan asPlan;
    asPlan.status = PlanStatus::feasible;
    asPlan.budget = timeline.peak;
    asPlan.peak = timeline.peak;
    asPlan.recomputeMs = timeline.recomputeMs;
    ASSIGN_OR_RETURN(const std::vector<ModuleEffect> effects, ModuleEffects(model).of(regions));
    asPlan.decisions = decisionsOf(trace, regions, effects);
    return policyOf(model, regions, asPlan);
}

} // namespace headroom
