// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_planner.h"
#include "core/policy/option_table.h"
#include "core/policy/plan_answer.h"
#include "core/policy/policy_maker.h"
#include "core/policy/row_planner.h"

#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace headroom {

/// Lets one thread at a time make what several threads need. All calls hold the same mutex.
class Turns
{
public:
    /// Waits while another thread makes something. Returns false after a stop request.
    bool wait(std::unique_lock<std::mutex>& lock, const std::stop_token& stop)
    {
        return ended_.wait(lock, stop, [this] { return !making_; });
    }
    /// Calls `make` without the mutex, and returns what `make` returns.
    template <class Make>
    auto make(std::unique_lock<std::mutex>& lock, const Make& make)
    {
        struct Turn
        {
            Turns& turns;
            std::unique_lock<std::mutex>& lock;
            Turn(Turns& ofAll, std::unique_lock<std::mutex>& held)
                : turns(ofAll)
                , lock(held)
            {
                turns.making_ = true;
                lock.unlock();
            }
            ~Turn()
            {
                lock.lock();
                turns.making_ = false;
                turns.ended_.notify_all();
            }
        } const turn(*this, lock);
        return make();
    }

private:
    std::condition_variable_any ended_;
    bool making_ = false;
};

/// Solves one request at any budget: holds the tables of its options, and the plans at both ends of the frontier. Every
/// plan that it returns was predicted on the step: regions, timeline and the search's figures of a PlanAnswer, which
/// answerTo() completes. Immutable; any thread may call it.
class StepSolver
{
public:
    /// `events` must outlive the options. Errors: those of predict(), and stoppedMeasuring().
    static Result<std::shared_ptr<const StepSolver>> create(const StepModel& model, const StorageEvents& events,
                                                            const PartTree& tree, int worldSize,
                                                            const std::stop_token& stop = {});

    const PlanAnswer& minMemoryPlan() const { return minMemoryPlan_; } ///< the plan of least peak
    const PlanAnswer& minTimePlan() const { return minTimePlan_; } ///< the plan of least time, whatever its peak

    /// The plan of least time within a budget, which must not be below the peak of minMemoryPlan(). Errors: those of
    /// predict().
    Result<PlanAnswer> best(Bytes budget, const std::stop_token& stop, double limitMs) const;

    /// The plan of least time within a budget if saved tensors may go to host memory, of which `host` bytes may be
    /// pinned (0: any). The time is that of recomputation and of exposed copies. The plan is that of best() if no other
    /// plan takes less and time is left to compare. nullopt: none was found. Needs hasClock(). Errors: as best().
    Result<std::optional<PlanAnswer>> bestWithOffload(Bytes budget, Bytes host, const std::stop_token& stop,
                                                      double limitMs) const;
    /// The least peak of a plan with offload; at most that of minMemoryPlan(). Errors: as best().
    Result<Bytes> leastWithOffload(const std::stop_token& stop) const;

private:
    StepSolver(const StepModel& model, const StorageEvents& events, PartTree tree, int worldSize)
        : model_(model)
        , events_(&events)
        , tree_(std::move(tree))
        , worldSize_(worldSize)
    {
    }
    Result<PlanAnswer> predicted(CheckpointPlan regions) const;
    /// As best(), among plans that take less than `belowMs`; nullopt: none was found.
    Result<std::optional<PlanAnswer>> bestBelow(Bytes budget, double belowMs, const std::stop_token& stop,
                                                double limitMs) const;
    Status findEnds();
    Result<const RowProblem*> rows(const std::stop_token& stop) const; ///< creates them the first time
    /// What a search with offload needs beside the request.
    struct OffloadProblem
    {
        RowProblem rows; ///< with options that offload
        std::shared_ptr<const EventTimes> times; ///< of the recorded step
        CopyLimits copies; ///< for bounds
        CopyLimits expected; ///< for proposals
        CopySchedule schedule;
        /// What the linear relaxations of some budgets need; ascending by budget. Searches at budgets between start
        /// from there, so that the plan of a budget does not depend on the budgets asked for before.
        std::vector<std::pair<Bytes, RowHints>> hints;
        /// The plan of least peak, in the order of the chain; empty: no plan takes less than minMemoryPlan().
        OptionShares leanest;
        double leanestMs = std::numeric_limits<double>::infinity(); ///< of the plan, if copies move at once
        Bytes leastPeak = 0; ///< leastWithOffload()

        void findHints(Bytes most, const std::stop_token& stop); ///< at budgets of up to `most`
        RowHints hintsNear(Bytes budget) const;
    };
    Result<const OffloadProblem*> offloadProblem(const std::stop_token& stop) const; ///< created the first time
    Result<OffloadProblem> makeOffloadProblem(const std::stop_token& stop) const;
    class OffloadSearch;
    Status findMinMemoryInRows(const std::stop_token& stop);
    Status searchChain(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const;
    Status searchNoChain(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const;
    Status searchTables(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const;
    /// Raises the bound of `best`, and replaces its plan by a better one.
    Status searchRows(Bytes budget, const SearchLimit& limit, PlanAnswer& best) const;
    /// One table, or two with different boundaries (OptionTable::otherBoundary()).
    using Boundaries = std::vector<OptionTable>;
    class Search;

    StepModel model_;
    const StorageEvents* events_;
    PartTree tree_;
    std::vector<Boundaries> tables_; ///< by way to count shared arguments; one of them has the best plan
    int worldSize_;
    PlanAnswer minMemoryPlan_;
    PlanAnswer minTimePlan_;
    bool isNoChain_ = false; ///< the plan that recomputes all parts is leaner than those of the tables
    mutable std::mutex mutex_;
    mutable Turns turns_; ///< of offload_
    mutable std::optional<RowProblem> rows_;
    mutable std::optional<OffloadProblem> offload_;
};
using StepSolverPtr = std::shared_ptr<const StepSolver>;

} // namespace headroom
