// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_draw_list.h"

#include "views/plot/call_later.h"
#include "views/plot/timeline_paint.h"

#include <QPainter>
#include <QPolygonF>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

using PixelColumns = std::vector<TimelinePyramid::PixelColumn>;

// Columns that begin before the step ends; at least one while the viewport touches the step.
int columnsBefore(double endMs, const TimelineViewport& viewport)
{
    if (endMs <= viewport.ms.begin)
        return 0;
    const double columns = std::ceil((endMs - viewport.ms.begin) / viewport.columnMs() - 1e-6);
    return static_cast<int>(std::clamp(columns, 1.0, static_cast<double>(viewport.columns)));
}

PixelColumns cut(const TimelinePyramid& pyramid, const TimelineViewport& viewport)
{
    const int count = columnsBefore(pyramid.timeline().durationMs, viewport);
    if (count == 0)
        return {};
    return pyramid.columns(viewport.ms.begin, viewport.ms.begin + count * viewport.columnMs(), count);
}

std::vector<Bytes> totalsOf(const PixelColumns& columns)
{
    std::vector<Bytes> totals;
    totals.reserve(columns.size());
    for (const auto& column : columns)
        totals.push_back(total(column.atMaximum));
    return totals;
}

// Adds a band for each category of the recorded step and of the shown columns.
void stackByCategory(const TimelineScene& scene, const PixelColumns& columns, TimelineDrawList& list)
{
    CategoryMask mask = scene.recordedCategories;
    for (const auto& column : columns) {
        for (std::size_t i = 0; i < categoryCount; ++i)
            mask |= column.atMaximum[i] > 0 ? maskOf(static_cast<Category>(i)) : 0;
    }
    for (const auto category : stackOrder) {
        if (mask & maskOf(category))
            list.bands.push_back({categoryTitle(category), category, 0});
    }
    list.main.parts.reserve(columns.size() * list.bands.size());
    for (const auto& column : columns) {
        for (const auto& band : list.bands)
            list.main.parts.push_back(column.atMaximum[static_cast<std::size_t>(*band.category)]);
    }
}

void stackByModule(const GroupedTimeline& groups, const PixelColumns& columns, TimelineDrawList& list)
{
    const auto& titles = groups.grouping().titles;
    constexpr std::size_t named = ModuleGrouping::otherGroup + 1;
    for (std::size_t i = 0; i < titles.size(); ++i) {
        const double last = std::max(1.0, static_cast<double>(titles.size() - named) - 1);
        Band band{QString::fromStdString(titles[i]), std::nullopt, static_cast<double>(i - named) / last};
        if (i == ModuleGrouping::optimizerGroup)
            band.category = Category::optimizer;
        if (i == ModuleGrouping::otherGroup)
            band.category = Category::buffer; // its grey
        list.bands.push_back(std::move(band));
    }
    list.main.parts.resize(columns.size() * titles.size());
    for (std::size_t i = 0; i < columns.size(); ++i)
        groups.bytesAt(columns[i].maximumChange, std::span(list.main.parts).subspan(i * titles.size(), titles.size()));
}

} // namespace

CategoryMask categoriesEver(const Timeline& timeline)
{
    CategoryMask mask = 0;
    for (std::size_t i = 0; i < categoryCount; ++i)
        mask |= timeline.start[i] > 0 ? maskOf(static_cast<Category>(i)) : 0;
    for (const auto& change : timeline.changes)
        mask |= maskOf(change.category);
    return mask;
}

TimelineScene makeScene(TimelinePtr recorded, TimelinePtr planned, const StepTrace* trace)
{
    TimelineScene scene;
    scene.recorded = std::make_shared<const TimelinePyramid>(recorded);
    scene.planned = planned ? std::make_shared<const TimelinePyramid>(planned) : nullptr;
    scene.recordedCategories = categoriesEver(*recorded);
    if (trace)
        scene.groups = std::make_shared<const GroupedTimeline>(*trace, planned ? planned : recorded,
                                                               ModuleGrouping::of(*trace, *recorded));
    return scene;
}

int TimelineViewport::columnAt(double instant) const noexcept
{
    const double column = std::floor((instant - ms.begin) / columnMs());
    return static_cast<int>(std::clamp(column, 0.0, columns - 1.0));
}

TimelineDrawListPtr prepareDrawList(const TimelineScene& scene, const TimelineViewport& viewport,
                                    const TimelineDrawList* before)
{
    auto list = std::make_shared<TimelineDrawList>();
    list->viewport = viewport;
    list->planned = scene.hasPlan();
    const auto columns = cut(scene.main(), viewport);
    list->main.totals = totalsOf(columns);
    for (const auto& column : columns)
        list->main.changes.push_back(column.maximumChange);
    if (scene.groups)
        stackByModule(*scene.groups, columns, *list);
    else
        stackByCategory(scene, columns, *list);
    list->main.bands = list->bands.size();
    if (scene.hasPlan() && before && before->planned && before->viewport == viewport)
        list->outline = before->outline;
    else if (scene.hasPlan())
        list->outline = totalsOf(cut(*scene.recorded, viewport));
    return list;
}

std::vector<Band> visibleBands(const TimelineDrawList& whole)
{
    constexpr double leastShare = 0.002; // of the peak: a pixel
    const auto& main = whole.main;
    if (main.totals.empty())
        return {};
    const double peak = static_cast<double>(*std::max_element(main.totals.begin(), main.totals.end()));
    std::vector<Band> visible;
    for (std::size_t band = whole.bands.size(); band-- > 0;) {
        Bytes most = 0;
        for (std::size_t column = 0; column < main.size(); ++column)
            most = std::max(most, main.at(column)[band]);
        if (static_cast<double>(most) >= leastShare * peak)
            visible.push_back(whole.bands[band]);
    }
    return visible;
}

namespace {

// The heights of columns [first, last) as a staircase, without points inside of straight lines.
QPolygonF staircase(const std::vector<Bytes>& heights, std::size_t first, std::size_t last,
                    const TimelineViewport& viewport, const TimelineGeometry& geometry)
{
    QPolygonF line;
    const auto x = [&](std::size_t column) {
        return geometry.ms.toPixel(viewport.ms.begin + static_cast<double>(column) * viewport.columnMs());
    };
    for (std::size_t i = first; i < last; ++i) {
        if (i > first && heights[i] == heights[i - 1])
            continue;
        const double y = geometry.bytes.toPixel(static_cast<double>(heights[i]));
        if (i > first)
            line << QPointF(x(i), line.last().y());
        line << QPointF(x(i), y);
    }
    if (last > first)
        line << QPointF(x(last), line.last().y());
    return line;
}

// The area between two staircases.
QPolygonF between(const QPolygonF& upper, const QPolygonF& lower)
{
    QPolygonF area = upper;
    std::for_each(lower.crbegin(), lower.crend(), [&](const QPointF& point) { area << point; });
    return area;
}

// Lines at 45 degrees, cut to the columns where the recorded step is higher than the planned one. Not a pattern brush,
// which SVG and PDF turn into a bitmap, and not a clip, which Qt's SVG writer does not know.
void paintHatch(QPainter& painter, const TimelineDrawList& list, const TimelineGeometry& geometry, const Theme& theme)
{
    constexpr double period = 7;
    const double left = geometry.ms.toPixel(list.viewport.ms.begin);
    const double width = list.viewport.columnMs() / geometry.ms.dataPerPixel();
    std::vector<QLineF> lines;
    const auto height = [&](const std::vector<Bytes>& totals, std::size_t column) {
        return geometry.bytes.toPixel(column < totals.size() ? static_cast<double>(totals[column]) : 0);
    };
    const double reach = width * static_cast<double>(list.outline.size()) + geometry.plot.height();
    for (double k = 0; k < reach; k += period) {
        const auto y
            = [&](std::size_t column) { return geometry.plot.top() + k - (static_cast<double>(column) + 0.5) * width; };
        std::size_t begin = 0;
        bool inside = false;
        for (std::size_t column = 0; column <= list.outline.size(); ++column) {
            const bool now = column < list.outline.size() && y(column) > height(list.outline, column)
                && y(column) < height(list.main.totals, column);
            if (now && !inside)
                begin = column;
            if (!now && inside)
                lines.emplace_back(left + static_cast<double>(begin) * width, y(begin) + width / 2,
                                   left + static_cast<double>(column) * width, y(column) + width / 2);
            inside = now;
        }
    }
    painter.setPen(QPen(theme.hatch, 0.8));
    painter.drawLines(lines.data(), static_cast<int>(lines.size()));
}

// The recorded total where it is above the stack; inside of it the line would only be noise.
void paintOutline(QPainter& painter, const TimelineDrawList& list, const TimelineGeometry& geometry, const Theme& theme)
{
    auto ink = theme.text;
    ink.setAlphaF(0.62f);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(ink, 1.1));
    const auto& totals = list.main.totals;
    const auto above = [&](std::size_t i) { return i >= totals.size() || list.outline[i] > totals[i]; };
    std::size_t first = 0;
    while (first < list.outline.size()) {
        std::size_t last = first;
        while (last < list.outline.size() && above(last))
            ++last;
        if (last > first)
            painter.drawPolyline(staircase(list.outline, first, last, list.viewport, geometry));
        first = last + 1;
    }
}

} // namespace

void paintBandPolygons(QPainter& painter, const TimelineDrawList& list, const TimelineGeometry& geometry,
                       const Theme& theme)
{
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    std::vector<Bytes> heights(list.main.size(), 0);
    auto lower = staircase(heights, 0, heights.size(), list.viewport, geometry);
    for (std::size_t band = 0; band < list.bands.size(); ++band) {
        bool any = false;
        for (std::size_t i = 0; i < heights.size(); ++i) {
            const Bytes part = list.main.at(i)[band];
            heights[i] += part;
            any = any || part > 0;
        }
        if (!any)
            continue;
        const auto upper = staircase(heights, 0, heights.size(), list.viewport, geometry);
        painter.setPen(Qt::NoPen);
        painter.setBrush(list.bands[band].color(theme));
        painter.drawPolygon(between(upper, lower));
        painter.setPen(QPen(theme.card, 0.75));
        painter.drawPolyline(lower);
        lower = upper;
    }
    if (!list.outline.empty()) {
        paintHatch(painter, list, geometry, theme);
        paintOutline(painter, list, geometry, theme);
    }
    painter.restore();
}

namespace {

// The pyramid of a timeline; that of `last` if the timeline is the same, as during a zoom.
PyramidPtr pyramidOf(const TimelinePtr& timeline, const PreparedTimeline* last)
{
    if (!timeline)
        return nullptr;
    if (last) {
        for (const auto& known : {last->scene.recorded, last->scene.planned}) {
            if (known && &known->timeline() == timeline.get())
                return known;
        }
    }
    return std::make_shared<const TimelinePyramid>(timeline);
}

// Adds the stack by module. Groups are made once for a step, and sums once for a plan.
void group(PreparedTimeline& made, const PreparedTimeline* last)
{
    const auto& request = made.request;
    if (!made.grouping)
        made.grouping = ModuleGrouping::of(*request.trace, request.own ? *request.own : *request.recorded);
    const auto& main = request.planned ? request.planned : request.recorded;
    if (last && last->scene.groups && &last->scene.groups->timeline() == main.get())
        made.scene.groups = last->scene.groups;
    else
        made.scene.groups = std::make_shared<const GroupedTimeline>(*request.trace, main, made.grouping);
}

} // namespace

void TimelinePreparer::request(TimelineRequest wanted)
{
    lane_.post([this, wanted = std::move(wanted), number = ++asked_](const std::stop_token&) {
        last_ = prepareTimeline(wanted, last_.get());
        callLater(this, [this, prepared = last_, number] {
            answered_ = number;
            Q_EMIT ready(prepared);
        });
    });
}

PreparedTimelinePtr prepareTimeline(const TimelineRequest& request, const PreparedTimeline* last)
{
    auto made = std::make_shared<PreparedTimeline>();
    made->request = request;
    if (!request.recorded || request.pixels.isEmpty() || request.viewport.columns <= 0)
        return made;
    const bool sameStep = last && last->list && last->request.recorded == request.recorded;
    made->scene.recorded = pyramidOf(request.recorded, last);
    made->scene.planned = pyramidOf(request.planned, last);
    made->scene.recordedCategories = sameStep ? last->scene.recordedCategories
        : request.own                         ? categoriesEver(*request.recorded) | categoriesEver(*request.own)
                                              : categoriesEver(*request.recorded);
    if (sameStep)
        made->grouping = last->grouping;
    if (request.byModule && request.trace)
        group(*made, sameStep ? last : nullptr);
    made->list = prepareDrawList(made->scene, request.viewport, sameStep ? last->list.get() : nullptr);
    const bool samePlan
        = sameStep && last->request.planned == request.planned && last->scene.groups == made->scene.groups;
    if (samePlan && last->request.overview == request.overview)
        made->overview = last->overview;
    else if (request.overview.columns > 0)
        made->overview = prepareDrawList(made->scene, request.overview, sameStep ? last->overview.get() : nullptr);
    made->image
        = rasterise(*made->list, request.pixels, request.bytes, request.pixelsPerPoint, Theme::make(request.dark));
    return made;
}

} // namespace headroom
