// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/export/axes.h"

#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>

namespace headroom {
namespace {

Ticks ticksOf(const PictureAxis& axis, double pixelsPerTick)
{
    const AxisRange range{axis.map.data.begin / axis.unit, axis.map.data.end / axis.unit};
    const double pixels = std::abs(axis.map.pixelEnd - axis.map.pixelBegin);
    return niceTicks(range, std::max(2, static_cast<int>(pixels / pixelsPerTick)));
}

} // namespace

void paintAxes(QPainter& painter, const QRectF& plot, const PictureAxis& x, const PictureAxis& y, const Theme& theme)
{
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setFont(theme.numberCaption);
    const auto text = [&](const PictureAxis& axis, const Ticks& ticks, int i) {
        return QString(QString::number(ticks.at(i), 'f', ticks.decimals) + axis.suffix);
    };
    const auto rows = ticksOf(y, 40);
    for (int i = 0; i < rows.count; ++i) {
        const double at = y.map.toPixel(rows.at(i) * y.unit);
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(plot.left(), at), QPointF(plot.right(), at));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(plot.left() - 80, at - 9, 72, 18), Qt::AlignRight | Qt::AlignVCenter, text(y, rows, i));
    }
    const auto columns = ticksOf(x, 84);
    for (int i = 0; i < columns.count; ++i) {
        const double at = x.map.toPixel(columns.at(i) * x.unit);
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(at, plot.bottom()), QPointF(at, plot.bottom() + 4));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(at - 50, plot.bottom() + 6, 100, 18), Qt::AlignHCenter | Qt::AlignTop,
                         text(x, columns, i));
    }
    painter.setFont(theme.caption);
    painter.setPen(theme.secondText);
    painter.drawText(QRectF(plot.left(), plot.bottom() + 24, plot.width(), 18), Qt::AlignCenter, x.title);
    if (y.title.isEmpty())
        return;
    painter.save();
    painter.translate(plot.left() - 44, plot.center().y());
    painter.rotate(-90);
    painter.drawText(QRectF(-plot.height() / 2, -9, plot.height(), 18), Qt::AlignCenter, y.title);
    painter.restore();
}

QRectF paintFrame(QPainter& painter, QSize size, const QString& title, const Legend& legend, const Theme& theme)
{
    const QRectF page(QPointF(0, 0), QSizeF(size));
    painter.fillRect(page, theme.card);
    auto inner = page.adjusted(pictureMargin, 16, -pictureMargin, -12);
    if (!title.isEmpty()) {
        painter.setFont(theme.selection);
        painter.setPen(theme.text);
        const auto shown = QFontMetricsF(theme.selection).elidedText(title, Qt::ElideMiddle, inner.width());
        painter.drawText(QRectF(inner.topLeft(), QSizeF(inner.width(), 24)), Qt::AlignLeft | Qt::AlignVCenter, shown);
        inner.setTop(inner.top() + 30);
    }
    legend.paint(painter, inner.topLeft());
    inner.setTop(inner.top() + legend.height() + 4);
    return inner;
}

} // namespace headroom
