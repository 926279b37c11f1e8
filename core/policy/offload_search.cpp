// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/policy/chain_search.h"
#include "core/policy/draft_search.h"
#include "core/policy/step_solver.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <ranges>
#include <utility>

namespace headroom {

namespace {

constexpr int mostOffloadTries = 6; ///< problems that are solved for one budget
constexpr double goodGap = 0.02; ///< at this gap the rows are not searched
constexpr double offloadGap = 0.01; ///< gap of a search in rows
constexpr double narrower = 0.8; ///< the next time for hidden copies, if more copies were exposed than expected
constexpr double exposedTolerance = 0.02; ///< exposed copies beyond the expected ones, as a share of the plan's time
constexpr double shareOfRecompute = 0.5; ///< part of the remaining time for plans without offload
constexpr double shareOfFirst = 0.2; ///< part of the remaining time for changes of the plan near the bound
constexpr double shareOfFitting = 0.4; ///< the same for changes of the first plan that fits, if fitting took changes
constexpr double shareOfDescent = 0.2; ///< the same for changes of the other proposed plans
constexpr double shareOfQuickest = 0.2; ///< the same for quick plans of a chain
constexpr double shareOfCounts = 0.8; ///< the same for a bound by numbers of parts
constexpr double longerShareOfCounts = 0.5; ///< the same for a search after a shorter one
constexpr double shareOfImproving = 0.35; ///< the same for random changes
constexpr double shareOfSearch = 0.5; ///< part of the remaining time for a search of the rows
constexpr double sharesOfTime[] = {1, 0.5, 0.25}; ///< time for copies in relaxations
constexpr double excessTimes = 4; ///< cost of a byte above the budget, in times of the relaxation's price
constexpr std::size_t fewOptions = 60; ///< options beside those of the relaxation
constexpr std::size_t manyOptions = 400;
constexpr std::size_t mostProvable = 4000; ///< a bound is not searched with more options
constexpr double firstSearchMs = 100; ///< of a search; a longer one follows where a plan is open
constexpr double longerTimes = 8; ///< limit of each search that follows, in times
constexpr double leastRecomputeMs = 2;
constexpr double leastChainMs = 3; ///< a chain is not searched in less time
constexpr std::size_t leastWidth = 64; ///< partial plans, at first
constexpr std::size_t mostTried = 4; ///< plans of a search along the chain
constexpr std::size_t mostCases = 4; ///< cases are not split where there are as many
constexpr std::size_t mostWidth = 2048; ///< more would take hundreds of MB
constexpr double enoughGap = 0.75 * goodGap; ///< no smaller gap is proved

} // namespace

/// Searches plans with offload within a budget. The rows choose what moves, with the copies' time as a limit. Then the
/// clock decides when the tensors leave the device and come back.
class StepSolver::OffloadSearch
{
public:
    OffloadSearch(const StepSolver& solver, const OffloadProblem& problem, Bytes budget, Bytes host,
                  const SearchLimit& limit)
        : solver_(solver)
        , offload_(problem)
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

    /// `before`: the answer of a shorter search, which this search improves.
    Result<std::optional<PlanAnswer>> run(std::optional<PlanAnswer> before)
    {
        isLonger_ = before.has_value();
        if (before) {
            belowMs_ = before->plan.costMs();
            best_ = std::move(before);
        }
        boundMs_ = best_ ? best_->plan.boundMs : 0;
        relax();
        if (boundMs_ == std::numeric_limits<double>::infinity())
            return std::optional<PlanAnswer>();
        const double msPerGiB = cases_.front().relaxed.msPerGiB;
        RETURN_IF_ERROR(search([this](Bytes budget, const CopyLimits& copies) { return near(budget, copies); }));
        if (belowMs_ > offload_.leanestMs) {
            RETURN_IF_ERROR(tryUnchanged(offload_.leanest, atMost));
            RETURN_IF_ERROR(take(offload_.rows.planOf(offload_.leanest)));
        }
        RETURN_IF_ERROR(recomputeAlone());
        RETURN_IF_ERROR(tryQuickest());
        RETURN_IF_ERROR(searchCounts());
        RETURN_IF_ERROR(searchChain());
        RETURN_IF_ERROR(searchRows(fewOptions));
        RETURN_IF_ERROR(searchProof());
        RETURN_IF_ERROR(searchRows(manyOptions));
        RETURN_IF_ERROR(improveBest());
        if (best_) {
            best_->plan.msPerGiB = msPerGiB;
            best_->plan.boundMs = std::min(boundMs_, belowMs_);
            best_->plan.gap = gapTo(best_->plan.boundMs, belowMs_);
            best_->plan.status = best_->plan.gap > 0 ? PlanStatus::feasible : PlanStatus::optimal;
        }
        return std::move(best_);
    }

    /// Whether no longer search is worth its time: no plan fits, or the best plan is good.
    bool isDone() const
    {
        constexpr double none = std::numeric_limits<double>::infinity();
        return boundMs_ == none || (belowMs_ < none && gapTo(boundMs_, belowMs_) <= goodGap);
    }

private:
    using enum RowProblem::Memory;

    bool isOpen() const { return !isDone() && !limit_.reached(); }

    /// The rows of proposals count a small price of hidden copies.
    double withPrice(double ms) const { return (ms + copyPrice * forwardMs_) / (1 - copyPrice); }

    /// Plans that hold some shared arguments and not others (RowProblem::split()).
    struct Case
    {
        std::shared_ptr<const RowProblem> problem;
        RowHints hints;
        RowAnswer relaxed; ///< the linear relaxation
        double boundMs = 0; ///< no such plan takes less
    };

    /// No better plan matters from there on.
    double neededMs() const { return belowMs_ * (1 - enoughGap); }
    bool isOpen(const Case& own) const { return isOpen() && own.boundMs < neededMs(); }

    Case relaxed(RowProblem problem)
    {
        Case own{std::make_shared<const RowProblem>(std::move(problem)), offload_.hintsNear(budget_), {}};
        own.relaxed = relaxRows(*own.problem, budget_, atLeast, limit_, copies_, own.hints);
        own.boundMs = own.relaxed.boundMs;
        raisePrice(own.relaxed);
        return own;
    }

    /// Solves the linear relaxation of each case. The case with the lowest bound is first.
    void relax()
    {
        if (copies_.isChain && offload_.rows.canSplit())
            addHalves(offload_.rows);
        else
            cases_.push_back(relaxed(offload_.rows));
        std::ranges::stable_sort(cases_, {}, &Case::boundMs);
        raiseBound();
        hints_ = cases_.back().hints;
        for (const Case& own : cases_)
            addOptions(hints_.options, own.hints.options);
        relaxed_ = cases_.front().relaxed.relaxed;
    }

    void addHalves(const RowProblem& problem)
    {
        auto [without, with] = problem.split();
        cases_.push_back(relaxed(std::move(without)));
        cases_.push_back(relaxed(std::move(with)));
    }

    /// Splits the cases that are open. Returns whether there are any.
    bool splitOpen()
    {
        std::vector<Case> before = std::exchange(cases_, {});
        bool isAny = false;
        for (Case& own : before) {
            const std::size_t known = cases_.size();
            if (isOpen(own) && own.relaxed.reduced && own.problem->canSplit() && before.size() < mostCases) {
                isAny = true;
                addHalves(*own.problem);
                for (Case& half : cases_ | std::views::drop(known))
                    half.boundMs = std::max(half.boundMs, own.boundMs);
            } else {
                cases_.push_back(std::move(own));
            }
        }
        raiseBound();
        return isAny;
    }

    /// Calls stage(search, own) for each open case of a chain, at once with others: `search` is a copy of this search.
    /// The results are the same as in sequence.
    template <class Stage>
    Status inEachCase(const Stage& stage)
    {
        std::vector<std::size_t> open;
        for (std::size_t number = 0; best_ && number < cases_.size(); ++number)
            if (cases_[number].relaxed.reduced && isOpen(cases_[number]))
                open.push_back(number);
        std::vector<OffloadSearch> searches(open.size(), *this);
        std::vector<Status> ended(open.size());
        SearchLimit::callAtOnce(open.size(), [&](std::size_t number) {
            ended[number] = stage(searches[number], searches[number].cases_[open[number]]);
        });
        for (std::size_t number = 0; number < open.size(); ++number) {
            RETURN_IF_ERROR(ended[number]);
            takeOver(searches[number], open[number]);
        }
        raiseBound();
        return {};
    }

    void takeOver(OffloadSearch& search, std::size_t number)
    {
        cases_[number].boundMs = search.cases_[number].boundMs;
        msPerByte_ = std::max(msPerByte_, search.msPerByte_);
        if (search.belowMs_ < belowMs_) {
            belowMs_ = search.belowMs_;
            best_ = std::move(search.best_);
        }
        if (search.draftMs_ < draftMs_) {
            draftMs_ = search.draftMs_;
            draft_ = std::move(search.draft_);
        }
    }

    void raiseBound() { boundMs_ = std::max(boundMs_, std::ranges::min_element(cases_, {}, &Case::boundMs)->boundMs); }
    void raiseBound(Case& own, double ms)
    {
        own.boundMs = std::max(own.boundMs, ms);
        raiseBound();
    }

    /// Searches plans without offload that take less than the best plan so far.
    Status recomputeAlone()
    {
        if (solver_.minMemoryPlan_.timeline->peak > budget_ || (best_ && limit_.reached()))
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
        const SearchLimit limit = partOfTime(shareOfSearch);
        return search([&](Bytes budget, const CopyLimits& copies) -> Result<std::optional<Proposed>> {
            RowAnswer answer = solveRows(offload_.rows, budget, atMost, offloadGap, limit, copies, withPrice(belowMs_),
                                         hints_, moreOptions);
            if (!answer.plan)
                return std::optional<Proposed>();
            DraftSearch drafts = draftsAt(budget);
            Draft draft = drafts.draftOf(std::move(answer.options));
            drafts.descend(draft, limit);
            return std::optional(proposed(drafts, std::move(draft), budget));
        });
    }

    /// Searches plans of a chain for a short time: the search for a bound has less to do below a better plan.
    Status tryQuickest()
    {
        const SearchLimit limit = partOfTime(shareOfQuickest);
        return inEachCase([&](OffloadSearch& search, Case& own) {
            const ChainSearch chain({*own.problem, copies_, *own.relaxed.reduced, budget_});
            return search.tryBest(chain.plansBelow(belowMs_, own.hints.events, atMost, 2 * leastWidth, limit));
        });
    }

    Status tryBest(const std::vector<ChainSearch::Found>& found)
    {
        std::vector<OptionShares> plans;
        for (const ChainSearch::Found& plan : found)
            plans.push_back(plan.options);
        for (DraftSearch::Draft& draft : draftsAt(budget_, atLeast).bestOf(std::move(plans), mostTried))
            RETURN_IF_ERROR(tryOptions(std::move(draft.options)));
        return {};
    }

    /// Proves a bound by whole numbers of parts of a chain, and tries the plans near the solutions.
    Status searchCounts()
    {
        for (bool isMore = true; isMore;) {
            const double beforeMs = belowMs_;
            const SearchLimit limit = partOfTime(isLonger_ ? longerShareOfCounts : shareOfCounts);
            RETURN_IF_ERROR(inEachCase([&](OffloadSearch& search, Case& own) {
                Status status;
                const CountSearch counts({*own.problem, copies_, *own.relaxed.reduced, budget_});
                search.raiseBound(own, counts.boundBelow(search.neededMs(), limit, [&](OptionShares plan) {
                    if (status)
                        status = search.tryOptions(std::move(plan));
                    return search.neededMs();
                }));
                return status;
            }));
            isMore = !limit.reached() && (belowMs_ < beforeMs || splitOpen());
        }
        return {};
    }

    /// Tries a plan of the rows. The memory of most plans of a chain is the lower bound. If the plan is no better, or
    /// does not fit, single options are replaced by the upper bound.
    Status tryOptions(OptionShares options)
    {
        const double beforeMs = belowMs_;
        RETURN_IF_ERROR(tryUnchanged(options, atLeast));
        if (belowMs_ < beforeMs)
            return {};
        Bytes before = 0; // budget
        return search([&](Bytes budget, const CopyLimits&) -> Result<std::optional<Proposed>> {
            if (std::exchange(before, budget) == budget)
                return std::optional<Proposed>();
            DraftSearch drafts = draftsAt(budget);
            Draft draft = drafts.draftOf(options);
            drafts.descend(draft, limit_);
            if (draft.excess > 0 || draft.ms >= belowMs_)
                return std::optional<Proposed>();
            return std::optional(proposed(drafts, std::move(draft), budget));
        });
    }

    /// Tries a plan of the rows as the plan is. `memory`: what the schedule of the copies expects.
    Status tryUnchanged(OptionShares options, RowProblem::Memory memory)
    {
        const DraftSearch drafts = draftsAt(budget_, memory);
        RETURN_IF_ERROR(take(drafts.timed(drafts.draftOf(std::move(options))).plan));
        return {};
    }

    /// Searches plans of a chain, and proves a better bound, with more and more partial plans.
    Status searchChain()
    {
        std::atomic<bool> isMore = best_.has_value();
        for (std::size_t width = leastWidth; width <= mostWidth && isMore && limit_.remainingMs() > leastChainMs;
             width *= 2) {
            isMore = false;
            RETURN_IF_ERROR(inEachCase([&](OffloadSearch& search, Case& own) -> Status {
                ASSIGN_OR_RETURN(const bool more, search.searchChain(own, width));
                isMore = isMore || more;
                return {};
            }));
        }
        return {};
    }

    /// Returns whether a greater width may find more.
    Result<bool> searchChain(Case& own, std::size_t width)
    {
        const ChainSearch chain({*own.problem, copies_, *own.relaxed.reduced, budget_});
        const double beforeMs = belowMs_;
        const std::vector<ChainSearch::Found> plans
            = chain.plansBelow(belowMs_, own.hints.events, atLeast, 2 * width, limit_);
        RETURN_IF_ERROR(tryBest(plans));
        // Where the rules take plans for quicker that are not, other searches find more.
        const bool misled = !plans.empty() && belowMs_ == beforeMs;
        const ChainSearch::Bound bound = chain.boundBelow(neededMs(), misled ? 4 * width : width, limit_);
        raiseBound(own, bound.ms);
        return !bound.isLast && !misled;
    }

    /// Proves a better bound with whole options, of which only those of better plans are left. The plan of the proof
    /// may fit.
    Status searchProof()
    {
        for (Case& own : cases_) {
            if (!best_ || !isOpen(own))
                continue;
            const SearchLimit limit = partOfTime(shareOfSearch);
            RowAnswer answer = solveRows(*own.problem, budget_, atLeast, offloadGap, limit, copies_, belowMs_,
                                         own.hints, mostProvable);
            raiseBound(own, answer.boundMs);
            if (answer.plan)
                RETURN_IF_ERROR(tryUnchanged(std::move(answer.options), atMost));
        }
        return {};
    }

    using Draft = DraftSearch::Draft;
    using Proposed = DraftSearch::Timed;

    /// Proposes a plan near the solutions of linear relaxations with less and less time for copies: what the relaxation
    /// takes for hidden may be exposed. The first relaxation is that of the bound.
    Result<std::optional<Proposed>> near(Bytes budget, const CopyLimits& copies)
    {
        std::vector<Draft> found;
        const auto round = [&](const OptionShares& shares) {
            std::ranges::move(draftsAt(budget).rounded(shares), std::back_inserter(found));
        };
        round(relaxed_);
        if (!found.empty())
            draftsAt(budget).descend(found.back(), partOfTime(shareOfFirst));
        for (const double share : sharesOfTime) {
            if (!found.empty() && (limit_.reached() || (found.back().excess <= 0 && found.back().ms <= enoughMs())))
                break;
            const RowAnswer answer = relaxRows(offload_.rows, budget, atMost, limit_, copies.shortened(share), hints_);
            raisePrice(answer);
            round(answer.relaxed);
        }
        if (found.empty())
            return std::optional<Proposed>();
        DraftSearch drafts = draftsAt(budget);
        const SearchLimit limit = partOfTime(shareOfDescent);
        std::ranges::stable_sort(found, DraftSearch::isBetter);
        for (Draft& draft : found)
            drafts.descend(draft, limit);
        Draft& best = *std::ranges::min_element(found, DraftSearch::isBetter);
        if (best.excess > 0 && !offload_.leanest.empty()) {
            drafts.approach(best, offload_.leanest, limit_);
            drafts.descend(best, partOfTime(shareOfFitting));
        }
        if (!copies_.isChain)
            drafts.improve(best, enoughMs(), partOfTime(shareOfImproving));
        return std::optional(proposed(drafts, std::move(best), budget));
    }

    /// Improves the best plan in the time that is left.
    Status improveBest()
    {
        if (!best_ || !isOpen() || !draft_)
            return {};
        DraftSearch drafts = draftsAt(budget_);
        Draft draft = drafts.draftOf(*draft_);
        drafts.improve(draft, enoughMs(), limit_);
        RETURN_IF_ERROR(take(proposed(drafts, std::move(draft), budget_).plan));
        return {};
    }

    SearchLimit partOfTime(double share) const { return SearchLimit::after(limit_.remainingMs() * share, limit_.stop); }

    void raisePrice(const RowAnswer& relaxation)
    {
        msPerByte_ = std::max(msPerByte_, relaxation.msPerGiB / static_cast<double>(GiB));
    }

    Proposed proposed(const DraftSearch& drafts, Draft draft, Bytes budget)
    {
        Proposed found = drafts.timed(draft);
        if (budget == budget_ && draft.excess <= 0 && found.ms < draftMs_) {
            draftMs_ = found.ms;
            draft_ = std::move(draft.options);
        }
        return found;
    }

    DraftSearch draftsAt(Bytes budget, RowProblem::Memory memory = atMost) const
    {
        return {offload_.rows, offload_.schedule, copies_, memory, budget, excessTimes * msPerByte_, hints_.events};
    }

    double enoughMs() const { return boundMs_ / (1 - goodGap); }

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
            if (proposed->excess > 0) // nothing within the budget was found
                break;
            if (tried.excess > 0)
                rowsBudget -= tried.excess;
            else if (tried.hostExcess > 0 && tried.hostExcess < copies.host)
                copies.host -= tried.hostExcess;
            else if (tried.hostExcess > 0 || tried.ms <= proposed->ms + exposedTolerance * tried.ms)
                break;
            else
                copies = copies.shortened(narrower);
        }
        return {};
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
    const OffloadProblem& offload_;
    Bytes budget_;
    double belowMs_ = std::numeric_limits<double>::infinity(); ///< of the best plan
    const SearchLimit& limit_;
    CopyLimits copies_, expected_;
    Bytes host_ = 0; ///< as CopyLimits::host, but of the request
    double forwardMs_ = 0; ///< of all parts
    double msPerByte_ = 0; ///< largest price of memory in a relaxation
    double boundMs_ = 0;
    bool isLonger_ = false; ///< the search goes on after a shorter one
    RowHints hints_; ///< of proposals, with the options of all cases
    OptionShares relaxed_; ///< of the case with the lowest bound
    std::optional<OptionShares> draft_; ///< the best plan of the rows that fits
    double draftMs_ = std::numeric_limits<double>::infinity(); ///< of draft_
    std::vector<Case> cases_; ///< every plan that fits is one of these
    std::optional<PlanAnswer> best_;
};

Result<std::optional<PlanAnswer>> StepSolver::bestWithOffload(Bytes budget, Bytes host, const std::stop_token& stop,
                                                              double limitMs) const
{
    if (minTimePlan_.timeline->peak <= budget)
        return bestBelow(budget, std::numeric_limits<double>::infinity(), stop, limitMs);
    ASSIGN_OR_RETURN(const OffloadProblem* problem, offloadProblem(stop));
    const SearchLimit limit = SearchLimit::after(limitMs, stop);
    std::optional<PlanAnswer> best;
    for (double ms = firstSearchMs;; ms *= longerTimes) { // so that more time gives no worse plan
        const SearchLimit part = SearchLimit::after(std::min(ms, limit.remainingMs()), stop);
        OffloadSearch search(*this, *problem, budget, host, part);
        ASSIGN_OR_RETURN(best, search.run(std::move(best)));
        if (search.isDone() || ms >= limitMs || limit.reached())
            return best;
    }
}

} // namespace headroom
