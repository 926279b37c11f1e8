// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/pyramid.h"
#include "views/plot/axis_map.h"
#include "views/plot/timeline_draw_list.h"

#include <QAbstractTableModel>
#include <QRectF>
#include <QString>

#include <span>
#include <vector>

class QPainter;

namespace headroom {

/// An instant of a step as text and numbers, for the hover card, the table and exports.
struct Instant
{
    std::size_t changeCount = 0;
    double ms = 0;
    QString phase; ///< "forward", …; empty outside of phases
    QString op; ///< name of the op; empty between ops
    QString module; ///< fqn; empty if unknown
    QString line; ///< line of source code: "model.py:57 Block.forward"; empty if unknown
    bool recomputed = false;
    CategoryBytes bytes{};
    Bytes sum = 0;
};

/// The instant after the first `changeCount` changes. If `trace` is null, op and module stay empty.
Instant describeInstant(const StepTrace* trace, const TimelinePyramid& pyramid, std::size_t changeCount);

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
    QString line_;
    QString sum_;
    std::vector<Row> rows_;
    QSizeF size_;
};

/// The place of a box of `size` beside `anchor`: right of it, else left, moved up or down inside `bounds` until it
/// covers none of `avoid`; if that is impossible, the place that covers least.
QRectF placeBeside(QPointF anchor, QSizeF size, const QRectF& bounds, const std::vector<QRectF>& avoid,
                   double distance);

/// The numbers of the shown timeline as a table: a row for each instant of a pixel column, with time, phase,
/// module, op, the total and every band. Rows are computed on demand.
class TimelineTable : public QAbstractTableModel
{
    Q_OBJECT
public:
    using QAbstractTableModel::QAbstractTableModel;

    void setPrepared(StepTracePtr trace, PreparedTimelinePtr prepared);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    StepTracePtr trace_;
    PreparedTimelinePtr prepared_;
    std::vector<std::size_t> columns_; ///< columns of the draw list, without repeats of the previous instant
};

} // namespace headroom
