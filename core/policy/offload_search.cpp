// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/policy/step_solver.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

namespace headroom {

namespace {

constexpr int mostOffloadTries = 6; ///< problems that are solved for one budget
constexpr std::size_t mostRounded = 512; ///< whole plans near a solution of the linear relaxation
constexpr double goodGap = 0.02; ///< at this gap the rows are not searched
constexpr double offloadGap = 0.01; ///< gap of a search in rows
constexpr double narrower = 0.8; ///< the next time for hidden copies, if more copies were exposed than expected
constexpr double exposedTolerance = 0.02; ///< exposed copies beyond the expected ones, as a share of the plan's time
constexpr double shareOfRecompute = 0.5; ///< part of the remaining time for plans without offload
constexpr double shareOfSearch = 0.5; ///< part of the remaining time for a search of the rows
constexpr std::size_t fewOptions = 60; ///< options beside those of the relaxation
constexpr std::size_t manyOptions = 400;
constexpr std::size_t mostProvable = 4000; ///< a bound is not searched with more options
constexpr double leastRecomputeMs = 2;
constexpr double leastMemoryLimitMs = 300;

/// By module: the position of the part that the module is, or is inside of; -1: none. Modules inside follow the outer
/// module.
std::vector<int> partPositions(const StepTrace& trace, const PartTree& tree)
{
    std::vector<int> positions(trace.modules.size(), -1);
    for (std::size_t part = 0; part < tree.parts.size(); ++part)
        positions[tree.units[static_cast<std::size_t>(tree.parts[part])].module.value] = static_cast<int>(part);
    for (std::uint32_t module = 0; module < trace.modules.size(); ++module)
        if (const ModuleId parent = trace.modules.parent[ModuleId(module)];
            parent.valid() && positions[module] < 0 && positions[parent.value] >= 0)
            positions[module] = positions[parent.value];
    return positions;
}

/// Sets the times of the work of `parts` parts in forward and backward. `positions` are those of partPositions().
void setTimes(const StepTrace& trace, const std::vector<int>& positions, std::size_t parts, CopyLimits& limits)
{
    limits.forwardMs.assign(parts, 0);
    limits.backwardMs.assign(parts, 0);
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
        const ModuleId module = trace.ops.module[OpId(op)];
        const int position = module.valid() ? positions[module.value] : -1;
        const Phase phase = trace.ops.phase[OpId(op)];
        if (position < 0 || (phase != Phase::forward && phase != Phase::backward))
            continue;
        (phase == Phase::forward ? limits.forwardMs : limits.backwardMs)[static_cast<std::size_t>(position)]
            += trace.ops.ms[OpId(op)];
    }
}

double offloadCost(const Plan& plan)
{
    return plan.recomputeMs + plan.offload.exposedMs;
}

} // namespace

/// Searches plans with offload within a budget. The rows choose what moves, with the copies' time as a limit. Then the
/// clock decides when the tensors leave the device and come back.
class StepSolver::OffloadSearch
{
public:
    OffloadSearch(const StepSolver& solver, const RowProblem& problem, Bytes budget, Bytes host,
                  const SearchLimit& limit)
        : solver_(solver)
        , problem_(problem)
        , budget_(budget)
        , limit_(limit)
        , positions_(partPositions(*solver.model_.trace(), solver.tree_))
    {
        const StepTrace& trace = *solver.model_.trace();
        copies_.link = hostLinkOf(trace.info);
        copies_.host = host_ = host;
        setTimes(trace, positions_, solver.tree_.parts.size(), copies_);
        forwardMs_ = std::accumulate(copies_.forwardMs.begin(), copies_.forwardMs.end(), 0.0);
    }

    Result<std::optional<PlanAnswer>> run()
    {
        const RowAnswer bound = relaxRows(problem_, budget_, atLeast, limit_, copies_, hints_);
        boundMs_ = withoutPrice(bound.boundMs);
        RETURN_IF_ERROR(search([this](Bytes budget, const CopyLimits& copies) { return near(budget, copies); }));
        RETURN_IF_ERROR(recomputeAlone());
        RETURN_IF_ERROR(searchRows(fewOptions));
        RETURN_IF_ERROR(raiseBound());
        RETURN_IF_ERROR(searchRows(manyOptions));
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

    /// The rows count a small price of hidden copies.
    double withoutPrice(double rowsMs) const
    {
        return std::max(0.0, rowsMs * (1 - copyPrice) - copyPrice * forwardMs_);
    }
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
        if (const double ms = offloadCost(found->plan); ms <= belowMs_) {
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
            return answer.plan ? std::optional(Proposed{*std::move(answer.plan), answer.plannedMs}) : std::nullopt;
        });
    }

    /// Proves a better bound with whole options, of which only those of better plans are left. The plan of the proof
    /// may fit.
    Status raiseBound()
    {
        if (!best_ || !isOpen())
            return {};
        const SearchLimit limit = SearchLimit::after(limit_.remainingMs() * shareOfSearch, limit_.stop);
        RowAnswer answer = solveRows(problem_, budget_, atLeast, offloadGap, limit, copies_, withPrice(belowMs_),
                                     hints_, mostProvable);
        boundMs_ = std::max(boundMs_, withoutPrice(answer.boundMs));
        if (!answer.plan)
            return {};
        RETURN_IF_ERROR(take(*std::move(answer.plan)));
        return {};
    }

    /// A plan of the rows, and the time that the rows expect; nullopt: none.
    struct Proposed
    {
        CheckpointPlan plan;
        double ms = 0;
    };

    /// Proposes a plan near the solution of the linear relaxation. The plan before its improvement is tried, too:
    /// memory that is left lets copies take longer.
    Result<std::optional<Proposed>> near(Bytes budget, const CopyLimits& copies)
    {
        const RowAnswer answer = relaxRows(problem_, budget, atMost, limit_, copies, hints_);
        const auto msOf = [&](const OptionShares& plan) { return rowsMs(plan, copies); };
        std::optional<OptionShares> plan = rounded(answer.relaxed, budget, msOf);
        if (!plan)
            return std::optional<Proposed>();
        RETURN_IF_ERROR(take(problem_.planOf(*plan)));
        plan = problem_.improved(*std::move(plan), atMost, budget, msOf, limit_);
        return plan ? std::optional(Proposed{problem_.planOf(*plan), msOf(*plan)}) : std::nullopt;
    }

    /// The time of a plan as the rows count it.
    double rowsMs(const OptionShares& plan, const CopyLimits& copies) const
    {
        double ms = 0, out = 0, exposedOut = 0, exposedIn = 0, forward = 0, backward = 0;
        auto position = problem_.positions();
        for (const auto& [option, share] : std::views::reverse(plan)) {
            const LocalEffect& effect = problem_.effectOf(option);
            const double copy = effect.movedBytes > 0 ? copyMs(copies.link, effect) : 0;
            ms += effect.recomputeMs + copyPrice * copy;
            out += copy;
            for (; position > at(problem_.arcs()[option.arc].first); --position) {
                forward += copies.forwardMs[position - 1];
                backward += copies.backwardMs[position - 1];
            }
            const double in = out * copies.link.toHost / copies.link.fromHost;
            exposedOut = std::max(exposedOut, out - forward);
            exposedIn = std::max(exposedIn, in - backward + copies.backwardMs[position] / 2);
        }
        return ms + exposedOut + exposedIn;
    }

    /// Tries proposals. Where a plan takes more memory than the rows expect, the next budget is smaller; where more
    /// copies are exposed, the next proposal has less time for copies.
    template <class Propose>
    Status search(const Propose& propose)
    {
        CopyLimits copies = copies_;
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
                shorten(copies);
        }
        return {};
    }

    static void shorten(CopyLimits& copies)
    {
        for (std::vector<double>* times : {&copies.forwardMs, &copies.backwardMs})
            for (double& ms : *times)
                ms *= narrower;
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
        RETURN_IF_ERROR(spread(found));
        tried.ms = offloadCost(found.plan);
        if (tried.ms < belowMs_) {
            belowMs_ = tried.ms;
            best_ = std::move(found);
        }
        return tried;
    }

    /// A whole plan near the shares of a linear relaxation: of the few parts with several options, all choices are
    /// tried. The quickest that fits by the upper bound of the memory, or the one that exceeds the budget least.
    /// nullopt: there are no shares.
    std::optional<OptionShares> rounded(const OptionShares& shares, Bytes budget, const RowProblem::PlanMs& msOf) const
    {
        std::vector<std::vector<ArcOption>> choices;
        for (std::size_t position = 0; position < problem_.positions();) {
            std::map<std::size_t, double> arcs; // share of the arcs that begin here
            for (const auto& [option, share] : shares)
                if (at(problem_.arcs()[option.arc].first) == position)
                    arcs[option.arc] += share;
            if (arcs.empty())
                return std::nullopt;
            const auto largest = std::ranges::max_element(arcs, {}, [](const auto& arc) { return arc.second; });
            std::vector<ArcOption>& options = choices.emplace_back();
            for (const auto& [option, share] : shares)
                if (option.arc == largest->first)
                    options.push_back(option);
            position = at(problem_.arcs()[largest->first].last);
        }
        std::size_t combinations = 1;
        for (std::vector<ArcOption>& options : choices) {
            if (combinations * options.size() > mostRounded)
                options.resize(1);
            combinations *= options.size();
        }
        std::optional<OptionShares> best;
        std::pair least{std::numeric_limits<Bytes>::max(), std::numeric_limits<double>::infinity()}; // excess, ms
        for (std::size_t number = 0; number < combinations; ++number) {
            OptionShares whole;
            std::size_t rest = number;
            for (const std::vector<ArcOption>& options : choices) {
                whole.emplace_back(options[rest % options.size()], 1.0);
                rest /= options.size();
            }
            const double ms = msOf(whole);
            if (least.first == 0 && ms >= least.second)
                continue;
            const double most = std::ranges::max(problem_.memoryUnder(whole, atMost));
            if (const std::pair own(std::max<Bytes>(0, static_cast<Bytes>(most) - budget), ms); own < least) {
                least = own;
                best = std::move(whole);
            }
        }
        return best;
    }

    /// When the saved tensors of a module leave and come back.
    using Times = std::map<ModuleId, Offload>;

    void clock(PlanAnswer& found) const { setOffload(solver_.model_, found.regions, *found.timeline, found.plan); }

    /// Lets tensors leave the device later, and come back earlier, as far as that hides copies and the memory is there.
    Status spread(PlanAnswer& found) const
    {
        clock(found);
        if (found.plan.offload.exposedMs <= 0)
            return {};
        ASSIGN_OR_RETURN(PlanAnswer later, solver_.predicted(withCounted(found.regions)));
        ASSIGN_OR_RETURN(const Times times, timesThatHide(later.regions));
        RETURN_IF_ERROR(shift(later, times, &Offload::wait));
        RETURN_IF_ERROR(shift(later, times, &Offload::ahead));
        clock(later);
        if (offloadCost(later.plan) < offloadCost(found.plan)) {
            later.plan.recomputeMs = later.timeline->recomputeMs;
            found = std::move(later);
        }
        return {};
    }

    /// The positions of the parts that a module of a plan is, is inside of, or is around.
    std::vector<int> positionsOf(ModuleId module) const
    {
        if (const int position = positions_[module.value]; position >= 0)
            return {position};
        std::vector<int> inside;
        for (const PartTree::Around& around : solver_.tree_.around)
            if (solver_.tree_.units[static_cast<std::size_t>(around.unit)].module == module)
                for (int position = around.first; position < around.last; ++position)
                    inside.push_back(position);
        return inside;
    }

    /// The plan with the parts that it leaves as they are, from the first offloaded one on. Nothing of them moves, but
    /// their calls count (Offload::moves), so that a copy may take as long as several of them run.
    CheckpointPlan withCounted(CheckpointPlan regions) const
    {
        const StepModel& model = solver_.model_;
        std::vector<bool> planned(solver_.tree_.parts.size(), false);
        int first = std::numeric_limits<int>::max();
        for (const CheckpointRegion& region : regions)
            for (const int position : positionsOf(region.module)) {
                planned[static_cast<std::size_t>(position)] = true;
                if (region.offload)
                    first = std::min(first, position);
            }
        const std::size_t known = regions.size();
        for (auto position = static_cast<std::size_t>(first); position < planned.size(); ++position) {
            const ModuleId module = solver_.tree_.units[static_cast<std::size_t>(solver_.tree_.parts[position])].module;
            if (!planned[position] && model.index().obstaclesToOffload[module.value] == CheckpointObstacle::none)
                regions.push_back({module, {}, Offload{0, 0, false}});
        }
        if (regions.size() > known)
            std::ranges::sort(regions, {}, &CheckpointRegion::module);
        return regions;
    }

    /// The times by which all copies would be hidden: of a plan whose tensors leave and come back at once, the waits
    /// are taken out of the clock.
    Result<Times> timesThatHide(const CheckpointPlan& plan) const
    {
        const StepTrace& trace = *solver_.model_.trace();
        const StepIndex& index = solver_.model_.index();
        ASSIGN_OR_RETURN(const Regions laidOut, layOut(trace, index, plan));
        ASSIGN_OR_RETURN(StepClock clock, clockOf(trace, index, plan));
        clock.offloads.resize(laidOut.regions.size());
        const std::size_t calls = laidOut.numbered.size();
        std::vector<double> ends(calls), begins(calls); // of the forwards and the backwards
        double waited = 0;
        for (std::size_t call = 0; call < calls; ++call) {
            const TimedOffload& timed = clock.offloads[laidOut.numbered[call]];
            ends[call] = timed.forwardEndMs - waited;
            waited += timed.exposedOutMs;
        }
        for (std::size_t call = calls; call-- > 0;) {
            const TimedOffload& timed = clock.offloads[laidOut.numbered[call]];
            begins[call] = timed.backwardBeginMs - waited;
            waited += timed.exposedMs - timed.exposedOutMs;
        }
        Times times;
        double out = 0;
        double in = std::numeric_limits<double>::infinity(); // the copies of the calls before must begin by then
        for (std::size_t call = 0; call < calls; ++call) {
            const Region& region = laidOut.regions[laidOut.numbered[call]];
            if (region.firstMoved == region.endMoved)
                continue;
            double outMs = 0, inMs = 0;
            for (std::uint32_t moved = region.firstMoved; moved < region.endMoved; ++moved) {
                const Bytes bytes = trace.storages.bytes[laidOut.moved[moved].storage];
                outMs += copies_.link.msToHost(bytes);
                inMs += copies_.link.msFromHost(bytes);
            }
            out = std::max(out, call > 0 ? ends[call - 1] : 0.0) + outMs;
            in = std::min(in, begins[call]) - inMs;
            const auto left = std::ranges::find_if(ends.begin() + static_cast<std::ptrdiff_t>(call), ends.end(),
                                                   [out](double end) { return end >= out; });
            const auto back = std::ranges::find_if(begins.begin() + static_cast<std::ptrdiff_t>(call), begins.end(),
                                                   [in](double begin) { return begin <= in; });
            const auto apart = [call, calls](std::ptrdiff_t found) {
                return static_cast<int>(std::min(found, static_cast<std::ptrdiff_t>(calls) - 1)
                                        - static_cast<std::ptrdiff_t>(call));
            };
            Offload& when = times[trace.calls.module[region.call]];
            when.wait = std::max(when.wait, apart(left - ends.begin()));
            when.ahead = std::max(when.ahead, apart(back - begins.begin()));
        }
        return times;
    }

    /// Gives a member of Offload the value of `times` for as many of the first offloaded modules as the budget allows:
    /// in forward the first calls have memory to spare, and in backward the same calls, which come last.
    Status shift(PlanAnswer& found, const Times& times, int Offload::*member) const
    {
        std::vector<std::size_t> offloaded;
        for (std::size_t region = 0; region < found.regions.size(); ++region)
            if (times.contains(found.regions[region].module))
                offloaded.push_back(region);
        const StepIndex& index = solver_.model_.index();
        std::ranges::sort(offloaded, {}, [&](std::size_t region) {
            return index.callsOf[found.regions[region].module.value].front();
        });
        std::size_t fits = 0;
        std::size_t tooMany = offloaded.size() + 1;
        PlanAnswer best = found;
        for (std::size_t count = offloaded.size(); fits + 1 < tooMany; count = (fits + tooMany) / 2) {
            CheckpointPlan regions = found.regions;
            for (std::size_t i = 0; i < count; ++i) {
                CheckpointRegion& region = regions[offloaded[i]];
                (*region.offload).*member = times.at(region.module).*member;
            }
            ASSIGN_OR_RETURN(PlanAnswer shifted, solver_.predicted(std::move(regions)));
            if (shifted.timeline->peak <= budget_) {
                fits = count;
                best = std::move(shifted);
            } else {
                tooMany = count;
            }
        }
        found.regions = std::move(best.regions);
        found.timeline = std::move(best.timeline);
        return {};
    }

    const StepSolver& solver_;
    const RowProblem& problem_;
    Bytes budget_;
    double belowMs_ = std::numeric_limits<double>::infinity(); ///< of the best plan
    const SearchLimit& limit_;
    RowHints hints_;
    std::vector<int> positions_; ///< partPositions()
    CopyLimits copies_;
    Bytes host_ = 0; ///< as CopyLimits::host, but of the request
    double forwardMs_ = 0; ///< of all parts
    double boundMs_ = 0;
    std::optional<PlanAnswer> best_;
};

Result<const RowProblem*> StepSolver::offloadRows(const std::stop_token& stop) const
{
    const std::lock_guard lock(mutex_);
    if (!offloadRows_) {
        PartTree tree = tree_;
        tree.offloads = true;
        ASSIGN_OR_RETURN(offloadRows_, RowProblem::create(model_, *events_, tree, worldSize_, stop));
    }
    return &*offloadRows_;
}

Result<std::optional<PlanAnswer>> StepSolver::bestWithOffload(Bytes budget, Bytes host, const std::stop_token& stop,
                                                              double limitMs) const
{
    if (minTimePlan_.timeline->peak <= budget)
        return bestBelow(budget, std::numeric_limits<double>::infinity(), stop, limitMs);
    ASSIGN_OR_RETURN(const RowProblem* problem, offloadRows(stop));
    const SearchLimit limit = SearchLimit::after(limitMs, stop);
    return OffloadSearch(*this, *problem, budget, host, limit).run();
}

Result<Bytes> StepSolver::leastWithOffload(const std::stop_token& stop) const
{
    ASSIGN_OR_RETURN(const RowProblem* problem, offloadRows(stop));
    const std::lock_guard lock(mutex_);
    if (!leastWithOffload_) {
        leastWithOffload_ = minMemoryPlan_.timeline->peak;
        const SearchLimit limit = SearchLimit::after(leastMemoryLimitMs, stop);
        if (std::optional<CheckpointPlan> plan = minMemoryInRows(*problem, *leastWithOffload_, limit)) {
            ASSIGN_OR_RETURN(const PlanAnswer lean, predicted(std::move(*plan)));
            leastWithOffload_ = std::min(*leastWithOffload_, lean.timeline->peak);
        }
    }
    return *leastWithOffload_;
}

} // namespace headroom
