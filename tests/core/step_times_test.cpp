// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cupti/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::cupti {
namespace {

using testing::ElementsAre;

/// Root 0 with modules 1 and 2; ops mm (module 1), relu (module 2), view (module 2). Numbers 1, 2, 3 were pushed for
/// them, 4 for an op that became none of the step's.
class Times : public testing::Test
{
protected:
    Times()
    {
        builder_.mark(Mark::stepBegin);
        for (const char* name : {"Net", "Net.a", "Net.b"})
            builder_.addModule(name, "Module", name == std::string("Net") ? ModuleId() : ModuleId(0));
        add("aten.mm.default", 7);
        add("aten.relu.default", 5);
        add("aten.view.default", 0);
        step_.opOf = {OpId(), OpId(0), OpId(1), OpId(2), OpId()};
        step_.moves = {true, true, false};
        step_.moduleOf = {ModuleId(1), ModuleId(2), ModuleId(2)};
        step_.callModule = {ModuleId(0), ModuleId(2)};
        step_.parentOf = {ModuleId(), ModuleId(0), ModuleId(0)};
    }

    void add(const char* name, double roofline)
    {
        StepTraceBuilder::Op op;
        op.name = builder_.string(name);
        StepTraceBuilder::OpResult result;
        result.ms = roofline;
        builder_.endOp(builder_.beginOp(op), result);
    }

    void kernel(std::uint32_t correlation, std::uint32_t stream, std::uint64_t startMs, std::uint64_t endMs)
    {
        GpuActivity activity;
        activity.correlation = correlation;
        activity.stream = stream;
        activity.start = startMs * 1'000'000;
        activity.end = endMs * 1'000'000;
        log_.gpu.push_back(activity);
    }

    void launchedBy(std::uint32_t correlation, std::uint64_t op)
    {
        log_.externals.push_back({ExternalId::IdKind::op, correlation, op});
    }

    StepTracePtr finish()
    {
        addTimes(log_, step_, builder_, measured_);
        auto trace = builder_.finish();
        EXPECT_TRUE(trace) << trace.error().message;
        return *trace;
    }

    ActivityLog log_;
    TracedStep step_;
    StepTraceBuilder builder_;
    MeasuredStep measured_;
};

TEST_F(Times, OpsAndModulesHaveTheTimesOfTheirKernels)
{
    kernel(10, 7, 100, 102); // mm
    kernel(11, 8, 101, 104); // mm, beside it
    kernel(20, 7, 104, 105); // relu
    kernel(30, 7, 106, 110); // a kernel of module b outside of every op
    launchedBy(10, 1);
    launchedBy(11, 1);
    launchedBy(20, 2);
    log_.externals.push_back({ExternalId::IdKind::call, 30, 1});
    log_.overheads = {{0, 1'500'000}};
    const StepTracePtr trace = finish();
    EXPECT_THAT(trace->ops.ms.rows, ElementsAre(4, 1, 0));
    EXPECT_THAT(trace->ops.flags.rows, ElementsAre(opMeasured, opMeasured, opMeasured));
    EXPECT_EQ(measured_.busyMs, 9);
    EXPECT_EQ(measured_.kernelMs, 10);
    EXPECT_EQ(measured_.withoutOpMs, 4);
    EXPECT_EQ(measured_.spanMs, 10);
    EXPECT_EQ(measured_.overheadMs, 1.5);
    EXPECT_EQ(measured_.kernels, 4);
    EXPECT_THAT(measured_.moduleMs, ElementsAre(9, 4, 5));
    EXPECT_THAT(measured_.notes, ElementsAre());
}

TEST_F(Times, AnOpWithoutAKernelTookNoTimeWhereNothingIsMissing)
{
    kernel(20, 7, 1, 2);
    launchedBy(20, 2);
    EXPECT_THAT(finish()->ops.ms.rows, ElementsAre(0, 1, 0));
    EXPECT_EQ(measured_.opsWithoutKernel, 0);
}

TEST_F(Times, WhereRecordsAreMissingTheRooflineStands)
{
    kernel(20, 7, 1, 2);
    launchedBy(20, 2);
    log_.dropped = 3;
    const StepTracePtr trace = finish();
    EXPECT_THAT(trace->ops.ms.rows, ElementsAre(7, 1, 0));
    EXPECT_THAT(trace->ops.flags.rows, ElementsAre(0, opMeasured, opMeasured));
    EXPECT_EQ(measured_.opsWithoutKernel, 1);
    EXPECT_EQ(measured_.droppedRecords, 3);
    EXPECT_THAT(measured_.notes,
                ElementsAre("3 records of CUPTI are missing: the times of 1 ops without a kernel are "
                            "the roofline's"));
}

TEST_F(Times, WithoutAnyRecordAllTimesAreTheRooflines)
{
    const StepTracePtr trace = finish();
    EXPECT_THAT(trace->ops.ms.rows, ElementsAre(7, 5, 0));
    EXPECT_THAT(trace->ops.flags.rows, ElementsAre(0, 0, 0));
    EXPECT_EQ(measured_.kernels, 0);
    EXPECT_TRUE(measured_.moduleMs.empty());
}

TEST_F(Times, WorkOfAnOpThatIsNotTheStepsIsWithoutOp)
{
    kernel(20, 7, 1, 2);
    kernel(21, 7, 2, 4);
    kernel(22, 7, 4, 8);
    launchedBy(20, 2);
    launchedBy(21, 4);
    launchedBy(22, 99); // never pushed in this step
    finish();
    EXPECT_EQ(measured_.withoutOpMs, 6);
    EXPECT_THAT(measured_.moduleMs, ElementsAre(1, 0, 1));
}

} // namespace
} // namespace headroom::cupti
