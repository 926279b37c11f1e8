// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/plot/instant.h"
#include "views/plot/timeline_draw_list.h"

#include <QRectF>
#include <QString>

#include <span>
#include <vector>

class QPainter;

namespace headroom {

/// The card beside the cross-hair: module, time and phase, op, and the bytes of each band. It is at most `mostHeight`
/// pixels high: the smallest bands then share a row.
class HoverCard
{
public:
    HoverCard(const Instant& instant, std::span<const Band> bands, std::span<const Bytes> parts, const ByteUnit& unit,
              const Theme& theme, double mostHeight);

    QSizeF size() const { return size_; }
    void paint(QPainter& painter, QPointF topLeft) const;

private:
    struct Row
    {
        QString title;
        QColor color;
        Bytes bytes = 0;
        QString value;
    };
    void joinRows(std::size_t most);
    double paintHead(QPainter& painter, const QRectF& inner) const;

    Theme theme_;
    QString title_;
    QString when_;
    QString op_;
    QString sum_;
    std::vector<Row> rows_;
    QSizeF size_;
};

/// The place of a box of `size` beside `anchor`: right of it, else left, moved up or down inside `bounds` until it
/// covers none of `avoid`; if that is impossible, the place that covers least.
QRectF placeBeside(QPointF anchor, QSizeF size, const QRectF& bounds, const std::vector<QRectF>& avoid,
                   double distance);

} // namespace headroom
