// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/activity_session.h"

#include "core/cupti/step_times.h"
#include "tests/cupti/fake_cupti.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::cupti {
namespace {

class Session : public testing::Test
{
protected:
    Session() { FakeCupti::reset(); }

    std::unique_ptr<ActivitySession> start()
    {
        auto session = ActivitySession::start(FakeCupti::api());
        EXPECT_TRUE(session) << session.error().message;
        return session ? std::move(*session) : nullptr;
    }

    FakeCupti& fake_ = FakeCupti::instance();
};

ActivityBuffer bufferOf(std::uint32_t correlation, std::uint64_t op, std::uint64_t length)
{
    ActivityBuffer buffer;
    buffer.kernel(correlation, 7, 1'000, 1'000 + length);
    buffer.external(opKind, correlation, op);
    return buffer;
}

TEST_F(Session, GivesTheRecordsOfAllBuffersAndSwitchesEverythingOff)
{
    const auto session = start();
    ASSERT_TRUE(session);
    EXPECT_TRUE(fake_.enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    EXPECT_TRUE(fake_.enabled.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
    // External ids come with the records of these.
    EXPECT_TRUE(fake_.enabled.contains(CUPTI_ACTIVITY_KIND_RUNTIME));
    EXPECT_TRUE(fake_.enabled.contains(CUPTI_ACTIVITY_KIND_DRIVER));
    fake_.queued = {bufferOf(1, 10, 500), bufferOf(2, 11, 600), bufferOf(3, 12, 700)};
    fake_.dropped = 4;
    const ActivityLog log = session->stop();
    EXPECT_EQ(log.gpu.size(), 3U);
    EXPECT_EQ(log.externals.size(), 3U);
    EXPECT_EQ(log.dropped, 4U);
    EXPECT_TRUE(fake_.enabled.empty());
    EXPECT_TRUE(session->notes().empty());
}

TEST_F(Session, AWarmUpIsTakenAwayWithItsDroppedRecords)
{
    const auto session = start();
    ASSERT_TRUE(session);
    fake_.queued = {bufferOf(1, 10, 500)};
    fake_.dropped = 9;
    EXPECT_EQ(session->take().gpu.size(), 1U);
    EXPECT_FALSE(fake_.enabled.empty());
    fake_.queued = {bufferOf(2, 11, 600)};
    const ActivityLog log = session->stop();
    ASSERT_EQ(log.gpu.size(), 1U);
    EXPECT_EQ(log.gpu[0].correlation, 2U);
    EXPECT_EQ(log.dropped, 0U);
}

TEST_F(Session, PushesOpsAndCallsAsKindsOfTheirOwn)
{
    const auto session = start();
    ASSERT_TRUE(session);
    session->enterCall(5);
    session->enterOp(17);
    session->leaveOp();
    session->leaveCall();
    EXPECT_THAT(fake_.calls, testing::ElementsAre("push 4 5", "push 3 17", "pop 3", "pop 4"));
}

TEST_F(Session, WhereTracingIsNotAllowedNothingStaysOnAndTheSentenceSaysWhatToDo)
{
    fake_.refusedKind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    fake_.refusal = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    const auto session = ActivitySession::start(FakeCupti::api());
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().kind, ErrorKind::noDevice);
    EXPECT_EQ(
        session.error().message,
        "kernel times cannot be measured: this user may not trace the GPU: write `options nvidia "
        "NVreg_RestrictProfilingToAdminUsers=0` into a file of /etc/modprobe.d, rebuild the initramfs and restart, "
        "or run as root (in a container with --cap-add SYS_ADMIN) (CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, code 35, "
        "CUPTI 13.0.1)");
    EXPECT_TRUE(fake_.enabled.empty());
    // And the next one may start.
    fake_.refusedKind = CUPTI_ACTIVITY_KIND_INVALID;
    EXPECT_TRUE(start());
}

TEST_F(Session, AnotherProfilerIsNamed)
{
    fake_.registerResult = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    const auto session = ActivitySession::start(FakeCupti::api());
    ASSERT_FALSE(session);
    EXPECT_THAT(session.error().message, testing::HasSubstr("another profiler is attached to this process"));
}

TEST_F(Session, WhatIsNotNeededMayBeMissingWithANote)
{
    fake_.refusedKind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    fake_.refusal = CUPTI_ERROR_NOT_SUPPORTED;
    const auto session = start();
    ASSERT_TRUE(session);
    EXPECT_THAT(
        session->notes(),
        testing::ElementsAre("CUPTI does not trace the cost of tracing here, and the step's numbers leave that out"));
    fake_.queued = {bufferOf(1, 10, 500)};
    EXPECT_EQ(session->stop().gpu.size(), 1U);
}

TEST_F(Session, ThereIsOneAtATime)
{
    {
        const auto first = start();
        ASSERT_TRUE(first);
        const auto second = ActivitySession::start(FakeCupti::api());
        ASSERT_FALSE(second);
        EXPECT_EQ(second.error().kind, ErrorKind::internal);
    }
    EXPECT_TRUE(start());
}

TEST_F(Session, ABufferThatComesAfterTheEndIsNotTheNextOnes)
{
    start().reset();
    const ActivityBuffer late = bufferOf(1, 10, 500);
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t records = 0;
    fake_.request(&buffer, &size, &records);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer) % 8, 0U);
    fake_.complete(nullptr, 0, buffer, size, 8);
    const auto session = start();
    EXPECT_TRUE(session->stop().gpu.empty());
}

TEST_F(Session, AFlushThatFailsIsANoteAndWhatCameIsKept)
{
    const auto session = start();
    fake_.queued = {bufferOf(1, 10, 500)};
    fake_.flushResult = CUPTI_ERROR_UNKNOWN;
    EXPECT_EQ(session->stop().gpu.size(), 1U);
    EXPECT_THAT(session->notes(), testing::ElementsAre(testing::HasSubstr("cuptiActivityFlushAll failed")));
}

} // namespace
} // namespace headroom::cupti
