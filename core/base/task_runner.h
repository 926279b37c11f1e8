// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace headroom {

/// A thread that runs a job at a time and keeps at most one waiting job, the latest that was posted. The destructor
/// drops the waiting job, stops the running job and waits for the end. Any thread may call the functions.
class TaskRunner
{
public:
    using Job = std::function<void(std::stop_token)>;
    using Clock = std::chrono::steady_clock;

    TaskRunner();
    ~TaskRunner();
    TaskRunner(const TaskRunner&) = delete;
    TaskRunner& operator=(const TaskRunner&) = delete;

    /// Runs `job` after the running job; `job` replaces a job that waits. The running job is not stopped: see
    /// stopStale().
    void post(Job job);

    /// Stops the running job if another job waits and the running job has run for at least `age`. Returns whether a job
    /// waits.
    bool stopStale(Clock::duration age);

    void cancel(); ///< stops the running job and drops the waiting job

private:
    void work(std::stop_token ending);

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::optional<Job> waiting_;
    std::optional<Clock::time_point> runningSince_;
    std::stop_source running_;
    std::jthread thread_; ///< the last member: the thread uses all the others
};

} // namespace headroom
