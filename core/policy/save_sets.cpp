// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/save_sets.h"

#include "core/base/curves.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

/// The options that no other option dominates. Options that hold less come first, so that an option comes after all
/// dominating options.
std::vector<std::size_t> unbeaten(std::span<const OptionCost> options)
{
    std::vector<std::size_t> order(options.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    std::ranges::sort(order, {},
                      [&](std::size_t i) { return std::tuple(options[i].held, options[i].high, options[i].time, i); });
    std::vector<std::size_t> kept;
    std::map<Bytes, Picoseconds> least; // by highest memory: least time of the options kept; falling as memory rises
    for (const std::size_t i : order) {
        auto above = least.upper_bound(options[i].high);
        if (above != least.begin() && std::prev(above)->second <= options[i].time)
            continue;
        while (above != least.end() && above->second >= options[i].time)
            above = least.erase(above);
        least[options[i].high] = options[i].time;
        kept.push_back(i);
    }
    return kept;
}

/// The corners of the lower hull of time over held bytes; `sorted` is by held, then time.
std::vector<std::size_t> hull(std::span<const OptionCost> options, const std::vector<std::size_t>& sorted)
{
    std::vector<std::size_t> corners = lowerHull(
        sorted, [&](std::size_t i) { return options[i].held; }, [&](std::size_t i) { return options[i].time; });
    std::ranges::transform(corners, corners.begin(), [&](std::size_t corner) { return sorted[corner]; });
    return corners;
}

} // namespace

std::vector<std::size_t> worthIt(std::span<const OptionCost> options, std::size_t most)
{
    std::vector<std::size_t> kept = unbeaten(options);
    const auto order = [&](std::size_t i) { return std::tuple(options[i].held, options[i].time, i); };
    std::ranges::sort(kept, {}, order);
    if (kept.size() <= most)
        return kept;
    const std::vector<std::size_t> corners = hull(options, kept);
    std::vector<std::size_t> others;
    std::ranges::set_difference(kept, corners, std::back_inserter(others), {}, order, order);
    kept = spreadEvenly(corners, most);
    const std::vector<std::size_t> more = spreadEvenly(others, most - kept.size());
    kept.insert(kept.end(), more.begin(), more.end());
    std::ranges::sort(kept, {}, order);
    return kept;
}

std::vector<Combination> bestSums(std::span<const std::vector<OptionCost>> units, std::size_t most)
{
    struct Sum
    {
        Bytes held = 0;
        Picoseconds time = 0;
        std::size_t rest = 0; ///< index in the front before
        std::size_t option = 0;
    };
    std::vector<std::vector<Sum>> fronts{std::vector<Sum>(units.empty() ? 0 : 1)}; // after each unit
    for (const std::vector<OptionCost>& options : units) {
        const std::vector<Sum>& front = fronts.back();
        std::vector<Sum> all;
        all.reserve(front.size() * options.size());
        for (std::size_t sum = 0; sum < front.size(); ++sum)
            for (std::size_t option = 0; option < options.size(); ++option)
                all.push_back(
                    {front[sum].held + options[option].held, front[sum].time + options[option].time, sum, option});
        std::ranges::sort(all, {}, [](const Sum& sum) { return std::tuple(sum.held, sum.time, sum.rest, sum.option); });
        std::vector<Sum> kept;
        for (const Sum& sum : all)
            if (kept.empty() || sum.time < kept.back().time)
                kept.push_back(sum);
        fronts.push_back(spreadEvenly(kept, most));
    }
    std::vector<Combination> combinations;
    for (Sum sum : fronts.back()) {
        Combination options(units.size());
        for (std::size_t unit = units.size(); unit-- > 0; sum = fronts[unit][sum.rest])
            options[unit] = sum.option;
        combinations.push_back(std::move(options));
    }
    return combinations;
}

std::vector<Combination> products(std::span<const std::vector<OptionCost>> units, std::size_t most)
{
    if (units.empty())
        return {};
    const double each = std::floor(std::pow(static_cast<double>(most), 1.0 / static_cast<double>(units.size())) + 1e-9);
    std::vector<Combination> made{{}};
    for (const std::vector<OptionCost>& options : units) {
        const std::vector<std::size_t> some
            = worthIt(options, std::max<std::size_t>(1, static_cast<std::size_t>(each)));
        std::vector<Combination> next;
        next.reserve(made.size() * some.size());
        for (const Combination& combination : made)
            for (const std::size_t option : some) {
                next.push_back(combination);
                next.back().push_back(option);
            }
        made = std::move(next);
    }
    return made;
}

namespace {

constexpr std::size_t mostSets = 1000; ///< size of the front that is carried from op to op
constexpr std::size_t mostTails = 6; ///< how many numbers of saved random ops are tried

/// A set of ops, as an op and the set without that op.
struct Set
{
    Bytes bytes = 0;
    double ms = 0;
    std::int32_t op = -1; ///< index of the item; -1: the set is the one of `rest`
    std::int32_t rest = -1; ///< index of the set; -1: empty
};

/// Drops dominated sets and sorts the others by ascending bytes.
void dropBeaten(std::vector<Set>& sets)
{
    std::ranges::stable_sort(
        sets, [](const Set& a, const Set& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.ms > b.ms; });
    std::vector<Set> kept;
    for (const Set& set : sets)
        if (kept.empty() || set.ms > kept.back().ms * (1 + 1e-12))
            kept.push_back(set);
    sets = std::move(kept);
}

/// The undominated sets of the items added so far.
class SetFront
{
public:
    void add(std::int32_t item, Bytes bytes, double ms)
    {
        std::vector<Set> next;
        next.reserve(2 * front_.size());
        for (const Set& set : front_) {
            next.push_back(set);
            next.push_back({set.bytes + bytes, set.ms + ms, item, set.rest});
        }
        dropBeaten(next);
        front_ = spreadEvenly(next, mostSets);
        for (Set& set : front_) {
            if (set.op < 0)
                continue;
            links_.push_back({set.op, set.rest});
            set.op = -1;
            set.rest = static_cast<std::int32_t>(links_.size() - 1);
        }
        if (links_.size() > mostLinks_)
            forgetUnused();
    }

    const std::vector<Set>& front() const { return front_; }

    std::vector<std::int32_t> itemsOf(const Set& set) const
    {
        std::vector<std::int32_t> items;
        for (std::int32_t link = set.rest; link >= 0; link = linkAt(link).rest)
            items.push_back(linkAt(link).op);
        return items;
    }

private:
    struct Link
    {
        std::int32_t op = -1;
        std::int32_t rest = -1;
    };
    const Link& linkAt(std::int32_t link) const { return links_[static_cast<std::size_t>(link)]; }

    /// Drops the links that no set of the front needs: most sets are beaten soon.
    void forgetUnused()
    {
        std::vector<std::int32_t> placeOf(links_.size(), -1);
        for (const Set& set : front_)
            for (std::int32_t link = set.rest; link >= 0 && placeOf[static_cast<std::size_t>(link)] < 0;
                 link = linkAt(link).rest)
                placeOf[static_cast<std::size_t>(link)] = 0;
        const auto moved = [&](std::int32_t link) { return link < 0 ? -1 : placeOf[static_cast<std::size_t>(link)]; };
        std::size_t kept = 0;
        for (std::size_t link = 0; link < links_.size(); ++link) {
            if (placeOf[link] < 0)
                continue;
            links_[kept] = {links_[link].op, moved(links_[link].rest)}; // a link comes after its rest
            placeOf[link] = static_cast<std::int32_t>(kept++);
        }
        links_.resize(kept);
        for (Set& set : front_)
            set.rest = moved(set.rest);
        mostLinks_ = std::max(mostLinks_, 2 * kept);
    }

    std::vector<Set> front_{Set{}};
    std::vector<Link> links_; ///< of the front's sets
    std::size_t mostLinks_ = 1'000'000;
};

/// Marks the corners of the lower hull (time not saved over bytes), and up to `more` of the rest, spread evenly.
std::vector<bool> chosen(const std::vector<Set>& front, std::size_t more)
{
    std::vector<bool> keep(front.size(), false);
    for (const std::size_t corner : lowerHull(
             front, [](const Set& set) { return set.bytes; }, [](const Set& set) { return -set.ms; }))
        keep[corner] = true;
    std::vector<std::size_t> others;
    for (std::size_t i = 0; i < front.size(); ++i)
        if (!keep[i])
            others.push_back(i);
    for (std::size_t i = 0; i < std::min(more, others.size()); ++i)
        keep[others[others.size() <= more ? i : i * others.size() / more]] = true;
    return keep;
}

/// The number of recomputed regionOps(): the ops that begin before the module's last saved tensor.
std::size_t opsThatRunAgain(const StepModel& model, ModuleId module, const std::vector<OpId>& ops)
{
    const StepTrace& trace = *model.trace();
    const CallId deciding = decidingCall(model.index(), module);
    if (!deciding.valid())
        return 0;
    const StepIndex::Call& call = model.index().calls[deciding.value];
    if (!call.saves())
        return 0;
    std::uint32_t end = call.firstOp;
    for (std::uint32_t event = call.enter; event <= model.index().packEvent[call.endPack - 1]; ++event)
        if (trace.events.kind[EventIndex(event)] == EventKind::opBegin)
            end = trace.events.a[EventIndex(event)] + 1;
    return static_cast<std::size_t>(std::ranges::lower_bound(ops, OpId(end)) - ops.begin());
}

/// The numbers of last random ops to try to save.
std::vector<std::size_t> tails(const StepModel& model, ModuleId module, const std::vector<SavableOp>& random)
{
    const std::vector<OpId> ops = model.regionOps(module);
    std::size_t longest = 0;
    for (std::size_t op = opsThatRunAgain(model, module, ops); op-- > 0;) {
        if ((model.trace()->ops.flags[ops[op]] & opRandom) == 0)
            continue;
        if (longest == random.size() || random[random.size() - 1 - longest].op != op)
            break; // the op cannot be saved, so that the op is always recomputed
        ++longest;
    }
    std::vector<std::size_t> numbers;
    const std::size_t step = (longest + mostTails - 1) / mostTails;
    for (std::size_t i = 0; i < longest; i += step)
        numbers.push_back(i);
    numbers.push_back(longest);
    return numbers;
}

} // namespace

std::vector<SavableOp> savableOpsThatRunAgain(const StepModel& model, ModuleId module)
{
    const StepTrace& trace = *model.trace();
    std::vector<SavableOp> found;
    const std::vector<OpId> ops = model.regionOps(module);
    const std::vector<bool> savable = model.savableOps(module);
    const std::size_t end = opsThatRunAgain(model, module, ops);
    for (std::size_t i = 0; i < end; ++i) {
        const bool random = (trace.ops.flags[ops[i]] & opRandom) != 0;
        if (savable[i] && (random || trace.ops.ms[ops[i]] > 0))
            found.push_back({i, trace.ops.ms[ops[i]], random});
    }
    return found;
}

std::vector<std::vector<bool>> saveSets(const StepModel& model, ModuleId module,
                                        const std::function<Bytes(const SavableOp&)>& bytes, std::size_t more)
{
    const std::vector<SavableOp> ops = savableOpsThatRunAgain(model, module);
    std::vector<SavableOp> random;
    std::vector<Bytes> randomBytes;
    SetFront free;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const Bytes cost = bytes(ops[i]);
        if (ops[i].random) {
            random.push_back(ops[i]);
            randomBytes.push_back(cost);
        } else {
            free.add(static_cast<std::int32_t>(i), cost, ops[i].ms);
        }
    }
    // Each number of random ops with each set of the others. Set::op is the number, Set::rest the place in the front.
    std::vector<Set> all;
    for (const std::size_t tail : tails(model, module, random)) {
        Bytes tailBytes = 0;
        double tailMs = 0;
        for (std::size_t i = random.size() - tail; i < random.size(); ++i) {
            tailBytes += randomBytes[i];
            tailMs += random[i].ms;
        }
        for (std::size_t i = 0; i < free.front().size(); ++i)
            all.push_back({free.front()[i].bytes + tailBytes, free.front()[i].ms + tailMs,
                           static_cast<std::int32_t>(tail), static_cast<std::int32_t>(i)});
    }
    dropBeaten(all);

    const std::vector<bool> keep = chosen(all, more);
    const std::size_t count = model.regionOps(module).size();
    std::vector<std::vector<bool>> sets;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!keep[i])
            continue;
        std::vector<bool> save(count, false);
        for (const std::int32_t item : free.itemsOf(free.front()[static_cast<std::size_t>(all[i].rest)]))
            save[ops[static_cast<std::size_t>(item)].op] = true;
        for (std::size_t r = random.size() - static_cast<std::size_t>(all[i].op); r < random.size(); ++r)
            save[random[r].op] = true;
        sets.push_back(std::move(save));
    }
    return sets;
}

} // namespace headroom
