// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace headroom::cupti {
namespace {

GpuActivity kernel(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end)
{
    GpuActivity activity;
    activity.correlation = correlation;
    activity.stream = stream;
    activity.start = start;
    activity.end = end;
    return activity;
}

/// The time of each op that launched anything.
std::unordered_map<std::uint64_t, WorkTime> byOp(const StepTimes& times)
{
    return timesByKey(times.work, [](const LaunchedWork& piece, const AddKey& add) {
        if (piece.op)
            add(*piece.op);
    });
}

/// Op 1: two kernels one after the other on stream 7; op 2: kernels on streams 7 and 9 that overlap by 20 µs; a copy
/// that no op launched; two waits and two costs of tracing.
ActivityLog smallStep()
{
    ActivityLog log;
    log.gpu = {kernel(10, 7, 1'000'000, 1'100'000), kernel(11, 7, 1'150'000, 1'200'000),
               kernel(20, 7, 1'200'000, 1'260'000), kernel(21, 9, 1'240'000, 1'300'000),
               kernel(30, 9, 1'400'000, 1'500'000)};
    log.gpu.back().kind = GpuActivity::ActivityKind::memcpy;
    log.externals
        = {{ExternalId::IdKind::op, 10, 1}, {ExternalId::IdKind::op, 11, 1},   {ExternalId::IdKind::op, 20, 2},
           {ExternalId::IdKind::op, 21, 2}, {ExternalId::IdKind::call, 10, 5}, {ExternalId::IdKind::call, 30, 6}};
    log.synchronizations = {{100, 200'100}, {300'000, 500'000}};
    log.overheads = {{0, 1'000'000}, {5'000'000, 5'500'000}};
    return log;
}

TEST(Correlation, TimesOfOpsAndStreamsCountWhatOverlapsOnce)
{
    const StepTimes times = correlate(smallStep());
    const auto ops = byOp(times);
    ASSERT_EQ(ops.size(), 2U);
    EXPECT_EQ(ops.at(1), (WorkTime{0.15, 0.15, 2, 0}));
    EXPECT_EQ(ops.at(2), (WorkTime{0.1, 0.12, 2, 0}));
    EXPECT_EQ(times.all, (WorkTime{0.35, 0.37, 4, 1}));
    EXPECT_EQ(times.withoutOp, (WorkTime{0.1, 0.1, 0, 1}));
    EXPECT_EQ(times.spanMs, 0.5);
    EXPECT_EQ(times.synchronizationMs, 0.4);
    EXPECT_EQ(times.overheadMs, 1.5);
    ASSERT_EQ(times.streams.size(), 2U);
    EXPECT_EQ(times.streams[0].stream, 7U);
    EXPECT_EQ(times.streams[0].time, (WorkTime{0.21, 0.21, 3, 0}));
    EXPECT_EQ(times.streams[1].stream, 9U);
    EXPECT_EQ(times.streams[1].time, (WorkTime{0.16, 0.16, 1, 1}));
}

TEST(Correlation, AModuleCountsTheWorkOfItsCallsOnceWhereStreamsOverlap)
{
    // Both ops are the module's: its time is not the sum of theirs where they overlap.
    ActivityLog log;
    log.gpu = {kernel(1, 7, 0, 1'000'000), kernel(2, 8, 500'000, 2'000'000)};
    log.externals = {{ExternalId::IdKind::op, 1, 0}, {ExternalId::IdKind::op, 2, 1}};
    const auto modules = timesByKey(correlate(log).work, [](const LaunchedWork& piece, const AddKey& add) {
        add(0); // the root
        add(1 + *piece.op);
    });
    EXPECT_EQ(modules.at(0), (WorkTime{2, 2.5, 2, 0}));
    EXPECT_EQ(modules.at(1), (WorkTime{1, 1, 1, 0}));
    EXPECT_EQ(modules.at(2), (WorkTime{1.5, 1.5, 1, 0}));
}

TEST(Correlation, TheOrderOfRecordsDoesNotMatter)
{
    const ActivityLog ordered = smallStep();
    const StepTimes expected = correlate(ordered);
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        ActivityLog log = ordered;
        std::ranges::shuffle(log.gpu, random);
        std::ranges::shuffle(log.externals, random);
        const StepTimes times = correlate(log);
        EXPECT_EQ(byOp(times), byOp(expected));
        EXPECT_EQ(times.all, expected.all);
        EXPECT_EQ(times.withoutOp, expected.withoutOp);
        for (std::size_t i = 0; i < times.work.size(); ++i)
            EXPECT_EQ(times.work[i].activity.correlation, expected.work[i].activity.correlation);
    }
}

TEST(Correlation, OfNestedOpsTheInnermostCounts)
{
    ActivityLog log;
    log.gpu = {kernel(1, 7, 0, 1'000)};
    log.externals = {{ExternalId::IdKind::op, 1, 4}, {ExternalId::IdKind::op, 1, 9}, {ExternalId::IdKind::op, 1, 3}};
    const StepTimes times = correlate(log);
    ASSERT_EQ(times.work.size(), 1U);
    EXPECT_EQ(times.work[0].op, 9U);
    EXPECT_EQ(times.work[0].call, std::nullopt);
}

TEST(Correlation, KernelsOfAGraphShareACorrelation)
{
    ActivityLog log;
    log.gpu = {kernel(1, 7, 0, 1'000), kernel(1, 7, 2'000, 3'000), kernel(1, 7, 4'000, 5'000)};
    log.externals = {{ExternalId::IdKind::op, 1, 8}};
    EXPECT_EQ(byOp(correlate(log)).at(8), (WorkTime{0.003, 0.003, 3, 0}));
}

TEST(Correlation, RecordsThatWereDroppedLeaveTheOthersRight)
{
    ActivityLog log = smallStep();
    log.dropped = 2;
    std::erase_if(log.gpu, [](const GpuActivity& a) { return a.correlation == 11; }); // a kernel is missing
    std::erase_if(log.externals, [](const ExternalId& e) { return e.correlation == 21; }); // the id of one
    const StepTimes times = correlate(log);
    const auto ops = byOp(times);
    EXPECT_EQ(ops.at(1), (WorkTime{0.1, 0.1, 1, 0}));
    EXPECT_EQ(ops.at(2), (WorkTime{0.06, 0.06, 1, 0}));
    EXPECT_EQ(times.withoutOp, (WorkTime{0.16, 0.16, 1, 1}));
    EXPECT_EQ(times.dropped, 2U);
}

TEST(Correlation, WorkWithoutAnEndIsInNoTime)
{
    ActivityLog log;
    log.gpu = {kernel(1, 7, 1'000, 2'000), kernel(2, 7, 3'000, 0), kernel(3, 7, 0, 0), kernel(4, 7, 5'000, 5'000)};
    const StepTimes times = correlate(log);
    EXPECT_EQ(times.unfinished, 3U);
    EXPECT_EQ(times.all, (WorkTime{0.001, 0.001, 1, 0}));
    EXPECT_EQ(times.spanMs, 0.001);
}

TEST(Correlation, AnEmptyLogIsAnEmptyStep)
{
    const StepTimes times = correlate({});
    EXPECT_TRUE(times.work.empty());
    EXPECT_EQ(times.all, WorkTime());
    EXPECT_EQ(times.spanMs, 0);
}

} // namespace
} // namespace headroom::cupti
