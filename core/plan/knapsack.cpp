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

constexpr std::size_t greedyPasses = 32;

/// Items that are a question: worth something, and no larger than the cap. Those that take no bytes are no question.
struct Question
{
    std::vector<std::size_t> items; ///< by value per byte, descending; larger ones first among equals
    KnapsackChoice free; ///< what is taken anyway
};

Question questionOf(std::span<const KnapsackItem> items, Bytes cap)
{
    Question question;
    question.free.taken.assign(items.size(), false);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].value <= 0 || items[i].bytes > cap)
            continue;
        if (items[i].bytes <= 0) {
            question.free.taken[i] = true;
            question.free.value += items[i].value;
        } else {
            question.items.push_back(i);
        }
    }
    std::ranges::sort(question.items, [&](std::size_t a, std::size_t b) {
        const double left = items[a].value * static_cast<double>(items[b].bytes);
        const double right = items[b].value * static_cast<double>(items[a].bytes);
        if (left != right)
            return left > right;
        return items[a].bytes != items[b].bytes ? items[a].bytes > items[b].bytes : a < b;
    });
    return question;
}

void take(KnapsackChoice& choice, std::span<const KnapsackItem> items, std::size_t item)
{
    choice.taken[item] = true;
    choice.bytes += items[item].bytes;
    choice.value += items[item].value;
}

/// Goes through the items in their order, but not through places [from, to), and takes what fits.
KnapsackChoice passThrough(const Question& question, std::span<const KnapsackItem> items, Bytes cap, std::size_t from,
                           std::size_t to)
{
    KnapsackChoice choice = question.free;
    for (std::size_t i = 0; i < question.items.size(); ++i)
        if ((i < from || i >= to) && choice.bytes + items[question.items[i]].bytes <= cap)
            take(choice, items, question.items[i]);
    return choice;
}

KnapsackChoice greedyOf(const Question& question, std::span<const KnapsackItem> items, Bytes cap)
{
    KnapsackChoice best = passThrough(question, items, cap, 0, 0);
    const auto offer = [&best](KnapsackChoice choice) {
        if (choice.value > best.value)
            best = std::move(choice);
    };
    for (std::size_t place = 0; place < std::min(greedyPasses, question.items.size()); ++place) {
        offer(passThrough(question, items, cap, place, place + 1));
        offer(passThrough(question, items, cap, 0, place + 1));
    }
    return best;
}

/// The dynamic programme: from the choice of the densest items that fit, the items around its end are decided one after
/// the other, the next denser one (out?) and the next less dense one (in?) in turn. A state is a sum of bytes and its
/// highest value; one that is heavier and worth no more than another, or that no decision to come can bring above the
/// best choice so far, goes.
class BalancedProgramme
{
public:
    BalancedProgramme(const Question& question, std::span<const KnapsackItem> items, Bytes cap)
        : order_(question.items)
        , items_(items)
        , cap_(cap)
        , best_(greedyOf(question, items, cap))
        , start_(question.free)
    {
    }

    KnapsackChoice solve(std::size_t mostDecisions);

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    struct State
    {
        Bytes bytes = 0;
        double value = 0;
        std::uint32_t decision = none; ///< the last one that led here
    };
    struct Decision
    {
        std::uint32_t before = none;
        std::uint32_t place = 0; ///< in order_: changed from what the start says
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
    std::size_t left = break_; // places below it are undecided
    std::size_t right = break_; // it and places above it are undecided
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

/// Every state, and every state with the item at `place` in (sign 1) or out (-1), merged.
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

/// `left` and `right` as in solve().
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

/// So many of the items fit at most: the smallest ones.
std::size_t mostThatFit(const Question& question, std::span<const KnapsackItem> items, Bytes cap)
{
    std::vector<Bytes> sizes;
    for (const std::size_t item : question.items)
        sizes.push_back(items[item].bytes);
    std::ranges::sort(sizes);
    std::size_t count = 0;
    for (Bytes sum = 0; count < sizes.size() && sum + sizes[count] <= cap; ++count)
        sum += sizes[count];
    return count;
}

/// Items of one size and one value: which of them are taken does not matter, only how many.
struct Alike
{
    KnapsackItem item;
    std::size_t first = 0; ///< in Question::items
    std::size_t count = 0;
};

std::vector<Alike> alikeIn(const Question& question, std::span<const KnapsackItem> items)
{
    std::vector<Alike> groups;
    for (std::size_t i = 0; i < question.items.size(); ++i) {
        const KnapsackItem& item = items[question.items[i]];
        if (groups.empty() || groups.back().item.bytes != item.bytes || groups.back().item.value != item.value)
            groups.push_back({item, i, 0});
        ++groups.back().count;
    }
    return groups;
}

std::size_t takenOf(const KnapsackChoice& choice, const Question& question, const Alike& group)
{
    std::size_t taken = 0;
    for (std::size_t i = group.first; i < group.first + group.count; ++i)
        taken += choice.taken[question.items[i]] ? 1 : 0;
    return taken;
}

/// The sums of what is taken, in the order of the items.
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
    const Question question = questionOf(items, cap);
    return summedUp(BalancedProgramme(question, items, cap).solve(mostDecisions), items);
}

KnapsackChoice greedyKnapsack(std::span<const KnapsackItem> items, Bytes cap)
{
    const Question question = questionOf(items, cap);
    return summedUp(greedyOf(question, items, cap), items);
}

Result<KnapsackChoice> ilpKnapsack(std::span<const KnapsackItem> items, Bytes cap, double limitMs)
{
    const Question question = questionOf(items, cap);
    KnapsackChoice best = summedUp(greedyOf(question, items, cap), items);
    if (question.items.empty()) {
        best.proven = true;
        return best;
    }
    const std::vector<Alike> alike = alikeIn(question, items);
    double mostValue = 0;
    Bytes mostBytes = 0;
    for (const Alike& group : alike) {
        mostValue = std::max(mostValue, group.item.value);
        mostBytes = std::max(mostBytes, group.item.bytes);
    }
    const auto share = [mostBytes](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(mostBytes); };
    // GLPK's rows hold to a tolerance only: a choice that is above the cap in whole bytes is asked for again with as
    // much less of a cap. It is no longer proven then, as one between the two caps may be missed.
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
                options.incumbent.push_back(static_cast<double>(takenOf(best, question, group)));
        }
        problem.addRow(bytesRow, -GlpkProblem::infinity, share(asked));
        // Where values rise with bytes, the relaxation would take parts of many small items: this row forbids it.
        problem.addRow(countRow, -GlpkProblem::infinity, static_cast<double>(mostThatFit(question, items, asked)));
        const MilpResult result = problem.solve(options);
        if (result.status != MilpStatus::optimal && result.status != MilpStatus::feasible)
            break;
        KnapsackChoice choice = question.free;
        for (std::size_t i = 0; i < alike.size(); ++i)
            for (long taken = std::lround(result.values[i]); taken > 0; --taken)
                take(choice, items, question.items[alike[i].first + static_cast<std::size_t>(taken) - 1]);
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
