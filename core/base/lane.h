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

/// One thread that does one job at a time and remembers at most one more: the latest wins, what waited before it is
/// forgotten. Destroying a lane stops the job that runs and waits for its end.
class Lane
{
public:
    using Job = std::function<void(std::stop_token)>;
    using Clock = std::chrono::steady_clock;

    Lane();
    ~Lane();
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    /// Runs `job` after the one that runs now, in place of what waits. The running job goes on: see stopStale().
    void post(Job job);

    /// Stops the running job when another waits for it and it has run for `age` at least. Returns whether one waits.
    bool stopStale(Clock::duration age);

    void cancel(); ///< stops the running job and forgets the waiting one

private:
    void work(std::stop_token ending);

    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::optional<Job> waiting_;
    std::optional<Clock::time_point> runningSince_;
    std::stop_source running_;
    std::jthread thread_; ///< last: it uses everything above
};

} // namespace headroom
