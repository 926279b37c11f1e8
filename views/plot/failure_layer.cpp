// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/failure_layer.h"

#include <QFontMetricsF>
#include <QPainter>

namespace headroom {
namespace {

constexpr double closest = 3; // pixels; lines with less distance are painted as one
constexpr double padding = 4;

} // namespace

void FailureLayer::setFailures(std::vector<TimelineFailure> failures)
{
    if (failures == failures_)
        return;
    failures_ = std::move(failures);
    update();
}

void FailureLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    const QRectF& plot = geometry().plot;
    std::vector<std::pair<double, const TimelineFailure*>> shown;
    for (const TimelineFailure& failure : failures_) {
        const double x = geometry().ms.toPixel(failure.ms);
        if (x >= plot.left() && x <= plot.right() && (shown.empty() || x - shown.back().first >= closest))
            shown.emplace_back(x, &failure);
    }
    painter->setPen(QPen(theme().danger, 1.5, Qt::DashLine));
    for (const auto& [x, failure] : shown)
        painter->drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
    // From right to left: a label ends at the line to its right.
    double right = plot.right();
    for (auto line = shown.rbegin(); line != shown.rend(); ++line) {
        if (!paintLabel(*painter, line->first, line->second->label, right))
            paintLabel(*painter, line->first, tr("Out of memory"), right);
        right = line->first;
    }
}

/// Paints a label beside the line, on the side with room for it; false: no room.
bool FailureLayer::paintLabel(QPainter& painter, double x, const QString& text, double right) const
{
    const QRectF& plot = geometry().plot;
    const QFontMetricsF metrics(theme().caption);
    const QSizeF size(metrics.horizontalAdvance(text) + 2 * padding, metrics.height() + padding);
    double left = x + 3;
    if (left + size.width() > right)
        left = x - 3 - size.width();
    if (left < plot.left())
        return false;
    const QRectF box(QPointF(left, plot.bottom() - size.height() - 4), size); // labels of peaks are above
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme().dangerSoft);
    painter.drawRoundedRect(box, 3, 3);
    painter.setPen(theme().danger);
    painter.setFont(theme().caption);
    painter.drawText(box, Qt::AlignCenter, text);
    return true;
}

} // namespace headroom
