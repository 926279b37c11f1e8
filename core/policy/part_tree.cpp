// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/part_tree.h"

#include "core/policy/policy_maker.h"

#include <algorithm>
#include <set>

namespace headroom {

namespace {

constexpr double goodShare = 0.1; ///< least share of the step's activations in a module around parts

/// Finds parts from the outermost units on.
class PartFinder
{
public:
    PartFinder(const StepModel& model, PartTree& tree)
        : model_(model)
        , tree_(tree)
        , saved_(tree.units.size(), 0)
        , isAround_(tree.units.size(), false)
    {
        for (std::size_t unit = 0; unit < tree.units.size(); ++unit) {
            saved_[unit] = savedBy(tree.units[unit].module);
            most_ = std::max(most_, saved_[unit]);
        }
        // Units inside a unit come before the outer unit.
        for (std::size_t unit = 0; unit < tree.units.size(); ++unit)
            isAround_[unit] = isAround(tree.units[unit], saved_[unit]);
    }

    void find(const std::vector<int>& outermost)
    {
        for (const int unit : outermost)
            collect(unit);
        std::ranges::sort(tree_.parts, {}, [this](int unit) { return firstEnter(unit); });
        for (const int unit : aroundUnits_)
            addAround(unit);
    }

private:
    const PartTree::Unit& unit(int number) const { return tree_.units[static_cast<std::size_t>(number)]; }

    Bytes savedBy(ModuleId module) const
    {
        const StepTrace& trace = *model_.trace();
        Bytes bytes = 0;
        for (const CallId id : model_.index().callsOf[module.value]) {
            const StepIndex::Call& call = model_.index().calls[id.value];
            for (std::uint32_t pack = call.firstPack; pack < call.endPack; ++pack)
                if (const StorageId storage = trace.packs.storage[PackId(pack)]; storage.valid())
                    bytes += trace.storages.bytes[storage];
        }
        return bytes;
    }

    bool isAround(const PartTree::Unit& unit, Bytes saved) const
    {
        std::set<StringId> types;
        bool repeats = false;
        for (const int inside : unit.inside) {
            if (isAround_[static_cast<std::size_t>(inside)])
                return true;
            if (saved_[static_cast<std::size_t>(inside)] > 0)
                repeats = !types.insert(model_.trace()->modules.type[this->unit(inside).module]).second || repeats;
        }
        return repeats && static_cast<double>(saved) >= goodShare * static_cast<double>(most_);
    }

    void collect(int number)
    {
        if (saved_[static_cast<std::size_t>(number)] == 0)
            return;
        if (!isAround_[static_cast<std::size_t>(number)]) {
            tree_.parts.push_back(number);
            return;
        }
        for (const int inside : unit(number).inside)
            collect(inside);
        aroundUnits_.push_back(number);
    }

    std::uint32_t firstEnter(int number) const
    {
        const StepIndex& index = model_.index();
        return index.calls[index.callsOf[unit(number).module.value].front().value].enter;
    }

    void addAround(int number)
    {
        std::set<int> within;
        const auto visit = [&](auto&& self, int inner) -> void {
            within.insert(inner);
            for (const int inside : unit(inner).inside)
                self(self, inside);
        };
        visit(visit, number);
        int first = -1;
        int last = -1;
        int count = 0;
        for (std::size_t part = 0; part < tree_.parts.size(); ++part) {
            if (!within.contains(tree_.parts[part]))
                continue;
            first = first < 0 ? static_cast<int>(part) : first;
            last = static_cast<int>(part) + 1;
            ++count;
        }
        if (count > 0 && last - first == count)
            tree_.around.push_back({number, first, last});
    }

    const StepModel& model_;
    PartTree& tree_;
    std::vector<Bytes> saved_; ///< by unit
    std::vector<bool> isAround_; ///< by unit
    Bytes most_ = 0;
    std::vector<int> aroundUnits_;
};

} // namespace

PartTree PartTree::create(const StepModel& model, const PlanModules& modules, std::span<const PlanUnit> units)
{
    PartTree tree;
    const ModuleNames names = moduleNames(*model.trace());
    std::vector<int> outermost;
    for (const PlanUnit& unit : units) {
        const ModuleStats& stats = modules.info->stats[static_cast<std::size_t>(unit.module)];
        if (unit.parent < 0)
            outermost.push_back(static_cast<int>(tree.units.size()));
        tree.units.push_back({names.at(stats.fqn), unit.forced, unit.offloaded, unit.children});
    }
    PartFinder(model, tree).find(outermost);
    return tree;
}

} // namespace headroom
