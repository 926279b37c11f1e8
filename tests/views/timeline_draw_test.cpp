// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What the timeline draws, checked without a screen: the pixel columns, and the pixels made of them.

#include "core/predict/predict.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/made_up.h"
#include "views/plot/timeline_draw_list.h"
#include "views/plot/timeline_paint.h"
#include "views/plot/timeline_readout.h"

#include <gmock/gmock.h>

namespace headroom {
namespace {

TimelineScene sceneOf(double discarded)
{
    const MadeUpStep step;
    return makeScene(madeUpTimeline(step, 0), discarded > 0 ? madeUpTimeline(step, discarded) : nullptr);
}

TEST(DrawList, BandsAddUpToThePeakAtThePeaksColumn)
{
    const auto trace = makeSyntheticStep();
    auto timeline = predict(*trace, {});
    ASSERT_TRUE(timeline) << timeline.error().message;
    const auto recorded = std::make_shared<const Timeline>(*std::move(timeline));
    const auto scene = makeScene(recorded, nullptr);
    const double peakMs = recorded->changes[recorded->peakChange].ms;
    for (const int width : {1, 7, 100, 1400}) {
        const TimelineViewport viewport{{0, recorded->durationMs}, width};
        const auto list = prepareDrawList(scene, viewport);
        const auto column = static_cast<std::size_t>(viewport.columnAt(peakMs));
        ASSERT_LT(column, list->main.size());
        EXPECT_EQ(list->main.totals[column], recorded->peak) << width << " columns";
        for (std::size_t band = 0; band < list->bands.size(); ++band)
            EXPECT_EQ(list->main.at(column)[band],
                      recorded->atPeak[static_cast<std::size_t>(*list->bands[band].category)]);
        EXPECT_EQ(*std::max_element(list->main.totals.begin(), list->main.totals.end()), recorded->peak);
    }
}

TEST(DrawList, ColumnsEndWithTheStep)
{
    const auto scene = sceneOf(0.5);
    const double recordedMs = scene.recorded->timeline().durationMs;
    const double plannedMs = scene.planned->timeline().durationMs;
    ASSERT_GT(plannedMs, recordedMs * 1.1);
    const TimelineViewport viewport{{0, plannedMs * 1.25}, 500};
    const auto list = prepareDrawList(scene, viewport);
    EXPECT_TRUE(list->planned);
    EXPECT_EQ(list->main.size(), 400u);
    EXPECT_EQ(list->outline.size(), static_cast<std::size_t>(std::ceil(recordedMs / viewport.columnMs())));
    EXPECT_TRUE(prepareDrawList(scene, {{plannedMs * 2, plannedMs * 3}, 100})->main.totals.empty());
}

TEST(DrawList, LegendListsCategoriesFromTheBottomOfTheStack)
{
    std::vector<Category> categories;
    const auto list = prepareDrawList(sceneOf(0), {{0, 10}, 20});
    for (const auto& band : list->bands)
        categories.push_back(*band.category);
    EXPECT_THAT(categories,
                testing::ElementsAre(Category::parameter, Category::buffer, Category::optimizer, Category::gradient,
                                     Category::activation, Category::temporary));
}

TEST(DrawList, LegendLeavesOutWhatIsTooSmallToBeSeen)
{
    auto timeline = *madeUpTimeline({}, 0);
    timeline.start[static_cast<std::size_t>(Category::input)] = 64 * KiB;
    const auto scene = makeScene(std::make_shared<const Timeline>(timeline), nullptr);
    const auto list = prepareDrawList(scene, {{0, timeline.durationMs}, 300});
    EXPECT_EQ(list->bands.size(), 7u);
    std::vector<Category> listed;
    for (const auto& band : visibleBands(*list))
        listed.push_back(*band.category);
    EXPECT_THAT(listed,
                testing::ElementsAre(Category::temporary, Category::activation, Category::gradient, Category::optimizer,
                                     Category::buffer, Category::parameter));
}

class Pixels : public testing::Test
{
protected:
    static constexpr QSize size{800, 400};
    const TimelineScene scene_ = sceneOf(0.6);
    const AxisRange bytes_ = byteRangeFor(scene_.recorded->timeline().peak, size.height());
    const TimelineViewport viewport_{{0, scene_.planned->timeline().durationMs * 1.1}, size.width()};
    const Theme theme_ = Theme::light();
    const TimelineDrawListPtr list_ = prepareDrawList(scene_, viewport_);
    const QImage image_ = rasterise(*list_, size, bytes_, 1, theme_);
    const AxisMap y_{bytes_, static_cast<double>(size.height()), 0};

    double top(Bytes bytes) const { return y_.toPixel(static_cast<double>(bytes)); }
};

TEST_F(Pixels, EveryBandHasItsColourInItsMiddle)
{
    const int column = 300;
    Bytes below = 0;
    int bands = 0;
    for (std::size_t band = 0; band < list_->bands.size(); ++band) {
        const Bytes part = list_->main.at(column)[band];
        const double height = top(below) - top(below + part);
        if (height > 4) {
            const int middle = static_cast<int>((top(below) + top(below + part)) / 2);
            EXPECT_EQ(image_.pixelColor(column, middle), list_->bands[band].color(theme_)) << band;
            ++bands;
        }
        below += part;
    }
    EXPECT_GE(bands, 3);
}

TEST_F(Pixels, StackEndsAtTheTotalToATenthOfAPixel)
{
    // Below the temporaries' thin band the column is opaque, above the outline it is empty.
    for (const int column : {10, 200, 500}) {
        const auto at = static_cast<std::size_t>(column);
        const double stack = top(list_->main.totals[at]);
        const double outline = at < list_->outline.size() ? top(list_->outline[at]) : stack;
        EXPECT_EQ(qAlpha(image_.pixel(column, static_cast<int>(stack) + 1)) >= 250, true) << column;
        const int above = static_cast<int>(std::min(stack, outline)) - 4;
        EXPECT_EQ(image_.pixel(column, above), 0u) << column;
        const double covered = 1 - (stack - std::floor(stack));
        if (at >= list_->outline.size() || outline >= stack) {
            EXPECT_NEAR(qAlpha(image_.pixel(column, static_cast<int>(stack))) / 255.0, covered, 0.1) << column;
        }
    }
}

TEST_F(Pixels, BandsArePartedByAnEdgeInTheCardsColour)
{
    const int column = 300;
    const Bytes parameters = list_->main.at(column)[0];
    const double edge = top(parameters);
    // One pixel of card lies above the parameters, on one row or shared by two.
    double card = 0;
    for (const int y : {static_cast<int>(edge) - 2, static_cast<int>(edge) - 1, static_cast<int>(edge)}) {
        const auto pixel = image_.pixelColor(column, y);
        card += (pixel.redF() - 0.4) > 0.2 ? 1 : 0; // whiter than either neighbour
    }
    EXPECT_GE(card, 1);
}

TEST_F(Pixels, SavedMemoryIsHatchedUpToTheOutlineAndNothingIsDrawnPastTheEnd)
{
    const int column = 240; // near the recorded peak
    const auto at = static_cast<std::size_t>(column);
    ASSERT_GT(list_->outline[at], list_->main.totals[at] + 10 * GiB);
    int drawn = 0;
    int empty = 0;
    for (int y = static_cast<int>(top(list_->outline[at])) + 3; y < static_cast<int>(top(list_->main.totals[at]));
         ++y) {
        const int alpha = qAlpha(image_.pixel(column, y));
        drawn += alpha > 100;
        empty += alpha == 0;
    }
    EXPECT_GT(drawn, 5);
    EXPECT_GT(empty, drawn);
    const int outlineRow = static_cast<int>(std::lround(top(list_->outline[at])));
    EXPECT_GT(qAlpha(image_.pixel(column, outlineRow)) + qAlpha(image_.pixel(column, outlineRow - 1)), 60);
    for (int y = 0; y < size.height(); ++y)
        ASSERT_EQ(image_.pixel(size.width() - 1, y), 0u);
}

TEST(Preparer, KeepsPyramidsOfTimelinesThatStayed)
{
    const MadeUpStep step;
    TimelineRequest request;
    request.recorded = madeUpTimeline(step, 0);
    request.planned = madeUpTimeline(step, 0.5);
    request.pixels = {300, 200};
    request.viewport = {{0, 900}, 300};
    request.overview = {{0, 900}, 200};
    request.bytes = byteRangeFor(request.recorded->peak, 200);
    const auto first = prepareTimeline(request, nullptr);
    request.viewport.ms = {100, 200};
    const auto zoomed = prepareTimeline(request, first.get());
    EXPECT_EQ(zoomed->scene.recorded, first->scene.recorded);
    EXPECT_EQ(zoomed->scene.planned, first->scene.planned);
    EXPECT_EQ(zoomed->overview, first->overview);
    EXPECT_NE(zoomed->list->viewport, first->list->viewport);
    // Another plan in the same viewport: the recorded outline is the same, the plan's stack is not.
    request.planned = madeUpTimeline(step, 0.6);
    const auto other = prepareTimeline(request, zoomed.get());
    EXPECT_EQ(other->scene.recorded, first->scene.recorded);
    EXPECT_NE(other->scene.planned, first->scene.planned);
    EXPECT_NE(other->overview, first->overview);
    EXPECT_EQ(other->list->outline, zoomed->list->outline);
    EXPECT_EQ(other->list->outline, prepareTimeline(request, nullptr)->list->outline);
    EXPECT_NE(other->list->main.totals, zoomed->list->main.totals);
}

TEST(Geometry, PeaksLabelHasRoomAboveIt)
{
    for (const double height : {200.0, 480.0, 1000.0}) {
        const auto range = byteRangeFor(70 * GiB, height);
        const AxisMap y{range, height, 0};
        EXPECT_GE(y.toPixel(static_cast<double>(70 * GiB)), 27) << height;
    }
}

TEST(PlaceBeside, AvoidsLabelsWhereThereIsRoom)
{
    const QRectF bounds(0, 0, 800, 400);
    const QSizeF card(200, 160);
    const std::vector<QRectF> labels{{310, 180, 140, 20}};
    const auto box = placeBeside({300, 190}, card, bounds, labels, 12);
    EXPECT_FALSE(box.intersects(labels.front()));
    EXPECT_TRUE(bounds.contains(box));
    EXPECT_FALSE(box.contains(QPointF(300, 190)));
}

TEST(PlaceBeside, GoesToTheOtherSideAtTheRightEdge)
{
    const auto box = placeBeside({780, 200}, {200, 160}, QRectF(0, 0, 800, 400), {}, 12);
    EXPECT_DOUBLE_EQ(box.right(), 768);
}

} // namespace
} // namespace headroom
