// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/collective_lane.h"

#include "views/plot/number_text.h"
#include "views/theme/theme.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

constexpr double laneHeight = 15;
constexpr double lowHeight = 5; // height of a block that other kernels hide
constexpr double reachPixels = 3; // distance at which the pointer finds a block
constexpr int bottom = 4;

const QColor& colorOf(CollectiveKind kind, const Theme& theme)
{
    switch (kind) {
    case CollectiveKind::allGather:
        return theme.ramp[1];
    case CollectiveKind::reduceScatter:
        return theme.ramp[5];
    case CollectiveKind::allReduce:
        return theme.ramp[0];
    case CollectiveKind::allToAll:
        return theme.ramp[3];
    case CollectiveKind::send:
    case CollectiveKind::receive:
        return theme.ramp[4];
    default:
        return theme.secondText;
    }
}

} // namespace

CollectiveLane::CollectiveLane(QWidget* parent)
    : QWidget(parent)
{
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setAccessibleName(tr("Collectives over time"));
    hide();
}

void CollectiveLane::setRows(CollectiveRows rows)
{
    rows_ = std::move(rows);
    if (current_ && *current_ >= rows_.size())
        current_.reset();
    setVisible(rows_.size() > 0);
    place();
    describe();
}

void CollectiveLane::setPlotEdges(double left, double right)
{
    left_ = left;
    right_ = right;
    place();
}

void CollectiveLane::setRange(AxisRange shown)
{
    shown_ = shown;
    place();
}

void CollectiveLane::place()
{
    top_ = legend().height();
    if (rows_.size() > 0)
        setFixedHeight(sizeHint().height());
    blocks_ = rows_.blocks(axis());
    update();
}

Legend CollectiveLane::legend() const
{
    const Theme& theme = Theme::of(*this);
    std::vector<LegendEntry> entries;
    for (const CollectiveKind kind : rows_.kinds())
        entries.push_back({collectiveTitle(kind), colorOf(kind, theme), LegendEntry::Symbol::square});
    entries.push_back({tr("low: hidden"), theme.secondText, LegendEntry::Symbol::line});
    return {tr("Collectives, %1 exposed").arg(msText(rows_.exposedMs())), std::move(entries),
            static_cast<double>(width()), theme};
}

QSize CollectiveLane::sizeHint() const
{
    return {400, static_cast<int>(std::ceil(top_ + laneHeight * static_cast<double>(rows_.rowCount()))) + bottom};
}

QRectF CollectiveLane::rowRect(std::size_t row) const
{
    return {left_, top_ + laneHeight * static_cast<double>(row), right_ - left_, laneHeight};
}

void CollectiveLane::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    legend().paint(painter, {0, 0});
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (std::size_t row = 0; row < rows_.rowCount(); ++row) {
        const QRectF rect = rowRect(row);
        painter.fillRect(rect.adjusted(0, 1, 0, -1), theme.hover);
        painter.setFont(theme.numberCaption);
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(0, rect.top(), left_ - 5, laneHeight), Qt::AlignRight | Qt::AlignVCenter,
                         rows_.title(row));
    }
    for (const CollectiveBlock& block : blocks_) {
        const QRectF row = rowRect(block.row).adjusted(0, 1, 0, -1);
        const double height = block.exposed ? row.height() : lowHeight;
        const double width = block.end - block.begin;
        painter.fillRect(
            QRectF(block.begin, row.bottom() - height, std::max(1.0, width - (width >= 4 ? 1 : 0)), height),
            colorOf(block.kind, theme));
    }
    if (current_) {
        const AxisRange at = rows_.range(*current_);
        const QRectF row = rowRect(rows_.row(*current_));
        const double begin = std::clamp(axis().toPixel(at.begin), left_, right_);
        const double end = std::clamp(axis().toPixel(at.end), left_, right_);
        painter.setPen(QPen(theme.text, hasFocus() ? 2 : 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(begin - 1, row.top(), std::max(3.0, end - begin + 1), row.height()));
    } else if (hasFocus()) {
        painter.setPen(QPen(theme.secondText, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(
            QRectF(rowRect(0).topLeft(), rowRect(rows_.rowCount() - 1).bottomRight()).adjusted(0, 0, -1, -1));
    }
}

std::optional<CollectiveRows::Found> CollectiveLane::at(QPointF position) const
{
    for (std::size_t row = 0; row < rows_.rowCount(); ++row)
        if (rowRect(row).contains(position))
            return rows_.find(row, axis().toData(position.x()), axis().dataPerPixel() * reachPixels);
    return std::nullopt;
}

void CollectiveLane::mouseMoveEvent(QMouseEvent* event)
{
    const auto found = at(event->position());
    setCursor(found ? Qt::PointingHandCursor : Qt::ArrowCursor);
    if (!found) {
        QToolTip::hideText();
        return;
    }
    QString text = rows_.text(found->run);
    if (found->more > 0)
        text += QLatin1Char('\n') + tr("and %1 more here: zoom in to tell them apart").arg(found->more);
    QToolTip::showText(event->globalPosition().toPoint() + QPoint(8, 8), text, this);
}

void CollectiveLane::mousePressEvent(QMouseEvent* event)
{
    const auto found = event->button() == Qt::LeftButton ? at(event->position()) : std::nullopt;
    if (!found)
        return;
    goTo(found->run);
    choose();
}

void CollectiveLane::goTo(std::optional<std::size_t> run)
{
    if (!run)
        return;
    current_ = run;
    const AxisRange at = rows_.range(*run);
    if (at.begin < shown_.begin || at.begin > shown_.end)
        Q_EMIT instantWanted(at.begin);
    describe();
    update();
    const QPointF below(std::clamp(axis().toPixel(at.begin), left_, right_), rowRect(rows_.row(*run)).bottom());
    QToolTip::showText(mapToGlobal(below.toPoint()), rows_.text(*run), this);
}

void CollectiveLane::choose()
{
    if (current_)
        Q_EMIT chosen(rows_.module(*current_), rows_.range(*current_).begin);
}

/// Describes the current run, or all of them, for screen readers.
void CollectiveLane::describe()
{
    setAccessibleDescription(
        current_
            ? rows_.text(*current_)
            : tr("%1 collectives take %2, %3 of it exposed. Arrow keys go from one to the next, Return selects its "
                 "module and its instant.")
                  .arg(rows_.size())
                  .arg(msText(rows_.ms()), msText(rows_.exposedMs())));
}

void CollectiveLane::keyPressEvent(QKeyEvent* event)
{
    switch (event->key()) {
    case Qt::Key_Left:
        return goTo(rows_.next(current_, -1));
    case Qt::Key_Right:
        return goTo(rows_.next(current_, +1));
    case Qt::Key_Home:
        return goTo(rows_.next(std::nullopt, +1));
    case Qt::Key_End:
        return goTo(rows_.next(std::nullopt, -1));
    case Qt::Key_Up:
    case Qt::Key_Down:
        return goTo(current_ ? rows_.beside(*current_, event->key() == Qt::Key_Up ? -1 : +1)
                             : rows_.next(current_, +1));
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
        return choose();
    default:
        QWidget::keyPressEvent(event);
    }
}

bool CollectiveLane::event(QEvent* event)
{
    if (event->type() == QEvent::Leave)
        QToolTip::hideText();
    return QWidget::event(event);
}

void CollectiveLane::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    place();
}

void CollectiveLane::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange)
        place();
}

} // namespace headroom
