// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/draft_search.h"

#include "core/plan/chain_problem.h"
#include "core/policy/row_planner.h"

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <tuple>

namespace headroom {

namespace {

constexpr std::size_t mostRounded = 64; ///< plans near the shares of a relaxation
constexpr std::size_t mostCandidates = 32; ///< options of an arc that may replace the draft's at a time
constexpr std::size_t mostConstraints = 100; ///< memory constraints
constexpr double leastGainMs = 1e-6;
/// Cost of the bytes above the budget at other events than the highest, where no plan may exceed the budget: several
/// parts may exceed the budget alike, and a replacement lowers a single one.
constexpr double strictShareOfOthers = 0.1;
constexpr double nsPerPart = 30; ///< work of leastMs()
constexpr double strictTimes = 1e4; ///< cost of a byte above the budget where no plan may exceed it, in times
constexpr int mostFailed = 60; ///< random replacements without a better plan

/// Whole plans near the shares of a linear relaxation.
struct Choices
{
    std::vector<std::vector<ArcOption>> options; ///< of the arcs of the largest shares, in the order of the chain
    std::size_t plans = 1; ///< number of plans: few, so that most arcs have a single option
};

/// Of arcs that begin at the same part the shortest, or the arc of the largest share.
enum class Rounding { shortest, largest };

/// nullopt: there are no shares, or `shortest` would be the same as `largest`.
std::optional<Choices> choicesNear(const RowProblem& problem, const OptionShares& shares, Rounding rounding)
{
    Choices choices;
    bool differs = rounding == Rounding::largest;
    for (std::size_t position = 0; position < problem.positions();) {
        std::map<std::size_t, double> arcs; // share of the arcs that begin here
        for (const auto& [option, share] : shares)
            if (static_cast<std::size_t>(problem.arcs()[option.arc].first) == position)
                arcs[option.arc] += share;
        if (arcs.empty())
            return std::nullopt;
        const auto largest = std::ranges::max_element(arcs, {}, [](const auto& arc) { return arc.second; });
        const std::size_t taken = rounding == Rounding::largest ? largest->first : arcs.begin()->first;
        differs = differs || taken != largest->first;
        std::vector<ArcOption>& options = choices.options.emplace_back();
        for (const auto& [option, share] : shares)
            if (option.arc == taken)
                options.push_back(option);
        position = static_cast<std::size_t>(problem.arcs()[taken].last);
    }
    if (!differs)
        return std::nullopt;
    for (std::vector<ArcOption>& options : choices.options) {
        if (choices.plans * options.size() > mostRounded)
            options.resize(1);
        choices.plans *= options.size();
    }
    return choices;
}

/// The shortest stretches of parts that arcs of both plans cover, and the plans' options there; only where these
/// differ.
using Stretches
    = std::vector<std::pair<std::span<const OptionShares::value_type>, std::span<const OptionShares::value_type>>>;
Stretches commonStretches(const RowProblem& problem, const OptionShares& plan, const OptionShares& other)
{
    const auto last = [&](const OptionShares::value_type& own) { return problem.arcs()[own.first.arc].last; };
    const auto isEqual
        = [](const auto& a, const auto& b) { return a.first.arc == b.first.arc && a.first.option == b.first.option; };
    Stretches stretches;
    for (auto own = plan.begin(), by = other.begin(); own != plan.end() && by != other.end();) {
        const auto ownBegin = own++, byBegin = by++;
        while (last(own[-1]) != last(by[-1]))
            ++(last(own[-1]) < last(by[-1]) ? own : by);
        if (!std::equal(ownBegin, own, byBegin, by, isEqual))
            stretches.emplace_back(std::span(ownBegin, own), std::span(byBegin, by));
    }
    return stretches;
}

void replace(DraftSearch::Draft& draft, std::size_t place, std::size_t option)
{
    ArcOption& own = draft.options[place].first;
    if (own.option != option)
        draft.memory.replace(own, option);
    own.option = option;
}

} // namespace

DraftSearch::DraftSearch(const RowProblem& problem, const CopySchedule& schedule, const CopyLimits& copies,
                         RowProblem::Memory memory, Bytes budget, double msPerByte,
                         const std::vector<std::uint32_t>& events)
    : problem_(problem)
    , schedule_(schedule)
    , copies_(copies)
    , memory_(memory)
    , budget_(budget)
    , msPerByte_(msPerByte)
{
    for (const std::uint32_t event : events)
        rows_.push_back(problem_.rowAt(event, memory_, budget_));
}

DraftSearch::Draft DraftSearch::draftOf(OptionShares options) const
{
    PlanMemory memory(problem_, memory_, options);
    Draft draft{std::move(options), std::move(memory), 0, 0};
    measure(draft);
    return draft;
}

std::vector<DraftSearch::Draft> DraftSearch::bestOf(std::vector<OptionShares> plans, std::size_t most) const
{
    std::vector<Draft> drafts;
    for (OptionShares& plan : plans)
        drafts.push_back(draftOf(std::move(plan)));
    std::ranges::stable_sort(drafts, isBetter);
    drafts.erase(drafts.begin() + static_cast<std::ptrdiff_t>(std::min(drafts.size(), most)), drafts.end());
    return drafts;
}

bool DraftSearch::isBetter(const Draft& draft, const Draft& other)
{
    return std::pair(std::max<Bytes>(0, draft.excess), draft.ms + leastGainMs)
        < std::pair(std::max<Bytes>(0, other.excess), other.ms);
}

DraftSearch::Timed DraftSearch::timed(const Draft& draft) const
{
    std::vector<CopySchedule::RecomputedParts> again;
    double ms = 0;
    bool moves = false;
    for (const auto& [option, share] : draft.options) {
        const LocalEffect& effect = problem_.effectOf(option);
        moves = moves || effect.movedBytes > 0;
        again.push_back({problem_.arcs()[option.arc].last, effect.recomputeMs});
        ms += priced(effect);
    }
    Timed own{problem_.planOf(draft.options), ms, draft.excess};
    if (!moves)
        return own;
    CopySchedule::Found found = schedule_.find(std::move(own.plan), draft.memory, budget_, again, copies_.aheadMs);
    return {std::move(found.plan), ms + found.exposedMs, draft.excess};
}

std::vector<DraftSearch::Draft> DraftSearch::rounded(const OptionShares& shares) const
{
    std::vector<Draft> drafts;
    for (const Rounding rounding : {Rounding::shortest, Rounding::largest}) {
        const std::optional<Choices> found = choicesNear(problem_, shares, rounding);
        if (!found)
            continue;
        const auto& [choices, combinations] = *found;
        OptionShares whole;
        for (const std::vector<ArcOption>& options : choices)
            whole.emplace_back(options.front(), 1.0);
        Draft draft = draftOf(std::move(whole));
        Draft& best = drafts.emplace_back(draft);
        for (std::size_t number = 1; number < combinations; ++number) {
            std::size_t rest = number;
            for (std::size_t i = 0; i < choices.size(); rest /= choices[i++].size())
                replace(draft, i, choices[i][rest % choices[i].size()].option);
            draft.excess = draft.memory.highest() - budget_;
            if (std::max<Bytes>(0, draft.excess) > std::max<Bytes>(0, best.excess)
                || (best.excess <= 0 && recomputeMs(draft.options) >= best.ms))
                continue;
            draft.ms = timed(draft).ms;
            if (isBetter(draft, best))
                best = draft;
        }
    }
    return drafts;
}

void DraftSearch::descend(Draft& draft, const SearchLimit& limit, std::size_t place)
{
    const Draft before = draft;
    const double msPerByte = msPerByte_;
    descendAtPrice(draft, limit, place);
    msPerByte_ *= strictTimes;
    shareOfOthers_ = strictShareOfOthers;
    if (draft.excess > 0)
        descendAtPrice(draft, limit, place);
    if (isBetter(before, draft)) {
        draft = before;
        descendAtPrice(draft, limit, place);
    }
    msPerByte_ = msPerByte;
    shareOfOthers_ = 0;
}

/// Path relinking (Glover: "Tabu Search and Adaptive Memory Programming", 1997).
void DraftSearch::approach(Draft& draft, const OptionShares& lean, const SearchLimit& limit) const
{
    while (draft.excess > 0 && !limit.reached()) {
        std::optional<Draft> best;
        for (const auto& [own, other] : commonStretches(problem_, draft.options, lean)) {
            const OptionShares from(own.begin(), own.end()), to(other.begin(), other.end());
            Draft next = draft;
            next.memory.replace(from, to);
            const auto place = next.options.begin() + (own.data() - draft.options.data());
            next.options.insert(next.options.erase(place, place + std::ssize(own)), to.begin(), to.end());
            next.excess = next.memory.highest() - budget_;
            if (next.excess < draft.excess && (!best || next.excess < best->excess))
                best = std::move(next);
        }
        if (!best)
            break;
        draft = *std::move(best);
    }
    measure(draft);
}

void DraftSearch::improve(Draft& best, double enoughMs, const SearchLimit& limit)
{
    if (best.options.empty()) // a step without parts that have options
        return;
    std::minstd_rand random; // the same sequence each time
    const auto below = [&random](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
    const auto isEnough = [&] { return best.excess <= 0 && best.ms <= enoughMs; };
    for (int failed = 0; failed < mostFailed && !isEnough() && !limit.reached(); ++failed) {
        const std::size_t place = below(best.options.size()), other = below(best.options.size());
        Draft draft = best;
        if (failed % 2 == 0 && equalArcs(best.options[place].first, best.options[other].first)) {
            replace(draft, place, best.options[other].first.option);
            replace(draft, other, best.options[place].first.option);
        } else if (const auto options = candidates(best, place); !options.empty()) {
            replace(draft, place, options[below(options.size())].second);
        }
        measure(draft);
        descend(draft, limit, (place + 1) % best.options.size());
        if (isBetter(draft, best)) {
            best = std::move(draft);
            failed = 0;
        }
    }
}

void DraftSearch::descendAtPrice(Draft& draft, const SearchLimit& limit, std::size_t place)
{
    double cost = costOf(draft);
    for (std::size_t unchanged = 0; unchanged < draft.options.size(); place = (place + 1) % draft.options.size()) {
        ++unchanged;
        const std::size_t before = draft.options[place].first.option;
        const auto [excess, ms] = std::pair(draft.excess, draft.ms);
        for (const auto& [least, option] : candidates(draft, place, cost)) {
            if (limit.reached())
                return;
            replace(draft, place, option);
            draft.excess = draft.memory.highest() - budget_;
            draft.ms = recomputeMs(draft.options);
            const bool mayGain = costOf(draft) < cost;
            if (mayGain && copies_.isChain)
                draft.ms = leastMs(draft.options);
            if (costOf(draft) < cost)
                draft.ms = timed(draft).ms;
            else if (!mayGain && rows_.size() < mostConstraints)
                rows_.push_back(problem_.rowAt(draft.memory.highestEvent(), memory_, budget_));
            if (const double own = costOf(draft); own < cost - leastGainMs) {
                cost = own;
                unchanged = 0;
                break;
            }
            replace(draft, place, before);
            std::tie(draft.excess, draft.ms) = std::pair(excess, ms);
        }
    }
}

/// The options of a place, and the least that the plan with each would cost, if that is below `belowMs`; the cheapest
/// ones, ascending.
std::vector<std::pair<double, std::size_t>> DraftSearch::candidates(const Draft& draft, std::size_t place,
                                                                    double belowMs) const
{
    const auto [arc, own] = draft.options[place].first;
    std::vector<double> highest(problem_.optionCount(arc), 0);
    for (const RowProblem::Row& row : rows_) {
        const std::span<const double> changes = problem_.changesIn(row, arc);
        if (changes.empty())
            continue;
        const double others
            = static_cast<double>(draft.memory.highestIn(row.event, row.event + std::size_t{1})) - changes[own];
        for (std::size_t option = 0; option < changes.size(); ++option)
            highest[option] = std::max(highest[option], others + changes[option]);
    }
    const double others = recomputeMs(draft.options) - problem_.effectOf({arc, own}).recomputeMs;
    std::vector<std::pair<double, std::size_t>> found;
    for (std::size_t option = 0; option < highest.size(); ++option)
        if (const double cost = costOf(others + problem_.effectOf({arc, option}).recomputeMs,
                                       highest[option] - static_cast<double>(budget_));
            cost < belowMs && option != own)
            found.emplace_back(cost, option);
    const auto kept = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), mostCandidates));
    std::ranges::partial_sort(found, kept);
    found.erase(kept, found.end());
    return found;
}

/// Whether two options can change places, and are not the same.
bool DraftSearch::equalArcs(const ArcOption& a, const ArcOption& b) const
{
    return a.option != b.option && problem_.arcs()[a.arc].arcClass == problem_.arcs()[b.arc].arcClass;
}

void DraftSearch::measure(Draft& draft) const
{
    draft.excess = draft.memory.highest() - budget_;
    draft.ms = timed(draft).ms;
}

/// Of a chain: the time by the limits of copies, without a schedule. The estimate of timed() is seldom less.
double DraftSearch::leastMs(const OptionShares& options) const
{
    SearchLimit::count(static_cast<double>(options.size()), nsPerPart);
    double ms = 0;
    CopiesLeft left;
    for (const auto& [option, share] : options) {
        ms += priced(problem_.effectOf(option));
        left = copies_.after(left, problem_.arcs()[option.arc], copies_.timesOf(problem_, option));
    }
    return ms + left.exposedMs();
}

/// Recomputation, and the price of hidden copies.
double DraftSearch::priced(const LocalEffect& effect) const
{
    return effect.recomputeMs + (effect.movedBytes > 0 ? copyPrice * copyMs(copies_.link, effect) : 0);
}

double DraftSearch::recomputeMs(const OptionShares& options) const
{
    double ms = 0;
    for (const auto& [option, share] : options)
        ms += problem_.effectOf(option).recomputeMs;
    return ms;
}

double DraftSearch::costOf(const Draft& draft) const
{
    const double others = shareOfOthers_ > 0 ? shareOfOthers_ * static_cast<double>(draft.memory.sumAbove(budget_)) : 0;
    return costOf(draft.ms, static_cast<double>(draft.excess) + others);
}

double DraftSearch::costOf(double ms, double excess) const
{
    return ms + msPerByte_ * std::max(0.0, excess);
}

} // namespace headroom
