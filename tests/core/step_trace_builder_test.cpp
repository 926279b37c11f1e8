// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

using namespace headroom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// Root with one child; the child's only op makes an activation that autograd saves.
struct Tiny
{
    StepTraceBuilder builder;
    StorageId weight, activation;
    CallId rootCall, childCall;
    OpId op;
    PackId pack;

    Tiny()
    {
        builder.info.model = "tiny";
        const ModuleId root = builder.addModule("Net", "Net", {});
        const ModuleId child = builder.addModule("Net.linear", "Linear", root);
        weight = builder.alloc(1000, Category::parameter, {});
        builder.addRegistered(child, "weight", weight, Category::parameter);
        builder.mark(Mark::stepBegin);
        rootCall = builder.enter(root, std::array{weight});
        childCall = builder.enter(child, {});
        op = builder.beginOp({builder.string("aten.mm.default"), {}, child, childCall, {}, Phase::forward});
        activation = builder.alloc(513, Category::temporary, op);
        builder.endOp(op, {DType::bfloat16, opNoTensorInput, 10, 20, 0.5, {}, std::array{activation}, {}});
        builder.retype(activation, Category::activation);
        pack = builder.pack(activation, op);
        builder.exit(childCall, std::array{activation, activation});
        builder.exit(rootCall, {});
    }
};

std::string finishError(StepTraceBuilder& builder)
{
    const auto result = builder.finish();
    return result ? "no error" : result.error().message;
}

} // namespace

TEST(StepTraceBuilder, ColumnsHoldWhatWasRecorded)
{
    Tiny tiny;
    EXPECT_EQ(tiny.builder.categoryOf(tiny.activation), Category::activation);
    const auto result = tiny.builder.finish();
    ASSERT_TRUE(result) << result.error().message;
    const StepTrace& t = **result;

    EXPECT_EQ(t.info.model, "tiny");
    ASSERT_EQ(t.modules.size(), 2U);
    EXPECT_EQ(t.moduleFqn(ModuleId(1)), "Net.linear");
    EXPECT_EQ(t.modules.parent[ModuleId(1)], ModuleId(0));
    EXPECT_EQ(t.strings[t.registered.name[0]], "weight");
    EXPECT_EQ(t.storages.bytes[tiny.weight], 1024);
    EXPECT_EQ(t.storages.requested[tiny.weight], 1000);
    EXPECT_EQ(t.storages.bytes[tiny.activation], 1024);
    EXPECT_EQ(t.storages.category[tiny.activation], Category::temporary);
    EXPECT_EQ(t.opName(tiny.op), "aten.mm.default");
    EXPECT_EQ(t.ops.dtype[tiny.op], DType::bfloat16);
    EXPECT_DOUBLE_EQ(t.ops.ms[tiny.op], 0.5);
    EXPECT_THAT(t.ops.outputs[tiny.op], ElementsAre(tiny.activation));
    EXPECT_THAT(t.ops.inputs[tiny.op], ElementsAre());
    EXPECT_THAT(t.calls.arguments[tiny.rootCall], ElementsAre(tiny.weight));
    EXPECT_THAT(t.calls.results[tiny.childCall], ElementsAre(tiny.activation, tiny.activation));
    EXPECT_EQ(t.calls.parent[tiny.childCall], tiny.rootCall);
    EXPECT_EQ(t.packs.storage[tiny.pack], tiny.activation);
    EXPECT_EQ(t.events.size(), 11U);
    EXPECT_EQ(t.events.kind[EventIndex(7)], EventKind::retype);
    EXPECT_EQ(t.events.b[EventIndex(7)], static_cast<std::uint32_t>(Category::activation));
}

TEST(StepTraceBuilder, AMeasuredOpHasItsOwnTimeAndSaysSo)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    for (int i = 0; i < 2; ++i) {
        StepTraceBuilder::Op op;
        op.name = builder.string("aten.mm.default");
        StepTraceBuilder::OpResult result;
        result.flags = opNoTensorInput;
        result.ms = 7;
        builder.endOp(builder.beginOp(op), result);
    }
    builder.measured(OpId(1), 0.25);
    const auto trace = builder.finish();
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ((*trace)->ops.ms[OpId(0)], 7);
    EXPECT_EQ((*trace)->ops.flags[OpId(0)], opNoTensorInput);
    EXPECT_EQ((*trace)->ops.ms[OpId(1)], 0.25);
    EXPECT_EQ((*trace)->ops.flags[OpId(1)], opNoTensorInput | opMeasured);

    StepTraceBuilder wrong;
    wrong.mark(Mark::stepBegin);
    wrong.measured(OpId(0), 1);
    EXPECT_FALSE(wrong.finish());
}

TEST(StepTraceBuilder, IsEmptyAfterFinish)
{
    Tiny tiny;
    ASSERT_TRUE(tiny.builder.finish());
    EXPECT_EQ(tiny.builder.opCount(), 0U);
    EXPECT_EQ(tiny.builder.string("first"), StringId(0));
}

TEST(StepTraceBuilder, TheSameTextHasOneId)
{
    StepTraceBuilder builder;
    const StringId first = builder.string("aten.mm.default");
    EXPECT_NE(builder.string("aten.add.Tensor"), first);
    EXPECT_EQ(builder.string("aten.mm.default"), first);
}

TEST(StepTraceBuilder, AnInterruptedStepEndsWithItsOpenOpAndCalls)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Net", "Net", {});
    builder.mark(Mark::stepBegin);
    builder.enter(root, {});
    builder.beginOp({builder.string("aten.mm.default"), {}, root, CallId(0), {}, Phase::forward});
    const auto result = builder.finish();
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ((*result)->ops.ms.size(), 1U);
}

TEST(StepTraceBuilder, RefusesOpsThatNest)
{
    Tiny tiny;
    tiny.builder.beginOp({tiny.builder.string("a"), {}, {}, {}, {}, Phase::backward});
    tiny.builder.beginOp({tiny.builder.string("b"), {}, {}, {}, {}, Phase::backward});
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("an op began inside another op"));
}

TEST(StepTraceBuilder, RefusesACallThatEndsBeforeItsChild)
{
    Tiny tiny;
    const CallId outer = tiny.builder.enter(ModuleId(0), {});
    tiny.builder.enter(ModuleId(1), {});
    tiny.builder.exit(outer, {});
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("before the innermost module call (at event 13)"));
}

TEST(Validate, RefusesASecondFree)
{
    Tiny tiny;
    tiny.builder.free(tiny.activation);
    tiny.builder.free(tiny.activation);
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("event 12, free 1: the program does not hold this storage"));
}

TEST(Validate, RefusesASecondRelease)
{
    Tiny tiny;
    tiny.builder.release(tiny.pack);
    tiny.builder.release(tiny.pack);
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("event 12, release 0: autograd released this tensor before"));
}

TEST(Validate, RefusesACallWithArgumentsThatAreAllocatedLater)
{
    Tiny tiny;
    const StorageId later(tiny.activation.value + 1);
    tiny.builder.enter(ModuleId(0), std::array{later});
    EXPECT_EQ(tiny.builder.alloc(512, Category::temporary, {}), later);
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("expected arguments that were allocated before"));
}

TEST(Validate, RefusesAPackOfADeadStorage)
{
    Tiny tiny;
    tiny.builder.free(tiny.activation);
    tiny.builder.release(tiny.pack);
    tiny.builder.pack(tiny.activation, tiny.op);
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("pack 1: the storage is not alive"));
}

TEST(Validate, AcceptsAStorageThatOnlyAutogradHolds)
{
    Tiny tiny;
    tiny.builder.free(tiny.activation);
    tiny.builder.unpack(tiny.pack);
    tiny.builder.release(tiny.pack);
    tiny.builder.unpackEnd(tiny.pack);
    EXPECT_EQ(finishError(tiny.builder), "no error");
}

TEST(Validate, RefusesAnUnpackEndWithoutUnpack)
{
    Tiny tiny;
    tiny.builder.unpackEnd(tiny.pack);
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("unpackEnd 0: expected an unpack before"));
}

TEST(Validate, RefusesIdsOutOfRange)
{
    Tiny tiny;
    tiny.builder.release(PackId(7));
    EXPECT_THAT(finishError(tiny.builder), HasSubstr("release 7: expected a tensor that was packed before"));

    Tiny module;
    module.builder.enter(ModuleId(9), {});
    EXPECT_THAT(finishError(module.builder), HasSubstr("row 2 of calls.module is not an id in range"));
}

TEST(Validate, RefusesAStepWithoutBegin)
{
    StepTraceBuilder builder;
    EXPECT_THAT(finishError(builder), HasSubstr("no mark stepBegin"));

    Tiny twice;
    twice.builder.mark(Mark::stepBegin);
    EXPECT_THAT(finishError(twice.builder), HasSubstr("the step began before"));
}

TEST(Validate, RefusesNumbersThatMakeNoSense)
{
    Tiny negative;
    negative.builder.alloc(-1, Category::other, {});
    EXPECT_THAT(finishError(negative.builder), HasSubstr("row 2 of storages.requested is not 0 or more"));

    Tiny refused;
    refused.builder.endOp(refused.builder.outOfMemory({}, -1, 0), {});
    EXPECT_THAT(finishError(refused.builder), HasSubstr("row 0 of out_of_memory.requested is not 0 or more"));

    const auto pieces = [](Bytes bytes, StorageId beside) {
        Tiny made;
        made.builder.endOp(made.builder.outOfMemory({}, 1, 0, {1, {{bytes, beside}}}), {});
        return finishError(made.builder);
    };
    EXPECT_THAT(pieces(-1, {}), HasSubstr("row 0 of free_pieces.bytes is not 0 or more"));
    EXPECT_THAT(pieces(1, StorageId(99)), HasSubstr("row 0 of free_pieces.beside is not an id in range"));

    Tiny time;
    const OpId op = time.builder.beginOp({time.builder.string("a"), {}, {}, {}, {}, Phase::forward});
    time.builder.endOp(op, {.ms = std::numeric_limits<double>::quiet_NaN()});
    EXPECT_THAT(finishError(time.builder), HasSubstr("row 1 of ops.ms is not a finite number"));
}

TEST(StepTrace, NamesArePyTorchs)
{
    EXPECT_EQ(categoryName(Category::optimizer), "optimizer");
    EXPECT_EQ(phaseName(Phase::zeroGrad), "zero_grad");
    EXPECT_EQ(dtypeName(DType::boolean), "bool");
    EXPECT_EQ(dtypeName(DType::other), "other");
    EXPECT_EQ(eventKindName(EventKind::mark), "mark");
    EXPECT_EQ(markName(Mark::zeroGradEnd), "after_zero_grad");
}
