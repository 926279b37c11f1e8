// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/task_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace headroom {
namespace {

TEST(TaskRunner, LatestOfTheWaitingJobsRunsAndTheOthersAreForgotten)
{
    std::vector<int> ran; // by the lane's thread until `last` is ready
    std::promise<void> started;
    std::promise<void> go;
    std::promise<void> last;
    TaskRunner lane;
    lane.post([&](const std::stop_token&) {
        started.set_value();
        go.get_future().wait();
        ran.push_back(1);
    });
    started.get_future().wait();
    lane.post([&](const std::stop_token&) { ran.push_back(2); });
    lane.post([&](const std::stop_token&) {
        ran.push_back(3);
        last.set_value();
    });
    go.set_value();
    last.get_future().wait();
    EXPECT_EQ(ran, (std::vector<int>{1, 3}));
}

TEST(TaskRunner, StopsWhatRunsOnlyWhenAnotherWaits)
{
    std::promise<void> started;
    std::promise<bool> stopped;
    TaskRunner lane;
    lane.post([&](const std::stop_token& stop) {
        started.set_value();
        while (!stop.stop_requested())
            std::this_thread::yield();
        stopped.set_value(true);
    });
    started.get_future().wait();
    EXPECT_FALSE(lane.stopStale({}));
    lane.post([](const std::stop_token&) {});
    EXPECT_TRUE(lane.stopStale({}));
    EXPECT_TRUE(stopped.get_future().get());
}

TEST(TaskRunner, EndsWithItsJobAndWithoutTheOneThatWaits)
{
    std::atomic<bool> waitedRan{false};
    std::promise<void> started;
    {
        TaskRunner lane;
        lane.post([&](const std::stop_token& stop) {
            started.set_value();
            while (!stop.stop_requested())
                std::this_thread::yield();
        });
        started.get_future().wait();
        lane.post([&](const std::stop_token&) { waitedRan = true; });
    }
    EXPECT_FALSE(waitedRan);
}

} // namespace
} // namespace headroom
