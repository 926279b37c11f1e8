// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_readout.h"

#include "core/trace/source_lines.h"
#include "views/plot/number_text.h"
#include "views/plot/text_line.h"
#include "views/plot/timeline_paint.h"

#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace headroom {

Instant describeInstant(const StepTrace* trace, const TimelinePyramid& pyramid, std::size_t changeCount)
{
    const auto& timeline = pyramid.timeline();
    Instant made;
    made.changeCount = std::min(changeCount, timeline.changes.size());
    made.bytes = pyramid.bytesAt(made.changeCount);
    made.sum = total(made.bytes);
    if (made.changeCount > 0) {
        const auto& change = timeline.changes[made.changeCount - 1];
        made.ms = change.ms;
        made.recomputed = change.recomputed;
        if (trace && change.op.valid()) {
            made.op = QString::fromUtf8(trace->opName(change.op));
            made.module = QString::fromUtf8(trace->moduleFqn(trace->ops.module[change.op]));
            made.line = QString::fromStdString(lineText(*trace, lineOf(*trace, frameOf(*trace, change.op))));
        }
    }
    for (const auto& span : timeline.phases) {
        if (made.ms >= span.beginMs && made.ms <= span.endMs) {
            made.phase = QString::fromUtf8(phaseName(span.phase));
            break;
        }
    }
    return made;
}

namespace {

constexpr double cardPadding = 12;
constexpr double lineHeight = 17;
constexpr double gap = 6;
constexpr double widest = 300;
constexpr double narrowest = 196;

} // namespace

HoverCard::HoverCard(const Instant& instant, std::span<const Band> bands, std::span<const Bytes> parts,
                     const ByteUnit& unit, const Theme& theme, double mostHeight)
    : theme_(theme)
    , title_(instant.module.isEmpty() ? QStringLiteral("Between modules") : instant.module)
    , when_(msText(instant.ms))
    , op_(instant.op)
    , line_(instant.line)
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
        rows_.push_back({bands[i].title, bands[i].color(theme), parts[i], {}});
    constexpr double leastRows = 2;
    const auto around = [this] {
        return (2 + (op_.isEmpty() ? 0 : 1) + (line_.isEmpty() ? 0 : 1)) * lineHeight + gap + 2 * cardPadding - 4;
    };
    // A low plot has no room for the bytes beside line and op.
    for (QString* text : {&line_, &op_})
        if (mostHeight < around() + leastRows * lineHeight)
            text->clear();
    joinRows(static_cast<std::size_t>(std::max((mostHeight - around()) / lineHeight, 1.0)));
    for (Row& row : rows_)
        row.value = inUnit(row.bytes, unit, 2);
    const double head = std::max({QFontMetricsF(theme.bodyStrong).horizontalAdvance(title_),
                                  QFontMetricsF(theme.caption).horizontalAdvance(op_),
                                  QFontMetricsF(theme.caption).horizontalAdvance(line_),
                                  QFontMetricsF(theme.caption).horizontalAdvance(when_)
                                      + QFontMetricsF(theme.numberStrong).horizontalAdvance(sum_) + 3 * gap});
    size_ = {std::clamp(head, narrowest, widest) + 2 * cardPadding,
             around() + static_cast<double>(rows_.size()) * lineHeight};
}

/// Leaves `most` rows, of which the last row has the sum of the rows left out.
void HoverCard::joinRows(std::size_t most)
{
    if (rows_.size() <= most)
        return;
    std::vector<std::size_t> largest(rows_.size());
    std::iota(largest.begin(), largest.end(), std::size_t{0});
    std::ranges::stable_sort(largest, std::greater(), [this](std::size_t i) { return rows_[i].bytes; });
    Row rest{QStringLiteral("%1 others").arg(rows_.size() - most + 1), theme_.secondText, 0, {}};
    std::vector<bool> isKept(rows_.size(), false);
    for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
        if (rank + 1 < most)
            isKept[largest[rank]] = true;
        else
            rest.bytes += rows_[largest[rank]].bytes;
    }
    std::vector<Row> kept;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (isKept[i])
            kept.push_back(std::move(rows_[i]));
    }
    kept.push_back(std::move(rest));
    rows_ = std::move(kept);
}

double HoverCard::paintHead(QPainter& painter, const QRectF& inner) const
{
    double y = inner.top();
    const auto line = [&] { return QRectF(inner.left(), y, inner.width(), lineHeight); };
    painter.setPen(theme_.text);
    painter.setFont(theme_.bodyStrong);
    painter.drawText(line(), Qt::AlignLeft | Qt::AlignVCenter, shortenedName(theme_.bodyStrong, title_, inner.width()));
    y += lineHeight;
    painter.setPen(theme_.secondText);
    painter.setFont(theme_.caption);
    for (const QString& text : {op_, line_})
        if (!text.isEmpty()) {
            painter.drawText(line(), Qt::AlignLeft | Qt::AlignVCenter,
                             QFontMetricsF(theme_.caption).elidedText(text, Qt::ElideRight, inner.width()));
            y += lineHeight;
        }
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
        const double room = line.width() - 15 - gap - lineWidth(theme_.number, row.value);
        painter.drawText(line.adjusted(15, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter,
                         shortenedName(theme_.caption, row.title, room));
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

namespace {

enum FixedColumn { timeColumn, phaseColumn, moduleColumn, opColumn, totalColumn, fixedColumns };

} // namespace

void TimelineTable::setPrepared(StepTracePtr trace, PreparedTimelinePtr prepared)
{
    beginResetModel();
    trace_ = std::move(trace);
    prepared_ = std::move(prepared);
    columns_.clear();
    if (prepared_ && prepared_->list) {
        const auto& changes = prepared_->list->main.changes;
        for (std::size_t i = 0; i < changes.size(); ++i) {
            if (i == 0 || changes[i] != changes[i - 1])
                columns_.push_back(i);
        }
    }
    endResetModel();
}

int TimelineTable::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(columns_.size());
}

int TimelineTable::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() || !prepared_ ? 0 : fixedColumns + static_cast<int>(prepared_->list->bands.size());
}

QVariant TimelineTable::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(index.column() == timeColumn || index.column() >= totalColumn);
    if (role != Qt::DisplayRole)
        return {};
    const auto& main = prepared_->list->main;
    const auto column = columns_[static_cast<std::size_t>(index.row())];
    if (index.column() >= fixedColumns)
        return countText(main.at(column)[static_cast<std::size_t>(index.column() - fixedColumns)]);
    const auto instant = describeInstant(trace_.get(), prepared_->scene.main(), main.changes[column]);
    switch (index.column()) {
    case timeColumn:
        return msText(instant.ms);
    case phaseColumn:
        return instant.phase;
    case moduleColumn:
        return instant.module;
    case opColumn:
        return instant.op;
    default:
        return countText(instant.sum);
    }
}

QVariant TimelineTable::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole || !prepared_)
        return {};
    if (section >= fixedColumns)
        return tr("%1, bytes").arg(prepared_->list->bands[static_cast<std::size_t>(section - fixedColumns)].title);
    return QStringList{tr("Time"), tr("Phase"), tr("Module"), tr("Op"), tr("Total, bytes")}.value(section);
}

} // namespace headroom
