// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/tradeoff_paint.h"

#include <QPainter>

namespace headroom {
namespace {

constexpr std::size_t mostCorners = 12; // a curve of more points is drawn as single points

QPolygonF lineOf(const std::vector<TradeOffPoint>& curve, const TradeOffPlane& plane)
{
    QPolygonF line;
    for (const auto& point : curve)
        line << plane.at(point);
    return line;
}

} // namespace

void paintDot(QPainter& painter, QPointF at, double radius, const QColor& fill, const QColor& border, double width)
{
    painter.setPen(Qt::NoPen);
    if (width > 0) {
        painter.setBrush(border);
        painter.drawEllipse(at, radius + width / 2, radius + width / 2);
    }
    painter.setBrush(fill);
    painter.drawEllipse(at, radius - width / 2, radius - width / 2);
}

void paintOtherCurves(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane, const Theme& theme)
{
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(picture.selected ? theme.ghost : theme.hatch, 1));
    for (const auto& other : picture.others)
        painter.drawPolyline(lineOf(other, plane));
    painter.setPen(QPen(theme.ghost, 1.5));
    painter.drawPolyline(lineOf(picture.estimate, plane));
}

void paintChoices(QPainter& painter, const TradeOffPicture& picture, double msPerGiB, const TradeOffPlane& plane,
                  const Theme& theme)
{
    if (picture.curve.empty())
        return;
    if (picture.hasPlan && msPerGiB > 0) {
        const auto piece = tangent(picture, msPerGiB);
        painter.setPen(QPen(theme.accent, 1.25, Qt::DashLine));
        painter.drawLine(plane.at({0, piece.keptBegin, piece.msBegin}), plane.at({0, piece.keptEnd, piece.msEnd}));
    }
    auto pale = theme.accent;
    pale.setAlphaF(0.4f);
    for (const auto& choice : picture.choices)
        paintDot(painter, plane.at(choice.point), 3.5, pale, {}, 0);
    painter.setBrush(Qt::NoBrush);
    const bool many = picture.curve.size() > mostCorners;
    painter.setPen(QPen(theme.text, many ? 1 : 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter.drawPolyline(lineOf(picture.curve, plane));
    for (const auto& point : picture.curve)
        paintDot(painter, plane.at(point), many ? 2 : 3.5, many ? theme.text : theme.card, theme.text);
    if (picture.hasPlan)
        paintDot(painter, plane.at(picture.chosen), 5.5, theme.accent, theme.card);
}

} // namespace headroom
