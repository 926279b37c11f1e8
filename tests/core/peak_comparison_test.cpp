// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/compare/peak_comparison.h"

#include "core/predict/predict.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/measured_step.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace headroom {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Change = OpChange::Change;

PeakSide sideOf(const StepTrace& step, const std::string& name)
{
    const Result<Timeline> timeline = predict(step, {});
    EXPECT_TRUE(timeline.ok());
    Result<PeakSide> side = peakSideOf(step, *timeline, name);
    EXPECT_TRUE(side.ok()) << side.error().message;
    return side.ok() ? *side : PeakSide();
}

/// A step of two modules, whose ops each make a block that lives to the end, unless the phase is another.
class SmallStep
{
public:
    SmallStep()
        : root_(builder.addModule("Net", "Net", ModuleId()))
        , layer_(builder.addModule("Net.layer", "Linear", root_))
    {
        state_ = builder.alloc(512, Category::optimizer, {});
        builder.mark(Mark::stepBegin);
    }

    StorageId make(const std::string& name, Bytes blocks, Phase phase = Phase::forward, std::uint32_t line = 0)
    {
        StepTraceBuilder::Op op;
        op.name = builder.string(name);
        op.module = phase == Phase::optimizer ? root_ : layer_;
        op.phase = phase;
        if (line > 0)
            op.frame = builder.frame({}, "/home/me/model.py", "Layer.forward", line);
        const OpId id = builder.beginOp(op);
        const Category category = phase == Phase::optimizer ? Category::optimizer : Category::activation;
        const StorageId made = blocks > 0 ? builder.alloc(512 * blocks, category, id) : StorageId();
        StepTraceBuilder::OpResult result;
        result.ms = 1;
        builder.endOp(id, result);
        return made;
    }

    StepTraceBuilder builder;

    PeakSide side(const std::string& name) { return sideOf(*builder.finish().value(), name); }

private:
    ModuleId root_;
    ModuleId layer_;
    StorageId state_;
};

void expectSums(const PeakSide& a, const PeakSide& b)
{
    for (const PeakKey key : {PeakKey::module, PeakKey::line, PeakKey::category}) {
        Bytes sumA = 0;
        Bytes sumB = 0;
        Bytes difference = 0;
        std::vector<Bytes> sizes;
        for (const PeakRow& row : peakRows(a, b, key)) {
            sumA += row.a;
            sumB += row.b;
            difference += row.difference();
            sizes.push_back(-std::abs(row.difference()));
        }
        EXPECT_EQ(sumA, a.peak);
        EXPECT_EQ(sumB, b.peak);
        EXPECT_EQ(difference, b.peak - a.peak);
        EXPECT_TRUE(std::ranges::is_sorted(sizes));
    }
    Bytes changed = 0;
    for (const OpChange& change : opChanges(a, b).changes)
        changed += change.difference();
    const auto all = [](const PeakSide& side) {
        Bytes bytes = 0;
        for (const Bytes made : side.made)
            bytes += made;
        return bytes;
    };
    EXPECT_EQ(changed, all(b) - all(a));
}

TEST(PeakComparison, RowsSumToTheDifference)
{
    const PeakSide a = sideOf(*makeSyntheticStep({.blocks = 4}), "a.hrs");
    for (const SyntheticOptions& options : std::vector<SyntheticOptions>{
             {.blocks = 4}, {.blocks = 6}, {.blocks = 4, .activation = 7 * MiB}, {.blocks = 4, .microBatches = 2}})
        expectSums(a, sideOf(*makeSyntheticStep(options), "b.hrs"));
}

TEST(PeakComparison, ThePeakIsThatOfTheTimeline)
{
    const StepTracePtr step = makeSyntheticStep();
    const PeakSide side = sideOf(*step, "a.hrs");
    const Result<Timeline> timeline = predict(*step, {});
    EXPECT_EQ(side.peak, timeline->peak);
    CategoryBytes bytes{};
    for (const PeakHolding& holding : side.holdings)
        bytes[static_cast<std::size_t>(holding.category)] += holding.bytes;
    EXPECT_EQ(bytes, timeline->atPeak);
}

TEST(PeakComparison, MemoryOutsideOfPyTorchIsLeftOut)
{
    const PeakSide side = sideOf(*makeStepBesideOthers(), "run.hrs");
    EXPECT_EQ(side.peak, 10 * MiB);
    EXPECT_EQ(side.nonPyTorch, 300 * MiB);
    EXPECT_THAT(comparePeaks(side, side, PeakKey::category).notes,
                Contains("The peak of run.hrs is without 300.00 MiB that is not PyTorch's."));
}

TEST(PeakComparison, OpsAreNewGoneAndLarger)
{
    SmallStep before;
    before.make("mm", 4);
    before.make("gelu", 2);
    before.make("dropout", 1);
    before.make("view", 0);
    SmallStep after;
    after.make("mm", 4);
    after.make("softmax", 8);
    after.make("gelu", 3);
    const PeakSide a = before.side("a.hrs");
    const PeakSide b = after.side("b.hrs");
    expectSums(a, b);
    const OpChanges ops = opChanges(a, b);
    EXPECT_EQ(ops.pairs, 2);
    EXPECT_EQ(ops.opsA, 3) << "a view allocates nothing";
    std::vector<std::tuple<Change, std::string, Bytes, Bytes>> found;
    for (const OpChange& change : ops.changes) {
        EXPECT_EQ(change.kind.module, "layer");
        found.emplace_back(change.change, change.kind.name, change.a / 512, change.b / 512);
    }
    EXPECT_THAT(found,
                ElementsAre(std::tuple(Change::isNew, "softmax", 0, 8), std::tuple(Change::gone, "dropout", 1, 0),
                            std::tuple(Change::larger, "gelu", 2, 3)));
}

TEST(PeakComparison, AnOpThatMovedIsNeitherNewNorGone)
{
    SmallStep before;
    SmallStep after;
    for (const char* name : {"a", "b", "c"})
        before.make(name, 1);
    for (const char* name : {"c", "a", "b"})
        after.make(name, 1);
    const OpChanges ops = opChanges(before.side("a.hrs"), after.side("b.hrs"));
    EXPECT_EQ(ops.pairs, 3);
    EXPECT_TRUE(ops.changes.empty());
}

TEST(PeakComparison, BlocksOfNoModuleAreRowsOfTheirCategory)
{
    SmallStep step;
    step.make("mm", 4);
    step.make("_foreach_add", 2, Phase::optimizer);
    const PeakSide side = step.side("a.hrs");
    std::map<std::string, Bytes> rows;
    for (const PeakRow& row : peakRows(side, side, PeakKey::module)) {
        EXPECT_EQ(row.ofCategory, row.name == "optimizer");
        rows[row.name] = row.a / 512;
    }
    EXPECT_EQ(rows, (std::map<std::string, Bytes>{{"layer", 4}, {"optimizer", 3}}));
}

TEST(PeakComparison, TheSentenceNamesTheCauseAndThePhases)
{
    SmallStep before;
    before.make("mm", 4);
    SmallStep after;
    after.make("mm", 6);
    after.make("lamb", 1, Phase::optimizer);
    const PeakSide a = before.side("a.hrs");
    const PeakSide b = after.side("b.hrs");
    EXPECT_EQ(comparePeaks(a, b, PeakKey::module).cause,
              "b.hrs peaks 1.50 KiB (1,536 bytes) above a.hrs. The largest part, +1.00 KiB (67 %), is activations of "
              "layer, allocated by mm (+1.00 KiB). a.hrs peaks in forward and b.hrs in the optimizer's step, so that "
              "the rows compare two phases.");
    EXPECT_THAT(comparePeaks(b, a, PeakKey::category).cause,
                StartsWith("a.hrs peaks 1.50 KiB (1,536 bytes) below b.hrs. The largest part, -1.00 KiB (67 %), is "
                           "activations, allocated by mm (-1.00 KiB)."));
    EXPECT_EQ(comparePeaks(a, a, PeakKey::module).cause, "a.hrs and a.hrs peak at the same 2.50 KiB (2,560 bytes).");
}

TEST(PeakComparison, SimilarLayersAreOnePartOfTheSentence)
{
    const PeakSide a = sideOf(*makeSyntheticStep({.blocks = 4}), "a.hrs");
    const PeakSide b = sideOf(*makeSyntheticStep({.blocks = 4, .activation = 8 * MiB}), "b.hrs");
    EXPECT_THAT(comparePeaks(a, b, PeakKey::module).cause, HasSubstr("activations of layers.*."));
    EXPECT_THAT(comparePeaks(a, b, PeakKey::module).cause, HasSubstr("modules)"));
}

/// Lines of two versions of a script: a comment moved all lines of the function.
TEST(PeakComparison, LinesThatMovedArePaired)
{
    SmallStep before;
    before.make("mm", 4, Phase::forward, 10);
    before.make("gelu", 2, Phase::forward, 12);
    SmallStep after;
    after.make("mm", 4, Phase::forward, 12);
    after.make("dropout", 1, Phase::forward, 13);
    after.make("gelu", 5, Phase::forward, 14);
    const PeakSide a = before.side("a.hrs");
    const PeakSide b = after.side("b.hrs");
    expectSums(a, b);
    std::vector<std::tuple<std::string, Bytes, Bytes>> rows;
    for (const PeakRow& row : peakRows(a, b, PeakKey::line))
        rows.emplace_back(row.name, row.a / 512, row.b / 512);
    EXPECT_THAT(rows,
                ElementsAre(std::tuple("model.py:14 Layer.forward, line 12 in A", 2, 5),
                            std::tuple("model.py:13 Layer.forward", 0, 1),
                            std::tuple("model.py:12 Layer.forward, line 10 in A", 4, 4),
                            std::tuple("optimizer", 1, 1)));
}

TEST(PeakComparison, AMissingKeyIsSaid)
{
    const PeakSide a = sideOf(*makeSyntheticStep(), "a.hrs");
    const PeakComparison comparison = comparePeaks(a, a, PeakKey::line);
    EXPECT_EQ(comparison.key, PeakKey::category);
    EXPECT_THAT(comparison.notes, ElementsAre("The files have no source lines, so that the rows are categories."));
}

/// The side of a snapshot, without a step, is that of the imported step.
TEST(PeakComparison, ASnapshotNeedsNoStep)
{
    for (const std::string name :
         {"protocol4.pickle", "expandable.pickle", "full.pickle", "late.pickle", "two_devices.pickle"}) {
        const std::string path = HEADROOM_TEST_DATA "/snapshots/" + name;
        const Result<ImportedSnapshot> imported = importSnapshot(path);
        ASSERT_TRUE(imported.ok()) << imported.error().message;
        const Result<PeakSide> direct = peakSideOf(*imported, name);
        ASSERT_TRUE(direct.ok()) << direct.error().message;
        const PeakSide step = sideOf(*imported->step, name);
        EXPECT_EQ(direct->peak, step.peak) << name;
        EXPECT_EQ(direct->source, step.source);
        EXPECT_EQ(direct->namesModules, step.namesModules) << name;
        EXPECT_EQ(direct->namesOps, step.namesOps) << name;
        EXPECT_EQ(direct->made, step.made) << name;
        EXPECT_NEAR(direct->instant.ms, step.instant.ms, 1e-6);
        EXPECT_EQ(direct->instant.phase, step.instant.phase) << name;
        EXPECT_EQ(direct->instant.op, step.instant.op) << name;
        EXPECT_EQ(direct->instant.module, step.instant.module) << name;
        expectSums(*direct, step);
        for (const PeakKey key : {PeakKey::module, PeakKey::line, PeakKey::category})
            for (const PeakRow& row : peakRows(*direct, step, key))
                EXPECT_EQ(std::tuple(row.a, row.blocksA), std::tuple(row.b, row.blocksB)) << name << ": " << row.name;
        EXPECT_TRUE(opChanges(*direct, step).changes.empty()) << name;
        EXPECT_FALSE(direct->lines.empty()) << name;
    }
}

TEST(PeakComparison, QuiteDifferentStepsTakeNoLonger)
{
    std::mt19937 random(3);
    const auto side = [&] {
        PeakSide made;
        made.namesOps = true;
        for (int i = 0; i < 200; ++i)
            made.kinds.push_back({"op" + std::to_string(random() % 400), {}, Phase::forward});
        for (int i = 0; i < 200'000; ++i) {
            made.ops.push_back(static_cast<std::uint32_t>(random() % made.kinds.size()));
            made.made.push_back(512);
        }
        return made;
    };
    const PeakSide a = side();
    const PeakSide b = side();
    const auto begin = std::chrono::steady_clock::now();
    const OpChanges ops = opChanges(a, b);
    EXPECT_GT(ops.pairs, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

} // namespace
} // namespace headroom
