// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/option_table.h"

#include "core/base/try.h"
#include "core/policy/part_arcs.h"
#include "core/policy/part_tree.h"
#include "core/policy/policy_maker.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace headroom {

class OptionTable::Builder
{
public:
    Builder(const StepModel& model, const StorageEvents& events, const PartTree& tree, int worldSize,
            StepLayout::SharedArguments sharedArguments, const std::stop_token& stop,
            std::optional<std::uint32_t> boundary)
        : model_(model)
        , events_(events)
        , tree_(tree)
        , layout_(model, events, modulesOf(tree), worldSize, sharedArguments, boundary)
        , sharedArguments_(sharedArguments)
        , worldSize_(worldSize)
        , stop_(stop)
        , boundary_(boundary)
    {
    }

    Result<OptionTable> build()
    {
        table_.sharesArguments_ = std::ranges::find(layout_.shared(), true) != layout_.shared().end();
        RETURN_IF_ERROR(measure());
        table_.problem_.positions = static_cast<int>(tree_.parts.size());
        table_.problem_.constant = std::max<Bytes>(layout_.before(), 0);
        table_.problem_.atBoundary = layout_.atBoundary();
        table_.problem_.classes.assign(tree_.parts.size(), -1);
        table_.relaxed_ = table_.problem_;
        table_.problem_.arcs.resize(arcs_.size());
        table_.relaxed_.arcs.resize(arcs_.size());
        more_.resize(arcs_.size());
        less_.resize(arcs_.size());
        table_.plans_.resize(arcs_.size());
        table_.modules_.resize(arcs_.size());
        for (std::size_t arcClass = 0; arcClass < classes_.size(); ++arcClass)
            fill(arcClass);
        countDeviations();
        dropBeaten();
        return std::move(table_);
    }

private:
    /// Least and most of all options of equal arcs, change by change.
    struct Range
    {
        LocalEffect least, most;
    };

    static std::vector<ModuleId> modulesOf(const PartTree& tree)
    {
        std::vector<ModuleId> modules;
        for (const int part : tree.parts)
            modules.push_back(tree.units[static_cast<std::size_t>(part)].module);
        return modules;
    }

    using Arc = PartArcs::Arc;
    ModuleId moduleOf(const Arc& arc) const { return tree_.units[static_cast<std::size_t>(arc.unit)].module; }

    Status measure()
    {
        const MayCheckpoint may = [this](ModuleId module) {
            return sharedArguments_ == StepLayout::SharedArguments::held || !layout_.hasShared(module);
        };
        const PartArcs::PartEventsOf partEventsOf = [this](const Arc& arc) { return partEventsIn(layout_, arc); };
        const PartArcs::SharedOf sharedOf = [this](const PartArcs::Arc&) { return layout_.shared(); };
        ASSIGN_OR_RETURN(PartArcs found, PartArcs::create(model_, events_, tree_, sharedOf, may, partEventsOf, stop_));
        arcs_ = std::move(found.arcs);
        classes_ = std::move(found.classes);
        for (const PartArcs::ArcClass& arcClass : classes_)
            ranges_.push_back(rangeOf(arcClass.options.effects));
        for (const Arc& arc : arcs_)
            partEvents_.push_back(partEventsIn(layout_, arc));
        return {};
    }

    StepLayout::PartEvents partEventsIn(const StepLayout& layout, const Arc& arc) const
    {
        return layout.partEvents(*arc.replay, moduleOf(arc), arc.first, arc.last);
    }

    static Range rangeOf(const std::vector<LocalEffect>& effects)
    {
        if (effects.empty())
            return {};
        Range range{effects.front(), effects.front()};
        for (const LocalEffect& effect : effects)
            for (std::size_t i = 0; i < effect.changes.size(); ++i) {
                const auto& [high, after] = effect.changes[i];
                LocalEffect::Change& least = range.least.changes[i];
                LocalEffect::Change& most = range.most.changes[i];
                least = {std::min(least.high, high), std::min(least.after, after)};
                most = {std::max(most.high, high), std::max(most.after, after)};
            }
        return range;
    }

    StepLayout::PartEvents narrowed(const StepLayout::PartEvents& partEvents, std::size_t arcClass) const
    {
        return classes_[arcClass].options.effects.empty()
            ? partEvents
            : partEvents.between(ranges_[arcClass].least, ranges_[arcClass].most);
    }

    void fill(std::size_t arcClass)
    {
        const PartOptions& options = classes_[arcClass].options;
        const auto plans = std::make_shared<const std::vector<CheckpointPlan>>(options.plans);
        const std::size_t first = classes_[arcClass].arcs.front();
        for (const std::size_t index : classes_[arcClass].arcs) {
            const Arc& arc = arcs_[index];
            ChainArc& pessimistic = table_.problem_.arcs[index] = {arc.first, arc.last, {}};
            const StepLayout::PartEvents partEvents = narrowed(partEvents_[index], arcClass);
            for (const LocalEffect& effect : options.effects) {
                const PartMemory memory = partEvents.of(effect);
                pessimistic.options.push_back({memory.held, memory.high, picoseconds(effect.recomputeMs)});
            }
            table_.relaxed_.arcs[index] = pessimistic;
            table_.plans_[index] = plans;
            table_.modules_[index] = moduleOf(arc);
            if (arc.last - arc.first == 1 && sameSums(pessimistic.options, table_.problem_.arcs[first].options))
                table_.problem_.classes[static_cast<std::size_t>(arc.first)]
                    = table_.relaxed_.classes[static_cast<std::size_t>(arc.first)] = static_cast<int>(arcClass);
            PartDeviations deviations = partEvents_[index].deviations(options.effects);
            more_[index] = std::move(deviations.more);
            less_[index] = std::move(deviations.less);
        }
    }

    /// By event: the largest deviation of all parts together.
    std::vector<Bytes> sum(const std::vector<std::vector<PartDeviations::Stretch>>& deviations) const
    {
        std::vector<Bytes> all(model_.trace()->events.size() + 1, 0); // changes, summed up at the end
        std::vector<PartDeviations::Stretch> own; // of all arcs that begin at a position; a path takes one of the arcs
        for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
            own.insert(own.end(), deviations[arc].begin(), deviations[arc].end());
            if (arc + 1 < arcs_.size() && arcs_[arc + 1].first == arcs_[arc].first)
                continue;
            addHighest(own, all);
            own.clear();
        }
        std::partial_sum(all.begin(), all.end(), all.begin());
        all.pop_back();
        return all;
    }

    /// Adds the largest of overlapping deviations to `changes`.
    static void addHighest(std::vector<PartDeviations::Stretch>& deviations, std::vector<Bytes>& changes)
    {
        Bytes level = 0;
        const auto setLevel = [&](std::uint32_t event, Bytes bytes) {
            changes[event] += bytes - level;
            level = bytes;
        };
        std::priority_queue<std::pair<Bytes, std::uint32_t>> open; // bytes and end
        const auto closeUntil = [&](std::uint32_t event) {
            while (!open.empty() && open.top().second <= event) {
                const std::uint32_t end = open.top().second;
                while (!open.empty() && open.top().second <= end)
                    open.pop();
                setLevel(end, open.empty() ? 0 : open.top().first);
            }
        };
        std::ranges::sort(deviations, {}, &PartDeviations::Stretch::begin);
        for (const PartDeviations::Stretch& deviation : deviations) {
            closeUntil(deviation.begin);
            open.emplace(deviation.bytes, deviation.end);
            if (deviation.bytes > level)
                setLevel(deviation.begin, deviation.bytes);
        }
        closeUntil(std::numeric_limits<std::uint32_t>::max());
    }

    /// The memory of each option in another layout of the same step.
    void measureAgain(const StepLayout& layout, ChainProblem& problem) const
    {
        for (std::size_t number = 0; number < arcs_.size(); ++number) {
            const std::size_t arcClass = arcs_[number].arcClass;
            const StepLayout::PartEvents partEvents = narrowed(partEventsIn(layout, arcs_[number]), arcClass);
            auto& options = problem.arcs[number].options;
            for (std::size_t o = 0; o < options.size(); ++o) {
                const PartMemory memory = partEvents.of(classes_[arcClass].options.effects[o]);
                options[o] = {memory.held, memory.high, options[o].time};
            }
        }
    }

    /// Adds the deviations of other parts to the memory of the part that runs meanwhile.
    void countDeviations()
    {
        const auto any = [](const auto& deviations) { return !deviations.empty(); };
        casts_ = castsThatMayBeGone(model_, events_);
        if (std::ranges::any_of(more_, any)) {
            const std::vector<Bytes> more = sum(more_);
            measureAgain(layout_.raised(more), table_.problem_);
            if (const std::uint32_t boundary = layout_.boundaryWith(more); boundary != layout_.boundary())
                table_.otherBoundary_ = boundary;
        }
        if (sharesThatEnd() || !casts_.empty() || std::ranges::any_of(less_, any))
            relax(layout_, less_, table_.relaxed_);
        table_.exact_ = sameMemory(table_.problem_, table_.relaxed_);
        if (boundary_ || table_.otherBoundary_)
            relaxElsewhere();
    }

    /// Whether checkpointed parts hold arguments that several parts share.
    bool sharesThatEnd() const
    {
        return sharedArguments_ == StepLayout::SharedArguments::held && table_.sharesArguments_;
    }

    /// Sets the lower bound of the memory. `less`, by arc: events at which parts hold less than PartMemory says.
    void relax(const StepLayout& layout, const std::vector<std::vector<PartDeviations::Stretch>>& less,
               ChainProblem& problem) const
    {
        const StepLayout least = sharesThatEnd()
            ? StepLayout(model_, events_, modulesOf(tree_), worldSize_, StepLayout::SharedArguments::heldAtLeast,
                         layout.boundary())
            : layout;
        std::vector<Bytes> changes = sum(less);
        for (std::size_t event = 0; event < changes.size(); ++event)
            changes[event] = -changes[event] - (casts_.empty() ? 0 : casts_[event]);
        problem.atBoundary = least.atBoundary();
        problem.constant = std::max<Bytes>(least.before(), 0);
        measureAgain(least.raised(changes), problem);
    }

    /// Sets the lower bound of the memory by the bytes held at the other boundary.
    void relaxElsewhere()
    {
        const StepLayout other(model_, events_, modulesOf(tree_), worldSize_, sharedArguments_,
                               boundary_ ? std::nullopt : table_.otherBoundary_);
        std::vector<std::vector<PartDeviations::Stretch>> less(arcs_.size());
        for (std::size_t number = 0; number < arcs_.size(); ++number)
            less[number]
                = partEventsIn(other, arcs_[number]).deviations(classes_[arcs_[number].arcClass].options.effects).less;
        relax(other, less, table_.elsewhere_.emplace(table_.relaxed_));
        for (const PartArcs::ArcClass& arcClass :
             classes_) // equal parts at one boundary may differ at the other boundary
            for (const std::size_t number : arcClass.arcs) {
                const auto& arcs = table_.elsewhere_->arcs;
                const ChainArc& arc = arcs[number];
                if (!sameSums(arc.options, arcs[arcClass.arcs.front()].options))
                    table_.elsewhere_->classes[static_cast<std::size_t>(arc.first)] = -1;
            }
    }

    /// Drops options that hold no less and take no less time than another option whose own memory constraint is
    /// redundant. Equal parts keep the same options.
    void dropBeaten()
    {
        const auto unbound = unboundOptions(table_.problem_);
        const auto unboundAtLeast = unboundOptions(table_.relaxed());
        std::map<std::pair<int, std::size_t>, std::vector<bool>> kept; // by class, or by arc without a class
        const auto keptOf = [&](std::size_t arc) -> std::vector<bool>& {
            const ChainArc& own = table_.problem_.arcs[arc];
            const int arcClass
                = own.last - own.first == 1 ? table_.problem_.classes[static_cast<std::size_t>(own.first)] : -1;
            std::vector<bool>& mask = kept[{arcClass, arcClass < 0 ? arc : 0}];
            mask.resize(own.options.size(), false);
            return mask;
        };
        for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
            const std::vector<ChainOption>& options = table_.problem_.arcs[arc].options;
            std::vector<bool>& mask = keptOf(arc);
            std::vector<std::size_t> order(options.size());
            std::iota(order.begin(), order.end(), std::size_t{0});
            std::ranges::sort(order, {},
                              [&](std::size_t o) { return std::tuple(options[o].held, options[o].time, o); });
            Picoseconds least = std::numeric_limits<Picoseconds>::max();
            for (const std::size_t o : order) {
                if (options[o].time >= least)
                    continue;
                mask[o] = true;
                if (unbound[arc][o] && unboundAtLeast[arc][o])
                    least = options[o].time;
            }
        }
        table_.planOf_.resize(arcs_.size());
        for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
            const std::vector<bool>& mask = keptOf(arc);
            for (std::size_t o = 0; o < mask.size(); ++o)
                if (mask[o])
                    table_.planOf_[arc].push_back(static_cast<int>(o));
        }
        std::vector<ChainProblem*> problems{&table_.problem_, &table_.relaxed_};
        if (table_.elsewhere_)
            problems.push_back(&*table_.elsewhere_);
        for (ChainProblem* problem : problems)
            for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
                std::vector<ChainOption> options;
                for (const int o : table_.planOf_[arc])
                    options.push_back(problem->arcs[arc].options[static_cast<std::size_t>(o)]);
                problem->arcs[arc].options = std::move(options);
            }
    }

    static bool sameMemory(const ChainProblem& a, const ChainProblem& b)
    {
        return a.atBoundary == b.atBoundary && a.constant == b.constant
            && std::ranges::equal(a.arcs, b.arcs, [](const ChainArc& x, const ChainArc& y) {
                   return std::ranges::equal(x.options, y.options, {}, &ChainOption::high, &ChainOption::high);
               });
    }

    static bool sameSums(const std::vector<ChainOption>& options, const std::vector<ChainOption>& first)
    {
        return std::ranges::equal(options, first, [](const ChainOption& a, const ChainOption& b) {
            return a.held == b.held && a.time == b.time;
        });
    }

    const StepModel& model_;
    const StorageEvents& events_;
    const PartTree& tree_;
    StepLayout layout_;
    StepLayout::SharedArguments sharedArguments_;
    int worldSize_;
    const std::stop_token& stop_;
    std::optional<std::uint32_t> boundary_; ///< as requested
    std::vector<Arc> arcs_;
    std::vector<PartArcs::ArcClass> classes_;
    std::vector<Range> ranges_; ///< by class of arcs
    std::vector<StepLayout::PartEvents> partEvents_; ///< by arc
    std::vector<std::vector<PartDeviations::Stretch>> more_, less_; ///< by arc
    std::vector<Bytes> casts_; ///< castsThatMayBeGone()
    OptionTable table_;
};

Result<OptionTable> OptionTable::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                        int worldSize, StepLayout::SharedArguments sharedArguments,
                                        const std::stop_token& stop, std::optional<std::uint32_t> boundary)
{
    return Builder(model, events, tree, worldSize, sharedArguments, stop, boundary).build();
}

CheckpointPlan OptionTable::planOf(const ChainPath& path) const
{
    CheckpointPlan regions;
    for (const ChainStep& step : path) {
        const auto arc = static_cast<std::size_t>(step.arc);
        const int plan = planOf_[arc][static_cast<std::size_t>(step.option)];
        std::ranges::move(inStep((*plans_[arc])[static_cast<std::size_t>(plan)], modules_[arc]),
                          std::back_inserter(regions));
    }
    std::ranges::sort(regions, {}, &CheckpointRegion::module);
    return regions;
}

} // namespace headroom
