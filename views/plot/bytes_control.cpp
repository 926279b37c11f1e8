// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/bytes_control.h"

#include "views/plot/budget_steps.h"
#include "views/plot/number_text.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QKeyEvent>

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
    // A screen reader speaks these numbers, so their unit is GiB.
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
    const Bytes inside = std::clamp(value, minimum_, maximum_);
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
    moveTo(*before_);
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

} // namespace headroom
