// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/knapsack.h"

#include "core/plan/glpk_problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace headroom {

namespace {

constexpr std::size_t greedyPasses = 32; ///< items that greedyOf() leaves out in turn

/// The items that are left to decide: each has a value and is no larger than the cap.
struct Presolved
{
    std::vector<std::size_t> items; ///< by value per byte, descending; larger items first among equals
    KnapsackChoice free; ///< the items of 0 bytes, always taken
};

Presolved presolve(std::span<const KnapsackItem> items, Bytes cap)
{
    Presolved presolved;
    presolved.free.taken.assign(items.size(), false);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].value <= 0 || items[i].bytes > cap)
            continue;
        if (items[i].bytes <= 0) {
            presolved.free.taken[i] = true;
            presolved.free.value += items[i].value;
        } else {
            presolved.items.push_back(i);
        }
    }
    std::ranges::sort(presolved.items, [&](std::size_t a, std::size_t b) {
        const double left = items[a].value * static_cast<double>(items[b].bytes);
        const double right = items[b].value * static_cast<double>(items[a].bytes);
        if (left != right)
            return left > right;
        return items[a].bytes != items[b].bytes ? items[a].bytes > items[b].bytes : a < b;
    });
    return presolved;
}

void take(KnapsackChoice& choice, std::span<const KnapsackItem> items, std::size_t item)
{
    choice.taken[item] = true;
    choice.bytes += items[item].bytes;
    choice.value += items[item].value;
}

/// Takes the items that fit, in order, without the items at places [from, to).
KnapsackChoice passThrough(const Presolved& presolved, std::span<const KnapsackItem> items, Bytes cap, std::size_t from,
                           std::size_t to)
{
    KnapsackChoice choice = presolved.free;
    for (std::size_t i = 0; i < presolved.items.size(); ++i)
        if ((i < from || i >= to) && choice.bytes + items[presolved.items[i]].bytes <= cap)
            take(choice, items, presolved.items[i]);
    return choice;
}

KnapsackChoice greedyOf(const Presolved& presolved, std::span<const KnapsackItem> items, Bytes cap)
{
    KnapsackChoice best = passThrough(presolved, items, cap, 0, 0);
    const auto offer = [&best](KnapsackChoice choice) {
        if (choice.value > best.value)
            best = std::move(choice);
    };
    for (std::size_t place = 0; place < std::min(greedyPasses, presolved.items.size()); ++place) {
        offer(passThrough(presolved, items, cap, place, place + 1));
        offer(passThrough(presolved, items, cap, 0, place + 1));
    }
    return best;
}

/// Balanced dynamic programming (Pisinger). The start is the choice of the densest items that fit. Then the items
/// around the end of that choice are decided singly, in turn whether the next denser item leaves and whether the next
/// less dense item joins. A state is a sum of bytes and the highest value for that sum. A state is dropped if another
/// state dominates, or if no further decisions can lead to more than the best choice so far.
class BalancedProgramme
{
public:
    BalancedProgramme(const Presolved& presolved, std::span<const KnapsackItem> items, Bytes cap)
        : order_(presolved.items)
        , items_(items)
        , cap_(cap)
        , best_(greedyOf(presolved, items, cap))
        , start_(presolved.free)
    {
    }

    KnapsackChoice solve(std::size_t mostDecisions);

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    struct State
    {
        Bytes bytes = 0;
        double value = 0;
        std::uint32_t decision = none; ///< the last decision that led here
    };
    struct Decision
    {
        std::uint32_t before = none;
        std::uint32_t place = 0; ///< place in order_ of the item that differs from the start
    };

    const KnapsackItem& at(std::size_t place) const { return items_[order_[place]]; }
    double density(std::size_t place) const { return at(place).value / static_cast<double>(at(place).bytes); }
    void decide(std::size_t place, int sign);
    void prune(std::size_t left, std::size_t right);
    void remember(const State& state);

    const std::vector<std::size_t>& order_;
    std::span<const KnapsackItem> items_;
    Bytes cap_;
    KnapsackChoice best_;
    KnapsackChoice start_;
    std::size_t break_ = 0; ///< first place that the start does not take
    std::vector<State> states_; ///< bytes ascending, value ascending
    std::vector<State> merged_;
    std::vector<Decision> decisions_;
};

KnapsackChoice BalancedProgramme::solve(std::size_t mostDecisions)
{
    while (break_ < order_.size() && start_.bytes + at(break_).bytes <= cap_)
        take(start_, items_, order_[break_++]);
    if (start_.value > best_.value)
        best_ = start_;
    best_.proven = true;
    if (break_ == order_.size())
        return best_;
    states_ = {{start_.bytes, start_.value, none}};
    std::size_t left = break_; // places below `left` are undecided
    std::size_t right = break_; // `right` and the places above are undecided
    while (!states_.empty() && (left > 0 || right < order_.size())) {
        if (right < order_.size()) {
            decide(right++, 1);
            prune(left, right);
        }
        if (left > 0) {
            decide(--left, -1);
            prune(left, right);
        }
        if (decisions_.size() > mostDecisions) {
            best_.proven = false;
            break;
        }
    }
    return best_;
}

/// Merges the states with the same states after the item at `place` is added (sign 1) or taken out (-1).
void BalancedProgramme::decide(std::size_t place, int sign)
{
    const Bytes bytes = sign * at(place).bytes;
    const double value = sign * at(place).value;
    merged_.clear();
    const auto add = [&](const State& state, bool changed) {
        if (!merged_.empty() && merged_.back().value >= state.value)
            return;
        if (!merged_.empty() && merged_.back().bytes == state.bytes)
            merged_.pop_back();
        merged_.push_back(state);
        if (changed) {
            decisions_.push_back({state.decision, static_cast<std::uint32_t>(place)});
            merged_.back().decision = static_cast<std::uint32_t>(decisions_.size() - 1);
        }
    };
    std::size_t kept = 0;
    std::size_t changed = 0;
    while (kept < states_.size() || changed < states_.size()) {
        const bool takeKept = changed == states_.size()
            || (kept < states_.size() && states_[kept].bytes <= states_[changed].bytes + bytes);
        if (takeKept) {
            add(states_[kept++], false);
        } else {
            const State& state = states_[changed++];
            add({state.bytes + bytes, state.value + value, state.decision}, true);
        }
    }
    std::swap(states_, merged_);
}

/// Drops states that cannot become better than the best choice. `left` and `right` are as in solve().
void BalancedProgramme::prune(std::size_t left, std::size_t right)
{
    for (const State& state : states_)
        if (state.bytes <= cap_ && state.value > best_.value)
            remember(state);
    const double least = best_.value * (1 + 1e-14);
    std::erase_if(states_, [&](const State& state) {
        const auto room = static_cast<double>(cap_ - state.bytes);
        if (room < 0)
            return left == 0 || state.value + room * density(left - 1) <= least;
        return state.value + (right < order_.size() ? room * density(right) : 0) <= least;
    });
}

void BalancedProgramme::remember(const State& state)
{
    KnapsackChoice choice = start_;
    for (std::uint32_t i = state.decision; i != none; i = decisions_[i].before) {
        const std::size_t item = order_[decisions_[i].place];
        choice.taken[item] = !choice.taken[item];
    }
    choice.bytes = state.bytes;
    choice.value = state.value;
    choice.proven = true;
    best_ = std::move(choice);
}

/// The largest number of items that fit: found with the smallest items.
std::size_t mostThatFit(const Presolved& presolved, std::span<const KnapsackItem> items, Bytes cap)
{
    std::vector<Bytes> sizes;
    for (const std::size_t item : presolved.items)
        sizes.push_back(items[item].bytes);
    std::ranges::sort(sizes);
    std::size_t count = 0;
    for (Bytes sum = 0; count < sizes.size() && sum + sizes[count] <= cap; ++count)
        sum += sizes[count];
    return count;
}

/// Items of the same size and value: only the number of taken items matters.
struct Alike
{
    KnapsackItem item;
    std::size_t first = 0; ///< place in Presolved::items
    std::size_t count = 0;
};

std::vector<Alike> alikeIn(const Presolved& presolved, std::span<const KnapsackItem> items)
{
    std::vector<Alike> groups;
    for (std::size_t i = 0; i < presolved.items.size(); ++i) {
        const KnapsackItem& item = items[presolved.items[i]];
        if (groups.empty() || groups.back().item.bytes != item.bytes || groups.back().item.value != item.value)
            groups.push_back({item, i, 0});
        ++groups.back().count;
    }
    return groups;
}

std::size_t takenOf(const KnapsackChoice& choice, const Presolved& presolved, const Alike& group)
{
    std::size_t taken = 0;
    for (std::size_t i = group.first; i < group.first + group.count; ++i)
        taken += choice.taken[presolved.items[i]] ? 1 : 0;
    return taken;
}

/// Sums bytes and value of the taken items in the items' order, so that the sums do not depend on the solver.
KnapsackChoice summedUp(KnapsackChoice choice, std::span<const KnapsackItem> items)
{
    choice.bytes = 0;
    choice.value = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (choice.taken[i])
            take(choice, items, i);
    return choice;
}

} // namespace

KnapsackChoice exactKnapsack(std::span<const KnapsackItem> items, Bytes cap, std::size_t mostDecisions)
{
    const Presolved presolved = presolve(items, cap);
    return summedUp(BalancedProgramme(presolved, items, cap).solve(mostDecisions), items);
}

KnapsackChoice greedyKnapsack(std::span<const KnapsackItem> items, Bytes cap)
{
    const Presolved presolved = presolve(items, cap);
    return summedUp(greedyOf(presolved, items, cap), items);
}

Result<KnapsackChoice> ilpKnapsack(std::span<const KnapsackItem> items, Bytes cap, double limitMs)
{
    const Presolved presolved = presolve(items, cap);
    KnapsackChoice best = summedUp(greedyOf(presolved, items, cap), items);
    if (presolved.items.empty()) {
        best.proven = true;
        return best;
    }
    const std::vector<Alike> alike = alikeIn(presolved, items);
    double mostValue = 0;
    Bytes mostBytes = 0;
    for (const Alike& group : alike) {
        mostValue = std::max(mostValue, group.item.value);
        mostBytes = std::max(mostBytes, group.item.bytes);
    }
    const auto share = [mostBytes](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(mostBytes); };
    // GLPK's rows hold only to a tolerance. If a choice exceeds the cap in whole bytes, the cap is lowered by as much
    // and the problem solved again; the result is not proven then, since a choice between the two caps may be missed.
    for (Bytes asked = cap; asked >= 0;) {
        GlpkProblem problem;
        MilpOptions options;
        options.limitMs = limitMs;
        std::vector<GlpkProblem::Term> bytesRow;
        std::vector<GlpkProblem::Term> countRow;
        for (const Alike& group : alike) {
            const int column
                = problem.addColumn(0, static_cast<double>(group.count), -group.item.value / mostValue, true);
            bytesRow.push_back({column, share(group.item.bytes)});
            countRow.push_back({column, 1});
            if (asked == cap)
                options.incumbent.push_back(static_cast<double>(takenOf(best, presolved, group)));
        }
        problem.addRow(bytesRow, -GlpkProblem::infinity, share(asked));
        // If values rise with bytes, the relaxation would take parts of many small items: this row forbids such
        // solutions.
        problem.addRow(countRow, -GlpkProblem::infinity, static_cast<double>(mostThatFit(presolved, items, asked)));
        const MilpResult result = problem.solve(options);
        if (result.status != MilpStatus::optimal && result.status != MilpStatus::feasible)
            break;
        KnapsackChoice choice = presolved.free;
        for (std::size_t i = 0; i < alike.size(); ++i)
            for (long taken = std::lround(result.values[i]); taken > 0; --taken)
                take(choice, items, presolved.items[alike[i].first + static_cast<std::size_t>(taken) - 1]);
        if (choice.bytes > cap) {
            asked -= choice.bytes - cap;
            continue;
        }
        choice = summedUp(std::move(choice), items);
        if (choice.value >= best.value)
            best = std::move(choice);
        best.proven = result.status == MilpStatus::optimal && asked == cap;
        return best;
    }
    return Error{ErrorKind::internal,
                 "GLPK found no choice of ops to save for a cap of " + std::to_string(cap)
                     + " bytes: use the solver dp"};
}

} // namespace headroom
