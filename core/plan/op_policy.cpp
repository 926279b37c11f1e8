// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/op_policy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace headroom {

namespace {

/// Ops that are saved together or not at all.
struct Item
{
    std::vector<int> ops;
    Bytes memory = 0;
    double ms = 0;
    bool saved = false; ///< the ops must be saved
    bool recomputed = false; ///< the ops must be recomputed
};

/// Joins the random ops to a single item, and in-place ops with the parents.
std::vector<Item> findItems(const SacStats& stats)
{
    std::vector<int> leader(stats.funcNames.size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](int op) {
        while (leader[static_cast<std::size_t>(op)] != op)
            op = leader[static_cast<std::size_t>(op)];
        return op;
    };
    const auto join = [&](int a, int b) {
        const auto [low, high] = std::minmax({find(a), find(b)});
        leader[static_cast<std::size_t>(high)] = low;
    };
    for (const auto& [op, parent] : stats.inplaceOps)
        join(op, parent);
    if (!stats.forceStoreRandom)
        for (std::size_t i = 1; i < stats.randOps.size(); ++i)
            join(stats.randOps[i - 1], stats.randOps[i]);

    std::vector<Item> items;
    std::vector<std::size_t> itemOf(leader.size());
    for (std::size_t op = 0; op < leader.size(); ++op) {
        const auto head = static_cast<std::size_t>(find(static_cast<int>(op)));
        if (head == op) {
            itemOf[op] = items.size();
            items.emplace_back();
        }
        itemOf[op] = itemOf[head];
        Item& item = items[itemOf[op]];
        item.ops.push_back(static_cast<int>(op));
        item.memory += stats.memory[op];
        item.ms += stats.runtimes[op];
    }
    for (const int op : stats.viewLikeOps)
        items[itemOf[static_cast<std::size_t>(op)]].recomputed = true;
    for (const auto& [op, parent] : stats.inplaceOps)
        if (op == parent)
            items[itemOf[static_cast<std::size_t>(op)]].saved = true;
    if (stats.forceStoreRandom)
        for (const int op : stats.randOps)
            items[itemOf[static_cast<std::size_t>(op)]].saved = true;
    return items;
}

/// Items of equal memory and time: only the number of saved items matters. Large modules have hundreds of items of each
/// group.
struct ItemGroup
{
    Bytes memory = 0;
    double ms = 0;
    std::vector<std::size_t> items;
};

/// The groups of items to decide on, by descending time per byte.
std::vector<ItemGroup> findGroups(const std::vector<Item>& items, Bytes room)
{
    std::map<std::pair<Bytes, double>, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (!items[i].saved && !items[i].recomputed && items[i].ms > 0 && items[i].memory <= room)
            groups[{items[i].memory, items[i].ms}].push_back(i);
    std::vector<ItemGroup> found;
    for (auto& [key, members] : groups)
        found.push_back({key.first, key.second, std::move(members)});
    std::ranges::stable_sort(found, [](const ItemGroup& a, const ItemGroup& b) {
        return a.ms * static_cast<double>(b.memory) > b.ms * static_cast<double>(a.memory);
    });
    return found;
}

/// Finds how many items of each group to save, for the most time saved within `room` bytes, exact in whole bytes.
///
/// Groups are decided singly, in the order of findGroups(). A label is the memory and time of a choice so far. A label
/// is dropped if another label dominates, or if the label's bound (the other groups taken in fractions) is not above
/// the best choice so far. If more than `mostLabels` are left (only with hundreds of sizes that have no common
/// divisor), labels must be better by a share. This share becomes the gap.
class Knapsack
{
public:
    Knapsack(const std::vector<ItemGroup>& groups, Bytes room)
        : groups_(groups)
        , room_(room)
        , best_(groups.size())
    {
    }

    void solve();

    const std::vector<std::size_t>& counts() const { return best_; } ///< how many of each group to save
    double gap() const { return gap_; } ///< no other choice saves more than (1 + gap) times as much time

private:
    static constexpr std::size_t mostLabels = 20000;

    struct Label
    {
        Bytes memory = 0;
        double ms = 0;
        double bound = 0; ///< upper bound of the time of every choice that begins like this
        std::uint32_t before = 0; ///< index of the label of the group before
        std::uint32_t count = 0; ///< number of items of this group
    };
    struct Completion
    {
        double ms = 0; ///< time of the other groups, each taken as often as possible
        double bound = 0; ///< the same, but the first group that does not fit completely taken in part
    };
    std::size_t fitting(std::size_t group, Bytes left) const;
    Completion complete(std::size_t group, Bytes left) const;
    void remember(Label label);
    void extend();
    bool promising(const Label& label) const { return label.bound > bestMs_ * (1 + gap_); }

    const std::vector<ItemGroup>& groups_;
    Bytes room_;
    std::vector<std::vector<Label>> labels_; ///< by group
    std::vector<std::size_t> best_;
    double bestMs_ = -1;
    double gap_ = 0;
};

std::size_t Knapsack::fitting(std::size_t group, Bytes left) const
{
    const std::size_t count = groups_[group].items.size();
    const Bytes memory = groups_[group].memory;
    return memory == 0 ? count : std::min(count, static_cast<std::size_t>(left / memory));
}

Knapsack::Completion Knapsack::complete(std::size_t group, Bytes left) const
{
    Completion completion;
    bool whole = true;
    for (; group < groups_.size(); ++group) {
        const ItemGroup& next = groups_[group];
        const std::size_t count = fitting(group, left);
        completion.ms += next.ms * static_cast<double>(count);
        left -= next.memory * static_cast<Bytes>(count);
        if (whole && count < next.items.size()) {
            whole = false;
            completion.bound = completion.ms + next.ms * static_cast<double>(left) / static_cast<double>(next.memory);
        }
    }
    if (whole)
        completion.bound = completion.ms;
    return completion;
}

/// Sets the best choice: the choice of `label` for the groups decided so far, then each group as often as possible.
void Knapsack::remember(Label label)
{
    Bytes left = room_ - label.memory;
    for (std::size_t group = labels_.size(); group < groups_.size(); ++group) {
        best_[group] = fitting(group, left);
        left -= groups_[group].memory * static_cast<Bytes>(best_[group]);
    }
    for (std::size_t group = labels_.size(); group-- > 0;) {
        best_[group] = label.count;
        if (group > 0)
            label = labels_[group - 1][label.before];
    }
}

/// Decides the next group.
void Knapsack::extend()
{
    const std::size_t group = labels_.size();
    const ItemGroup& item = groups_[group];
    labels_.emplace_back();
    const std::vector<Label> start{Label{}};
    const std::vector<Label>& labels = group == 0 ? start : labels_[group - 1];
    std::vector<Label> longer;
    for (std::size_t before = 0; before < labels.size(); ++before) {
        Label label{labels[before].memory, labels[before].ms, 0, static_cast<std::uint32_t>(before), 0};
        for (; label.count <= item.items.size() && label.memory <= room_; ++label.count) {
            const Completion rest = complete(group + 1, room_ - label.memory);
            label.bound = label.ms + rest.bound;
            if (label.ms + rest.ms > bestMs_) {
                bestMs_ = label.ms + rest.ms;
                remember(label);
            }
            if (promising(label))
                longer.push_back(label);
            label.memory += item.memory;
            label.ms += item.ms;
        }
    }
    std::ranges::sort(longer, [](const Label& a, const Label& b) {
        return a.memory != b.memory ? a.memory < b.memory : a.ms > b.ms;
    });
    std::vector<Label>& kept = labels_.back();
    for (const Label& label : longer)
        if (promising(label) && (kept.empty() || label.ms > kept.back().ms))
            kept.push_back(label);
    while (kept.size() > mostLabels) {
        gap_ = std::max(1e-7, gap_ * 2);
        std::erase_if(kept, [this](const Label& label) { return !promising(label); });
    }
}

void Knapsack::solve()
{
    while (labels_.size() < groups_.size())
        extend();
}

} // namespace

Result<OpPolicy> opPolicy(const SacStats& stats, double memoryBudget)
{
    if (!(memoryBudget >= 0 && memoryBudget <= 1))
        return badInput("memory budget " + std::to_string(memoryBudget)
                        + ": expected a share from 0 to 1 of the module's activation memory");
    const std::vector<Item> items = findItems(stats);
    const Bytes all = std::accumulate(stats.memory.begin(), stats.memory.end(), Bytes{0});
    const auto allowed = static_cast<Bytes>(std::ceil(memoryBudget * static_cast<double>(all)));
    OpPolicy policy;
    policy.save.assign(stats.funcNames.size(), false);
    Bytes room = allowed;
    std::vector<bool> saved(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].saved && items[i].recomputed)
            return Error{ErrorKind::infeasible,
                         "No policy exists: op " + std::to_string(items[i].ops.front()) + " (`"
                             + stats.funcNames[static_cast<std::size_t>(items[i].ops.front())]
                             + "`) belongs to views, always recomputed, and to ops that must be saved."};
        saved[i] = items[i].saved;
        room -= items[i].saved ? items[i].memory : 0;
    }
    if (room < 0)
        return Error{ErrorKind::infeasible,
                     "No policy fits: in-place and random ops that must be saved take " + groupedDigits(allowed - room)
                         + " B, and the memory budget is " + groupedDigits(allowed) + " B of " + groupedDigits(all)
                         + " B; raise the budget to at least the former."};

    const std::vector<ItemGroup> groups = findGroups(items, room);
    Knapsack knapsack(groups, room);
    knapsack.solve();
    policy.gap = knapsack.gap();
    for (std::size_t group = 0; group < groups.size(); ++group)
        for (std::size_t i = 0; i < knapsack.counts()[group]; ++i)
            saved[groups[group].items[i]] = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!saved[i])
            policy.recomputeMs += items[i].ms;
        else
            policy.memory += items[i].memory;
        for (const int op : items[i].ops)
            policy.save[static_cast<std::size_t>(op)] = saved[i];
    }
    return policy;
}

} // namespace headroom
