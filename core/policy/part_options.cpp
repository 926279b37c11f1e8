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
constexpr std::size_t mostCombinations = 6000; ///< of what is inside a unit, every one measured
constexpr std::size_t mostSums = 600; ///< of combinations that are worth it by the sums of what was measured
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
    PartMeasure(const StepModel& model, const PartTree& tree, const LocalReplay& replay, const StepLayout::Place& place,
                LocalNotes& notes)
        : model_(model)
        , tree_(tree)
        , replay_(replay)
        , place_(place)
        , notes_(notes)
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
        Result<LocalEffect> effect = replay_.of(plan, notes_);
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

    /// Combinations of ways of the units inside: every one of some of them, since what one unit lets go another may
    /// hold, and of all of them those that are worth it by their sums.
    Status addInside(int unit, Ways& ways) const
    {
        std::vector<Ways> inside;
        for (const int inner : tree_.units[static_cast<std::size_t>(unit)].inside) {
            if (model_.regionOps(tree_.units[static_cast<std::size_t>(inner)].module).empty())
                continue;
            Result<Ways> choices = waysOf(inner, mostSums);
            if (!choices)
                return choices.error();
            inside.push_back(*std::move(choices));
        }
        std::vector<Combination> combinations = products(inside);
        for (Combination& sum : sums(inside))
            combinations.push_back(std::move(sum));
        std::ranges::sort(combinations);
        combinations.erase(std::ranges::unique(combinations).begin(), combinations.end());
        for (const Combination& combination : combinations) {
            CheckpointPlan plan;
            for (std::size_t i = 0; i < combination.size(); ++i) {
                const CheckpointPlan& part = inside[i][combination[i]].plan;
                plan.insert(plan.end(), part.begin(), part.end());
            }
            if (!plan.empty())
                if (const Status added = add(std::move(plan), ways); !added)
                    return added;
        }
        return {};
    }

    using Combination = std::vector<std::size_t>; ///< by unit inside: index of its way

    static std::vector<Combination> products(const std::vector<Ways>& inside)
    {
        if (inside.empty())
            return {};
        const double each = std::floor(
            std::pow(static_cast<double>(mostCombinations), 1.0 / static_cast<double>(inside.size())) + 1e-9);
        std::vector<Combination> made{{}};
        for (const Ways& ways : inside) {
            const std::vector<std::size_t> some
                = chosen(ways, std::max<std::size_t>(1, static_cast<std::size_t>(each)));
            std::vector<Combination> next;
            for (const Combination& combination : made)
                for (const std::size_t way : some) {
                    next.push_back(combination);
                    next.back().push_back(way);
                }
            made = std::move(next);
        }
        return made;
    }

    static std::vector<Combination> sums(const std::vector<Ways>& inside)
    {
        struct Sum
        {
            Bytes held = 0;
            Picoseconds time = 0;
            Combination ways;
        };
        std::vector<Sum> front(inside.empty() ? 0 : 1);
        for (const Ways& ways : inside) {
            std::vector<Sum> all;
            for (const Sum& sum : front)
                for (std::size_t way = 0; way < ways.size(); ++way) {
                    all.push_back({sum.held + ways[way].held, sum.time + ways[way].time, sum.ways});
                    all.back().ways.push_back(way);
                }
            std::ranges::stable_sort(all, {}, [](const Sum& sum) { return std::pair(sum.held, sum.time); });
            std::vector<Sum> kept;
            for (Sum& sum : all)
                if (kept.empty() || sum.time < kept.back().time)
                    kept.push_back(std::move(sum));
            front = spread(kept, mostSums);
        }
        std::vector<Combination> combinations;
        for (Sum& sum : front)
            combinations.push_back(std::move(sum.ways));
        return combinations;
    }

    static bool beats(const Way& a, const Way& b) { return a.held <= b.held && a.high <= b.high && a.time <= b.time; }

    /// Leaves out what is beaten.
    static void thin(Ways& ways, std::size_t most)
    {
        Ways thinned;
        for (const std::size_t i : chosen(ways, most))
            thinned.push_back(std::move(ways[i]));
        ways = std::move(thinned);
    }

    /// Those that no other beats; of too many the corners of the lower hull of time over bytes stay first.
    static std::vector<std::size_t> chosen(const Ways& ways, std::size_t most)
    {
        std::vector<std::size_t> kept;
        for (std::size_t i = 0; i < ways.size(); ++i) {
            bool beaten = false;
            for (std::size_t j = 0; j < ways.size() && !beaten; ++j)
                beaten = j != i && beats(ways[j], ways[i]) && (!beats(ways[i], ways[j]) || j < i);
            if (!beaten)
                kept.push_back(i);
        }
        const auto order = [&](std::size_t i) { return std::tuple(ways[i].held, ways[i].time, i); };
        std::ranges::sort(kept, {}, order);
        if (kept.size() <= most)
            return kept;
        const std::vector<std::size_t> corners = hull(ways, kept);
        std::vector<std::size_t> others;
        std::ranges::set_difference(kept, corners, std::back_inserter(others), {}, order, order);
        kept = spread(corners, most);
        const std::vector<std::size_t> more = spread(others, most - kept.size());
        kept.insert(kept.end(), more.begin(), more.end());
        std::ranges::sort(kept, {}, order);
        return kept;
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
    template <class T>
    static std::vector<T> spread(const std::vector<T>& from, std::size_t most)
    {
        if (from.size() <= most)
            return from;
        std::vector<T> chosen;
        for (std::size_t i = 0; i < most; ++i)
            chosen.push_back(from[most == 1 ? from.size() - 1 : i * (from.size() - 1) / (most - 1)]);
        return chosen;
    }

    const StepModel& model_;
    const PartTree& tree_;
    const LocalReplay& replay_;
    const StepLayout::Place& place_;
    LocalNotes& notes_;
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
                                  const StepLayout::Place& place, LocalNotes& notes)
{
    Result<Ways> ways = PartMeasure(model, tree, replay, place, notes).waysOf(unit, mostOptions);
    if (!ways)
        return ways.error();
    return relative(*std::move(ways), tree.units[static_cast<std::size_t>(unit)].module);
}

Result<PartOptions> optionsOfWhole(const StepModel& model, const PartTree& tree, int unit, const LocalReplay& replay,
                                   const StepLayout::Place& place, LocalNotes& notes)
{
    Ways ways;
    if (const Status added = PartMeasure(model, tree, replay, place, notes).addWhole(unit, ways); !added)
        return added.error();
    return relative(std::move(ways), tree.units[static_cast<std::size_t>(unit)].module);
}

} // namespace headroom
