// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/part_options.h"

#include "core/plan/chain_problem.h"
#include "core/policy/save_sets.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

namespace headroom {

namespace {

constexpr std::size_t mostOptions = 3000; ///< of a part
constexpr std::size_t mostCombinations = 6000; ///< of what is inside a unit
constexpr std::size_t mostMeasuredOps = 64; ///< of a module, to be measured one by one
constexpr std::size_t moreSets = 1000; ///< besides the hull

/// One way, with what it does where it was measured.
struct Way
{
    CheckpointPlan plan; ///< modules of the step
    LocalEffect effect;
    Bytes held = 0;
    Bytes high = 0;
    Picoseconds time = 0;
};
using Ways = std::vector<Way>;

class PartMeasure
{
public:
    PartMeasure(const StepModel& model, const PartTree& tree, const LocalReplay& replay, const StepLayout::Place& place)
        : model_(model)
        , tree_(tree)
        , replay_(replay)
        , place_(place)
    {
    }

    /// Nothing of a unit, all of it with ops to save, and what is inside.
    Result<Ways> waysOf(int unit, std::size_t most) const
    {
        Ways ways;
        if (!forces(unit))
            if (const Status none = add({}, ways); !none)
                return none.error();
        if (!insideForces(unit))
            if (const Status own = addWhole(unit, ways); !own)
                return own.error();
        if (!tree_.units[static_cast<std::size_t>(unit)].forced)
            if (const Status inner = addInside(unit, ways); !inner)
                return inner.error();
        thin(ways, most);
        return ways;
    }

    /// All of a unit: nothing kept, and the sets of ops that are worth it, by what they hold from forward to backward
    /// and by how far they raise the memory of the unit's own run (casts that autocast holds anyway cost only there).
    Status addWhole(int unit, Ways& ways) const
    {
        const ModuleId module = tree_.units[static_cast<std::size_t>(unit)].module;
        const std::size_t ops = model_.regionOps(module).size();
        const std::vector<SavableOp> savable = savableOpsThatRunAgain(model_, module);
        Result<Way> full = measure({{module, std::vector<bool>(ops, false)}});
        if (!full)
            return full.error();
        std::map<std::size_t, Bytes> held;
        std::map<std::size_t, Bytes> most;
        for (const SavableOp& op : savable) {
            if (savable.size() > mostMeasuredOps) {
                held[op.op] = most[op.op] = outputBytes(module, op);
                continue;
            }
            std::vector<bool> save(ops, false);
            save[op.op] = true;
            const Result<Way> with = measure({{module, std::move(save)}});
            if (!with)
                return with.error();
            held[op.op] = std::max<Bytes>(0, with->held - full->held);
            most[op.op] = std::max(held[op.op], with->high - full->high);
        }
        ways.push_back(*std::move(full));
        std::vector<std::vector<bool>> sets = saveSets(
            model_, module, [&](const SavableOp& op) { return held.at(op.op); }, moreSets);
        if (most != held)
            for (std::vector<bool>& save : saveSets(
                     model_, module, [&](const SavableOp& op) { return most.at(op.op); }, moreSets))
                if (std::ranges::find(sets, save) == sets.end())
                    sets.push_back(std::move(save));
        for (std::vector<bool>& save : sets)
            if (std::ranges::find(save, true) != save.end())
                if (const Status added = add({{module, std::move(save)}}, ways); !added)
                    return added;
        return {};
    }

private:
    bool forces(int unit) const { return tree_.units[static_cast<std::size_t>(unit)].forced || insideForces(unit); }
    bool insideForces(int unit) const
    {
        return std::ranges::any_of(tree_.units[static_cast<std::size_t>(unit)].inside,
                                   [this](int inside) { return forces(inside); });
    }

    Result<Way> measure(CheckpointPlan plan) const
    {
        Result<LocalEffect> effect = replay_.of(plan);
        if (!effect)
            return effect.error();
        const PartMemory memory = place_.of(*effect);
        const Picoseconds time = picoseconds(effect->recomputeMs);
        return Way{std::move(plan), *std::move(effect), memory.held, memory.high, time};
    }

    Status add(CheckpointPlan plan, Ways& ways) const
    {
        Result<Way> way = measure(std::move(plan));
        if (!way)
            return way.error();
        ways.push_back(*std::move(way));
        return {};
    }

    Bytes outputBytes(ModuleId module, const SavableOp& op) const
    {
        const StepTrace& trace = *model_.trace();
        Bytes bytes = 0;
        for (const StorageId storage : trace.ops.outputs[model_.regionOps(module)[op.op]])
            bytes += trace.storages.bytes[storage];
        return bytes;
    }

    /// Every combination of ways of the units inside.
    Status addInside(int unit, Ways& ways) const
    {
        std::vector<int> inside;
        for (const int inner : tree_.units[static_cast<std::size_t>(unit)].inside)
            if (!model_.regionOps(tree_.units[static_cast<std::size_t>(inner)].module).empty())
                inside.push_back(inner);
        if (inside.empty())
            return {};
        const double each = std::floor(
            std::pow(static_cast<double>(mostCombinations), 1.0 / static_cast<double>(inside.size())) + 1e-9);
        const auto most = std::max<std::size_t>(1, static_cast<std::size_t>(each));
        std::vector<CheckpointPlan> plans{{}};
        for (const int inner : inside) {
            const Result<Ways> choices = waysOf(inner, most);
            if (!choices)
                return choices.error();
            std::vector<CheckpointPlan> next;
            for (const CheckpointPlan& plan : plans)
                for (const Way& choice : *choices) {
                    next.push_back(plan);
                    next.back().insert(next.back().end(), choice.plan.begin(), choice.plan.end());
                }
            plans = std::move(next);
        }
        for (CheckpointPlan& plan : plans)
            if (!plan.empty())
                if (const Status added = add(std::move(plan), ways); !added)
                    return added;
        return {};
    }

    static bool beats(const Way& a, const Way& b) { return a.held <= b.held && a.high <= b.high && a.time <= b.time; }

    /// Leaves out what is beaten; of too many that are left the corners of the lower hull of time over bytes stay
    /// first.
    static void thin(Ways& ways, std::size_t most)
    {
        std::vector<std::size_t> kept;
        for (std::size_t i = 0; i < ways.size(); ++i) {
            bool beaten = false;
            for (std::size_t j = 0; j < ways.size() && !beaten; ++j)
                beaten = j != i && beats(ways[j], ways[i]) && (!beats(ways[i], ways[j]) || j < i);
            if (!beaten)
                kept.push_back(i);
        }
        std::ranges::sort(kept, {}, [&](std::size_t i) { return std::tuple(ways[i].held, ways[i].time, i); });
        if (kept.size() > most) {
            std::vector<std::size_t> corners = hull(ways, kept);
            std::vector<std::size_t> others;
            std::ranges::set_difference(
                kept, corners, std::back_inserter(others), {},
                [&](std::size_t i) { return std::tuple(ways[i].held, ways[i].time, i); },
                [&](std::size_t i) { return std::tuple(ways[i].held, ways[i].time, i); });
            kept = spread(corners, most);
            const std::vector<std::size_t> more = spread(others, most - kept.size());
            kept.insert(kept.end(), more.begin(), more.end());
            std::ranges::stable_sort(kept, {}, [&](std::size_t i) { return ways[i].held; });
        }
        Ways thinned;
        for (const std::size_t i : kept)
            thinned.push_back(std::move(ways[i]));
        ways = std::move(thinned);
    }

    /// Of ways by held, then time.
    static std::vector<std::size_t> hull(const Ways& ways, const std::vector<std::size_t>& sorted)
    {
        std::vector<std::size_t> corners;
        for (const std::size_t i : sorted) {
            const auto above = [&](const Way& a, const Way& b) {
                return static_cast<double>(b.time - a.time) * static_cast<double>(ways[i].held - a.held)
                    >= static_cast<double>(ways[i].time - a.time) * static_cast<double>(b.held - a.held);
            };
            while (corners.size() >= 2 && above(ways[corners[corners.size() - 2]], ways[corners.back()]))
                corners.pop_back();
            corners.push_back(i);
        }
        return corners;
    }

    /// At most so many of them, evenly, the ends among them.
    static std::vector<std::size_t> spread(const std::vector<std::size_t>& from, std::size_t most)
    {
        if (from.size() <= most)
            return from;
        std::vector<std::size_t> chosen;
        for (std::size_t i = 0; i < most; ++i)
            chosen.push_back(from[most == 1 ? from.size() - 1 : i * (from.size() - 1) / (most - 1)]);
        return chosen;
    }

    const StepModel& model_;
    const PartTree& tree_;
    const LocalReplay& replay_;
    const StepLayout::Place& place_;
};

PartOptions relative(Ways ways, ModuleId part)
{
    PartOptions options;
    for (Way& way : ways) {
        for (CheckpointRegion& region : way.plan)
            region.module = ModuleId(region.module.value - part.value);
        options.plans.push_back(std::move(way.plan));
        options.effects.push_back(std::move(way.effect));
    }
    return options;
}

} // namespace

Result<PartOptions> optionsOfPart(const StepModel& model, const PartTree& tree, int unit, const LocalReplay& replay,
                                  const StepLayout::Place& place)
{
    Result<Ways> ways = PartMeasure(model, tree, replay, place).waysOf(unit, mostOptions);
    if (!ways)
        return ways.error();
    return relative(*std::move(ways), tree.units[static_cast<std::size_t>(unit)].module);
}

Result<PartOptions> optionsOfWhole(const StepModel& model, const PartTree& tree, int unit, const LocalReplay& replay,
                                   const StepLayout::Place& place)
{
    Ways ways;
    if (const Status added = PartMeasure(model, tree, replay, place).addWhole(unit, ways); !added)
        return added.error();
    return relative(std::move(ways), tree.units[static_cast<std::size_t>(unit)].module);
}

} // namespace headroom
