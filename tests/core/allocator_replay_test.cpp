// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/trace/step_trace_builder.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

/// A step that starts with a 64 MiB parameter and the 30 MiB output of the step before, makes its own output and a
/// 100-byte temporary, and drops the old output only then.
StepTracePtr stepThatHoldsItsOutput()
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    const StorageId old = builder.alloc(30 * MiB, Category::activation, {});
    builder.mark(Mark::stepBegin);
    const StorageId small = builder.alloc(100, Category::activation, {});
    builder.alloc(30 * MiB, Category::activation, {});
    builder.free(old);
    builder.mark(Mark::forwardEnd);
    builder.mark(Mark::backwardEnd);
    builder.mark(Mark::stepEnd);
    builder.free(small);
    builder.mark(Mark::zeroGradEnd);
    Result<StepTracePtr> trace = builder.finish();
    EXPECT_TRUE(trace.ok()) << trace.error().message;
    return *trace;
}

TEST(AllocatorReplay, RepeatsTheStepOnTheCacheOfTheOneBefore)
{
    const StepTracePtr trace = stepThatHoldsItsOutput();
    const Result<Timeline> timeline = predict(*trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;

    const CachingAllocator::Stats stats = replay(*trace, *timeline);
    EXPECT_EQ(stats.requestedPeak, 124 * MiB + 100) << "parameter, both outputs, and the temporary as asked for";
    EXPECT_EQ(stats.allocatedPeak, 124 * MiB + 512) << "the same in blocks";
    EXPECT_EQ(stats.reservedPeak, 126 * MiB) << "segments of 64, 30, 30 and 2 MiB, each reused by the next step";
    EXPECT_EQ(stats.allocated, 94 * MiB) << "what the next step starts from";
}

TEST(AllocatorReplay, ARetypeMovesNoBlock)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.mark(Mark::stepBegin);
    const StorageId gradient = builder.alloc(12 * MiB, Category::temporary, {});
    builder.mark(Mark::forwardEnd);
    builder.retype(gradient, Category::gradient);
    builder.mark(Mark::backwardEnd);
    builder.mark(Mark::stepEnd);
    builder.free(gradient);
    builder.mark(Mark::zeroGradEnd);
    const Result<StepTracePtr> trace = builder.finish();
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    const Result<Timeline> timeline = predict(**trace, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    EXPECT_EQ(replay(**trace, *timeline).reservedPeak, 12 * MiB);
}

} // namespace
} // namespace headroom
