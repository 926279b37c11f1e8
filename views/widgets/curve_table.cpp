// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/curve_table.h"

#include "views/plot/number_text.h"
#include "views/theme/theme.h"

#include <QLocale>
#include <QPainter>
#include <QStringList>

#include <utility>

namespace headroom {
namespace {

constexpr int rowHeight = 20;
constexpr int textLeft = 30;
constexpr int textRight = 8;

QString costText(const CurvePoint& point)
{
    return point.recomputeMs > 0 ? CurveTable::tr("+%1 ms").arg(QLocale::c().toString(point.recomputeMs, 'f', 2))
                                 : CurveTable::tr("no recompute");
}

} // namespace

CurveTable::CurveTable(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void CurveTable::setPoints(std::vector<CurvePoint> points)
{
    points_ = std::move(points);
    QStringList lines;
    for (const CurvePoint& point : points_)
        lines << tr("%1 kept, %2%3")
                     .arg(bytesText(point.kept), costText(point), point.chosen ? tr(", chosen") : QString());
    setAccessibleDescription(lines.join(QStringLiteral("; ")));
    updateGeometry();
    update();
}

QSize CurveTable::sizeHint() const
{
    return {240, static_cast<int>(points_.size()) * rowHeight};
}

void CurveTable::paintEvent(QPaintEvent*)
{
    const Theme theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    int top = 0;
    for (const CurvePoint& point : points_) {
        const QRect row(textLeft, top, width() - textLeft - textRight, rowHeight);
        painter.setPen(QPen(point.chosen ? theme.accent : theme.secondText, 1.2));
        painter.setBrush(point.chosen ? theme.accent : theme.card);
        painter.drawEllipse(QPointF(16, top + rowHeight / 2.0), 3, 3);
        painter.setFont(point.chosen ? theme.numberStrong : theme.number);
        painter.setPen(point.chosen ? theme.accent : theme.text);
        painter.drawText(row, Qt::AlignLeft | Qt::AlignVCenter, tr("%1 kept").arg(bytesText(point.kept)));
        painter.setPen(point.chosen ? theme.accent : theme.secondText);
        painter.drawText(row, Qt::AlignRight | Qt::AlignVCenter, costText(point));
        top += rowHeight;
    }
}

} // namespace headroom
