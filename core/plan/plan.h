// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/elapsed.h"
#include "core/base/error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// Ends a search early: after an amount of work of this thread, or by the caller's stop token. Work is the same on each
/// computer, so that the same search finds the same plan. The unit is the time on one core of a server of 2023. Where
/// the work takes mostTimes as long, the clock ends the search, and endedByClock() says so.
class SearchLimit
{
public:
    using Clock = std::chrono::steady_clock;
    static constexpr double mostTimes = 30;

    static SearchLimit after(double ms, std::stop_token stop)
    {
        const double clockMs = thread_.isByClock ? ms : mostTimes * ms;
        const std::chrono::duration<double, std::milli> time(std::min(clockMs, longestMs));
        return {thread_.doneNs + nanoseconds(ms), thread_.now() + std::chrono::duration_cast<Clock::duration>(time),
                std::move(stop)};
    }

    bool reached() const
    {
        if (stop.stop_requested() || (!thread_.isByClock && thread_.doneNs >= endNs_))
            return true;
        if (thread_.now() < end_)
            return false;
        if (!thread_.isByClock)
            endedByClock_ = true;
        return true;
    }
    double remainingMs() const
    {
        return thread_.isByClock ? clockMs() : static_cast<double>(endNs_ - thread_.doneNs) / 1e6;
    }
    double clockMs() const { return std::chrono::duration<double, std::milli>(end_ - thread_.now()).count(); }

    /// Counts work of this thread.
    static void count(double units, double nsEach) { thread_.doneNs += static_cast<std::int64_t>(units * nsEach); }
    static bool endedByClock() { return endedByClock_; } ///< a limit of work of this process, so far

    /// As long as the object lives, limits of this thread are of time: the answer is due while a person waits.
    class ByClock
    {
    public:
        ByClock() { thread_.isByClock = true; }
        ~ByClock() { thread_.isByClock = false; }
        ByClock(const ByClock&) = delete;
        ByClock& operator=(const ByClock&) = delete;
    };
    /// Calls task(0) to task(count - 1) at once, each in a thread with the limits of this thread, and waits for all.
    /// The work of the longest call counts for this thread. Where the system has no thread left, calls run in sequence.
    template <class Task>
    static void callAtOnce(std::size_t count, const Task& task)
    {
        const Thread before = thread_;
        std::vector<std::future<std::int64_t>> others;
        for (std::size_t number = 1; number < count; ++number)
            others.push_back(std::async([&, number] {
                thread_ = before;
                task(number);
                return thread_.doneNs;
            }));
        if (count > 0)
            task(std::size_t{0});
        std::int64_t most = thread_.doneNs;
        for (std::future<std::int64_t>& other : others)
            most = std::max(most, other.get());
        thread_.doneNs = most;
    }
    static void setClock(Clock::time_point (*now)()) { thread_.now = now; } ///< of this thread, for tests

    std::stop_token stop;

private:
    SearchLimit(std::int64_t endNs, Clock::time_point end, std::stop_token token)
        : stop(std::move(token))
        , endNs_(endNs)
        , end_(end)
    {
    }

    static constexpr double longestMs = 1e12;
    static std::int64_t nanoseconds(double ms) { return static_cast<std::int64_t>(std::min(ms, longestMs) * 1e6); }
    struct Thread
    {
        std::int64_t doneNs = 0; ///< whole, so that the sum does not depend on the order of searches
        bool isByClock = false;
        Clock::time_point (*now)() = Clock::now;
    };
    static thread_local Thread thread_;
    static inline std::atomic<bool> endedByClock_ = false;
    std::int64_t endNs_; ///< Thread::doneNs at the end
    Clock::time_point end_;
};
inline thread_local SearchLimit::Thread SearchLimit::thread_;

/// The unit of a plan: modules that are checkpointed, or single ops of the whole step.
enum class PlanMode { modules, ops };

/// A decision that the user fixes for a module. `save` keeps all its activations, so that neither it nor a module
/// inside or around it is checkpointed or offloaded; `recompute` checkpoints it; `offload` moves its saved tensors to
/// host memory.
enum class Pin { save, recompute, offload };
/// Reads pins such as "Net.layers.0=save". Error (badInput): another form, or a module with two decisions; the sentence
/// begins with --pin.
Result<std::map<std::string, Pin>> parsePins(std::span<const std::string> texts);

/// The input of a planner.
struct PlanRequest
{
    Bytes budget = 0;
    int worldSize = 1; ///< number of ranks over which FSDP shards parameters and gradients, as in PyTorch's sac_milp
    std::vector<std::string> acUnits; ///< only these may be checkpointed; empty: any module with children
    std::vector<std::string> fsdpUnits; ///< no module that contains one of these is checkpointed
    std::map<std::string, Pin> pins; ///< by fqn
    bool offload = false; ///< saved tensors may go to host memory; also with a pin `offload`
    bool recompute = true; ///< false: only modules that are pinned to `recompute` are checkpointed
    Bytes hostMemory = 0; ///< most pinned host memory for offload; 0: any

    bool mayOffload() const; ///< `offload`, or a pin `offload`

    bool operator==(const PlanRequest&) const = default;
};

/// Error (badInput) if the world size is below 1.
Status checkWorldSize(const PlanRequest& request);

enum class PlanStatus {
    optimal, ///< proven: gap 0, to the solver's tolerance of 1e-6
    feasible, ///< within the budget, not proven optimal: see gap
    infeasible, ///< no plan fits: see leastBudget and reason
    stopped, ///< stopped by the caller before a plan was found
};
std::string_view planStatusName(PlanStatus status);

/// The output of a planner. Its JSON keys are stable.
struct Plan
{
    PlanStatus status = PlanStatus::infeasible;
    Bytes budget = 0;
    int worldSize = 1;
    Bytes peak = -1; ///< peak of the plan; -1 if infeasible
    /// Peak without checkpointing, of one of `worldSize` ranks; by PiecewisePlanner of one GPU, as PyTorch's baseline.
    Bytes baselinePeak = 0;
    double recomputeMs = 0;
    double stepMs = 0; ///< forward and backward without recomputation
    double boundMs = 0; ///< no plan recomputes less than this
    double gap = 0; ///< (recomputeMs - boundMs) / recomputeMs; with offload, exposed copies count as recomputation
    /// What a plan moves to host memory; all 0 without offload.
    struct
    {
        Bytes moved = 0; ///< bytes to the host in a step; as many come back
        Bytes host = 0; ///< pinned host memory (Timeline::hostBytes)
        double copyMs = 0; ///< sum of the times of the copies, both directions
        double exposedMs = 0; ///< time when the GPU waits for copies
    } offload;
    double costMs() const { return recomputeMs + offload.exposedMs; } ///< what the plan adds to the step
    double gapMs() const { return gap * costMs(); } ///< the most that a better plan saves
    double solveMs = 0; ///< wall time
    std::int64_t nodes = 0; ///< number of nodes of search trees and labels of dynamic programmes
    /// The price of memory at the budget: ms that one more GiB saves, by the linear relaxation. 0 if nothing is
    /// recomputed, and for PiecewisePlanner, which does not compute it.
    double msPerGiB = 0;
    /// By fqn: share of the module's memory that is discarded. For a plan of a step it is discardedShare(); for
    /// PiecewisePlanner it is PyTorch's variable, the share of the module's SAC memory.
    std::map<std::string, double> decisions;
    Bytes leastBudget = 0; ///< the smallest budget for which a plan exists
    struct
    {
        std::string module;
        std::string phase;
    } binding; ///< where the plan's memory is closest to the budget
    std::string reason; ///< if infeasible: one sentence that says why and what would help
};

/// Plan::gap: the share of the recompute time that a better plan may save, 0 to 1.
double gapTo(double boundMs, double recomputeMs);

} // namespace headroom
