// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/bytes_control.h"

#include "views/plot/budget_steps.h"
#include "views/plot/number_text.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

double inGiB(Bytes bytes)
{
    return static_cast<double>(bytes) / static_cast<double>(GiB);
}

class AccessibleBytes : public QAccessibleWidget, public QAccessibleValueInterface
{
public:
    explicit AccessibleBytes(BytesControl* control)
        : QAccessibleWidget(control, QAccessible::Slider)
    {
    }

    void* interface_cast(QAccessible::InterfaceType type) override
    {
        if (type == QAccessible::ValueInterface)
            return static_cast<QAccessibleValueInterface*>(this);
        return QAccessibleWidget::interface_cast(type);
    }
    QString text(QAccessible::Text kind) const override
    {
        return kind == QAccessible::Value ? bytesText(control().value(), 2) : QAccessibleWidget::text(kind);
    }
    // A screen reader speaks the numbers, so the unit is GiB.
    QVariant currentValue() const override { return inGiB(control().value()); }
    void setCurrentValue(const QVariant& value) override
    {
        control().moveTo(static_cast<Bytes>(std::llround(value.toDouble() * static_cast<double>(GiB))));
    }
    QVariant maximumValue() const override { return inGiB(control().maximum()); }
    QVariant minimumValue() const override { return inGiB(control().minimum()); }
    QVariant minimumStepSize() const override { return inGiB(control().step()); }

private:
    BytesControl& control() const { return *static_cast<BytesControl*>(widget()); }
};

QAccessibleInterface* makeAccessibleControl(const QString&, QObject* object)
{
    auto* control = qobject_cast<BytesControl*>(object);
    return control ? new AccessibleBytes(control) : nullptr;
}

constexpr double magnetReach = 4; ///< pixels

} // namespace

BytesControl::BytesControl(QWidget* parent)
    : QWidget(parent)
{
    static const bool installed = (QAccessible::installFactory(makeAccessibleControl), true);
    Q_UNUSED(installed);
    setFocusPolicy(Qt::StrongFocus);
}

void BytesControl::setValue(Bytes value)
{
    if (!dragging())
        assign(value);
}

void BytesControl::setLimits(Bytes minimum, Bytes maximum)
{
    minimum_ = minimum;
    maximum_ = std::max(minimum, maximum);
    valueMoved();
}

void BytesControl::setLandmarks(Bytes home, Bytes end)
{
    home_ = home;
    end_ = end;
    update();
}

void BytesControl::setStops(std::vector<Bytes> stops)
{
    stops_ = std::move(stops);
}

void BytesControl::setMagnets(std::vector<Bytes> magnets)
{
    magnets_ = std::move(magnets);
}

Bytes BytesControl::step() const noexcept
{
    return budgetStep(maximum_ - minimum_);
}

Bytes BytesControl::page() const noexcept
{
    return budgetPage(maximum_ - minimum_);
}

void BytesControl::assign(Bytes value)
{
    if (value == value_)
        return;
    value_ = value;
    valueMoved();
    if (QAccessible::isActive()) {
        QAccessibleValueChangeEvent event(this, inGiB(value_));
        QAccessible::updateAccessibility(&event);
    }
}

void BytesControl::moveTo(Bytes value)
{
    // A typed value may lie outside of the axis: no step leads away from the axis, or over to the other side at once.
    const Bytes inside = std::clamp(value, std::min(minimum_, value_), std::max(maximum_, value_));
    if (inside == value_)
        return;
    assign(inside);
    Q_EMIT dragged(value_);
    if (!dragging())
        Q_EMIT committed(value_);
}

void BytesControl::moveToStop(int direction)
{
    moveTo(nextStop(stops_, value_, direction));
}

void BytesControl::beginDrag()
{
    before_ = value_;
    update();
}

void BytesControl::dragTo(Bytes value, double bytesPerPixel, bool free)
{
    Bytes wanted = roundedForDrag(value, bytesPerPixel);
    if (!free)
        wanted = snapped(magnets_, wanted, static_cast<Bytes>(magnetReach * bytesPerPixel));
    moveTo(wanted);
}

void BytesControl::endDrag()
{
    if (!dragging())
        return;
    const Bytes before = *before_;
    before_.reset();
    update();
    if (value_ != before)
        Q_EMIT committed(value_);
}

void BytesControl::cancelDrag()
{
    if (!dragging())
        return;
    if (*before_ != value_) {
        assign(*before_);
        Q_EMIT dragged(value_);
    }
    before_.reset();
    update();
}

void BytesControl::keyPressEvent(QKeyEvent* event)
{
    const bool toStop = event->modifiers().testFlag(Qt::ControlModifier);
    const auto by = [&](int direction) {
        if (toStop)
            moveToStop(direction);
        else
            moveTo(value_ + direction * step());
    };
    switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Down:
        by(-1);
        break;
    case Qt::Key_Right:
    case Qt::Key_Up:
        by(+1);
        break;
    case Qt::Key_PageUp:
        moveTo(value_ + page());
        break;
    case Qt::Key_PageDown:
        moveTo(value_ - page());
        break;
    case Qt::Key_Home:
        moveTo(home_);
        break;
    case Qt::Key_End:
        moveTo(end_);
        break;
    case Qt::Key_Escape:
        if (dragging()) {
            cancelDrag();
            break;
        }
        [[fallthrough]];
    default:
        QWidget::keyPressEvent(event);
    }
}

void BytesControl::focusInEvent(QFocusEvent* event)
{
    QWidget::focusInEvent(event);
    update();
}

void BytesControl::focusOutEvent(QFocusEvent* event)
{
    QWidget::focusOutEvent(event);
    update();
}

namespace {

constexpr double tip = 6;
constexpr double arrow = 5; ///< half of the base
constexpr double ring = 2; ///< room for the focus ring

} // namespace

BudgetHandle::BudgetHandle(QWidget* parent)
    : BytesControl(parent)
{
    setCursor(Qt::SizeVerCursor);
    setAccessibleName(tr("Budget line"));
    setAccessibleDescription(tr(
        "Memory budget of the plan. Arrow keys move the budget a step, with Ctrl to the next plan of the frontier."));
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
    // The tag stays beside the plot, since names of phases are above; only the arrow reaches the plot's edges.
    const int highest = static_cast<int>(std::ceil(geometry_.plot.top()));
    const int lowest = static_cast<int>(std::floor(geometry_.plot.bottom())) - size.height();
    move(static_cast<int>(std::lround(geometry_.plot.right())) + 1,
         std::clamp(static_cast<int>(std::floor(lineY())) - size.height() / 2, highest, std::max(highest, lowest)));
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
    const double base = std::clamp(lineY() - y(), ring + arrow, height() - ring - arrow);
    const QRectF box(tip, ring, width() - tip - ring, height() - 2 * ring);
    QPainterPath tag;
    tag.addRoundedRect(box, 4, 4);
    QPainterPath point;
    point.moveTo(0, lineY() - y());
    point.lineTo(tip + 1, base - arrow);
    point.lineTo(tip + 1, base + arrow);
    point.closeSubpath();
    painter.fillPath(tag.united(point), fill);
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
