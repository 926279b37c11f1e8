// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/overview_strip.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <utility>

namespace headroom {
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
    // One polygon with whole pixels as heights is filled faster than thousands of columns.
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
        paintSilhouette(painter, prepared_->overview->outline, theme.line);
        auto ink = theme.secondText;
        ink.setAlphaF(0.55f);
        paintSilhouette(painter, prepared_->overview->main.totals, ink);
    }
    if (!(all_.length() > 0))
        return;
    const double begin = map().toPixel(shown_.begin);
    const double end = map().toPixel(shown_.end);
    auto veil = theme.card;
    veil.setAlphaF(0.6f);
    painter.fillRect(QRectF(left_, 0, begin - left_, height()), veil);
    painter.fillRect(QRectF(end, 0, right_ - end, height()), veil);
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
