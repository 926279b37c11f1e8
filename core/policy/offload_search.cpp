// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/policy/step_solver.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace headroom {

namespace {

constexpr int mostOffloadTries = 6; ///< problems that are solved for one budget
constexpr double offloadGap = 0.005; ///< gap of a search in rows
constexpr double narrower = 0.8; ///< the next time for hidden copies, if more copies were exposed than expected
constexpr double exposedTolerance = 0.02; ///< exposed copies beyond the expected ones, as a share of the plan's time
constexpr int mostCallsApart = 2; ///< Offload::wait and Offload::ahead
constexpr double leastMemoryLimitMs = 300;

/// Sum of the times of the ops of a phase, ms.
double phaseMs(const StepTrace& trace, Phase phase)
{
    double ms = 0;
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op)
        if (trace.ops.phase[OpId(op)] == phase)
            ms += trace.ops.ms[OpId(op)];
    return ms;
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
    OffloadSearch(const StepSolver& solver, const RowProblem& problem, Bytes budget, Bytes host, double belowMs,
                  const SearchLimit& limit)
        : solver_(solver)
        , problem_(problem)
        , budget_(budget)
        , belowMs_(belowMs)
        , limit_(limit)
    {
        const StepTrace& trace = *solver.model_.trace();
        copies_ = {hostLinkOf(trace.info), phaseMs(trace, Phase::forward), phaseMs(trace, Phase::backward), host};
    }

    Result<std::optional<PlanAnswer>> run()
    {
        const RowAnswer bound = solveRows(problem_, budget_, RowProblem::Memory::atLeast, offloadGap, limit_, copies_);
        const Bytes host = copies_.host;
        const double forwardMs = copies_.forwardMs;
        Bytes rowsBudget = budget_;
        for (int i = 0; i < mostOffloadTries && (i == 0 || !limit_.reached()); ++i) {
            const RowAnswer answer = i == 0 && bound.plan
                ? bound
                : solveRows(problem_, rowsBudget, RowProblem::Memory::atMost, offloadGap, limit_, copies_);
            if (!answer.plan)
                break;
            ASSIGN_OR_RETURN(PlanAnswer found, solver_.predicted(*answer.plan));
            if (const Bytes excess = found.timeline->peak - budget_; excess > 0) {
                rowsBudget -= i == 0 ? 0 : excess; // the first problem was the lower bound
                continue;
            }
            if (const Bytes excess = found.timeline->hostBytes - host; host > 0 && excess > 0) {
                copies_.host -= excess;
                if (copies_.host <= 0)
                    break;
                continue;
            }
            RETURN_IF_ERROR(spread(found));
            found.plan.nodes += answer.nodes;
            found.plan.msPerGiB = answer.msPerGiB;
            const double expected = std::max(0.0, found.plan.offload.copyMs / 2 - copies_.forwardMs);
            const bool more = found.plan.offload.exposedMs - expected > exposedTolerance * offloadCost(found.plan);
            if (offloadCost(found.plan) < belowMs_) {
                belowMs_ = offloadCost(found.plan);
                best_ = std::move(found);
            }
            if (!more)
                break;
            copies_.forwardMs *= narrower;
            copies_.backwardMs *= narrower;
        }
        if (best_) {
            // The rows count a small price of hidden copies, of which there are at most those of forward's time.
            const double most = copyPrice * (forwardMs + belowMs_);
            best_->plan.boundMs = std::clamp(bound.boundMs - most, 0.0, belowMs_);
            best_->plan.gap = gapTo(best_->plan.boundMs, belowMs_);
            best_->plan.status = PlanStatus::feasible;
        }
        return std::move(best_);
    }

private:
    Status clock(PlanAnswer& found) const
    {
        setOffload(solver_.model_, found.regions, *found.timeline, found.plan);
        return {};
    }

    /// Lets tensors leave the device later, and come back earlier, where that hides copies and the memory is there. In
    /// forward the first calls have memory to spare, in backward the same calls, which come last.
    Status spread(PlanAnswer& found) const
    {
        RETURN_IF_ERROR(clock(found));
        std::vector<std::size_t> offloaded;
        for (std::size_t region = 0; region < found.regions.size(); ++region)
            if (found.regions[region].offload)
                offloaded.push_back(region);
        const StepIndex& index = solver_.model_.index();
        std::ranges::sort(offloaded, {}, [&](std::size_t region) {
            return index.callsOf[found.regions[region].module.value].front();
        });
        for (int apart = 1; apart <= mostCallsApart && found.plan.offload.exposedMs > 0; ++apart) {
            PlanAnswer later = found;
            RETURN_IF_ERROR(shift(later, offloaded, &Offload::wait, apart));
            RETURN_IF_ERROR(shift(later, offloaded, &Offload::ahead, apart));
            RETURN_IF_ERROR(clock(later));
            if (offloadCost(later.plan) >= offloadCost(found.plan))
                break;
            found = std::move(later);
        }
        return {};
    }

    /// Sets a member of Offload for as many of the first offloaded modules as the budget allows.
    Status shift(PlanAnswer& found, const std::vector<std::size_t>& offloaded, int Offload::*member, int value) const
    {
        std::size_t fits = 0;
        std::size_t tooMany = offloaded.size() + 1;
        PlanAnswer best = found;
        while (fits + 1 < tooMany) {
            const std::size_t count = tooMany == offloaded.size() + 1 ? offloaded.size() : (fits + tooMany) / 2;
            CheckpointPlan regions = found.regions;
            for (std::size_t i = 0; i < count; ++i)
                (*regions[offloaded[i]].offload).*member = value;
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
    double belowMs_;
    const SearchLimit& limit_;
    CopyLimits copies_;
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

Result<std::optional<PlanAnswer>> StepSolver::bestWithOffload(Bytes budget, Bytes host, const PlanAnswer* without,
                                                              const std::stop_token& stop, double limitMs) const
{
    ASSIGN_OR_RETURN(const RowProblem* problem, offloadRows(stop));
    const SearchLimit limit = SearchLimit::after(limitMs, stop);
    double belowMs = std::numeric_limits<double>::infinity();
    if (without != nullptr)
        belowMs = without->plan.recomputeMs + without->plan.offload.exposedMs;
    return OffloadSearch(*this, *problem, budget, host, belowMs, limit).run();
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
