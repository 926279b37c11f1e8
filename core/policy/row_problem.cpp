// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/row_problem.h"

#include "core/base/try.h"
#include "core/policy/policy_maker.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace headroom {

namespace {

constexpr double nsPerOption = 0.8; ///< work of an option in a row
constexpr double leastShared = 2e-4; ///< bytes of a shared argument, as a share of the peak
constexpr std::size_t mostShared = 4; ///< shared arguments

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
        return layout.partEvents(*arc.replay, moduleOf(arc), arc.first, arc.last, layout.boundaryOf(moduleOf(arc)));
    };
    const PartArcs::SharedOf sharedOf = [&](const PartArcs::Arc& arc) { // not what only the arc's parts share
        return arc.last - arc.first > 1 ? layout.sharedBeyond(arc.first, arc.last) : layout.shared();
    };
    const MayCheckpoint may = [](ModuleId) { return true; };
    RowProblem problem;
    const auto own = std::make_shared<Options>();
    ASSIGN_OR_RETURN(own->parts, PartArcs::create(model, events, tree, sharedOf, may, partEventsOf, stop));
    for (const PartArcs::Arc& arc : own->parts.arcs)
        own->modules.push_back(moduleOf(arc));
    for (const PartArcs::ArcClass& arcClass : own->parts.classes) {
        const std::vector<LocalEffect>& options = arcClass.options.effects;
        std::vector<double>& bytes = own->changes.emplace_back();
        for (std::size_t change = 0; !options.empty() && change < options.front().changes.size(); ++change) {
            for (const LocalEffect& effect : options)
                bytes.push_back(static_cast<double>(effect.changes[change].after));
            for (const LocalEffect& effect : options)
                bytes.push_back(static_cast<double>(effect.changes[change].high));
        }
        std::ranges::transform(options, std::back_inserter(own->steps.emplace_back()), stepsOf);
    }
    problem.positions_ = tree.parts.size();
    problem.atMost_.assign(layout.high().begin(), layout.high().end());
    const StepLayout least(model, events, modules, worldSize, asRecorded);
    problem.atLeast_.assign(least.high().begin(), least.high().end());
    for (const PartArcs::Arc& arc : own->parts.arcs)
        for (const std::uint32_t event : arc.replay->events())
            problem.atLeast_[event] = least.after()[event];
    const std::vector<Bytes> gone = castsThatMayBeGone(model, events);
    std::ranges::transform(gone, problem.atLeast_, problem.atLeast_.begin(),
                           [](Bytes less, Bytes bytes) { return bytes - less; });
    own->shared = sharedIn(model, layout, *own, std::ranges::max(problem.atLeast_));
    problem.options_ = own;
    problem.findStretches();
    return problem;
}

/// Arguments that the same options hold are one.
std::vector<RowProblem::SharedArgument> RowProblem::sharedIn(const StepModel& model, const StepLayout& layout,
                                                             const Options& options, Bytes peak)
{
    std::map<OptionSet, SharedArgument> known;
    const auto stretches = layout.heldBetween();
    for (std::uint32_t storage = 0; storage < stretches.size(); ++storage) {
        if (stretches[storage].empty())
            continue;
        const auto takes = [&](CallId call) {
            const auto& arguments = model.trace()->calls.arguments[call];
            return std::ranges::find(arguments, StorageId(storage)) != arguments.end();
        };
        std::vector<bool> takers; // by module
        for (const std::vector<CallId>& calls : model.index().callsOf)
            takers.push_back(std::ranges::any_of(calls, takes));
        OptionSet holders;
        for (std::size_t arc = 0; arc < options.parts.arcs.size(); ++arc) {
            const auto isHeldBy = [&](const CheckpointRegion& region) {
                return !region.offload && takers[inStep(region.module, options.modules[arc]).value];
            };
            std::vector<bool>& ofArc = holders.emplace_back();
            for (const CheckpointPlan& plan : options.parts.classes[options.parts.arcs[arc].arcClass].options.plans)
                ofArc.push_back(std::ranges::any_of(plan, isHeldBy));
        }
        SharedArgument& own = known[holders];
        own.bytes += stretches[storage].front().bytes;
        own.stretches.insert(own.stretches.end(), stretches[storage].begin(), stretches[storage].end());
        own.holders = std::move(holders);
    }
    std::vector<SharedArgument> found;
    for (auto& [holders, argument] : known)
        if (static_cast<double>(argument.bytes) >= leastShared * static_cast<double>(peak))
            found.push_back(std::move(argument));
    std::ranges::stable_sort(found, std::greater(), &SharedArgument::bytes);
    found.resize(std::min(found.size(), mostShared));
    return found;
}

std::pair<RowProblem, RowProblem> RowProblem::split() const
{
    RowProblem without = *this, with = *this;
    without.isHeld_.push_back(false);
    with.isHeld_.push_back(true);
    for (const auto& [begin, end, bytes] : shared()[isHeld_.size()].stretches)
        for (std::uint32_t event = begin; event < end; ++event)
            with.atLeast_[event] += bytes;
    with.findHighest();
    return {std::move(without), std::move(with)};
}

bool RowProblem::has(const ArcOption& option) const
{
    for (std::size_t argument = 0; argument < isHeld_.size(); ++argument)
        if (!isHeld_[argument] && isHolder(option, argument))
            return false;
    return true;
}

void RowProblem::findStretches()
{
    std::vector<bool> begins(atLeast_.size() + 1, false);
    begins.front() = begins.back() = true;
    for (const PartArcs::Arc& arc : arcs()) {
        const LocalReplay& replay = *arc.replay;
        for (const std::vector<Step>& steps : options_->steps[arc.arcClass])
            for (const Step& step : steps)
                for (std::size_t i = step.number; i < replay.events().size(); i += replay.changes()) {
                    const std::uint32_t event = replay.events()[i];
                    begins[event] = begins[event + std::size_t{1}] = true;
                }
    }
    for (const SharedArgument& argument : shared())
        for (const PartDeviations::Stretch& stretch : argument.stretches)
            begins[stretch.begin] = begins[stretch.end] = true;
    for (std::uint32_t event = 0; event < begins.size(); ++event) {
        if (begins[event])
            beginOf_.push_back(event);
        stretchOf_.push_back(static_cast<std::uint32_t>(beginOf_.size() - 1));
    }
    findHighest();
}

void RowProblem::findHighest()
{
    highestAtLeast_.clear();
    highestAtMost_.clear();
    for (std::size_t stretch = 0; stretch + 1 < beginOf_.size(); ++stretch) {
        const auto highestOf = [&](const std::vector<Bytes>& bytes) {
            return *std::max_element(bytes.begin() + beginOf_[stretch], bytes.begin() + beginOf_[stretch + 1]);
        };
        highestAtLeast_.push_back(highestOf(atLeast_));
        highestAtMost_.push_back(highestOf(atMost_));
    }
}

std::vector<RowProblem::Step> RowProblem::stepsOf(const LocalEffect& effect)
{
    std::vector<Step> steps;
    for (std::size_t number = 0; number < effect.changes.size(); ++number) {
        const auto [high, after] = effect.changes[number];
        if (number == 0 || high != steps.back().after || after != steps.back().after)
            steps.push_back({number, high, after});
    }
    return steps;
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
    return std::span(options_->changes[arcs()[arc].arcClass]).subspan(number * optionCount(arc), optionCount(arc));
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
        std::ranges::move(inStep(optionsOf(option.arc).plans[option.option], moduleOf(option.arc)),
                          std::back_inserter(plan));
    std::ranges::sort(plan, {}, &CheckpointRegion::module);
    return plan;
}

namespace {

constexpr std::size_t blockStretches = 32;
constexpr double nsPerStep = 9; ///< work of a step of a replaced option
constexpr auto noStep = std::numeric_limits<std::size_t>::max();

} // namespace

PlanMemory::PlanMemory(const RowProblem& problem, RowProblem::Memory memory, const OptionShares& plan)
    : problem_(&problem)
    , memory_(memory)
    , holders_(problem.shared().size(), 0)
    , bytes_(problem.highest(memory))
    , added_((bytes_.size() + blockStretches - 1) / blockStretches, 0)
    , highest_(added_.size(), std::numeric_limits<Bytes>::min())
{
    for (std::size_t block = 0; block < highest_.size(); ++block)
        findHighest(block);
    for (std::size_t argument = 0; argument < holders_.size(); ++argument)
        countsShared_.push_back(problem.countsShared(argument, memory));
    replace({}, plan);
}

PlanMemory::Steps PlanMemory::stepsOf(const ArcOption& option) const
{
    return problem_->options_->steps[problem_->arcs()[option.arc].arcClass][option.option];
}

void PlanMemory::replace(const OptionShares& options, const OptionShares& by)
{
    for (const auto& [option, share] : options) {
        change(option.arc, stepsOf(option), {});
        countHolder(option, -1);
    }
    for (const auto& [option, share] : by) {
        change(option.arc, {}, stepsOf(option));
        countHolder(option, 1);
    }
    countShared();
    findChanged();
}

void PlanMemory::replace(const ArcOption& option, std::size_t by)
{
    change(option.arc, stepsOf(option), stepsOf({option.arc, by}));
    countHolder(option, -1);
    countHolder({option.arc, by}, 1);
    countShared();
    findChanged();
}

void PlanMemory::countHolder(const ArcOption& option, int more)
{
    for (std::size_t argument = 0; argument < holders_.size(); ++argument)
        if (problem_->isHolder(option, argument))
            holders_[argument] += more;
}

void PlanMemory::countShared()
{
    const std::vector<std::uint32_t>& stretchOf = problem_->stretchOf_;
    for (std::size_t argument = 0; argument < holders_.size(); ++argument) {
        const bool isHeld = holders_[argument] > 0;
        if (countsShared_[argument] == isHeld)
            continue;
        countsShared_[argument] = isHeld;
        for (const auto& [begin, end, bytes] : problem_->shared()[argument].stretches)
            add(stretchOf[begin], stretchOf[end], isHeld ? bytes : -bytes);
    }
}

void PlanMemory::change(std::size_t arc, Steps from, Steps to)
{
    const LocalReplay& replay = *problem_->arcs()[arc].replay;
    const std::span<const std::uint32_t> events = replay.events();
    const std::vector<std::uint32_t>& stretchOf = problem_->stretchOf_;
    for (std::size_t call = 0; call < events.size(); call += replay.changes()) {
        SearchLimit::count(static_cast<double>(from.size() + to.size()), nsPerStep);
        RowProblem::Step less, more;
        for (auto nextLess = from.begin(), nextMore = to.begin(); nextLess != from.end() || nextMore != to.end();) {
            const auto number = [](auto next, Steps steps) { return next == steps.end() ? noStep : next->number; };
            const std::size_t now = std::min(number(nextLess, from), number(nextMore, to));
            const auto reach = [&](RowProblem::Step& step, auto& next, Steps steps) {
                step.high = step.after;
                if (number(next, steps) == now)
                    step = *next++;
            };
            reach(less, nextLess, from);
            reach(more, nextMore, to);
            if (more.high == less.high && more.after == less.after)
                continue;
            const std::size_t stretch = stretchOf[events[call + now]]; // of this event alone
            const std::size_t next = call + std::min({number(nextLess, from), number(nextMore, to), replay.changes()});
            add(stretch, stretch + 1, more.high - less.high);
            add(stretch + 1, next < events.size() ? stretchOf[events[next]] : bytes_.size(), more.after - less.after);
        }
    }
}

void PlanMemory::findChanged()
{
    for (const std::size_t block : changed_)
        findHighest(block);
    changed_.clear();
}

void PlanMemory::add(std::size_t begin, std::size_t end, Bytes bytes)
{
    while (begin < end && bytes != 0) {
        const std::size_t block = begin / blockStretches;
        const std::size_t stop = std::min(end, (block + 1) * blockStretches);
        if (stop - begin == blockStretches) {
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
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(block * blockStretches);
    const auto end
        = bytes_.begin() + static_cast<std::ptrdiff_t>(std::min(bytes_.size(), (block + 1) * blockStretches));
    highest_[block] = *std::max_element(begin, end) + added_[block];
}

Bytes PlanMemory::bytesOf(std::size_t stretch) const
{
    return bytes_[stretch] + added_[stretch / blockStretches];
}

Bytes PlanMemory::highest() const
{
    return std::ranges::max(highest_);
}

Bytes PlanMemory::sumAbove(Bytes budget) const
{
    Bytes sum = 0;
    for (const Bytes highest : highest_)
        sum += std::max<Bytes>(0, highest - budget);
    return sum;
}

Bytes PlanMemory::highestIn(std::size_t begin, std::size_t end) const
{
    const std::vector<std::uint32_t>& beginOf = problem_->beginOf_;
    const std::vector<Bytes>& base = problem_->base(memory_);
    Bytes highest = std::numeric_limits<Bytes>::min();
    for (std::size_t stretch = problem_->stretchOf_[begin]; begin < end;) {
        const std::size_t stop = std::min<std::size_t>(end, beginOf[stretch + 1]);
        const std::size_t block = stretch / blockStretches;
        if (const std::size_t next = (block + 1) * blockStretches; stretch % blockStretches == 0
            && next < beginOf.size() && begin == beginOf[stretch] && beginOf[next] <= end) {
            highest = std::max(highest, highest_[block]);
            stretch = next;
            begin = beginOf[next];
            continue;
        }
        if (begin == beginOf[stretch] && stop == beginOf[stretch + 1]) {
            highest = std::max(highest, bytesOf(stretch));
        } else { // a part of the stretch
            const Bytes plan = bytesOf(stretch) - problem_->highest(memory_)[stretch];
            for (std::size_t event = begin; event < stop; ++event)
                highest = std::max(highest, base[event] + plan);
        }
        begin = stop;
        ++stretch;
    }
    return highest;
}

std::uint32_t PlanMemory::highestEvent() const
{
    const auto block = static_cast<std::size_t>(std::ranges::max_element(highest_) - highest_.begin());
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(block * blockStretches);
    const auto last
        = bytes_.begin() + static_cast<std::ptrdiff_t>(std::min(bytes_.size(), (block + 1) * blockStretches));
    const auto stretch = static_cast<std::size_t>(std::max_element(first, last) - bytes_.begin());
    const std::vector<Bytes>& base = problem_->base(memory_);
    const auto begin = base.begin() + problem_->beginOf_[stretch], end = base.begin() + problem_->beginOf_[stretch + 1];
    return static_cast<std::uint32_t>(std::max_element(begin, end) - base.begin());
}

} // namespace headroom
