// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/earlier_steps.h"
#include "core/trace/remarks.h"
#include "core/trace/step_trace_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
                                      "41.00 MiB: every step takes more than the step before")));
}

TEST(Remarks, anOutputThatIsReplacedByTheNextIsNoGrowth)
{
    EXPECT_THAT(remarks(*stepThatKeeps(40 * MiB, 40 * MiB, 40 * MiB)), IsEmpty());
    EXPECT_THAT(remarks(*stepThatKeeps(40 * MiB, 40 * MiB, 60 * MiB)), IsEmpty()) << "a longer batch";
    EXPECT_THAT(remarks(*stepThatKeeps(40 * MiB, 0, 0)), IsEmpty()) << "a table that is made once";
}

TEST(Remarks, TheNextStepsBatchIsNoGrowth)
{
    const auto step = [](Bytes next, Bytes output) { // a loop with a batch that is prefetched
        StepTraceBuilder builder;
        builder.addModule("Net", "Net", {});
        const StorageId batch = builder.alloc(16 * MiB, Category::activation, {});
        const StorageId converted = builder.alloc(16 * MiB, Category::input, {});
        builder.alloc(16 * MiB, Category::activation, {}); // prefetched
        builder.mark(Mark::stepBegin);
        builder.free(converted);
        builder.mark(Mark::backwardEnd);
        builder.alloc(output, Category::activation, {});
        builder.mark(Mark::stepEnd);
        builder.alloc(16 * MiB, Category::other, {}); // prefetched
        builder.free(batch);
        builder.alloc(next, Category::activation, {}); // converted
        return *builder.finish();
    };
    EXPECT_THAT(remarks(*step(16 * MiB, 0)), IsEmpty());
    EXPECT_THAT(remarks(*step(20 * MiB, 0)), IsEmpty()) << "a longer batch";
    EXPECT_THAT(remarks(*step(16 * MiB, 16 * MiB)), ElementsAre(HasSubstr("this step adds 16.00 MiB")))
        << "an output of the size of the input, which the program keeps";
}

/// A step that calls the named children of a module, each with a saved tensor if `saves`.
StepTracePtr stepThatRuns(const std::vector<std::string>& children, bool saves = true)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Net", "Net", {});
    builder.mark(Mark::stepBegin);
    const CallId whole = builder.enter(root, {});
    for (const std::string& child : children) {
        const CallId layer = builder.enter(builder.addModule("Net." + child, "Layer", root), {});
        const CallId inner = builder.enter(builder.addModule("Net." + child + ".mlp", "Linear", root), {});
        if (saves)
            builder.pack(builder.alloc(MiB, Category::activation, {}), {});
        builder.exit(inner, {});
        builder.exit(layer, {});
    }
    builder.exit(whole, {});
    builder.mark(Mark::forwardEnd);
    return *builder.finish();
}

TEST(Remarks, LayersThatAreDroppedAtRandomAreTold)
{
    const StepTracePtr all = stepThatRuns({"a", "b", "c", "d"});
    const std::set<std::string> before = modulesThatSave(*all);
    EXPECT_THAT(before, ::testing::SizeIs(9));
    EXPECT_THAT(modulesThatSave(*stepThatRuns({"a"}, false)), IsEmpty());
    EXPECT_EQ(leftOutSetting(*all, before), "");
    EXPECT_EQ(leftOutSetting(*all, {}), "");
    StepTrace some = *stepThatRuns({"a", "c"});
    const std::string setting = leftOutSetting(some, before);
    EXPECT_EQ(setting, "2 Net.b") << "not the modules inside";
    some.info.settings.emplace_back(LeftOutModules::setting, setting);
    EXPECT_EQ(leftOutModules(some)->count, 2);
    EXPECT_EQ(leftOutModules(some)->first, "Net.b");
    EXPECT_THAT(remarks(some), ElementsAre(HasSubstr("ran without 2 modules that earlier steps ran (Net.b)")));
    for (const char* damaged : {"", "2", "x Net.b", "-1 Net.b"}) {
        some.info.settings.back().second = damaged;
        EXPECT_FALSE(leftOutModules(some)) << damaged;
    }
}

TEST(Remarks, GradientsThatHoldAGraphAreGrowth)
{
    StepTraceBuilder builder; // backward(create_graph=True), whose gradients the program keeps
    builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    builder.alloc(20 * MiB, Category::activation, {});
    builder.alloc(64 * MiB, Category::gradient, {});
    builder.mark(Mark::stepBegin);
    builder.pack(builder.alloc(20 * MiB, Category::activation, {}), {});
    builder.mark(Mark::forwardEnd);
    builder.pack(builder.alloc(30 * MiB, Category::temporary, {}), {});
    builder.alloc(64 * MiB, Category::gradient, {});
    builder.mark(Mark::backwardEnd);
    const StepTracePtr step = *builder.finish();
    EXPECT_EQ(keptActivations(*step).earlier, 84 * MiB) << "each parameter may have a single gradient";
    EXPECT_EQ(keptActivations(*step).more, 114 * MiB);
}

TEST(Remarks, AStepThatEndedEarlyShowsNoGrowth)
{
    StepTraceBuilder builder; // an exception in the forward
    builder.addModule("Net", "Net", {});
    builder.alloc(2 * MiB, Category::activation, {});
    builder.mark(Mark::stepBegin);
    builder.pack(builder.alloc(40 * MiB, Category::activation, {}), {});
    builder.info.settings.emplace_back("ended early", "ValueError: bad sample");
    EXPECT_EQ(keptActivations(**builder.finish()).more, 0);
}

TEST(Remarks, GradientsInAListAreGrowth)
{
    const auto step = [](bool isInList) {
        StepTraceBuilder builder; // zero_grad() between two steps
        builder.addModule("Net", "Net", {});
        builder.alloc(64 * MiB, Category::parameter, {});
        const StorageId older = builder.alloc(64 * MiB, Category::gradient, {});
        builder.mark(Mark::stepBegin);
        if (!isInList)
            builder.free(older);
        builder.mark(Mark::forwardEnd);
        builder.alloc(64 * MiB, Category::gradient, {});
        builder.mark(Mark::backwardEnd);
        return *builder.finish();
    };
    EXPECT_THAT(remarks(*step(true)),
                ElementsAre(HasSubstr("keeps 64.00 MiB of gradients of earlier steps, and this step adds 64.00 MiB")));
    EXPECT_THAT(remarks(*step(false)), IsEmpty());
}

TEST(Remarks, DataThatTheForwardReadsIsNoGrowth)
{
    const auto step = [](bool isRead) {
        StepTraceBuilder builder; // the graph of a validation lives until the next validation
        const ModuleId root = builder.addModule("Net", "Net", {});
        const StorageId found = builder.alloc(MiB, Category::activation, {}); // labels of the first batch, or a loss
        builder.mark(Mark::stepBegin);
        const OpId op = builder.beginOp({builder.string("aten.mm.default"), {}, root, {}, {}, Phase::forward});
        const StorageId saved = builder.alloc(40 * MiB, Category::activation, {});
        const std::array inputs{found};
        builder.endOp(op, {.inputs = std::span(inputs).first(isRead ? 1 : 0)});
        builder.pack(saved, op);
        return *builder.finish();
    };
    EXPECT_THAT(remarks(*step(true)), IsEmpty());
    EXPECT_THAT(remarks(*step(false)), ElementsAre(HasSubstr("every step takes more")))
        << "a loss that was kept before";
}

TEST(Remarks, GrowthIsFoundOverStepsOfDifferentShapes)
{
    const auto step = [](Bytes earlier, Bytes outputBefore, Bytes output, Bytes graph) {
        StepTraceBuilder builder;
        builder.addModule("Net", "Net", {});
        builder.alloc(earlier, Category::activation, {});
        const StorageId before = builder.alloc(outputBefore, Category::activation, {});
        builder.mark(Mark::stepBegin);
        builder.alloc(output, Category::activation, {});
        builder.pack(builder.alloc(graph, Category::activation, {}), {});
        builder.free(before);
        return *builder.finish();
    };
    const StepTracePtr longer = step(2 * MiB, 1 * MiB, 50 * MiB, 40 * MiB);
    EXPECT_EQ(keptActivations(*longer).more, 40 * MiB);
    EXPECT_THAT(remarks(*longer),
                ElementsAre(HasSubstr("keeps 2.00 MiB of activations of earlier steps, and this step "
                                      "adds 40.00 MiB: every step takes more")));
    const StepTracePtr shorter = step(80 * MiB, 100 * MiB, 5 * MiB, 4 * MiB);
    EXPECT_EQ(keptActivations(*shorter).more, 4 * MiB) << "though the step leaves less than it found";
    EXPECT_THAT(remarks(*shorter), ElementsAre(HasSubstr("this step adds 4.00 MiB")));
    EXPECT_THAT(remarks(*step(0, 1 * MiB, 50 * MiB, 40 * MiB)), IsEmpty()) << "a graph that is kept once";
}

TEST(Remarks, ATensorThatGrowsByCatIsGrowth)
{
    StepTraceBuilder builder; // predictions = torch.cat((predictions, output))
    const ModuleId root = builder.addModule("Net", "Net", {});
    const StringId cat = builder.string("aten.cat.default");
    const StorageId before = builder.alloc(30 * MiB, Category::temporary, {});
    const StorageId output = builder.alloc(10 * MiB, Category::temporary, {});
    builder.mark(Mark::stepBegin);
    const StorageId next = builder.alloc(10 * MiB, Category::temporary, {});
    builder.free(output);
    const OpId op = builder.beginOp({cat, {}, root, {}, {}, Phase::forward});
    const StorageId longer = builder.alloc(40 * MiB, Category::temporary, op);
    const std::array inputs{before, next};
    const std::array outputs{longer};
    builder.endOp(op, {.inputs = inputs, .outputs = outputs});
    builder.free(before);
    const StepTracePtr step = *builder.finish();
    EXPECT_EQ(keptActivations(*step).earlier, 30 * MiB);
    EXPECT_EQ(keptActivations(*step).more, 10 * MiB);
    EXPECT_THAT(remarks(*step), ElementsAre(HasSubstr("keep output.cpu()")));
}

/// A step that finds `found` blocks of 8 MiB, reads `read` of them and drops `dropped`; between two steps the program
/// adds `added` such blocks, and frees a block of another size.
StepTracePtr stepAfterEvaluations(int found, int read, int dropped, int added)
{
    StepTraceBuilder builder;
    const ModuleId root = builder.addModule("Net", "Net", {});
    builder.alloc(64 * MiB, Category::parameter, {});
    std::vector<StorageId> blocks;
    for (int i = 0; i < found; ++i)
        blocks.push_back(builder.alloc(8 * MiB, Category::input, {}));
    StepTraceBuilder::Outside between;
    const auto row = [&](OutsideKind kind, Bytes bytes, std::uint32_t block) {
        between.kind.push_back(kind);
        between.bytes.push_back(bytes);
        between.stream.push_back(0);
        between.block.push_back(block);
    };
    for (int i = 0; i < added; ++i)
        row(OutsideKind::alloc, 8 * MiB, 0);
    row(OutsideKind::alloc, 2 * MiB, 0);
    row(OutsideKind::free, 2 * MiB, static_cast<std::uint32_t>(added));
    builder.setOutside({}, std::move(between));
    builder.mark(Mark::stepBegin);
    const OpId op = builder.beginOp({builder.string("aten.sum.default"), {}, root, {}, {}, Phase::forward});
    builder.endOp(op, {.inputs = std::span(blocks).first(static_cast<std::size_t>(read))});
    for (int i = 0; i < dropped; ++i)
        builder.free(blocks[static_cast<std::size_t>(i)]);
    return *builder.finish();
}

TEST(Remarks, PredictionsThatAreKeptBetweenStepsAreGrowth)
{
    const StepTracePtr step = stepAfterEvaluations(3, 0, 0, 1);
    EXPECT_EQ(keptBetweenSteps(*step).earlier, 24 * MiB);
    EXPECT_EQ(keptBetweenSteps(*step).storages.size(), 3U);
    EXPECT_THAT(remarks(*step),
                ElementsAre(HasSubstr("the program keeps 24.00 MiB of earlier steps that this step does not read, and "
                                      "8.00 MiB more from one step to the next")));
    EXPECT_THAT(remarks(*stepAfterEvaluations(4, 4, 0, 1)), IsEmpty()) << "what the step reads";
    EXPECT_THAT(remarks(*stepAfterEvaluations(4, 1, 1, 1)), IsEmpty()) << "batches that are loaded ahead";
    EXPECT_THAT(remarks(*stepAfterEvaluations(4, 0, 0, 4)), IsEmpty()) << "what an evaluation made once";
    EXPECT_THAT(remarks(*stepAfterEvaluations(4, 0, 0, 0)), IsEmpty());
}

/// A step with a model and a teacher. Each of the two runs once, and a backward pass uses only the model's.
StepTracePtr stepWithTeacher(bool hasBackward, Bytes kept)
{
    StepTraceBuilder builder;
    const StringId mm = builder.string("aten.mm.default");
    const ModuleId root = builder.addModule("models", "Models", {});
    const ModuleId student = builder.addModule("models.Student", "Student", root);
    const ModuleId teacher = builder.addModule("models.Teacher", "Teacher", root);
    const ModuleId layer = builder.addModule("models.Teacher.layer", "Linear", teacher);
    const StorageId weight = builder.alloc(64 * MiB, Category::parameter, {});
    builder.mark(Mark::stepBegin);
    const auto run = [&](ModuleId module, Bytes bytes) {
        const CallId call = builder.enter(module, {});
        const OpId op = builder.beginOp({mm, {}, module, call, {}, Phase::forward});
        const StorageId saved = builder.alloc(bytes, Category::activation, op);
        builder.endOp(op, {});
        builder.pack(weight, op);
        const PackId pack = builder.pack(saved, op);
        builder.exit(call, {});
        return pack;
    };
    const CallId outer = builder.enter(teacher, {});
    run(layer, kept);
    builder.exit(outer, {});
    const PackId used = run(student, 8 * MiB);
    if (hasBackward) {
        builder.mark(Mark::forwardEnd);
        builder.unpack(used);
        builder.unpackEnd(used);
        builder.mark(Mark::backwardEnd);
    }
    return *builder.finish();
}

TEST(Remarks, AForwardWithoutABackwardIsNamed)
{
    EXPECT_THAT(remarks(*stepWithTeacher(true, 24 * MiB)),
                ElementsAre("models.Teacher ran with gradients on, and no backward pass used the 24.00 MiB that "
                            "autograd kept for the module: call the module inside of torch.no_grad()"));
    EXPECT_THAT(remarks(*stepWithTeacher(true, 512)), IsEmpty()) << "too little to matter";
    EXPECT_THAT(remarks(*stepWithTeacher(false, 24 * MiB)), IsEmpty()) << "a step that ended in its forward";
}

TEST(Remarks, WhatAFrozenModelSavesIsForNothing)
{
    const auto savedWith = [](bool leadsOn) { // a head is trained; `leadsOn`: so are weights before the frozen model
        StepTraceBuilder builder;
        const ModuleId root = builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        const auto run = [&](Phase phase, Category category, std::vector<StorageId> inputs) {
            const OpId op = builder.beginOp({builder.string("aten.mm.default"), {}, root, {}, {}, phase});
            const std::array outputs{builder.alloc(8 * MiB, category, op)};
            builder.endOp(op, {.inputs = inputs, .outputs = outputs});
            return outputs.front();
        };
        const StorageId frozen = run(Phase::forward, Category::activation, {});
        const StorageId features = run(Phase::forward, Category::activation, {frozen});
        const std::array packs{builder.pack(features, {}), builder.pack(frozen, {})};
        builder.mark(Mark::forwardEnd);
        for (const PackId pack : packs) {
            builder.unpack(pack);
            builder.unpackEnd(pack);
        }
        run(Phase::backward, Category::gradient, {features}); // of the head
        const StorageId gradient = run(Phase::backward, Category::temporary, {});
        const StorageId unused = run(Phase::backward, Category::gradient, {gradient, frozen});
        const StorageId before = run(Phase::backward, Category::temporary, {gradient, frozen});
        if (leadsOn)
            run(Phase::backward, Category::gradient, {before});
        builder.free(gradient);
        builder.free(before);
        builder.mark(Mark::backwardEnd);
        const StepTracePtr step = *builder.finish();
        return savedForUnused(*step, {unused}) == std::vector{frozen};
    };
    EXPECT_TRUE(savedWith(false));
    EXPECT_FALSE(savedWith(true));
}

TEST(Remarks, SummedLossesHaveGraphsOfTheirOwn)
{
    const auto lossesOf = [](bool share, std::string_view join) {
        StepTraceBuilder builder;
        const ModuleId root = builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        const auto run = [&](std::string_view name, Bytes bytes, std::vector<StorageId> inputs) {
            const OpId op = builder.beginOp({builder.string(name), {}, root, {}, {}, Phase::forward});
            const std::array outputs{builder.alloc(bytes, Category::activation, op)};
            builder.endOp(op, {.inputs = inputs, .outputs = outputs});
            return outputs.front();
        };
        std::vector<PackId> packs;
        std::vector<StorageId> losses;
        const StorageId shared = run("aten.relu.default", 8 * MiB, {});
        for (int i = 0; i < 3; ++i) {
            const StorageId saved
                = run("aten.mm.default", 8 * MiB, share ? std::vector{shared} : std::vector<StorageId>());
            packs.push_back(builder.pack(saved, {}));
            losses.push_back(run("aten.mean.default", 4, {saved}));
        }
        run(join, 4, losses);
        builder.mark(Mark::forwardEnd);
        for (const PackId pack : packs) {
            builder.unpack(pack);
            builder.unpackEnd(pack);
        }
        builder.mark(Mark::backwardEnd);
        return summedLosses(**builder.finish());
    };
    EXPECT_EQ(lossesOf(false, "aten.add.Tensor").losses, 3U);
    EXPECT_EQ(lossesOf(false, "aten.add.Tensor").largest, 8 * MiB);
    EXPECT_EQ(lossesOf(false, "aten.add.Tensor").storages.size(), 3U);
    EXPECT_EQ(lossesOf(true, "aten.add.Tensor").losses, 1U) << "heads of the same features";
    EXPECT_EQ(lossesOf(false, "aten.mul.Tensor").losses, 1U) << "a product needs all factors";
}

TEST(Remarks, AProgramThatGoesOnAfterOutOfMemoryIsTold)
{
    const auto stepWith = [](bool goesOn) {
        StepTraceBuilder builder;
        const ModuleId net = builder.addModule("Net", "Net", {});
        builder.mark(Mark::stepBegin);
        const CallId call = builder.enter(net, {});
        builder.endOp(builder.outOfMemory({}, GiB, MiB), {});
        if (goesOn)
            builder.endOp(builder.beginOp({builder.string("aten.mm"), {}, net, call, {}, Phase::forward}), {});
        builder.exit(call, {});
        return *builder.finish();
    };
    EXPECT_THAT(remarks(*stepWith(true)), ElementsAre(HasSubstr("the program ran out of memory 1 time")));
    EXPECT_THAT(remarks(*stepWith(false)), IsEmpty());
}

// A teacher's output is not detached: its graph lives until the next step's output replaces it.
TEST(Remarks, aGraphOfTheStepBeforeIsNamedBesideAPlan)
{
    const auto stepWith = [](bool heldByTheProgram, bool released, bool used = false) {
        StepTraceBuilder builder;
        builder.addModule("Net", "Net", {});
        const StorageId old = builder.alloc(40 * MiB, Category::activation, {});
        builder.mark(Mark::stepBegin);
        const StorageId saved = builder.alloc(40 * MiB, Category::activation, {});
        const PackId pack = builder.pack(saved, {});
        if (!heldByTheProgram)
            builder.free(saved);
        builder.free(old);
        if (used) {
            builder.unpack(pack);
            builder.unpackEnd(pack);
        }
        builder.mark(Mark::backwardEnd);
        if (released)
            builder.release(pack);
        return *builder.finish();
    };
    EXPECT_EQ(keptByGraphs(*stepWith(false, false)), 40 * MiB);
    EXPECT_THAT(
        planRemarks(*stepWith(false, false)),
        ElementsAre(HasSubstr("the step begins with 40.00 MiB of activations that the step before left alive in a "
                              "graph without a backward")));
    EXPECT_THAT(planRemarks(*stepWith(false, false, true)),
                ElementsAre(AllOf(HasSubstr("left alive in a graph that backward(retain_graph=True) keeps"),
                                  HasSubstr("Leave retain_graph out"), Not(HasSubstr("no_grad")))));
    EXPECT_THAT(remarks(*stepWith(false, false)), IsEmpty()) << "the step is as on the card";
    EXPECT_THAT(planRemarks(*stepWith(true, true)), IsEmpty())
        << "an output that the program keeps is the same in a plan";
    EXPECT_THAT(planRemarks(*stepWith(false, true)), IsEmpty());
}

} // namespace
} // namespace headroom
