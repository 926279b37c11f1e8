// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/activity_session.h"

#include "core/cupti/step_times.h"
#include "tests/cupti/activity_buffer.h"
#include "tests/cupti/fake_cupti.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace headroom::cupti {
namespace {

ActivityLog parsed(std::vector<ActivityBuffer> buffers, const CuptiApi& api = FakeCupti::api())
{
    ActivityLog log;
    RecordParser parser(api, log);
    for (ActivityBuffer& buffer : buffers) {
        const Status status = parser.parse(buffer.bytes());
        EXPECT_TRUE(status) << status.error().message;
    }
    return log;
}

/// Every kind that is read, and two that are passed over.
ActivityBuffer oneOfEach()
{
    ActivityBuffer buffer;
    buffer.external(opKind, 1, 100);
    buffer.external(callKind, 1, 7);
    buffer.external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 1, 55); // not ours
    buffer.runtimeCall(1, 42);
    buffer.kernel(1, 13, 1'000, 3'000, "gemm");
    buffer.copy(2, 14, 4'000, 5'000, 4096);
    buffer.copyBetweenGpus(3, 5'000, 6'000, 1'000'000);
    buffer.set(4, 13, 6'000, 7'000, 512);
    buffer.wait(100, 400);
    buffer.overhead(500, 900);
    return buffer;
}

void expectOneOfEach(const ActivityLog& log)
{
    using Kind = GpuActivity::ActivityKind;
    ASSERT_EQ(log.gpu.size(), 4U);
    EXPECT_EQ(log.gpu[0].kind, Kind::kernel);
    EXPECT_EQ(log.gpu[0].correlation, 1U);
    EXPECT_EQ(log.gpu[0].stream, 13U);
    EXPECT_EQ(log.gpu[0].context, 1U);
    EXPECT_EQ(log.gpu[0].start, 1'000U);
    EXPECT_EQ(log.gpu[0].end, 3'000U);
    EXPECT_EQ(log.names.at(log.gpu[0].name), "gemm");
    EXPECT_EQ(log.gpu[1].kind, Kind::memcpy);
    EXPECT_EQ(log.gpu[1].bytes, 4096);
    EXPECT_EQ(log.gpu[2].kind, Kind::memcpy);
    EXPECT_EQ(log.gpu[2].bytes, 1'000'000);
    EXPECT_EQ(log.gpu[3].kind, Kind::memset);
    EXPECT_EQ(log.gpu[3].bytes, 512);
    EXPECT_EQ(log.gpu[3].end, 7'000U);
    ASSERT_EQ(log.externals.size(), 2U);
    EXPECT_EQ(log.externals[0].kind, ExternalId::IdKind::op);
    EXPECT_EQ(log.externals[0].id, 100U);
    EXPECT_EQ(log.externals[1].kind, ExternalId::IdKind::call);
    EXPECT_EQ(log.externals[1].id, 7U);
    ASSERT_EQ(log.synchronizations.size(), 1U);
    EXPECT_EQ(log.synchronizations[0].end, 400U);
    ASSERT_EQ(log.overheads.size(), 1U);
    EXPECT_EQ(log.overheads[0].start, 500U);
}

TEST(RecordParser, ReadsEachKindOfRecord)
{
    expectOneOfEach(parsed({oneOfEach()}));
}

/// The walk from record to record is CUPTI's own: its library does it where it is, also without a driver.
TEST(RecordParser, WalksAsCuptiItselfDoes)
{
    const auto api = loadCupti();
    if (!api)
        GTEST_SKIP() << api.error().message;
    expectOneOfEach(parsed({oneOfEach()}, *api));
}

TEST(RecordParser, NamesAreKeptOnceAndMayBeMissing)
{
    ActivityBuffer buffer;
    buffer.kernel(1, 7, 0, 1, "softmax");
    buffer.kernel(2, 7, 1, 2, nullptr);
    ActivityBuffer second;
    second.kernel(3, 7, 2, 3, "softmax");
    const ActivityLog log = parsed({buffer, second});
    EXPECT_EQ(log.names, (std::vector<std::string>{"", "softmax"}));
    EXPECT_EQ(log.gpu[0].name, log.gpu[2].name);
    EXPECT_EQ(log.names[log.gpu[1].name], "");
}

TEST(RecordParser, ARecordThatCannotBeReadEndsItsBufferWithASentence)
{
    ActivityBuffer buffer;
    buffer.kernel(1, 7, 0, 1);
    buffer.unknown();
    buffer.kernel(2, 7, 1, 2);
    ActivityLog log;
    const CuptiApi api = FakeCupti::api(); // the parser keeps a reference
    RecordParser parser(api, log);
    const Status status = parser.parse(buffer.bytes());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message,
              "kernel times cannot be measured: cuptiActivityGetNextRecord failed (CUPTI_ERROR_INVALID_KIND, code 21, "
              "CUPTI 13.0.1)");
    EXPECT_EQ(log.gpu.size(), 1U);
}

TEST(RecordParser, AnEmptyBufferHasNoRecords)
{
    EXPECT_TRUE(parsed({ActivityBuffer()}).gpu.empty());
}

/// Many threads launch at once, each op in its own; CUPTI returns the records in buffers of no particular order, some
/// of them lost. What is left is attributed to the ops that launched it.
TEST(RecordParser, BuffersOfManyThreadsJoinToTheirOps)
{
    constexpr std::uint32_t threads = 8;
    constexpr std::uint32_t opsOfThread = 200;
    std::mt19937 random(7);
    std::map<std::uint64_t, std::uint64_t> expected; // nanoseconds of an op
    std::uint64_t lost = 0;
    std::vector<ActivityBuffer> buffers(24);
    const auto anyBuffer = [&]() -> ActivityBuffer& { return buffers[random() % buffers.size()]; };
    std::uint32_t correlation = 0;
    for (std::uint32_t op = 0; op < threads * opsOfThread; ++op) {
        const std::uint32_t thread = op % threads;
        // Views launch nothing, others up to three kernels one after the other on the thread's own stream.
        const std::uint32_t kernels = random() % 4;
        std::uint64_t time = 10'000ULL * (op / threads);
        for (std::uint32_t k = 0; k < kernels; ++k) {
            ++correlation;
            const std::uint64_t length = 1 + random() % 3'000;
            const bool isLost = random() % 10 == 0;
            anyBuffer().external(opKind, correlation, op);
            anyBuffer().external(callKind, correlation, thread);
            anyBuffer().runtimeCall(correlation, thread);
            if (!isLost) {
                anyBuffer().kernel(correlation, 20 + thread, time, time + length);
                expected[op] += length;
            }
            lost += isLost;
            time += length;
        }
    }
    ASSERT_GT(lost, 0U);
    const StepTimes times = correlate(parsed(buffers));
    const auto ops
        = timesByKey(times.work, [](const LaunchedWork& piece, const AddKey& add) { add(piece.op.value()); });
    ASSERT_EQ(ops.size(), expected.size());
    for (const auto& [op, nanoseconds] : expected) {
        EXPECT_EQ(ops.at(op).busyMs, static_cast<double>(nanoseconds) / 1e6) << "op " << op;
        EXPECT_EQ(ops.at(op).sumMs, ops.at(op).busyMs);
    }
    EXPECT_EQ(times.streams.size(), threads);
    EXPECT_EQ(times.withoutOp, WorkTime());
    EXPECT_LT(times.all.busyMs, times.all.sumMs);
}

} // namespace
} // namespace headroom::cupti
