// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/budget_handle.h"

#include "views/plot/number_text.h"

#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

constexpr double tip = 6;
constexpr double ring = 2; ///< room for the focus ring

} // namespace

BudgetHandle::BudgetHandle(QWidget* parent)
    : BytesControl(parent)
{
    setCursor(Qt::SizeVerCursor);
    setAccessibleName(tr("Budget line"));
    setAccessibleDescription(tr("Memory budget of the plan. Arrow keys move it one step, Ctrl with them to the next "
                                "plan of the frontier."));
    setToolTip(tr("Drag to change the budget"));
}

QSize BudgetHandle::sizeHint() const
{
    return {marginWidth - 6, 26};
}

void BudgetHandle::setGeometryOf(const TimelineGeometry& geometry)
{
    geometry_ = geometry;
    valueMoved();
}

void BudgetHandle::setFeasible(bool feasible)
{
    if (feasible == feasible_)
        return;
    feasible_ = feasible;
    update();
}

double BudgetHandle::lineY() const
{
    const double y = std::floor(geometry_.bytes.toPixel(static_cast<double>(value()))) + 0.5;
    return std::clamp(y, geometry_.plot.top(), geometry_.plot.bottom());
}

void BudgetHandle::valueMoved()
{
    const auto size = sizeHint();
    resize(size);
    move(static_cast<int>(std::lround(geometry_.plot.right())) + 1,
         static_cast<int>(std::floor(lineY())) - size.height() / 2);
    update();
    Q_EMIT moved();
}

void BudgetHandle::paintEvent(QPaintEvent*)
{
    const auto& theme = Theme::of(*this);
    const auto fill = feasible_ ? theme.text : theme.danger;
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const double middle = height() / 2 + 0.5;
    const QRectF box(tip, ring, width() - tip - ring, height() - 2 * ring);
    QPainterPath tag;
    tag.addRoundedRect(box, 4, 4);
    QPainterPath arrow;
    arrow.moveTo(0, middle);
    arrow.lineTo(tip + 1, middle - 5);
    arrow.lineTo(tip + 1, middle + 5);
    arrow.closeSubpath();
    painter.fillPath(tag.united(arrow), fill);
    if (hasFocus()) {
        painter.setPen(QPen(theme.card, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(box.adjusted(2.5, 2.5, -2.5, -2.5), 2.5, 2.5);
    }
    painter.setPen(QPen(theme.card, 1.2));
    const bool above = geometry_.bytes.toPixel(static_cast<double>(value())) < geometry_.plot.top();
    const double gripX = box.left() + 9;
    if (above) {
        painter.drawPolyline(QPolygonF{{gripX - 3, middle + 2}, {gripX, middle - 2}, {gripX + 3, middle + 2}});
    } else {
        for (const double dy : {-3.0, 0.0, 3.0})
            painter.drawLine(QPointF(gripX - 3, middle + dy), QPointF(gripX + 3, middle + dy));
    }
    painter.setFont(theme.numberStrong);
    painter.drawText(box.adjusted(18, 0, -4, 0), Qt::AlignCenter, bytesText(value()));
}

void BudgetHandle::mousePressEvent(QMouseEvent* event)
{
    if (event->button() != Qt::LeftButton)
        return;
    grabbedAt_ = mapToParent(event->position()).y() - lineY();
    beginDrag();
}

void BudgetHandle::mouseMoveEvent(QMouseEvent* event)
{
    if (!dragging())
        return;
    const double y = mapToParent(event->position()).y() - grabbedAt_;
    dragTo(static_cast<Bytes>(geometry_.bytes.toData(y)), geometry_.bytes.dataPerPixel(),
           event->modifiers().testFlag(Qt::ShiftModifier));
}

void BudgetHandle::mouseReleaseEvent(QMouseEvent* event)
{
    if (event->button() == Qt::LeftButton)
        endDrag();
}

} // namespace headroom
