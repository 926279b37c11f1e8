// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/part_options.h"

#include "core/base/curves.h"
#include "core/base/try.h"
#include "core/policy/save_sets.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

constexpr std::size_t mostOptions = 3000; ///< options of a part
constexpr std::size_t mostCombinations = 6000; ///< combinations of the units inside a unit, all predicted
constexpr std::size_t mostSums = 600; ///< further combinations, the best by the sums of the units' costs
constexpr std::size_t mostMeasuredOps = 64; ///< the ops of a module with more ops are not predicted singly
constexpr std::size_t mostMoves = 8; ///< options that move a part of a unit, and recompute nothing
/// Options are chosen as if the GPU waited for this share of the copies: under a budget, a ms of copies mostly costs as
/// much as a tenth of a ms of recomputation.
constexpr double waitedShares[] = {0.1, 1};
constexpr Picoseconds tooSlow = 1'000'000'000'000; ///< for a recomputation
constexpr std::size_t moreSets = 1000; ///< sets of saved ops besides the sets of the convex hull
/// A part with more changes of memory gets fewer options (of all the kinds above): each has an effect on each change,
/// and a recurrent network of thousands of steps is a single part.
constexpr std::size_t mostChanges = 10'000;
constexpr std::size_t fewestOptions = 16;

/// An option to checkpoint, and the predicted effect.
struct Option
{
    CheckpointPlan plan; ///< modules of the step
    LocalEffect effect;
    OptionCost cost;
};
using Options = std::vector<Option>;

/// The options with a share of the time of copies.
std::vector<OptionCost> exposed(std::vector<OptionCost> options, double share = 1)
{
    for (OptionCost& option : options)
        option.time += static_cast<Picoseconds>(share * static_cast<double>(option.copy));
    return options;
}

/// worthIt(), whatever a copy to the host costs: nothing where the GPU's work hides the copy, up to the copy's time.
/// Where copies are almost hidden, a part of a layer moves, and nothing is recomputed.
std::vector<std::size_t> worthAtAnyPrice(const std::vector<OptionCost>& options, std::size_t most)
{
    std::vector<std::size_t> kept = worthIt(options, most); // copies are free
    if (std::ranges::none_of(options, [](const OptionCost& option) { return option.copy > 0; }))
        return kept;
    for (const double share : waitedShares)
        std::ranges::copy(worthIt(exposed(options, share), most), std::back_inserter(kept));
    const auto addWithout = [&](auto what, std::size_t count) { // options without copies, or without recomputation
        std::vector<OptionCost> some;
        std::vector<std::size_t> indexOf;
        for (std::size_t i = 0; i < options.size(); ++i)
            if (std::invoke(what, options[i]) == 0) {
                some.push_back(options[i]);
                indexOf.push_back(i);
            }
        for (const std::size_t i : worthIt(exposed(std::move(some)), count))
            kept.push_back(indexOf[i]);
    };
    addWithout(&OptionCost::copy, most);
    addWithout(&OptionCost::time, std::min(most, mostMoves));
    std::ranges::sort(kept, {}, [&](std::size_t i) { return std::tuple(options[i].held, options[i].time, i); });
    kept.erase(std::ranges::unique(kept).begin(), kept.end());
    return kept;
}

std::vector<OptionCost> costsOf(const Options& options)
{
    std::vector<OptionCost> costs;
    for (const Option& option : options)
        costs.push_back(option.cost);
    return costs;
}

class PartMeasure
{
public:
    PartMeasure(const StepModel& model, const PartTree& tree, const LocalReplay& replay,
                const StepLayout::PartEvents& partEvents, const MayCheckpoint& may, LocalNotes& notes)
        : model_(model)
        , tree_(tree)
        , replay_(replay)
        , partEvents_(partEvents)
        , may_(may)
        , notes_(notes)
        , link_(hostLinkOf(model.trace()->info))
    {
    }

    bool isLarge() const { return replay_.changes() > mostChanges; }
    /// The number of options instead of `most`, if the part is large.
    std::size_t limited(std::size_t most) const
    {
        return isLarge() ? std::max(fewestOptions, most * mostChanges / replay_.changes()) : most;
    }

    /// The options of a unit: no checkpoint, a checkpoint of the whole unit with sets of saved ops, and combinations of
    /// the units inside.
    Result<Options> optionsOf(int unit, std::size_t most) const
    {
        Options options;
        if (!forces(unit))
            RETURN_IF_ERROR(add({}, options));
        if (!insideForces(unit))
            RETURN_IF_ERROR(addWhole(unit, options));
        Inside inside;
        if (!tree_.units[static_cast<std::size_t>(unit)].forced)
            RETURN_IF_ERROR(combine(unit, inside));
        std::vector<OptionCost> costs = costsOf(options);
        costs.insert(costs.end(), inside.costs.begin(), inside.costs.end());
        Options chosen;
        for (const std::size_t i : worthAtAnyPrice(costs, most))
            chosen.push_back(i < options.size() ? std::move(options[i]) : optionOf(inside, i - options.size()));
        return chosen;
    }

    /// Adds the options to checkpoint a whole unit: with no op saved, and with undominated sets of saved ops. Sets are
    /// chosen by the bytes held from forward to backward, and by the bytes added while the unit runs (casts that
    /// autocast holds anyway cost only there).
    Status addWhole(int unit, Options& options) const
    {
        const ModuleId module = moduleOf(unit);
        if (!may_(module))
            return {};
        const PartTree::Unit& own = tree_.units[static_cast<std::size_t>(unit)];
        if (own.offloaded)
            return add({{module, {}, Offload{}}}, options);
        if (tree_.offloads && !own.forced)
            RETURN_IF_ERROR(addOffload(module, options));
        if (!tree_.recomputes && !own.forced)
            return {};
        const std::vector<OpId> regionOps = model_.regionOps(module);
        const std::size_t ops = regionOps.size();
        const std::vector<SavableOp> savable = savableOpsThatRunAgain(model_, module);
        ASSIGN_OR_RETURN(Option full, measure({{module, std::vector<bool>(ops, false)}}));
        std::map<std::size_t, Bytes> held;
        std::map<std::size_t, Bytes> most;
        for (const SavableOp& op : savable) {
            if (savable.size() > mostMeasuredOps) {
                held[op.op] = most[op.op] = outputBytes(regionOps[op.op]);
                continue;
            }
            std::vector<bool> save(ops, false);
            save[op.op] = true;
            ASSIGN_OR_RETURN(const Option with, measure({{module, std::move(save)}}));
            held[op.op] = std::max<Bytes>(0, with.cost.held - full.cost.held);
            most[op.op] = std::max(held[op.op], with.cost.high - full.cost.high);
        }
        options.push_back(std::move(full));
        std::vector<std::vector<bool>> sets = setsToSave(module, held);
        if (most != held)
            for (std::vector<bool>& save : setsToSave(module, most))
                if (std::ranges::find(sets, save) == sets.end())
                    sets.push_back(std::move(save));
        for (std::vector<bool>& save : sets)
            if (std::ranges::find(save, true) != save.end())
                RETURN_IF_ERROR(add({{module, std::move(save)}}, options));
        return {};
    }

    /// Adds the options to recompute a part in full with the arguments on the host: the part as a whole, and, unless
    /// `onlyWhole`, the units inside. Near the least memory no other option takes less.
    Status addHosted(int part, bool onlyWhole, Options& options) const
    {
        const PartTree::Unit& whole = tree_.units[static_cast<std::size_t>(part)];
        if (!tree_.offloads || whole.offloaded || insideForces(part) || (!tree_.recomputes && !whole.forced))
            return {};
        RETURN_IF_ERROR(addHosted({part}, options));
        return onlyWhole || whole.forced ? Status() : addHosted(whole.inside, options);
    }

private:
    Status addHosted(const std::vector<int>& units, Options& options) const
    {
        CheckpointPlan plan;
        for (const int unit : units) {
            const ModuleId module = moduleOf(unit);
            const std::size_t ops = model_.regionOps(module).size();
            if (!may_(module) || ops == 0)
                continue;
            plan.push_back({module, std::vector<bool>(ops, false)});
            if (model_.index().obstaclesToOffload[module.value] == CheckpointObstacle::none)
                plan.back().hosted = Hosted{{}, {}, true};
        }
        ASSIGN_OR_RETURN(Option option, measure(std::move(plan)));
        if (option.effect.movedBytes > 0)
            options.push_back(std::move(option));
        return {};
    }

    /// The units inside a unit, and combinations of the units' options.
    struct Inside
    {
        std::vector<Options> units;
        std::vector<std::vector<std::size_t>> groups; ///< units that affect common storages
        std::map<std::pair<std::size_t, Combination>, LocalEffect>
            measured; ///< by group: effects of options of several units
        LocalEffect nothing; ///< effect of the empty plan
        std::vector<Combination> combinations;
        std::vector<OptionCost> costs; ///< by combination
    };

    ModuleId moduleOf(int unit) const { return tree_.units[static_cast<std::size_t>(unit)].module; }
    bool forces(int unit) const { return tree_.units[static_cast<std::size_t>(unit)].forced || insideForces(unit); }
    bool insideForces(int unit) const
    {
        return std::ranges::any_of(tree_.units[static_cast<std::size_t>(unit)].inside,
                                   [this](int inside) { return forces(inside); });
    }

    OptionCost costOf(const LocalEffect& effect) const
    {
        const PartMemory memory = partEvents_.of(effect);
        return {memory.held, memory.high, picoseconds(effect.recomputeMs), picoseconds(copyMs(link_, effect))};
    }

    Result<Option> measure(CheckpointPlan plan) const
    {
        ASSIGN_OR_RETURN(LocalEffect effect, replay_.of(plan, notes_));
        const OptionCost cost = costOf(effect);
        return Option{std::move(plan), std::move(effect), cost};
    }

    Status add(CheckpointPlan plan, Options& options) const
    {
        ASSIGN_OR_RETURN(Option option, measure(std::move(plan)));
        options.push_back(std::move(option));
        return {};
    }

    /// Adds the option to move the saved tensors of a module, if any may move: at the end of the forward, and back when
    /// the backward begins. StepSolver spreads the copies later.
    Status addOffload(ModuleId module, Options& options) const
    {
        const StepIndex& index = model_.index();
        if (index.obstaclesToOffload[module.value] != CheckpointObstacle::none || model_.isWholeOnly(module))
            return {};
        ASSIGN_OR_RETURN(Option option, measure({{module, {}, Offload{}}}));
        if (option.effect.movedBytes > 0)
            options.push_back(std::move(option));
        return {};
    }

    std::vector<std::vector<bool>> setsToSave(ModuleId module, const std::map<std::size_t, Bytes>& bytes) const
    {
        std::vector<std::vector<bool>> sets = saveSets(
            model_, module, [&](const SavableOp& op) { return bytes.at(op.op); }, limited(moreSets));
        return isLarge() ? spreadEvenly(sets, limited(moreSets)) : sets;
    }

    Bytes outputBytes(OpId op) const
    {
        const StepTrace& trace = *model_.trace();
        Bytes bytes = 0;
        for (const StorageId storage : trace.ops.outputs[op])
            bytes += trace.storages.bytes[storage];
        return bytes;
    }

    /// Combines options of the units inside: all combinations of a few options of each unit, since one unit may hold
    /// storages that another frees; and the best combinations of all options, by the sums of costs.
    Status combine(int unit, Inside& inside) const
    {
        std::vector<int> units;
        for (const int inner : tree_.units[static_cast<std::size_t>(unit)].inside) {
            if (model_.regionOps(moduleOf(inner)).empty())
                continue;
            ASSIGN_OR_RETURN(Options choices, optionsOf(inner, limited(mostSums)));
            units.push_back(inner);
            inside.units.push_back(std::move(choices));
        }
        std::vector<std::vector<OptionCost>> costs;
        for (const Options& options : inside.units)
            costs.push_back(costsOf(options));
        inside.combinations = products(costs, limited(mostCombinations));
        for (Combination& sum : bestSums(costs, limited(mostSums)))
            inside.combinations.push_back(std::move(sum));
        if (tree_.offloads)
            addMoves(costs, inside.combinations);
        std::ranges::sort(inside.combinations);
        inside.combinations.erase(std::ranges::unique(inside.combinations).begin(), inside.combinations.end());
        std::erase_if(inside.combinations, [&](const Combination& options) { return planOf(inside, options).empty(); });
        inside.groups = groupsOf(units);
        ASSIGN_OR_RETURN(inside.nothing, replay_.of({}, notes_));
        RETURN_IF_ERROR(measureGroups(inside));
        LocalEffect effect;
        for (const Combination& options : inside.combinations) {
            sum(inside, options, effect);
            inside.costs.push_back(costOf(effect));
        }
        return {};
    }

    /// Adds the best combinations with exposed copies, and those of them that recompute nothing.
    void addMoves(std::vector<std::vector<OptionCost>> costs, std::vector<Combination>& combinations) const
    {
        for (std::vector<OptionCost>& options : costs)
            options = exposed(std::move(options));
        std::ranges::copy(bestSums(costs, limited(mostSums)), std::back_inserter(combinations));
        for (std::vector<OptionCost>& options : costs)
            for (OptionCost& option : options)
                if (option.time > option.copy)
                    option.time = option.copy + tooSlow;
        std::ranges::copy(bestSums(costs, limited(mostSums)), std::back_inserter(combinations));
    }

    /// Groups units that affect common storages. The effects of different groups add up.
    std::vector<std::vector<std::size_t>> groupsOf(const std::vector<int>& units) const
    {
        std::vector<std::vector<std::size_t>> groups;
        std::vector<std::vector<StorageId>> storages; // by group, ascending
        for (std::size_t i = 0; i < units.size(); ++i) {
            std::vector<std::size_t> group{i};
            std::vector<StorageId> own = replay_.storagesOf(moduleOf(units[i]));
            for (std::size_t other = groups.size(); other-- > 0;) {
                std::vector<StorageId> both;
                std::ranges::set_intersection(own, storages[other], std::back_inserter(both));
                if (both.empty())
                    continue;
                group.insert(group.end(), groups[other].begin(), groups[other].end());
                std::vector<StorageId> all;
                std::ranges::set_union(own, storages[other], std::back_inserter(all));
                own = std::move(all);
                groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(other));
                storages.erase(storages.begin() + static_cast<std::ptrdiff_t>(other));
            }
            std::ranges::sort(group);
            groups.push_back(std::move(group));
            storages.push_back(std::move(own));
        }
        return groups;
    }

    template <class Units>
    static CheckpointPlan planOf(const Inside& inside, const Combination& options, const Units& units)
    {
        CheckpointPlan plan;
        for (const std::size_t unit : units) {
            const CheckpointPlan& part = inside.units[unit][options[unit]].plan;
            plan.insert(plan.end(), part.begin(), part.end());
        }
        return plan;
    }
    static CheckpointPlan planOf(const Inside& inside, const Combination& options)
    {
        return planOf(inside, options, std::views::iota(std::size_t{0}, options.size()));
    }

    /// Predicts the combinations that checkpoint several units of a group.
    Status measureGroups(Inside& inside) const
    {
        for (const Combination& options : inside.combinations)
            for (std::size_t group = 0; group < inside.groups.size(); ++group) {
                if (const auto [changed, effect] = alone(inside, group, options); changed < 2)
                    continue;
                const auto [known, added] = inside.measured.try_emplace({group, within(inside, group, options)});
                if (!added)
                    continue;
                ASSIGN_OR_RETURN(known->second, replay_.of(planOf(inside, options, inside.groups[group]), notes_));
            }
        return {};
    }

    /// The number of units of a group that a combination checkpoints, and the effect of the last such unit alone.
    static std::pair<int, const LocalEffect*> alone(const Inside& inside, std::size_t group, const Combination& options)
    {
        std::pair<int, const LocalEffect*> found{0, &inside.nothing};
        for (const std::size_t unit : inside.groups[group])
            if (const Option& option = inside.units[unit][options[unit]]; !option.plan.empty())
                found = {found.first + 1, &option.effect};
        return found;
    }

    static Combination within(const Inside& inside, std::size_t group, const Combination& options)
    {
        Combination own;
        for (const std::size_t unit : inside.groups[group])
            own.push_back(options[unit]);
        return own;
    }

    /// The effects of all groups together.
    static void sum(const Inside& inside, const Combination& options, LocalEffect& total)
    {
        bool any = false;
        for (std::size_t group = 0; group < inside.groups.size(); ++group) {
            const auto [changed, only] = alone(inside, group, options);
            if (changed == 0)
                continue;
            const LocalEffect& effect
                = changed == 1 ? *only : inside.measured.at({group, within(inside, group, options)});
            if (!std::exchange(any, true)) {
                total = effect;
                continue;
            }
            for (std::size_t i = 0; i < effect.changes.size(); ++i) {
                total.changes[i].high += effect.changes[i].high - inside.nothing.changes[i].high;
                total.changes[i].after += effect.changes[i].after;
            }
            total.recomputeMs += effect.recomputeMs;
            total.movedBytes += effect.movedBytes;
            total.movedStorages += effect.movedStorages;
            total.pinned += effect.pinned;
        }
    }

    Option optionOf(const Inside& inside, std::size_t number) const
    {
        Option option{planOf(inside, inside.combinations[number]), {}, inside.costs[number]};
        sum(inside, inside.combinations[number], option.effect);
        return option;
    }

    const StepModel& model_;
    const PartTree& tree_;
    const LocalReplay& replay_;
    const StepLayout::PartEvents& partEvents_;
    const MayCheckpoint& may_;
    LocalNotes& notes_;
    HostLink link_;
};

} // namespace

double copyMs(const HostLink& link, const LocalEffect& effect)
{
    return link.latencyMs * static_cast<double>(effect.movedStorages)
        + (link.msToHost(effect.movedBytes) - link.latencyMs);
}

Result<PartOptions> partOptions(const StepModel& model, const PartTree& tree, int unit, bool onlyWhole,
                                const LocalReplay& replay, const StepLayout::PartEvents& partEvents,
                                const MayCheckpoint& may, LocalNotes& notes)
{
    const PartMeasure measure(model, tree, replay, partEvents, may, notes);
    Options options;
    if (onlyWhole) {
        RETURN_IF_ERROR(measure.addWhole(unit, options));
    } else {
        ASSIGN_OR_RETURN(options, measure.optionsOf(unit, measure.limited(mostOptions)));
    }
    Options chosen;
    for (const std::size_t i : worthAtAnyPrice(costsOf(options), options.size()))
        chosen.push_back(std::move(options[i]));
    RETURN_IF_ERROR(measure.addHosted(unit, onlyWhole, chosen));
    std::ranges::stable_sort(chosen, {}, [](const Option& option) { return option.cost.held; });
    const ModuleId part = tree.units[static_cast<std::size_t>(unit)].module;
    PartOptions found;
    for (Option& option : chosen) {
        for (CheckpointRegion& region : option.plan)
            region.module = ModuleId(region.module.value - part.value);
        found.plans.push_back(std::move(option.plan));
        found.effects.push_back(std::move(option.effect));
    }
    return found;
}

} // namespace headroom
