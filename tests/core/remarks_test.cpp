// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/remarks.h"
#include "core/trace/step_trace_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A step that finds activations, frees some of them and leaves new ones.
StepTracePtr stepThatKeeps(Bytes found, Bytes freed, Bytes left)
{
    StepTraceBuilder builder;
    builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    builder.alloc(found - freed, Category::activation, {});
    const StorageId old = builder.alloc(freed, Category::activation, {});
    builder.mark(Mark::stepBegin);
    const StorageId batch = builder.alloc(16 * MiB, Category::input, {});
    const StorageId saved = builder.alloc(left, Category::temporary, {});
    builder.retype(saved, Category::activation);
    builder.mark(Mark::forwardEnd);
    builder.free(old);
    builder.free(builder.alloc(100 * MiB, Category::activation, {}));
    builder.mark(Mark::backwardEnd);
    builder.free(batch);
    return *builder.finish();
}

TEST(Remarks, aProgramThatKeepsEachStepsGraphIsTold)
{
    const StepTracePtr step = stepThatKeeps(40 * MiB, 0, 41 * MiB);
    EXPECT_EQ(keptActivations(*step).earlier, 40 * MiB);
    EXPECT_EQ(keptActivations(*step).more, 41 * MiB);
    EXPECT_THAT(remarks(*step),
                ElementsAre(HasSubstr("the program keeps 40.00 MiB of activations of earlier steps, and this step adds "
                                      "41.00 MiB: every step takes more than the one before")));
}

TEST(Remarks, anOutputThatIsReplacedByTheNextIsNoGrowth)
{
    EXPECT_THAT(remarks(*stepThatKeeps(40 * MiB, 40 * MiB, 40 * MiB)), IsEmpty());
    EXPECT_THAT(remarks(*stepThatKeeps(40 * MiB, 40 * MiB, 60 * MiB)), IsEmpty()) << "a longer batch";
    EXPECT_THAT(remarks(*stepThatKeeps(40 * MiB, 0, 0)), IsEmpty()) << "a table that is made once";
}

} // namespace
} // namespace headroom
