// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"
#include "core/predict/step_model.h"
#include "core/timeline/pyramid.h"
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
