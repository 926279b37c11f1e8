// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/hover_card.h"

#include "views/plot/number_text.h"
#include "views/plot/timeline_paint.h"

#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>
#include <limits>

namespace headroom {
namespace {

constexpr double cardPadding = 12;
constexpr double lineHeight = 17;
constexpr double gap = 6;
constexpr double widest = 300;
constexpr double narrowest = 196;

} // namespace

HoverCard::HoverCard(const Instant& instant, std::span<const Band> bands, std::span<const Bytes> parts,
                     const ByteUnit& unit, const Theme& theme)
    : theme_(theme)
    , title_(instant.module.isEmpty() ? QStringLiteral("Between modules") : instant.module)
    , when_(msText(instant.ms))
    , op_(instant.op)
    , sum_(inUnit(instant.sum, unit, 2) + QLatin1Char(' ') + QLatin1String(unit.name))
{
    if (instant.changeCount == 0)
        title_ = QStringLiteral("Start of the step");
    if (!instant.phase.isEmpty())
        when_ += QLatin1String(", ") + instant.phase;
    if (instant.recomputed)
        when_ += QLatin1String(", recomputed");
    // Top of the stack first, in the order of the bands on the screen.
    for (std::size_t i = bands.size(); i-- > 0;)
        rows_.push_back({bands[i].title, bands[i].color(theme), inUnit(parts[i], unit, 2)});
    const double head = std::max({QFontMetricsF(theme.bodyStrong).horizontalAdvance(title_),
                                  QFontMetricsF(theme.caption).horizontalAdvance(op_),
                                  QFontMetricsF(theme.caption).horizontalAdvance(when_)
                                      + QFontMetricsF(theme.numberStrong).horizontalAdvance(sum_) + 3 * gap});
    const double lines = (op_.isEmpty() ? 2 : 3) + static_cast<double>(rows_.size());
    size_ = {std::clamp(head, narrowest, widest) + 2 * cardPadding, lines * lineHeight + gap + 2 * cardPadding - 4};
}

double HoverCard::paintHead(QPainter& painter, const QRectF& inner) const
{
    double y = inner.top();
    const auto line = [&] { return QRectF(inner.left(), y, inner.width(), lineHeight); };
    painter.setPen(theme_.text);
    painter.setFont(theme_.bodyStrong);
    const auto title = QFontMetricsF(theme_.bodyStrong).elidedText(title_, Qt::ElideMiddle, inner.width());
    painter.drawText(line(), Qt::AlignLeft | Qt::AlignVCenter, title);
    y += lineHeight;
    if (!op_.isEmpty()) {
        painter.setPen(theme_.secondText);
        painter.setFont(theme_.caption);
        const auto op = QFontMetricsF(theme_.caption).elidedText(op_, Qt::ElideRight, inner.width());
        painter.drawText(line(), Qt::AlignLeft | Qt::AlignVCenter, op);
        y += lineHeight;
    }
    painter.setPen(theme_.secondText);
    painter.setFont(theme_.caption);
    painter.drawText(line(), Qt::AlignLeft | Qt::AlignVCenter, when_);
    painter.setPen(theme_.text);
    painter.setFont(theme_.numberStrong);
    painter.drawText(line(), Qt::AlignRight | Qt::AlignVCenter, sum_);
    return y + lineHeight + gap;
}

void HoverCard::paint(QPainter& painter, QPointF topLeft) const
{
    const QRectF box(topLeft, size_);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(theme_.line, 1));
    painter.setBrush(theme_.card);
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
    const auto inner = box.adjusted(cardPadding, cardPadding - 2, -cardPadding, -cardPadding);
    double y = paintHead(painter, inner);
    for (const auto& row : rows_) {
        const QRectF line(inner.left(), y, inner.width(), lineHeight);
        painter.setPen(Qt::NoPen);
        painter.setBrush(row.color);
        painter.drawRoundedRect(QRectF(line.left(), line.center().y() - 4, 8, 8), 1.5, 1.5);
        painter.setPen(theme_.text);
        painter.setFont(theme_.caption);
        painter.drawText(line.adjusted(15, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, row.title);
        painter.setFont(theme_.number);
        painter.drawText(line, Qt::AlignRight | Qt::AlignVCenter, row.value);
        y += lineHeight;
    }
}

QRectF placeBeside(QPointF anchor, QSizeF size, const QRectF& bounds, const std::vector<QRectF>& avoid, double distance)
{
    const auto inside = [&](QRectF box) {
        box.moveLeft(std::max(bounds.left(), std::min(box.left(), bounds.right() - size.width())));
        box.moveTop(std::max(bounds.top(), std::min(box.top(), bounds.bottom() - size.height())));
        return box;
    };
    std::vector<double> tops{anchor.y() - size.height() / 2};
    for (const auto& other : avoid) {
        tops.push_back(other.bottom() + 1);
        tops.push_back(other.top() - size.height() - 1);
    }
    std::stable_sort(tops.begin() + 1, tops.end(),
                     [&](double a, double b) { return std::abs(a - tops.front()) < std::abs(b - tops.front()); });
    QRectF best;
    double least = std::numeric_limits<double>::infinity();
    std::vector<double> lefts{anchor.x() + distance, anchor.x() - distance - size.width()};
    for (const auto& other : avoid) {
        lefts.push_back(other.right() + 1);
        lefts.push_back(other.left() - size.width() - 1);
    }
    for (const double left : lefts) {
        for (const double top : tops) {
            const auto box = inside({QPointF(left, top), size});
            const bool overAnchor = box.left() <= anchor.x() && box.right() >= anchor.x();
            const double cost = overlap(box, avoid) + (overAnchor ? size.width() * size.height() : 0);
            if (cost < least) {
                least = cost;
                best = box;
            }
            if (least == 0)
                return best;
        }
    }
    return best;
}

} // namespace headroom
