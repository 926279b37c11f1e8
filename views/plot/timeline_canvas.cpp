// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_canvas.h"

#include "views/plot/number_text.h"

#include <QChart>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QNativeGestureEvent>
#include <QPainter>
#include <QPinchGesture>

#include <algorithm>
#include <cmath>
#include <utility>

namespace headroom {
namespace {

constexpr double leftMargin = 46;
constexpr double bottomMargin = 26;
constexpr int leastPlot = 100; ///< height in pixels
constexpr int sameTurnMs = 800; // longest time between two notches of a turn of the wheel
constexpr double clickReach = 4; ///< pixels before a press becomes a drag

} // namespace

TimelineCanvas::TimelineCanvas(QWidget* parent)
    : PlotChart(tr("Memory over time"), parent)
{
    setMinimumHeight(leastPlot + static_cast<int>(std::ceil(phaseBandHeight + 2 + bottomMargin)));
    xAxis().setGridLineVisible(false);
    // Grid, axes and series of the chart are below 49.
    phases_ = new PhaseLayer(chart(), 49);
    bands_ = new BandsLayer(chart(), 50);
    budget_ = new BudgetLayer(chart(), 51);
    changed_ = new ChangedOpLayer(chart(), 51);
    failures_ = new FailureLayer(chart(), 52);
    marks_ = new MarksLayer(chart(), 52);
    cursor_ = new CursorLayer(chart(), 53);
    handle_ = new BudgetHandle(this);
    handle_->hide();
    connect(handle_, &BudgetHandle::moved, this,
            [this] { budget_->setBudget(budgetVisible_ ? handle_->value() : 0, handle_->feasible()); });
    setViewportUpdateMode(QGraphicsView::MinimalViewportUpdate);
    viewport()->grabGesture(Qt::PinchGesture);
    applyStyle(Theme::of(*this));
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

void TimelineCanvas::applyStyle(const Theme& theme)
{
    setBackgroundBrush(theme.card);
    setAxisStyle(theme);
    for (auto* layer :
         std::initializer_list<TimelineLayer*>{phases_, bands_, budget_, changed_, failures_, marks_, cursor_})
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
         std::initializer_list<TimelineLayer*>{phases_, bands_, budget_, changed_, failures_, marks_, cursor_})
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
    // The second press of a double click is a press like any other; QGraphicsView would swallow that press.
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

namespace {

constexpr int stripHeight = 26;
constexpr double gripReach = 5;

} // namespace

OverviewStrip::OverviewStrip(QWidget* parent)
    : QWidget(parent)
{
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setAccessibleName(tr("Overview of the step"));
    setAccessibleDescription(tr("Arrow keys move the visible stretch of the timeline, plus and minus zoom."));
}

void OverviewStrip::setPlotEdges(double left, double right)
{
    left_ = left;
    right_ = right;
    update();
}

void OverviewStrip::setPrepared(PreparedTimelinePtr prepared)
{
    prepared_ = std::move(prepared);
    update();
}

void OverviewStrip::setRange(AxisRange all, AxisRange shown, double shortest)
{
    all_ = all;
    shown_ = shown;
    shortest_ = shortest;
    update();
}

void OverviewStrip::setSelection(std::optional<AxisRange> selection)
{
    selection_ = selection;
    update();
}

int OverviewStrip::columns() const
{
    return std::max(1, static_cast<int>(right_ - left_));
}

QSize OverviewStrip::sizeHint() const
{
    return {400, stripHeight};
}

AxisMap OverviewStrip::map() const
{
    return {all_, left_, right_};
}

void OverviewStrip::paintSilhouette(QPainter& painter, const std::vector<Bytes>& totals, const QColor& color) const
{
    const auto& request = prepared_->request;
    const AxisMap y{request.bytes, height() - 2.0, 2.0};
    const double density = devicePixelRatioF();
    const auto onPixel = [&](double at) { return qRound(at * density) / density; };
    // A polygon with whole pixels as heights is filled faster than thousands of columns.
    QPolygonF outline{{left_, onPixel(y.pixelBegin + 0.5)}};
    outline.reserve(2 * static_cast<qsizetype>(totals.size()) + 2);
    for (std::size_t i = 0; i < totals.size(); ++i) {
        const double top = onPixel(y.toPixel(static_cast<double>(totals[i])) - 0.5);
        const double left = left_ + static_cast<double>(i);
        if (outline.back().y() != top || i == 0)
            outline << QPointF(left, i == 0 ? top : outline.back().y()) << QPointF(left, top);
    }
    const double right = left_ + static_cast<double>(totals.size());
    outline << QPointF(right, outline.back().y()) << QPointF(right, outline.front().y());
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawPolygon(outline);
}

void OverviewStrip::paintEvent(QPaintEvent*)
{
    const auto& theme = Theme::of(*this);
    QPainter painter(this);
    const QRectF strip(left_, 0.5, right_ - left_, height() - 1);
    painter.fillRect(strip, theme.hover);
    if (prepared_ && prepared_->overview) {
        paintSilhouette(painter, prepared_->overview->outline, theme.hatch);
        paintSilhouette(painter, prepared_->overview->main.totals, theme.secondText);
    }
    if (!(all_.length() > 0))
        return;
    const double begin = map().toPixel(shown_.begin);
    const double end = map().toPixel(shown_.end);
    auto veil = theme.card;
    veil.setAlphaF(0.6f);
    painter.fillRect(QRectF(left_, 0, begin - left_, height()), veil);
    painter.fillRect(QRectF(end, 0, right_ - end, height()), veil);
    if (selection_) {
        const double left = map().toPixel(selection_->begin);
        painter.fillRect(QRectF(left, height() - 4, std::max(2.0, map().toPixel(selection_->end) - left), 3),
                         theme.text);
    }
    painter.setRenderHint(QPainter::Antialiasing);
    const auto quiet = shown_ == all_ ? theme.line : theme.secondText;
    painter.setPen(QPen(hasFocus() ? theme.text : quiet, hasFocus() ? 1.6 : 1));
    painter.setBrush(Qt::NoBrush);
    const QRectF window(begin + 0.5, 0.5, std::max(2.0, end - begin - 1), height() - 1);
    painter.drawRoundedRect(window, 3, 3);
    if (shown_ == all_)
        return;
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme.secondText);
    for (const double x : {window.left(), window.right()})
        painter.drawRoundedRect(QRectF(x - 2, height() / 2.0 - 5, 4, 10), 2, 2);
}

OverviewStrip::Grip OverviewStrip::gripAt(double x) const
{
    const double begin = map().toPixel(shown_.begin);
    const double end = map().toPixel(shown_.end);
    if (std::abs(x - begin) <= gripReach && std::abs(x - begin) <= std::abs(x - end))
        return Grip::begin;
    if (std::abs(x - end) <= gripReach)
        return Grip::end;
    return x > begin && x < end ? Grip::window : Grip::none;
}

void OverviewStrip::want(AxisRange range)
{
    const auto inside = clamped(range, all_);
    if (inside != shown_)
        Q_EMIT rangeWanted(inside.begin, inside.end, std::exchange(begins_, grip_ == Grip::none));
}

void OverviewStrip::mousePressEvent(QMouseEvent* event)
{
    if (event->button() != Qt::LeftButton || !(all_.length() > 0))
        return;
    const double x = event->position().x();
    const double ms = map().toData(x);
    begins_ = true;
    grip_ = gripAt(x);
    if (grip_ == Grip::none) {
        const double half = shown_.length() / 2;
        grip_ = Grip::window;
        grabbedAt_ = half;
        want({ms - half, ms + half});
        return;
    }
    grabbedAt_ = ms - shown_.begin;
}

void OverviewStrip::mouseMoveEvent(QMouseEvent* event)
{
    const double x = event->position().x();
    const double ms = std::clamp(map().toData(x), all_.begin, all_.end);
    switch (grip_) {
    case Grip::none: {
        const auto over = gripAt(x);
        setCursor(over == Grip::begin || over == Grip::end ? Qt::SizeHorCursor : Qt::ArrowCursor);
        break;
    }
    case Grip::begin:
        want({std::min(ms, shown_.end - shortest_), shown_.end});
        break;
    case Grip::end:
        want({shown_.begin, std::max(ms, shown_.begin + shortest_)});
        break;
    case Grip::window:
        want({ms - grabbedAt_, ms - grabbedAt_ + shown_.length()});
        break;
    }
}

void OverviewStrip::mouseReleaseEvent(QMouseEvent*)
{
    grip_ = Grip::none;
    begins_ = true;
}

void OverviewStrip::keyPressEvent(QKeyEvent* event)
{
    const auto pan = [&](double share) {
        want({shown_.begin + share * shown_.length(), shown_.end + share * shown_.length()});
    };
    const auto zoom = [&](double factor) {
        const double pixel = (map().toPixel(shown_.begin) + map().toPixel(shown_.end)) / 2;
        const AxisMap window{shown_, map().toPixel(shown_.begin), map().toPixel(shown_.end)};
        want(window.zoomed(factor, pixel, all_, shortest_));
    };
    switch (event->key()) {
    case Qt::Key_Left:
        return pan(-0.1);
    case Qt::Key_Right:
        return pan(0.1);
    case Qt::Key_Plus:
        return zoom(1.25);
    case Qt::Key_Minus:
        return zoom(0.8);
    case Qt::Key_Home:
        return want({all_.begin, all_.begin + shown_.length()});
    case Qt::Key_End:
        return want({all_.end - shown_.length(), all_.end});
    default:
        QWidget::keyPressEvent(event);
    }
}

} // namespace headroom
