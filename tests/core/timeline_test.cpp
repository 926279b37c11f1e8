// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"
#include "core/predict/step_model.h"
#include "core/timeline/pyramid.h"
#include "core/timeline/range_summary.h"
#include "tests/core/hand_step.h"
#include "tests/core/synthetic_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace headroom;

namespace {

TimelinePtr randomTimeline(std::size_t changes, unsigned seed)
{
    std::mt19937 random(seed);
    auto timeline = std::make_shared<Timeline>();
    timeline->start[0] = 1000;
    double ms = 0;
    for (std::size_t i = 0; i < changes; ++i) {
        if (random() % 3 == 0)
            ms += static_cast<double>(random() % 100) / 16;
        const auto category = static_cast<Category>(random() % categoryCount);
        const Bytes delta = static_cast<Bytes>(random() % 2001) - 1000;
        timeline->changes.push_back({ms, delta, StorageId(0), {}, category, false});
    }
    timeline->durationMs = ms;
    return timeline;
}

/// Every state, one after the other.
struct BruteForce
{
    std::vector<CategoryBytes> states;

    explicit BruteForce(const Timeline& timeline)
        : states{timeline.start}
    {
        for (const MemoryChange& change : timeline.changes) {
            states.push_back(states.back());
            states.back()[static_cast<std::size_t>(change.category)] += change.delta;
        }
    }
};

std::size_t countIf(const Timeline& timeline, double ms, bool including)
{
    return static_cast<std::size_t>(std::ranges::count_if(
        timeline.changes, [&](const MemoryChange& c) { return c.ms < ms || (including && c.ms == ms); }));
}

} // namespace

TEST(Pyramid, StatesAreThoseOfTheTimeline)
{
    for (const std::size_t changes : {0U, 1U, 63U, 64U, 65U, 1000U}) {
        const TimelinePtr timeline = randomTimeline(changes, 1);
        const TimelinePyramid pyramid(timeline);
        const BruteForce brute(*timeline);
        for (std::size_t count = 0; count <= changes; ++count)
            ASSERT_EQ(pyramid.bytesAt(count), brute.states[count]) << count << " of " << changes;
        EXPECT_EQ(pyramid.bytesAt(changes + 1), brute.states.back());
        for (const double ms : {-1.0, 0.0, 1.0, timeline->durationMs / 3, timeline->durationMs, 1e9})
            EXPECT_EQ(pyramid.changesUntil(ms), countIf(*timeline, ms, true)) << ms;
    }
}

TEST(Pyramid, ColumnsShowTheHighestAndLowestStateOfTheirTime)
{
    std::mt19937 random(7);
    for (const std::size_t changes : {0U, 5U, 64U, 700U, 5000U, 40000U}) {
        const TimelinePtr timeline = randomTimeline(changes, static_cast<unsigned>(changes));
        const TimelinePyramid pyramid(timeline);
        const BruteForce brute(*timeline);
        for (int round = 0; round < 8; ++round) {
            double begin = round == 0 ? 0 : timeline->durationMs * (static_cast<double>(random() % 1000) / 900 - 0.05);
            double end = round == 0 ? timeline->durationMs : begin + timeline->durationMs / (1 + random() % 200);
            const int width = 1 + static_cast<int>(random() % 40);
            const auto columns = pyramid.columns(begin, end, width);
            ASSERT_EQ(columns.size(), static_cast<std::size_t>(width));
            const double step = (end - begin) / width;
            for (int i = 0; i < width; ++i) {
                const std::size_t first = countIf(*timeline, begin + step * i, false);
                const bool isLast = i + 1 == width;
                const std::size_t last = countIf(*timeline, isLast ? end : begin + step * (i + 1), isLast);
                std::size_t highest = first;
                Bytes lowest = total(brute.states[first]);
                for (std::size_t state = first; state <= last; ++state) {
                    lowest = std::min(lowest, total(brute.states[state]));
                    if (total(brute.states[state]) > total(brute.states[highest]))
                        highest = state;
                }
                const auto& column = columns[static_cast<std::size_t>(i)];
                ASSERT_EQ(column.maximumChange, highest) << changes << " changes, column " << i << " of " << width;
                ASSERT_EQ(column.atMaximum, brute.states[highest]);
                ASSERT_EQ(column.minimumTotal, lowest);
            }
        }
    }
}

TEST(Pyramid, OneColumnShowsThePeak)
{
    const StepModel model(makeSyntheticStep());
    const TimelinePyramid pyramid(model.recorded());
    const auto columns = pyramid.columns(0, model.recorded()->durationMs, 1);
    EXPECT_EQ(total(columns[0].atMaximum), model.recorded()->peak);
    EXPECT_EQ(columns[0].atMaximum, model.recorded()->atPeak);
    EXPECT_EQ(columns[0].maximumChange, model.recorded()->peakChange + 1);
}

TEST(Pyramid, NoWidthMeansNoColumns)
{
    const TimelinePyramid pyramid(randomTimeline(10, 1));
    EXPECT_TRUE(pyramid.columns(0, 1, 0).empty());
    EXPECT_TRUE(pyramid.columns(0, 1, -3).empty());
    EXPECT_EQ(pyramid.columns(1, 1, 3).size(), 3U);
}

TEST(LiveBlocks, AreWhatHoldsTheBytesOfThatInstant)
{
    const StepTracePtr trace = makeSyntheticStep();
    const StepModel model(trace);
    const auto plan = model.predict({{ModuleId(4), {}}, {ModuleId(15), model.savableOps(ModuleId(15))}});
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_GT(plan->recomputeMs, 0);
    for (const Timeline* timeline : {&*plan, model.recorded().get()}) {
        const BruteForce brute(*timeline);
        for (std::size_t count = 0; count <= timeline->changes.size(); count += 17) {
            CategoryBytes sum{};
            Bytes previous = std::numeric_limits<Bytes>::max();
            for (const LiveBlock& block : liveBlocks(*trace, *timeline, count)) {
                sum[static_cast<std::size_t>(block.category)] += block.bytes;
                ASSERT_GT(block.bytes, 0);
                ASSERT_LE(block.bytes, previous);
                ASSERT_EQ(block.creator, trace->storages.creator[block.storage]);
                previous = block.bytes;
            }
            ASSERT_EQ(sum, brute.states[count]) << "after " << count << " changes";
        }
    }
}

TEST(LiveBlocks, NameTheRecomputedCopy)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    const StorageId y = step.make("A", 16);
    const PackId saved = step.pack(y);
    step.exit();
    step.unpack({saved});
    const StorageId gradient = step.make("ABackward", 32);
    step.unpackEnd({saved});
    step.release({saved});
    step.free({y, gradient});
    const StepTracePtr trace = step.finish();
    const Timeline timeline = predicted(trace, {{HandStep::block, {}}});
    const auto blocks = liveBlocks(*trace, timeline, timeline.peakChange + 1);
    ASSERT_EQ(blocks.size(), 5U);
    EXPECT_EQ(blocks[0].storage, gradient);
    EXPECT_EQ(blocks[1].storage, y);
    EXPECT_FALSE(blocks[1].recomputed);
    EXPECT_EQ(blocks[2].storage, y);
    EXPECT_TRUE(blocks[2].recomputed);
    EXPECT_EQ(blocks[2].creator, OpId(0));
    EXPECT_EQ(blocks[3].storage, step.weight);
    EXPECT_EQ(blocks[3].category, Category::parameter);
}

namespace {

constexpr Bytes unit = allocationGranularity;

} // namespace

TEST(RangeSummary, CountsWhatIsMadeAndFreedAfterItsBegin)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    const StorageId a = step.make("a", 3); // from 0 ms to 1 ms
    const StorageId b = step.make("b", 5); // from 1 ms to 2 ms
    step.exit();
    step.free({a});
    step.builder.retype(b, Category::gradient);
    step.enter(HandStep::other, {b});
    const StorageId c = step.make("c", 2); // from 2 ms to 3 ms
    step.exit();
    const StepTracePtr trace = step.finish();
    const Timeline timeline = predicted(trace);

    const RangeSummary summary = summaryOf(*trace, timeline, {0.5, 2});
    EXPECT_EQ(summary.atBegin, 17 * unit);
    EXPECT_EQ(summary.peak, 22 * unit);
    EXPECT_EQ(summary.atEnd, 21 * unit);
    EXPECT_EQ(summary.made, 7 * unit) << "a new category makes nothing";
    EXPECT_EQ(summary.freed, 3 * unit);
    EXPECT_EQ(summary.kept, 7 * unit);
    EXPECT_EQ(summary.ops, 3U) << "also the op that began before";
    ASSERT_EQ(summary.blocks.size(), 2U);
    EXPECT_EQ(summary.blocks[0].storage, b);
    EXPECT_EQ(summary.blocks[0].category, Category::gradient);
    EXPECT_EQ(summary.blocks[1].storage, c);
    ASSERT_EQ(summary.modules.size(), 2U);
    EXPECT_EQ(summary.modules[0].id, HandStep::block);
    EXPECT_EQ(summary.modules[0].bytes, 5 * unit);
    EXPECT_EQ(summary.modules[1].id, HandStep::other);
    EXPECT_TRUE(summary.lines.empty());

    const RangeSummary end = summaryOf(*trace, timeline, {2, 3});
    EXPECT_EQ(end.made + end.freed, 0) << "all of it happened at 2 ms";
    EXPECT_EQ(end.ops, 1U);
    EXPECT_EQ(end.runs, (std::vector{false, false, true}));
    EXPECT_EQ(end.modulesAtWork(*trace), (std::vector{false, false, true}));
    const RangeSummary begin = summaryOf(*trace, timeline, {0, 0.5});
    EXPECT_EQ(begin.atBegin, 14 * unit) << "a step begins before its first allocation";
    EXPECT_EQ(begin.made, 3 * unit);
    const RangeSummary short_ = summaryOf(*trace, timeline, {0, 2});
    EXPECT_EQ(short_.made, 10 * unit);
    EXPECT_EQ(short_.kept, 7 * unit) << "a was freed";
}

TEST(RangeSummary, OfAPlanHasTheOpsThatRunAgain)
{
    HandStep step;
    step.enter(HandStep::block, {step.batch});
    const StorageId y = step.make("A", 16);
    const PackId saved = step.pack(y);
    step.exit();
    step.unpack({saved});
    const StorageId gradient = step.make("ABackward", 32);
    step.unpackEnd({saved});
    step.release({saved});
    step.free({y, gradient});
    const StepTracePtr trace = step.finish();
    const Timeline timeline = predicted(trace, {{HandStep::block, {}}});
    ASSERT_EQ(timeline.runs.size(), 3U);
    EXPECT_EQ(timeline.runs[1].op, OpId(0));
    EXPECT_TRUE(timeline.runs[1].again);
    EXPECT_EQ(timeline.runs[2].beginMs, 2);
    const RangeSummary again = summaryOf(*trace, timeline, {0.9, 1.5});
    EXPECT_EQ(again.made, 16 * unit);
    EXPECT_EQ(again.opsAgain, 1U);
    EXPECT_TRUE(again.blocks.front().recomputed);
}

TEST(RangeSummary, RangesSideBySideAddUpToTheStep)
{
    const StepTracePtr trace = makeSyntheticStep();
    const StepModel model(trace);
    const Timeline& timeline = *model.recorded();
    ASSERT_EQ(timeline.runs.size(), trace->ops.size());
    const RangeSummary whole = summaryOf(*trace, timeline, {0, timeline.durationMs});
    EXPECT_EQ(whole.atBegin, total(timeline.start));
    EXPECT_EQ(whole.peak, timeline.peak);
    EXPECT_EQ(whole.ops, trace->ops.size());
    Bytes made = 0, freed = 0, at = whole.atBegin;
    constexpr int parts = 37;
    for (int part = 0; part < parts; ++part) {
        const TimeRange range{timeline.durationMs * part / parts, timeline.durationMs * (part + 1) / parts};
        const RangeSummary summary = summaryOf(*trace, timeline, range);
        EXPECT_EQ(summary.atBegin, at);
        at = summary.atEnd;
        EXPECT_EQ(at, summary.atBegin + summary.made - summary.freed);
        EXPECT_LE(summary.kept, summary.made);
        Bytes sum = 0;
        for (const LiveBlock& block : summary.blocks)
            sum += block.bytes;
        EXPECT_EQ(sum, summary.made);
        made += summary.made;
        freed += summary.freed;
    }
    EXPECT_EQ(made, whole.made);
    EXPECT_EQ(freed, whole.freed);
    const RangeSummary beyond = summaryOf(*trace, timeline, {timeline.durationMs + 1, timeline.durationMs + 2});
    EXPECT_EQ(beyond.ops + beyond.blocks.size(), 0U);
}
