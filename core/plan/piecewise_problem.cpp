// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/piecewise_problem.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <set>

namespace headroom {

namespace {

constexpr Bytes impossible = std::numeric_limits<Bytes>::min();

bool isInside(std::string_view inner, std::string_view outer)
{
    return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.';
}

Bytes dividedUp(Bytes bytes, int parts)
{
    return (bytes + parts - 1) / parts;
}

/// What a request says of each module.
struct Wishes
{
    std::vector<bool> allowed;
    std::vector<bool> forced;
};

Status applyPins(const PiecewiseModules& modules, const PlanRequest& request, Wishes& wishes)
{
    const std::vector<ModuleStats>& stats = modules.info->stats;
    const std::vector<bool> allowedByUnits = wishes.allowed;
    for (const auto& [fqn, pin] : request.pins) {
        const auto found = std::ranges::find(stats, fqn, &ModuleStats::fqn);
        if (found == stats.end())
            return badInput("cannot pin `" + fqn + "`: no module of that name ran in the step");
        if (found->isLeaf)
            return badInput("cannot pin `" + fqn
                            + "`: it has no submodules, and only modules with submodules can be "
                              "checkpointed");
        if (pin == Pin::recompute && !found->obstacle.empty())
            return badInput("cannot pin `" + fqn + "` to recompute: " + found->obstacle);
        const auto module = static_cast<std::size_t>(found - stats.begin());
        if (pin == Pin::recompute && !allowedByUnits[module])
            return badInput("cannot pin `" + fqn
                            + "` to recompute: it may not be checkpointed, since it keeps no "
                              "activations, is no AC unit, or contains an FSDP unit");
        wishes.forced[module] = pin == Pin::recompute;
        for (std::size_t other = 0; other < stats.size(); ++other) {
            const bool around = isInside(fqn, stats[other].fqn);
            const bool inside = isInside(stats[other].fqn, fqn);
            if (around || inside || (pin == Pin::save && other == module))
                wishes.allowed[other] = false;
        }
    }
    for (std::size_t module = 0; module < stats.size(); ++module)
        if (wishes.forced[module] && !wishes.allowed[module])
            return badInput("cannot pin `" + stats[module].fqn
                            + "` to recompute: a module around or inside it is "
                              "pinned too");
    return {};
}

Result<Wishes> readWishes(const PiecewiseModules& modules, const PlanRequest& request)
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
    if (const Status pinned = applyPins(modules, request, wishes); !pinned)
        return pinned.error();
    return wishes;
}

} // namespace

Result<PiecewiseProblem> PiecewiseProblem::create(const PiecewiseModules& modules, const PlanRequest& request)
{
    if (request.worldSize < 1)
        return badInput("world size " + std::to_string(request.worldSize) + ": expected 1 or more");
    if (request.budget < 1)
        return badInput("budget " + std::to_string(request.budget) + " B: expected 1 B or more");
    PiecewiseProblem problem(modules);
    if (const Status found = problem.findUnits(request); !found)
        return found.error();
    problem.findRows(request.worldSize);
    return problem;
}

Status PiecewiseProblem::findUnits(const PlanRequest& request)
{
    const Result<Wishes> wishes = readWishes(*modules_, request);
    if (!wishes)
        return wishes.error();
    for (std::size_t module = 0; module < modules_->modules.size(); ++module)
        if (wishes->allowed[module])
            units_.push_back({static_cast<int>(module), -1, 0, wishes->forced[module], {}});
    std::ranges::sort(units_, {}, [&](const PlanUnit& unit) {
        return modules_->modules[static_cast<std::size_t>(unit.module)].position;
    });

    findTree();
    return dropMisplaced();
}

/// A module that runs outside its parent's forward (its name says one place, its call another) is no unit: what is
/// inside a unit must end right before it.
Status PiecewiseProblem::dropMisplaced()
{
    std::vector<int> inside(units_.size(), 0);
    std::vector<int> first(units_.size());
    bool orderly = true;
    for (std::size_t i = 0; i < units_.size(); ++i)
        first[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < units_.size(); ++i)
        for (int outer = units_[i].parent; outer >= 0; outer = units_[static_cast<std::size_t>(outer)].parent) {
            ++inside[static_cast<std::size_t>(outer)];
            first[static_cast<std::size_t>(outer)]
                = std::min(first[static_cast<std::size_t>(outer)], static_cast<int>(i));
        }
    for (std::size_t i = 0; i < units_.size(); ++i)
        orderly = orderly && static_cast<int>(i) - first[i] == inside[i];
    if (orderly)
        return {};

    const auto isInsideOf = [&](std::size_t unit, std::size_t outer) {
        int above = units_[unit].parent;
        while (above >= 0 && above != static_cast<int>(outer))
            above = units_[static_cast<std::size_t>(above)].parent;
        return above >= 0;
    };
    std::vector<bool> misplaced(units_.size(), false);
    for (std::size_t outer = 0; outer < units_.size(); ++outer) {
        bool contiguous = true;
        for (std::size_t i = units_.size(); i-- > 0;) {
            const bool within = isInsideOf(i, outer);
            contiguous = contiguous && (i >= outer || within);
            if (within && (i > outer || !contiguous))
                misplaced[i] = true;
        }
    }
    std::vector<PlanUnit> kept;
    for (std::size_t i = 0; i < units_.size(); ++i) {
        if (!misplaced[i])
            kept.push_back(units_[i]);
        else if (units_[i].forced)
            return badInput("cannot pin `" + modules_->info->stats[static_cast<std::size_t>(units_[i].module)].fqn
                            + "` to recompute: it runs outside the forward of the module that contains it");
    }
    units_ = std::move(kept);
    findTree();
    return {};
}

void PiecewiseProblem::findTree()
{
    std::vector<int> unitOf(modules_->modules.size(), -1);
    for (std::size_t i = 0; i < units_.size(); ++i) {
        unitOf[static_cast<std::size_t>(units_[i].module)] = static_cast<int>(i);
        units_[i].children.clear();
        units_[i].parent = -1;
    }
    for (std::size_t i = 0; i < units_.size(); ++i) {
        PlanUnit& unit = units_[i];
        unit.firstInside = unit.children.empty() ? static_cast<int>(i)
                                                 : units_[static_cast<std::size_t>(unit.children.front())].firstInside;
        int module = modules_->modules[static_cast<std::size_t>(unit.module)].parent;
        while (module >= 0 && unitOf[static_cast<std::size_t>(module)] < 0)
            module = modules_->modules[static_cast<std::size_t>(module)].parent;
        if (module < 0)
            continue;
        unit.parent = unitOf[static_cast<std::size_t>(module)];
        units_[static_cast<std::size_t>(unit.parent)].children.push_back(static_cast<int>(i));
    }
}

void PiecewiseProblem::findRows(int worldSize)
{
    const std::vector<ModuleStats>& stats = modules_->info->stats;
    std::vector<MemoryRow> all;
    for (std::size_t module = 0; module < stats.size(); ++module) {
        const int position = modules_->modules[module].position;
        const auto before = std::ranges::lower_bound(units_, position, {}, [&](const PlanUnit& unit) {
            return modules_->modules[static_cast<std::size_t>(unit.module)].position;
        });
        const Bytes sharded = dividedUp(stats.front().paramBytes + stats[module].gradTotal, worldSize);
        all.push_back({static_cast<int>(before - units_.begin()),
                       stats[module].activationTotal + stats[module].activationGrad + sharded,
                       static_cast<int>(module)});
    }
    std::ranges::stable_sort(all, [](const MemoryRow& a, const MemoryRow& b) {
        return a.units != b.units ? a.units < b.units : a.required > b.required;
    });
    for (const MemoryRow& row : all)
        if (rows_.empty() || row.required > rows_.back().required)
            rows_.push_back(row);

    lastRow_.assign(units_.size() + 1, -1);
    std::size_t next = 0;
    for (std::size_t count = 0; count < lastRow_.size(); ++count) {
        while (next < rows_.size() && rows_[next].units <= static_cast<int>(count))
            ++next;
        lastRow_[count] = static_cast<int>(next) - 1;
    }
}

const RecomputeCurve& PiecewiseProblem::curve(int unit) const
{
    return modules_->modules[static_cast<std::size_t>(units_[static_cast<std::size_t>(unit)].module)].curve;
}

std::vector<int> PiecewiseProblem::allRows() const
{
    std::vector<int> rows(rows_.size());
    for (std::size_t row = 0; row < rows.size(); ++row)
        rows[row] = static_cast<int>(row);
    return rows;
}

/// Do all rows up to that count of units hold when so much is discarded? Rows further up are implied by the last.
bool PiecewiseProblem::rowHolds(int units, Bytes discarded, Bytes budget) const
{
    const int row = lastRow_[static_cast<std::size_t>(units)];
    return row < 0 || rows_[static_cast<std::size_t>(row)].required - discarded <= budget;
}

/// The most that can be discarded up to the end of `unit` when `before` was discarded up to its first submodule and
/// every row in between holds; `impossible` when none can. More is never worse for what follows, so that subtrees can
/// be decided one after the other. `whole` says for each unit inside whether taking it as a whole discards most.
Bytes PiecewiseProblem::mostDiscarded(int unit, Bytes before, Bytes budget, std::vector<bool>& whole) const
{
    const PlanUnit& self = units_[static_cast<std::size_t>(unit)];
    Bytes parts = self.forced ? impossible : before;
    if (!self.forced)
        for (const int child : self.children) {
            parts = mostDiscarded(child, parts, budget, whole);
            if (parts == impossible)
                break;
        }
    const Bytes asWhole = rowHolds(unit, before, budget) ? before + curve(unit).maxBytes() : impossible;
    whole[static_cast<std::size_t>(unit)] = asWhole >= parts;
    const Bytes most = std::max(asWhole, parts);
    return most != impossible && rowHolds(unit + 1, most, budget) ? most : impossible;
}

std::optional<std::vector<bool>> PiecewiseProblem::mostDiscarding(Bytes budget) const
{
    if (!rowHolds(0, 0, budget))
        return std::nullopt;
    std::vector<bool> whole(units_.size());
    Bytes discarded = 0;
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
        if (units_[unit].parent < 0) {
            discarded = mostDiscarded(static_cast<int>(unit), discarded, budget, whole);
            if (discarded == impossible)
                return std::nullopt;
        }
    // Inside a unit that is taken as a whole nothing else is.
    for (std::size_t unit = units_.size(); unit-- > 0;)
        if (whole[unit])
            std::fill(whole.begin() + units_[unit].firstInside, whole.begin() + static_cast<std::ptrdiff_t>(unit),
                      false);
    return whole;
}

Bytes PiecewiseProblem::leastBudget() const
{
    Bytes tooLittle = -1;
    Bytes enough = rows_.back().required;
    while (enough - tooLittle > 1) {
        const Bytes middle = tooLittle + (enough - tooLittle) / 2;
        (mostDiscarding(middle) ? enough : tooLittle) = middle;
    }
    return enough;
}

std::optional<PiecewiseProblem::Discards> PiecewiseProblem::allocate(const std::vector<bool>& chosen, Bytes budget,
                                                                     std::span<const int> rows,
                                                                     Preference preference) const
{
    // The sets of units that rows count are nested, so that it is cheapest to go through the rows in order and to buy
    // for each the cheapest bytes that it counts.
    struct Offer
    {
        double msPerByte;
        int unit;
        std::size_t piece;
    };
    const auto dearer = [preference](const Offer& a, const Offer& b) {
        if (a.msPerByte != b.msPerByte)
            return a.msPerByte > b.msPerByte;
        return preference == Preference::earlier ? a.unit > b.unit : a.unit < b.unit;
    };
    std::priority_queue<Offer, std::vector<Offer>, decltype(dearer)> offers(dearer);
    Discards discards;
    discards.bytes.assign(units_.size(), 0);
    std::vector<Bytes> left(units_.size(), 0); // of the unit's piece on offer
    Bytes sum = 0;
    int seen = 0;
    const auto offer = [&](int unit, std::size_t piece) {
        const auto pieces = curve(unit).pieces();
        if (piece < pieces.size()) {
            left[static_cast<std::size_t>(unit)] = pieces[piece].bytes;
            offers.push({pieces[piece].msPerByte, unit, piece});
        }
    };
    const auto see = [&](int count) {
        for (; seen < count; ++seen)
            if (chosen[static_cast<std::size_t>(seen)]) {
                discards.bytes[static_cast<std::size_t>(seen)] = curve(seen).freeBytes();
                sum += curve(seen).freeBytes();
                offer(seen, 0);
            }
    };
    for (const int index : rows) {
        const MemoryRow& row = rows_[static_cast<std::size_t>(index)];
        see(row.units);
        while (row.required - sum > budget) {
            if (offers.empty())
                return std::nullopt;
            const Offer best = offers.top();
            Bytes& rest = left[static_cast<std::size_t>(best.unit)];
            const Bytes bought = std::min(rest, row.required - sum - budget);
            discards.bytes[static_cast<std::size_t>(best.unit)] += bought;
            sum += bought;
            rest -= bought;
            if (rest == 0) {
                offers.pop();
                offer(best.unit, best.piece + 1);
            }
        }
    }
    see(static_cast<int>(units_.size()));
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
        if (chosen[unit])
            discards.ms += curve(static_cast<int>(unit)).msAt(discards.bytes[unit]);
    return discards;
}

PiecewiseProblem::Peak PiecewiseProblem::peak(const std::vector<Bytes>& discarded) const
{
    Peak peak{impossible, 0};
    Bytes sum = 0;
    int seen = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
        while (seen < rows_[row].units)
            sum += discarded[static_cast<std::size_t>(seen++)];
        if (rows_[row].required - sum > peak.bytes)
            peak = {rows_[row].required - sum, static_cast<int>(row)};
    }
    return peak;
}

} // namespace headroom
