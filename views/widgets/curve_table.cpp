// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/curve_table.h"

#include "views/plot/text_line.h"
#include "views/plot/tradeoff_paint.h"
#include "views/theme/theme.h"

#include <QLocale>
#include <QPainter>
#include <QStringList>

#include <cmath>
#include <utility>

namespace headroom {
namespace {

constexpr int rowHeight = 20;
constexpr int textLeft = 30;
constexpr int textRight = 8;

QString shareText(const TradeOffPoint& point)
{
    if (point.ratio < 0.005)
        return CurveTable::tr("keeps everything");
    if (point.ratio > 0.995)
        return CurveTable::tr("discards everything");
    return CurveTable::tr("discards %1 %").arg(std::lround(100 * point.ratio));
}

QString costText(const TradeOffPoint& point)
{
    return point.ms > 0 ? CurveTable::tr("+%1 ms").arg(QLocale::c().toString(point.ms, 'f', 2))
                        : CurveTable::tr("no recompute");
}

} // namespace

CurveTable::CurveTable(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void CurveTable::setPoints(std::vector<TradeOffPoint> points, int chosen)
{
    if (points == points_ && chosen == chosen_)
        return;
    const bool resized = points.size() != points_.size();
    points_ = std::move(points);
    chosen_ = chosen;
    QStringList lines;
    for (std::size_t i = 0; i < points_.size(); ++i)
        lines << tr("%1, %2%3")
                     .arg(shareText(points_[i]), costText(points_[i]),
                          static_cast<int>(i) == chosen_ ? tr(", chosen by the plan") : QString());
    setAccessibleDescription(lines.join(QStringLiteral("; ")));
    if (resized)
        updateGeometry();
    update();
}

QSize CurveTable::sizeHint() const
{
    return {240, static_cast<int>(points_.size()) * rowHeight};
}

void CurveTable::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    for (std::size_t i = 0; i < points_.size(); ++i) {
        const bool chosen = static_cast<int>(i) == chosen_;
        const int top = static_cast<int>(i) * rowHeight;
        const QRect row(textLeft, top, width() - textLeft - textRight, rowHeight);
        paintDot(painter, QPointF(16, top + rowHeight / 2.0), 3, chosen ? theme.accent : theme.card,
                 chosen ? theme.accent : theme.secondText, 1.2);
        painter.setPen(chosen ? theme.accent : theme.secondText);
        painter.setFont(theme.caption);
        paintLine(painter, row, Qt::AlignLeft | Qt::AlignVCenter, shareText(points_[i]));
        painter.setFont(theme.numberCaption);
        paintLine(painter, row, Qt::AlignRight | Qt::AlignVCenter, costText(points_[i]));
    }
}

} // namespace headroom
