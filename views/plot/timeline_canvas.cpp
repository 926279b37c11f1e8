// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_canvas.h"

#include "views/plot/number_text.h"

#include <QChart>
#include <QMouseEvent>
#include <QNativeGestureEvent>
#include <QPinchGesture>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

constexpr double leftMargin = 46;
constexpr double bottomMargin = 26;
constexpr int sameTurnMs = 800; // longest time between two notches of one turn of the wheel
constexpr double clickReach = 4; ///< pixels before a press becomes a drag

} // namespace

TimelineCanvas::TimelineCanvas(QWidget* parent)
    : PlotChart(tr("Memory over time"), parent)
{
    xAxis().setGridLineVisible(false);
    // Grid, axes and series of the chart are below 49.
    phases_ = new PhaseLayer(chart(), 49);
    bands_ = new BandsLayer(chart(), 50);
    budget_ = new BudgetLayer(chart(), 51);
    flips_ = new FlipLayer(chart(), 51);
    failures_ = new FailureLayer(chart(), 52);
    marks_ = new MarksLayer(chart(), 52);
    cursor_ = new CursorLayer(chart(), 53);
    handle_ = new BudgetHandle(this);
    handle_->hide();
    connect(handle_, &BudgetHandle::moved, this,
            [this] { budget_->setBudget(budgetVisible_ ? handle_->value() : 0, handle_->feasible()); });
    setViewportUpdateMode(QGraphicsView::MinimalViewportUpdate);
    viewport()->grabGesture(Qt::PinchGesture);
    applyLook(Theme::of(*this));
}

void TimelineCanvas::setLimits(AxisRange all, double shortestMs)
{
    limits_ = all;
    shortestMs_ = shortestMs;
}

void TimelineCanvas::setRanges(AxisRange ms, AxisRange bytes)
{
    if (ms == ms_ && bytes == bytes_)
        return;
    ms_ = ms;
    bytes_ = bytes;
    place();
}

void TimelineCanvas::setBudget(Bytes budget, bool feasible)
{
    handle_->setFeasible(feasible);
    handle_->setValue(budget);
    budget_->setBudget(budgetVisible_ ? handle_->value() : 0, feasible);
}

void TimelineCanvas::setBudgetVisible(bool visible)
{
    budgetVisible_ = visible;
    handle_->setVisible(visible);
    budget_->setBudget(visible ? handle_->value() : 0, handle_->feasible());
}

void TimelineCanvas::applyLook(const Theme& theme)
{
    setBackgroundBrush(theme.card);
    setAxisLook(theme);
    for (auto* layer :
         std::initializer_list<TimelineLayer*>{phases_, bands_, budget_, flips_, failures_, marks_, cursor_})
        layer->setTheme(theme);
}

void TimelineCanvas::place()
{
    const QRectF canvas(QPointF(0, 0), QSizeF(viewport()->size()));
    const QRectF plot = canvas.adjusted(leftMargin, phaseBandHeight + 2, -BudgetHandle::marginWidth, -bottomMargin);
    if (plot.width() < 10 || plot.height() < 10)
        return;
    geometry_ = TimelineGeometry::of(plot, ms_, bytes_);
    // The layout of the chart takes a millisecond, too long for each new range.
    if (std::exchange(plotIsStale_, false))
        setPlotArea(plot);
    updateAxes();
    for (auto* layer :
         std::initializer_list<TimelineLayer*>{phases_, bands_, budget_, flips_, failures_, marks_, cursor_})
        layer->setGeometryOf(geometry_, canvas);
    handle_->setGeometryOf(geometry_);
}

void TimelineCanvas::updateAxes()
{
    const auto time = timeUnitFor(ms_);
    const auto unit = byteUnitFor(bytes_.end);
    const auto& plot = geometry_.plot;
    // Qt Charts converts a label's format to Latin-1 and reads it as UTF-8, which "µ" does not survive.
    const char* const name = time.ms < 0.5 ? "us" : time.name;
    const auto set = [](QValueAxis& axis, AxisRange range, double mostSteps, const QString& suffix) {
        setAxis(axis, range, niceTicks(range, std::max(2, static_cast<int>(mostSteps))), suffix);
    };
    set(xAxis(), {ms_.begin / time.ms, ms_.end / time.ms}, plot.width() / 78,
        QLatin1Char(' ') + QString::fromUtf8(name));
    set(yAxis(), {bytes_.begin / unit.bytes, bytes_.end / unit.bytes}, plot.height() / 32, {});
}

void TimelineCanvas::resizeEvent(QResizeEvent* event)
{
    PlotChart::resizeEvent(event);
    plotIsStale_ = true;
    place();
    Q_EMIT placed();
}

bool TimelineCanvas::nearBudgetLine(QPointF position) const
{
    return budgetVisible_ && geometry_.plot.contains(position)
        && std::abs(geometry_.bytes.toPixel(static_cast<double>(handle_->value())) - position.y()) <= 3;
}

void TimelineCanvas::mousePressEvent(QMouseEvent* event)
{
    const auto position = event->position();
    pressed_ = position;
    lastX_ = position.x();
    pressedMs_ = geometry_.ms.toData(std::clamp(position.x(), geometry_.plot.left(), geometry_.plot.right()));
    if (event->button() == Qt::MiddleButton) {
        drag_ = Drag::pan;
        panBegins_ = true;
        viewport()->setCursor(Qt::ClosedHandCursor);
    } else if (event->button() == Qt::LeftButton && nearBudgetLine(position)) {
        drag_ = Drag::budget;
        handle_->setFocus(Qt::MouseFocusReason);
        handle_->beginDrag();
    } else if (event->button() == Qt::LeftButton && geometry_.plot.contains(position)) {
        drag_ = Drag::press;
    }
}

void TimelineCanvas::mouseMoveEvent(QMouseEvent* event)
{
    const auto position = event->position();
    const auto& plot = geometry_.plot;
    const double ms = geometry_.ms.toData(std::clamp(position.x(), plot.left(), plot.right()));
    if (drag_ == Drag::press && std::abs(position.x() - pressed_.x()) >= clickReach)
        drag_ = Drag::select;
    switch (drag_) {
    case Drag::budget:
        handle_->dragTo(static_cast<Bytes>(geometry_.bytes.toData(position.y())), geometry_.bytes.dataPerPixel(),
                        event->modifiers().testFlag(Qt::ShiftModifier));
        return;
    case Drag::pan:
        pan(position.x() - lastX_, std::exchange(panBegins_, false));
        lastX_ = position.x();
        return;
    case Drag::select:
        Q_EMIT selecting(std::min(ms, pressedMs_), std::max(ms, pressedMs_));
        break;
    case Drag::press:
    case Drag::none:
        viewport()->setCursor(nearBudgetLine(position) ? Qt::SizeVerCursor : Qt::ArrowCursor);
        break;
    }
    if (plot.contains(position)) {
        pointerMs_ = ms;
        Q_EMIT hovered(ms);
    } else if (pointerMs_) {
        pointerMs_.reset();
        Q_EMIT hoverLeft();
    }
}

void TimelineCanvas::mouseReleaseEvent(QMouseEvent* event)
{
    const auto ended = std::exchange(drag_, Drag::none);
    viewport()->setCursor(Qt::ArrowCursor);
    const double ms
        = geometry_.ms.toData(std::clamp(event->position().x(), geometry_.plot.left(), geometry_.plot.right()));
    if (ended == Drag::budget)
        handle_->endDrag();
    else if (ended == Drag::select)
        Q_EMIT selected(std::min(ms, pressedMs_), std::max(ms, pressedMs_));
    else if (ended == Drag::press)
        Q_EMIT clicked(ms);
}

void TimelineCanvas::mouseDoubleClickEvent(QMouseEvent* event)
{
    // The second press of a double click is a press like any other; QGraphicsView would swallow it.
    mousePressEvent(event);
}

void TimelineCanvas::zoomAt(double x, double factor, bool step)
{
    const auto range = geometry_.ms.zoomed(factor, x, limits_, shortestMs_);
    Q_EMIT rangeWanted(range.begin, range.end, step);
}

void TimelineCanvas::pan(double pixels, bool step)
{
    const auto range = geometry_.ms.panned(pixels, limits_);
    Q_EMIT rangeWanted(range.begin, range.end, step);
}

bool TimelineCanvas::wheelBegins()
{
    const bool goesOn = sinceWheel_.isValid() && sinceWheel_.elapsed() < sameTurnMs;
    sinceWheel_.start();
    return !goesOn;
}

void TimelineCanvas::wheelEvent(QWheelEvent* event)
{
    const auto angle = event->angleDelta();
    if (event->modifiers().testFlag(Qt::ControlModifier)) {
        zoomAt(event->position().x(), std::pow(1.2, angle.y() / 120.0), wheelBegins());
    } else if (event->modifiers().testFlag(Qt::ShiftModifier) || std::abs(angle.x()) > std::abs(angle.y())) {
        const int notch = angle.x() != 0 ? angle.x() : angle.y();
        pan(notch / 120.0 * 60, wheelBegins());
    } else {
        event->ignore();
        return;
    }
    event->accept();
}

bool TimelineCanvas::gesture(QEvent* event)
{
    if (event->type() == QEvent::NativeGesture) {
        const auto* native = static_cast<QNativeGestureEvent*>(event);
        if (native->gestureType() != Qt::ZoomNativeGesture)
            return false;
        zoomAt(native->position().x(), std::max(0.1, 1 + native->value()), wheelBegins());
        return true;
    }
    auto* pinch = static_cast<QPinchGesture*>(static_cast<QGestureEvent*>(event)->gesture(Qt::PinchGesture));
    if (!pinch)
        return false;
    zoomAt(viewport()->mapFromGlobal(pinch->centerPoint()).x(), pinch->scaleFactor(),
           pinch->state() == Qt::GestureStarted);
    return true;
}

bool TimelineCanvas::viewportEvent(QEvent* event)
{
    switch (event->type()) {
    case QEvent::NativeGesture:
    case QEvent::Gesture:
        if (gesture(event))
            return true;
        break;
    case QEvent::Leave:
        if (pointerMs_) {
            pointerMs_.reset();
            Q_EMIT hoverLeft();
        }
        break;
    default:
        break;
    }
    return QChartView::viewportEvent(event);
}

void TimelineCanvas::focusInEvent(QFocusEvent* event)
{
    QChartView::focusInEvent(event);
    const auto reason = event->reason();
    marks_->setFocused(reason == Qt::TabFocusReason || reason == Qt::BacktabFocusReason);
}

void TimelineCanvas::focusOutEvent(QFocusEvent* event)
{
    QChartView::focusOutEvent(event);
    marks_->setFocused(false);
}

} // namespace headroom
