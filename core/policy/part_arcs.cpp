// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/part_arcs.h"

#include "core/base/try.h"
#include "core/policy/policy_maker.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
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
                                  const std::vector<bool>& shared, const MayCheckpoint& may,
                                  const PartEventsOf& partEventsOf, const std::stop_token& stop)
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
            model, events, tree.units[static_cast<std::size_t>(arc.unit)].module, shared, notes);
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

CheckpointPlan inStep(CheckpointPlan plan, ModuleId part)
{
    for (CheckpointRegion& region : plan)
        region.module = ModuleId(region.module.value + part.value);
    return plan;
}

namespace {

constexpr double nsPerOption = 0.8; ///< work of an option in a row

/// Sets of arcs that are joined pairwise.
class JoinedArcs
{
public:
    explicit JoinedArcs(std::size_t count)
        : above_(count)
    {
        std::iota(above_.begin(), above_.end(), std::size_t{0});
    }
    std::size_t rootOf(std::size_t arc)
    {
        while (above_[arc] != arc)
            arc = above_[arc] = above_[above_[arc]];
        return arc;
    }
    void join(std::size_t a, std::size_t b) { above_[rootOf(a)] = rootOf(b); }

private:
    std::vector<std::size_t> above_;
};

} // namespace

Result<RowProblem> RowProblem::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                      int worldSize, const std::stop_token& stop)
{
    using enum StepLayout::SharedArguments;
    std::vector<ModuleId> modules;
    for (const int part : tree.parts)
        modules.push_back(tree.units[static_cast<std::size_t>(part)].module);
    const auto moduleOf
        = [&](const PartArcs::Arc& arc) { return tree.units[static_cast<std::size_t>(arc.unit)].module; };
    const StepLayout layout(model, events, modules, worldSize, held);
    const PartArcs::PartEventsOf partEventsOf = [&](const PartArcs::Arc& arc) {
        const StepLayout own(model, events, modules, worldSize, held, layout.boundaryOf(moduleOf(arc)));
        return own.partEvents(*arc.replay, moduleOf(arc), arc.first, arc.last);
    };
    const MayCheckpoint may = [](ModuleId) { return true; };
    RowProblem problem;
    ASSIGN_OR_RETURN(problem.parts_, PartArcs::create(model, events, tree, layout.shared(), may, partEventsOf, stop));
    for (const PartArcs::Arc& arc : problem.parts_.arcs)
        problem.modules_.push_back(moduleOf(arc));
    for (const PartArcs::ArcClass& arcClass : problem.parts_.classes) {
        const std::vector<LocalEffect>& options = arcClass.options.effects;
        std::vector<double>& bytes = problem.changes_.emplace_back();
        for (std::size_t change = 0; !options.empty() && change < options.front().changes.size(); ++change) {
            for (const LocalEffect& effect : options)
                bytes.push_back(static_cast<double>(effect.changes[change].after));
            for (const LocalEffect& effect : options)
                bytes.push_back(static_cast<double>(effect.changes[change].high));
        }
    }
    problem.positions_ = tree.parts.size();
    problem.atMost_.assign(layout.high().begin(), layout.high().end());
    const StepLayout least(model, events, modules, worldSize, asRecorded);
    problem.atLeast_.assign(least.high().begin(), least.high().end());
    for (const PartArcs::Arc& arc : problem.parts_.arcs)
        for (const std::uint32_t event : arc.replay->events())
            problem.atLeast_[event] = least.after()[event];
    for (const auto& [begin, end, bytes] : castsThatMayBeGone(model, events))
        for (std::uint32_t event = begin; event < end; ++event)
            problem.atLeast_[event] -= bytes;
    return problem;
}

RowProblem::Row RowProblem::rowAt(std::uint32_t event, Memory memory, Bytes most) const
{
    Row row{event, base(memory)[event], most, {}};
    for (const PartArcs::Arc& arc : arcs()) {
        const auto events = arc.replay->events();
        const auto next = std::ranges::lower_bound(events, event) - events.begin();
        const bool atEvent = next < std::ssize(events) && events[static_cast<std::size_t>(next)] == event;
        Row::Moment& moment = row.moments.emplace_back();
        if (atEvent || next > 0)
            moment = {arc.replay->changeAt(static_cast<std::size_t>(atEvent ? next : next - 1)), atEvent};
    }
    return row;
}

Bytes RowProblem::changeIn(const Row& row, const ArcOption& option) const
{
    const Row::Moment& moment = row.moments[option.arc];
    if (moment.change < 0)
        return 0;
    const LocalEffect::Change& change = effectOf(option).changes[static_cast<std::size_t>(moment.change)];
    return moment.atEvent ? change.high : change.after;
}

std::span<const double> RowProblem::changesIn(const Row& row, std::size_t arc) const
{
    const Row::Moment& moment = row.moments[arc];
    if (moment.change < 0)
        return {};
    SearchLimit::count(static_cast<double>(optionCount(arc)), nsPerOption);
    const std::size_t number = 2 * static_cast<std::size_t>(moment.change) + (moment.atEvent ? 1 : 0);
    return std::span(changes_[parts_.arcs[arc].arcClass]).subspan(number * optionCount(arc), optionCount(arc));
}

std::vector<double> RowProblem::memoryUnder(const OptionShares& shares, Memory memory) const
{
    const std::vector<Bytes>& without = base(memory);
    std::vector<double> bytes(without.size() + 1, 0); // changes, summed up at the end
    for (const auto& [option, share] : shares) {
        const LocalReplay& replay = *arcs()[option.arc].replay;
        const LocalEffect& effect = effectOf(option);
        double before = 0;
        for (std::size_t i = 0; i < replay.events().size(); ++i) {
            const LocalEffect::Change& change = effect.changes[static_cast<std::size_t>(replay.changeAt(i))];
            const std::uint32_t event = replay.events()[i];
            const double high = share * static_cast<double>(change.high);
            const double after = share * static_cast<double>(change.after);
            bytes[event] += high - before;
            bytes[event + 1] += after - high;
            before = after;
        }
    }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    bytes.pop_back();
    for (std::size_t event = 0; event < bytes.size(); ++event)
        bytes[event] += static_cast<double>(without[event]);
    return bytes;
}

namespace {

constexpr std::size_t blockEvents = 64;
constexpr double nsPerChangedEvent = 8; ///< work of an event of a replaced option

} // namespace

PlanMemory::PlanMemory(const RowProblem& problem, RowProblem::Memory memory, const OptionShares& plan)
    : problem_(&problem)
    , bytes_(problem.base(memory))
    , added_(bytes_.size() / blockEvents + 1, 0)
    , highest_(added_.size(), std::numeric_limits<Bytes>::min())
{
    for (std::size_t block = 0; block < highest_.size(); ++block)
        findHighest(block);
    for (const auto& [option, share] : plan)
        change(option.arc, nullptr, &option.option);
}

void PlanMemory::change(std::size_t arc, const std::size_t* from, const std::size_t* to)
{
    const LocalReplay& replay = *problem_->arcs()[arc].replay;
    const auto changesOf = [&](const std::size_t* option) {
        return option ? std::span(problem_->effectOf({arc, *option}).changes) : std::span<const LocalEffect::Change>();
    };
    const std::span<const LocalEffect::Change> less = changesOf(from), more = changesOf(to);
    const std::span<const std::uint32_t> events = replay.events();
    SearchLimit::count(static_cast<double>(events.size()), nsPerChangedEvent);
    for (std::size_t i = 0; i < events.size(); ++i) {
        const auto number = static_cast<std::size_t>(replay.changeAt(i));
        const std::size_t next = i + 1 < events.size() ? events[i + 1] : bytes_.size();
        const Bytes high = (to ? more[number].high : 0) - (from ? less[number].high : 0);
        const Bytes after = (to ? more[number].after : 0) - (from ? less[number].after : 0);
        if (high != 0)
            add(events[i], events[i] + std::size_t{1}, high);
        if (after != 0)
            add(events[i] + std::size_t{1}, next, after);
    }
    for (const std::size_t block : changed_)
        findHighest(block);
    changed_.clear();
}

void PlanMemory::add(std::size_t begin, std::size_t end, Bytes bytes)
{
    while (begin < end) {
        const std::size_t block = begin / blockEvents;
        const std::size_t stop = std::min(end, (block + 1) * blockEvents);
        if (stop - begin == blockEvents) {
            added_[block] += bytes;
            highest_[block] += bytes;
            begin = stop;
            continue;
        }
        for (; begin < stop; ++begin)
            bytes_[begin] += bytes;
        if (changed_.empty() || changed_.back() != block)
            changed_.push_back(block);
    }
}

void PlanMemory::findHighest(std::size_t block)
{
    const std::size_t end = std::min(bytes_.size(), (block + 1) * blockEvents);
    Bytes highest = std::numeric_limits<Bytes>::min();
    for (std::size_t event = block * blockEvents; event < end; ++event)
        highest = std::max(highest, bytes_[event]);
    if (block * blockEvents < end)
        highest_[block] = highest + added_[block];
}

Bytes PlanMemory::highestIn(std::size_t begin, std::size_t end) const
{
    Bytes highest = std::numeric_limits<Bytes>::min();
    while (begin < end) {
        const std::size_t block = begin / blockEvents;
        const std::size_t stop = std::min(end, (block + 1) * blockEvents);
        if (stop - begin == blockEvents || (begin % blockEvents == 0 && stop == bytes_.size()))
            highest = std::max(highest, highest_[block]);
        else
            for (std::size_t event = begin; event < stop; ++event)
                highest = std::max(highest, bytes_[event] + added_[block]);
        begin = stop;
    }
    return highest;
}

std::uint32_t PlanMemory::highestEvent() const
{
    const auto block = static_cast<std::size_t>(std::ranges::max_element(highest_) - highest_.begin());
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(block * blockEvents);
    const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(std::min(bytes_.size(), (block + 1) * blockEvents));
    return static_cast<std::uint32_t>(std::max_element(begin, end) - bytes_.begin());
}

std::vector<RowProblem::Component> RowProblem::components(const std::vector<Row>& rows, const OptionSet& options) const
{
    JoinedArcs joined(arcs().size());
    int covered = 0;
    for (std::size_t arc = 1; arc < arcs().size(); ++arc) {
        covered = std::max(covered, arcs()[arc - 1].last);
        if (arcs()[arc].first < covered)
            joined.join(arc, arc - 1);
    }
    const auto isIn = [&](std::size_t arc, const Row& row) {
        for (std::size_t option = 0; option < options[arc].size(); ++option)
            if (options[arc][option] && changeIn(row, {arc, option}) != 0)
                return true;
        return false;
    };
    constexpr auto none = static_cast<std::size_t>(-1);
    std::vector<std::size_t> anyIn(rows.size(), none); // by row: an arc in the row
    for (std::size_t row = 0; row < rows.size(); ++row)
        for (std::size_t arc = 0; arc < arcs().size(); ++arc)
            if (isIn(arc, rows[row])) {
                if (anyIn[row] != none)
                    joined.join(arc, anyIn[row]);
                anyIn[row] = arc;
            }
    std::map<std::size_t, Component> byRoot;
    for (std::size_t arc = 0; arc < arcs().size(); ++arc)
        byRoot[joined.rootOf(arc)].arcs.push_back(arc);
    for (std::size_t row = 0; row < rows.size(); ++row)
        if (anyIn[row] != none)
            byRoot[joined.rootOf(anyIn[row])].rows.push_back(row);
    std::vector<Component> found;
    for (auto& [root, component] : byRoot)
        found.push_back(std::move(component));
    return found;
}

CheckpointPlan RowProblem::planOf(const OptionShares& shares) const
{
    CheckpointPlan plan;
    for (const auto& [option, share] : shares)
        std::ranges::move(inStep(optionsOf(option.arc).plans[option.option], modules_[option.arc]),
                          std::back_inserter(plan));
    std::ranges::sort(plan, {}, &CheckpointRegion::module);
    return plan;
}

} // namespace headroom
