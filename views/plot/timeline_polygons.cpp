// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_paint.h"

#include <QPainter>
#include <QPolygonF>

#include <algorithm>

namespace headroom {
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

} // namespace headroom
