// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/task_runner.h"

#include <utility>

namespace headroom {

TaskRunner::TaskRunner()
    : thread_([this](std::stop_token ending) { work(std::move(ending)); })
{
}

TaskRunner::~TaskRunner()
{
    cancel();
    thread_.request_stop();
}

void TaskRunner::post(Job job)
{
    {
        const std::lock_guard lock(mutex_);
        waiting_ = std::move(job);
    }
    changed_.notify_one();
}

bool TaskRunner::stopStale(Clock::duration age)
{
    const std::lock_guard lock(mutex_);
    if (waiting_ && runningSince_ && Clock::now() - *runningSince_ >= age)
        running_.request_stop();
    return waiting_.has_value();
}

void TaskRunner::cancel()
{
    const std::lock_guard lock(mutex_);
    waiting_.reset();
    running_.request_stop();
}

void TaskRunner::work(std::stop_token ending)
{
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, ending, [this] { return waiting_.has_value(); })) {
        const Job job = *std::exchange(waiting_, std::nullopt);
        running_ = std::stop_source();
        runningSince_ = Clock::now();
        const std::stop_token stop = running_.get_token();
        lock.unlock();
        job(stop);
        lock.lock();
        runningSince_.reset();
    }
}

} // namespace headroom
