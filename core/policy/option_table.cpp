// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/option_table.h"

#include "core/policy/part_options.h"

#include <algorithm>
#include <numeric>

namespace headroom {

namespace {

constexpr int mostPartsAround = 8; ///< wider modules recompute too much at once to be worth a look

bool beats(const ChainOption& a, const ChainOption& b)
{
    return a.held <= b.held && a.high <= b.high && a.time <= b.time;
}

} // namespace

/// Equal parts of the step: one of them was measured.
struct EqualParts
{
    PartOptions options;
    std::vector<int> arcs; ///< indices in `arcs` of the builder
};

class OptionTable::Builder
{
public:
    Builder(const StepModel& model, const StorageEvents& events, const PartTree& tree, int worldSize)
        : model_(model)
        , events_(events)
        , tree_(tree)
        , layout_(model, events, modulesOf(tree), worldSize)
    {
    }

    Result<OptionTable> build()
    {
        addArcs();
        for (std::size_t arc = 0; arc < arcs_.size(); ++arc)
            if (const Status measured = measure(static_cast<int>(arc)); !measured)
                return measured.error();
        table_.problem_.positions = static_cast<int>(tree_.parts.size());
        table_.problem_.constant = std::max<Bytes>(layout_.before(), 0);
        table_.problem_.atLoss = layout_.atLoss();
        table_.problem_.classes.assign(tree_.parts.size(), -1);
        table_.relaxed_ = table_.problem_;
        table_.problem_.arcs.resize(arcs_.size());
        table_.relaxed_.arcs.resize(arcs_.size());
        table_.plans_.resize(arcs_.size());
        table_.modules_.resize(arcs_.size());
        for (std::size_t number = 0; number < equal_.size(); ++number)
            fill(equal_[number], static_cast<int>(number));
        return std::move(table_);
    }

private:
    struct Arc
    {
        int unit = 0;
        int first = 0, last = 0;
        std::shared_ptr<const LocalReplay> replay;
        StepLayout::Place place;
        bool hidden = false; ///< a module around it must be checkpointed as a whole
    };

    static std::vector<ModuleId> modulesOf(const PartTree& tree)
    {
        std::vector<ModuleId> modules;
        for (const int part : tree.parts)
            modules.push_back(tree.units[static_cast<std::size_t>(part)].module);
        return modules;
    }

    ModuleId moduleOf(const Arc& arc) const { return tree_.units[static_cast<std::size_t>(arc.unit)].module; }

    void addArcs()
    {
        for (std::size_t part = 0; part < tree_.parts.size(); ++part)
            arcs_.push_back({tree_.parts[part], static_cast<int>(part), static_cast<int>(part) + 1, {}, {}, false});
        for (const PartTree::Around& around : tree_.around) {
            const bool forced = tree_.units[static_cast<std::size_t>(around.unit)].forced;
            if (!forced && around.last - around.first > mostPartsAround)
                continue;
            arcs_.push_back({around.unit, around.first, around.last, {}, {}, false});
            for (int part = around.first; forced && part < around.last; ++part)
                arcs_[static_cast<std::size_t>(part)].hidden = true;
        }
        std::ranges::stable_sort(arcs_, [](const Arc& a, const Arc& b) {
            return a.first != b.first ? a.first < b.first : a.last - a.first < b.last - b.first;
        });
    }

    /// Finds the arc's equals, or measures it as the first of its kind.
    Status measure(int number)
    {
        Arc& arc = arcs_[static_cast<std::size_t>(number)];
        arc.replay = std::make_shared<const LocalReplay>(model_, events_, moduleOf(arc), layout_.shared());
        arc.place = layout_.place(*arc.replay, moduleOf(arc), arc.first, arc.last);
        std::vector<std::uint64_t> key = arc.replay->signature();
        const auto sign = [&](auto&& self, int unit) -> void {
            const PartTree::Unit& inner = tree_.units[static_cast<std::size_t>(unit)];
            key.push_back(inner.module.value - moduleOf(arc).value);
            key.push_back((inner.forced ? 1 : 0) + (arc.hidden ? 2 : 0) + (arc.last - arc.first > 1 ? 4 : 0));
            for (const int inside : inner.inside)
                self(self, inside);
        };
        sign(sign, arc.unit);
        const auto [found, added] = numberOf_.emplace(std::move(key), static_cast<int>(equal_.size()));
        if (added) {
            Result<PartOptions> options = arc.hidden ? PartOptions()
                : arc.last - arc.first > 1           ? optionsOfWhole(model_, tree_, arc.unit, *arc.replay, arc.place)
                                                     : optionsOfPart(model_, tree_, arc.unit, *arc.replay, arc.place);
            if (!options)
                return options.error();
            equal_.push_back({*std::move(options), {}});
        }
        equal_[static_cast<std::size_t>(found->second)].arcs.push_back(number);
        return {};
    }

    /// Leaves out what is beaten at every place of its kind.
    void fill(const EqualParts& equal, int number)
    {
        const std::size_t count = equal.options.plans.size();
        std::vector<std::vector<ChainOption>> options; // by place
        std::vector<std::vector<Bytes>> least;
        for (const int arc : equal.arcs) {
            options.emplace_back();
            least.emplace_back();
            for (std::size_t o = 0; o < count; ++o) {
                const LocalEffect& effect = equal.options.effects[o];
                const PartMemory memory = arcs_[static_cast<std::size_t>(arc)].place.of(effect);
                options.back().push_back({memory.held, memory.high, picoseconds(effect.recomputeMs)});
                least.back().push_back(memory.heldLeast);
                table_.exact_ = table_.exact_ && memory.held == memory.heldLeast && memory.leak <= 0;
            }
        }
        const auto beaten = [&](std::size_t o) {
            for (std::size_t other = 0; other < count; ++other) {
                const auto everywhere = [&](const std::vector<ChainOption>& place) {
                    const bool same = beats(place[o], place[other]);
                    return beats(place[other], place[o]) && (!same || other < o);
                };
                if (other != o && std::ranges::all_of(options, everywhere))
                    return true;
            }
            return false;
        };
        std::vector<std::size_t> kept;
        for (std::size_t o = 0; o < count; ++o)
            if (!beaten(o))
                kept.push_back(o);
        std::ranges::stable_sort(kept, {}, [&](std::size_t o) { return options.front()[o].held; });

        auto plans = std::make_shared<std::vector<CheckpointPlan>>();
        for (const std::size_t o : kept)
            plans->push_back(equal.options.plans[o]);
        for (std::size_t place = 0; place < equal.arcs.size(); ++place) {
            const auto index = static_cast<std::size_t>(equal.arcs[place]);
            const Arc& arc = arcs_[index];
            ChainArc& pessimistic = table_.problem_.arcs[index] = {arc.first, arc.last, {}};
            ChainArc& optimistic = table_.relaxed_.arcs[index] = {arc.first, arc.last, {}};
            for (const std::size_t o : kept) {
                pessimistic.options.push_back(options[place][o]);
                optimistic.options.push_back(options[place][o]);
                optimistic.options.back().held = least[place][o];
            }
            table_.plans_[index] = plans;
            table_.modules_[index] = moduleOf(arc);
            if (arc.last - arc.first == 1
                && sameAsFirst(pessimistic.options,
                               table_.problem_.arcs[static_cast<std::size_t>(equal.arcs.front())].options))
                table_.problem_.classes[static_cast<std::size_t>(arc.first)]
                    = table_.relaxed_.classes[static_cast<std::size_t>(arc.first)] = number;
        }
    }

    static bool sameAsFirst(const std::vector<ChainOption>& options, const std::vector<ChainOption>& first)
    {
        return std::ranges::equal(options, first, [](const ChainOption& a, const ChainOption& b) {
            return a.held == b.held && a.time == b.time;
        });
    }

    const StepModel& model_;
    const StorageEvents& events_;
    const PartTree& tree_;
    StepLayout layout_;
    std::vector<Arc> arcs_;
    std::map<std::vector<std::uint64_t>, int> numberOf_; ///< by signature: index in equal_
    std::vector<EqualParts> equal_;
    OptionTable table_;
};

Result<OptionTable> OptionTable::create(const StepModel& model, const StorageEvents& events, const PartTree& tree,
                                        int worldSize)
{
    return Builder(model, events, tree, worldSize).build();
}

CheckpointPlan OptionTable::planOf(const ChainPath& path) const
{
    CheckpointPlan plan;
    for (const ChainStep& step : path) {
        const auto arc = static_cast<std::size_t>(step.arc);
        for (CheckpointRegion region : (*plans_[arc])[static_cast<std::size_t>(step.option)]) {
            region.module = ModuleId(region.module.value + modules_[arc].value);
            plan.push_back(std::move(region));
        }
    }
    std::ranges::sort(plan, {}, &CheckpointRegion::module);
    return plan;
}

} // namespace headroom
