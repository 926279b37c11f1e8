// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/policy/chain_search.h"
#include "core/policy/step_solver.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <ranges>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

constexpr int mostOffloadTries = 6; ///< problems that are solved for one budget
constexpr std::size_t mostCandidates = 32; ///< options of an arc that may replace that of such a plan at a time
constexpr std::size_t mostRows = 100; ///< of Neighbours
constexpr double goodGap = 0.02; ///< at this gap the rows are not searched
constexpr double offloadGap = 0.01; ///< gap of a search in rows
constexpr double narrower = 0.8; ///< the next time for hidden copies, if more copies were exposed than expected
constexpr double exposedTolerance = 0.02; ///< exposed copies beyond the expected ones, as a share of the plan's time
constexpr double shareOfRecompute = 0.5; ///< part of the remaining time for plans without offload
constexpr double shareOfImproving = 0.35; ///< part of the remaining time for changes of proposed plans
constexpr double shareOfSearch = 0.5; ///< part of the remaining time for a search of the rows
constexpr double sharesOfTime[] = {1, 0.5, 0.25}; ///< time for copies in relaxations
constexpr double leastGainMs = 1e-6;
constexpr double excessTimes = 4; ///< cost of a byte above the budget, in times of the relaxation's price
constexpr double strictTimes = 1e4; ///< the same where no plan may exceed the budget, in times of that cost
constexpr int mostFailed = 60; ///< random replacements without a better plan
constexpr std::size_t fewOptions = 60; ///< options beside those of the relaxation
constexpr std::size_t manyOptions = 400;
constexpr std::size_t mostProvable = 4000; ///< a bound is not searched with more options
constexpr double leastRecomputeMs = 2;
constexpr double leastChainMs = 3; ///< a chain is not searched in less time
constexpr std::size_t leastWidth = 64; ///< partial plans, at first
constexpr std::size_t mostWidth = 2048; ///< more would take hundreds of MB
constexpr double enoughGap = 0.75 * goodGap; ///< a smaller one is not proved

} // namespace

/// Searches plans with offload within a budget. The rows choose what moves, with the copies' time as a limit. Then the
/// clock decides when the tensors leave the device and come back.
class StepSolver::OffloadSearch
{
public:
    OffloadSearch(const StepSolver& solver, const OffloadProblem& problem, Bytes budget, Bytes host,
                  const SearchLimit& limit)
        : solver_(solver)
        , problem_(problem.rows)
        , schedule_(problem.schedule)
        , budget_(budget)
        , limit_(limit)
        , copies_(problem.copies)
        , expected_(problem.expected)
        , host_(host)
    {
        copies_.host = expected_.host = host;
        msPerByte_ = forwardMs_ = std::accumulate(copies_.forwardMs.begin(), copies_.forwardMs.end(), 0.0);
        msPerByte_ /= static_cast<double>(budget);
    }

    Result<std::optional<PlanAnswer>> run()
    {
        const RowAnswer bound = relaxRows(problem_, budget_, atLeast, limit_, copies_, hints_);
        boundMs_ = bound.boundMs;
        reduced_ = bound.reduced;
        const auto propose = [this](Bytes budget, const CopyLimits& copies) { return near(budget, copies); };
        RETURN_IF_ERROR(search(propose));
        RETURN_IF_ERROR(recomputeAlone());
        RETURN_IF_ERROR(searchChain());
        if (isOpen() && best_) { // the upper bound of the memory leaves out plans that fit
            counted_ = atLeast;
            RETURN_IF_ERROR(search(propose));
            counted_ = atMost;
        }
        RETURN_IF_ERROR(searchRows(fewOptions));
        RETURN_IF_ERROR(raiseBound());
        RETURN_IF_ERROR(searchRows(manyOptions));
        RETURN_IF_ERROR(improveBest());
        if (best_) {
            best_->plan.msPerGiB = bound.msPerGiB;
            best_->plan.boundMs = std::min(boundMs_, belowMs_);
            best_->plan.gap = gapTo(best_->plan.boundMs, belowMs_);
            best_->plan.status = best_->plan.gap > 0 ? PlanStatus::feasible : PlanStatus::optimal;
        }
        return std::move(best_);
    }

private:
    using enum RowProblem::Memory;

    bool isOpen() const { return gapTo(boundMs_, belowMs_) > goodGap && !limit_.reached(); }

    /// The rows of proposals count a small price of hidden copies.
    double withPrice(double ms) const { return (ms + copyPrice * forwardMs_) / (1 - copyPrice); }

    /// Searches plans without offload that take less than the best plan so far.
    Status recomputeAlone()
    {
        if (solver_.minMemoryPlan_.timeline->peak > budget_)
            return {};
        const bool moves = best_ && offloads(best_->regions); // else the plan of best() is preferred
        const double belowMs = moves ? belowMs_ : std::numeric_limits<double>::infinity();
        const double limitMs = limit_.remainingMs() * (best_ ? shareOfRecompute : 1);
        ASSIGN_OR_RETURN(std::optional<PlanAnswer> found,
                         solver_.bestBelow(budget_, belowMs, limit_.stop, std::max(limitMs, leastRecomputeMs)));
        if (!found)
            return {};
        setOffload(solver_.model_, found->regions, *found->timeline, found->plan); // of pinned modules
        if (const double ms = found->plan.costMs(); ms <= belowMs_) {
            belowMs_ = ms;
            best_ = std::move(found);
        }
        return {};
    }

    /// Searches the best plans of the rows among the options of the relaxation and `moreOptions`.
    Status searchRows(std::size_t moreOptions)
    {
        if (best_ && !isOpen())
            return {};
        const SearchLimit limit = SearchLimit::after(limit_.remainingMs() * shareOfSearch, limit_.stop);
        return search([&](Bytes budget, const CopyLimits& copies) -> Result<std::optional<Proposed>> {
            RowAnswer answer = solveRows(problem_, budget, atMost, offloadGap, limit, copies, withPrice(belowMs_),
                                         hints_, moreOptions);
            if (!answer.plan)
                return std::optional<Proposed>();
            Draft draft = draftOf(std::move(answer.options), budget);
            Neighbours neighbours = neighboursAt(budget, msPerByte_);
            descend(draft, neighbours, limit);
            return std::optional(proposed(std::move(draft), budget));
        });
    }

    /// Searches plans of a chain, and proves a better bound, with more and more partial plans.
    Status searchChain()
    {
        if (!reduced_ || !best_)
            return {};
        const ChainSearch chain(problem_, copies_, *reduced_, budget_);
        bool isLast = false;
        for (std::size_t width = leastWidth;
             width <= mostWidth && !isLast && isOpen() && limit_.remainingMs() > leastChainMs; width *= 2) {
            const double beforeMs = belowMs_;
            std::vector<ChainSearch::Found> plans = chain.plansBelow(belowMs_, hints_.events, 2 * width, limit_);
            for (ChainSearch::Found& plan : plans) {
                Draft draft = draftOf(std::move(plan.options), budget_);
                Neighbours neighbours = neighboursAt(budget_, msPerByte_);
                descend(draft, neighbours, limit_);
                if (draft.excess <= 0 && draft.ms < belowMs_)
                    RETURN_IF_ERROR(take(proposed(std::move(draft), budget_).plan));
            }
            // Where the rules take plans for quicker that are not, other searches find more.
            const bool misled = !plans.empty() && belowMs_ == beforeMs;
            const ChainSearch::Bound bound
                = chain.boundBelow(belowMs_ * (1 - enoughGap), misled ? 4 * width : width, limit_);
            boundMs_ = std::max(boundMs_, bound.ms);
            isLast = bound.isLast || misled;
        }
        return {};
    }

    /// Proves a better bound with whole options, of which only those of better plans are left. The plan of the proof
    /// may fit.
    Status raiseBound()
    {
        if (!best_ || !isOpen())
            return {};
        const SearchLimit limit = SearchLimit::after(limit_.remainingMs() * shareOfSearch, limit_.stop);
        RowAnswer answer
            = solveRows(problem_, budget_, atLeast, offloadGap, limit, copies_, belowMs_, hints_, mostProvable);
        boundMs_ = std::max(boundMs_, answer.boundMs);
        if (!answer.plan)
            return {};
        RETURN_IF_ERROR(take(timed(draftOf(std::move(answer.options), budget_), budget_).plan));
        return {};
    }

    /// A plan of the rows, and the time that the rows expect; nullopt: none.
    struct Proposed
    {
        CheckpointPlan plan;
        double ms = 0;
    };

    /// A whole plan, of which single options are replaced.
    struct Draft
    {
        OptionShares options;
        PlanMemory memory;
        Bytes excess = 0; ///< bytes above the budget
        double ms = 0; ///< with exposed copies
    };
    /// What improve() works with: rows at events where plans exceeded the budget, and the ms that a byte above the
    /// budget costs.
    struct Neighbours
    {
        Bytes budget = 0;
        double msPerByte = 0;
        std::vector<RowProblem::Row> rows;

        double costOf(double ms, double excess) const { return ms + msPerByte * std::max(0.0, excess); }
        double costOf(const Draft& draft) const { return costOf(draft.ms, static_cast<double>(draft.excess)); }
    };

    static bool isBetter(const Draft& draft, const Draft& other)
    {
        return std::pair(std::max<Bytes>(0, draft.excess), draft.ms + leastGainMs)
            < std::pair(std::max<Bytes>(0, other.excess), other.ms);
    }

    Draft draftOf(OptionShares options, Bytes budget) const
    {
        PlanMemory memory(problem_, counted_, options);
        const Bytes excess = memory.highest() - budget;
        Draft draft{std::move(options), std::move(memory), excess, 0};
        draft.ms = timed(draft, budget).ms;
        return draft;
    }

    /// The plan of a draft, and the time.
    Proposed timed(const Draft& draft, Bytes budget) const
    {
        std::vector<CopySchedule::RecomputedParts> again;
        double ms = 0;
        bool moves = false;
        for (const auto& [option, share] : draft.options) {
            const LocalEffect& effect = problem_.effectOf(option);
            moves = moves || effect.movedBytes > 0;
            again.push_back({problem_.arcs()[option.arc].last, effect.recomputeMs});
            ms += effect.recomputeMs + (effect.movedBytes > 0 ? copyPrice * copyMs(copies_.link, effect) : 0);
        }
        Proposed proposed{problem_.planOf(draft.options), ms};
        if (!moves)
            return proposed;
        CopySchedule::Found found = schedule_.find(std::move(proposed.plan), draft.memory, budget, again);
        return {std::move(found.plan), ms + found.exposedMs};
    }

    /// Proposes a plan near the solutions of linear relaxations with less and less time for copies: what the relaxation
    /// takes for hidden may be exposed.
    Result<std::optional<Proposed>> near(Bytes budget, const CopyLimits& copies)
    {
        std::vector<Draft> found;
        for (const double share : sharesOfTime) {
            if (!found.empty() && limit_.reached())
                break;
            const RowAnswer answer = relaxRows(problem_, budget, counted_, limit_, shortened(copies, share), hints_);
            std::optional<Draft> draft = rounded(answer.relaxed, budget);
            if (!draft)
                continue;
            msPerByte_ = std::max(msPerByte_, answer.msPerGiB / static_cast<double>(GiB));
            found.push_back(*std::move(draft));
            if (isGood(found.back()))
                break;
        }
        if (found.empty())
            return std::optional<Proposed>();
        Neighbours neighbours = neighboursAt(budget, msPerByte_);
        const SearchLimit first = SearchLimit::after(limit_.remainingMs() * shareOfImproving, limit_.stop);
        std::ranges::stable_sort(found, isBetter);
        for (Draft& draft : found)
            descend(draft, neighbours, first);
        Draft& best = *std::ranges::min_element(found, isBetter);
        if (!reduced_)
            improve(best, neighbours, SearchLimit::after(limit_.remainingMs() * shareOfImproving, limit_.stop));
        return std::optional(proposed(std::move(best), budget));
    }

    /// Improves the best plan in the time that is left.
    Status improveBest()
    {
        if (!best_ || !isOpen() || !draft_)
            return {};
        Neighbours neighbours = neighboursAt(budget_, msPerByte_);
        Draft draft = draftOf(*draft_, budget_);
        improve(draft, neighbours, limit_);
        RETURN_IF_ERROR(take(proposed(std::move(draft), budget_).plan));
        return {};
    }

    Proposed proposed(Draft draft, Bytes budget)
    {
        Proposed found = timed(draft, budget);
        if (counted_ == atMost && budget == budget_ && draft.excess <= 0 && found.ms < draftMs_) {
            draftMs_ = found.ms;
            draft_ = std::move(draft.options);
        }
        return found;
    }

    Neighbours neighboursAt(Bytes budget, double msPerByte) const
    {
        Neighbours neighbours{budget, excessTimes * msPerByte, {}};
        for (const std::uint32_t event : hints_.events)
            neighbours.rows.push_back(problem_.rowAt(event, counted_, budget));
        return neighbours;
    }

    bool isGood(const Draft& draft) const { return draft.excess <= 0 && gapTo(boundMs_, draft.ms) <= goodGap; }

    /// A whole plan near the shares of a linear relaxation: of the few parts with several options, all choices are
    /// tried. The quickest that fits by the upper bound of the memory, or the one that exceeds the budget least.
    /// nullopt: there are no shares.
    std::optional<Draft> rounded(const OptionShares& shares, Bytes budget) const
    {
        const std::optional<OptionChoices> found = choicesNear(problem_, shares);
        if (!found)
            return std::nullopt;
        const auto& [choices, combinations] = *found;
        OptionShares whole;
        for (const std::vector<ArcOption>& options : choices)
            whole.emplace_back(options.front(), 1.0);
        Draft draft = draftOf(std::move(whole), budget);
        Draft best = draft;
        for (std::size_t number = 1; number < combinations; ++number) {
            std::size_t rest = number;
            for (std::size_t i = 0; i < choices.size(); rest /= choices[i++].size())
                replace(draft, i, choices[i][rest % choices[i].size()].option);
            draft.excess = draft.memory.highest() - budget;
            if (std::max<Bytes>(0, draft.excess) > std::max<Bytes>(0, best.excess)
                || (best.excess <= 0 && recomputeMs(draft.options) >= best.ms))
                continue;
            draft.ms = timed(draft, budget).ms;
            if (isBetter(draft, best))
                best = draft;
        }
        return best;
    }

    static void replace(Draft& draft, std::size_t place, std::size_t option)
    {
        ArcOption& own = draft.options[place].first;
        if (own.option != option)
            draft.memory.replace(own, option);
        own.option = option;
    }

    double recomputeMs(const OptionShares& options) const
    {
        double ms = 0;
        for (const auto& [option, share] : options)
            ms += problem_.effectOf(option).recomputeMs;
        return ms;
    }

    /// The options of a place, and the least that the plan with each would cost, if that is below `belowMs`; the
    /// cheapest ones, ascending.
    std::vector<std::pair<double, std::size_t>> candidates(const Draft& draft, std::size_t place,
                                                           const Neighbours& neighbours, double belowMs) const
    {
        const auto [arc, own] = draft.options[place].first;
        std::vector<double> highest(problem_.optionCount(arc), 0);
        for (const RowProblem::Row& row : neighbours.rows) {
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
            if (const double cost = neighbours.costOf(others + problem_.effectOf({arc, option}).recomputeMs,
                                                      highest[option] - static_cast<double>(neighbours.budget));
                cost < belowMs && option != own)
                found.emplace_back(cost, option);
        const auto kept = found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), mostCandidates));
        std::ranges::partial_sort(found, kept);
        found.erase(kept, found.end());
        return found;
    }

    /// Replaces single options as long as the plan becomes better and time is left, from the option at `place` on. On
    /// the option the plan may exceed the budget.
    void descend(Draft& draft, Neighbours& neighbours, const SearchLimit& limit, std::size_t place = 0) const
    {
        const Draft before = draft;
        const double msPerByte = neighbours.msPerByte;
        descendAtPrice(draft, neighbours, limit, place);
        neighbours.msPerByte *= strictTimes;
        if (draft.excess > 0)
            descendAtPrice(draft, neighbours, limit, place);
        if (isBetter(before, draft)) {
            draft = before;
            descendAtPrice(draft, neighbours, limit, place);
        }
        neighbours.msPerByte = msPerByte;
    }

    void descendAtPrice(Draft& draft, Neighbours& neighbours, const SearchLimit& limit, std::size_t place) const
    {
        double cost = neighbours.costOf(draft);
        for (std::size_t unchanged = 0; unchanged < draft.options.size(); place = (place + 1) % draft.options.size()) {
            ++unchanged;
            const std::size_t before = draft.options[place].first.option;
            const auto [excess, ms] = std::pair(draft.excess, draft.ms);
            for (const auto& [least, option] : candidates(draft, place, neighbours, cost)) {
                if (limit.reached())
                    return;
                replace(draft, place, option);
                draft.excess = draft.memory.highest() - neighbours.budget;
                draft.ms = recomputeMs(draft.options);
                if (neighbours.costOf(draft) < cost)
                    draft.ms = timed(draft, neighbours.budget).ms;
                else if (neighbours.rows.size() < mostRows)
                    neighbours.rows.push_back(problem_.rowAt(draft.memory.highestEvent(), counted_, neighbours.budget));
                if (const double own = neighbours.costOf(draft); own < cost - leastGainMs) {
                    cost = own;
                    unchanged = 0;
                    break;
                }
                replace(draft, place, before);
                std::tie(draft.excess, draft.ms) = std::pair(excess, ms);
            }
        }
    }

    /// Whether two options can change places, and are not the same.
    bool equalArcs(const ArcOption& a, const ArcOption& b) const
    {
        return a.option != b.option && problem_.arcs()[a.arc].arcClass == problem_.arcs()[b.arc].arcClass;
    }

    /// Leaves a plan that no single replacement makes better: replaces an option at random or exchanges two, then
    /// others.
    void improve(Draft& best, Neighbours& neighbours, const SearchLimit& limit) const
    {
        if (best.options.empty()) // a step without parts that have options
            return;
        std::minstd_rand random; // the same sequence each time
        const auto below = [&random](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
        for (int failed = 0; failed < mostFailed && !isGood(best) && !limit.reached(); ++failed) {
            const std::size_t place = below(best.options.size()), other = below(best.options.size());
            Draft draft = best;
            if (failed % 2 == 0 && equalArcs(best.options[place].first, best.options[other].first)) {
                replace(draft, place, best.options[other].first.option);
                replace(draft, other, best.options[place].first.option);
            } else if (const auto options
                       = candidates(best, place, neighbours, std::numeric_limits<double>::infinity());
                       !options.empty()) {
                replace(draft, place, options[below(options.size())].second);
            }
            draft.excess = draft.memory.highest() - neighbours.budget;
            draft.ms = timed(draft, neighbours.budget).ms;
            descend(draft, neighbours, limit, (place + 1) % best.options.size());
            if (isBetter(draft, best)) {
                best = std::move(draft);
                failed = 0;
            }
        }
    }

    /// Tries proposals. Where a plan takes more memory than the rows expect, the next budget is smaller; where more
    /// copies are exposed, the next proposal has less time for copies.
    template <class Propose>
    Status search(const Propose& propose)
    {
        CopyLimits copies = expected_;
        Bytes rowsBudget = budget_;
        for (int i = 0; i < mostOffloadTries && (i == 0 || !limit_.reached()); ++i) {
            ASSIGN_OR_RETURN(std::optional<Proposed> proposed, propose(rowsBudget, copies));
            if (!proposed)
                break;
            ASSIGN_OR_RETURN(const Tried tried, take(std::move(proposed->plan)));
            if (tried.excess > 0)
                rowsBudget -= tried.excess;
            else if (tried.hostExcess > 0 && tried.hostExcess < copies.host)
                copies.host -= tried.hostExcess;
            else if (tried.hostExcess > 0 || tried.ms <= proposed->ms + exposedTolerance * tried.ms)
                break;
            else
                copies = shortened(std::move(copies), narrower);
        }
        return {};
    }

    static CopyLimits shortened(CopyLimits copies, double share)
    {
        for (std::vector<double>* times : {&copies.forwardMs, &copies.backwardMs})
            for (double& ms : *times)
                ms *= share;
        return copies;
    }

    /// What came of a plan: bytes above the budget and above the host memory, and the plan's time.
    struct Tried
    {
        Bytes excess = 0;
        Bytes hostExcess = 0;
        double ms = 0;
    };

    /// Predicts a plan, and keeps the plan if it is the best one so far.
    Result<Tried> take(CheckpointPlan regions)
    {
        ASSIGN_OR_RETURN(PlanAnswer found, solver_.predicted(std::move(regions)));
        Tried tried;
        tried.excess = found.timeline->peak - budget_;
        tried.hostExcess = host_ > 0 ? found.timeline->hostBytes - host_ : 0;
        tried.ms = found.plan.recomputeMs;
        if (tried.excess > 0 || tried.hostExcess > 0 || tried.ms >= belowMs_)
            return tried;
        setOffload(solver_.model_, found.regions, *found.timeline, found.plan);
        tried.ms = found.plan.costMs();
        if (tried.ms < belowMs_) {
            belowMs_ = tried.ms;
            best_ = std::move(found);
        }
        return tried;
    }

    const StepSolver& solver_;
    const RowProblem& problem_;
    const CopySchedule& schedule_;
    Bytes budget_;
    double belowMs_ = std::numeric_limits<double>::infinity(); ///< of the best plan
    const SearchLimit& limit_;
    RowHints hints_;
    CopyLimits copies_, expected_;
    Bytes host_ = 0; ///< as CopyLimits::host, but of the request
    RowProblem::Memory counted_ = atMost; ///< of drafts
    double forwardMs_ = 0; ///< of all parts
    double msPerByte_ = 0; ///< largest price of memory in a relaxation
    std::optional<OptionShares> draft_; ///< the best plan of the rows that fits
    double draftMs_ = std::numeric_limits<double>::infinity(); ///< of draft_
    double boundMs_ = 0;
    std::optional<ReducedCosts> reduced_; ///< of a chain
    std::optional<PlanAnswer> best_;
};

Result<std::optional<PlanAnswer>> StepSolver::bestWithOffload(Bytes budget, Bytes host, const std::stop_token& stop,
                                                              double limitMs) const
{
    if (minTimePlan_.timeline->peak <= budget)
        return bestBelow(budget, std::numeric_limits<double>::infinity(), stop, limitMs);
    ASSIGN_OR_RETURN(const OffloadProblem* problem, offloadProblem(stop));
    const SearchLimit limit = SearchLimit::after(limitMs, stop);
    return OffloadSearch(*this, *problem, budget, host, limit).run();
}

} // namespace headroom
