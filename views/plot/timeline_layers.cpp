// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_layers.h"

#include <QFontMetricsF>
#include <QPainter>

#include <algorithm>
#include <array>
#include <cmath>

namespace headroom {
namespace {

constexpr double beyondPlot = 6; // pixels by which a mark reaches beyond the plot's edge

} // namespace

TimelineLayer::TimelineLayer(QGraphicsItem* chart, double z)
    : QGraphicsObject(chart)
{
    setZValue(z);
    setAcceptedMouseButtons(Qt::NoButton);
}

void TimelineLayer::setGeometryOf(const TimelineGeometry& geometry, const QRectF& canvas)
{
    prepareGeometryChange();
    geometry_ = geometry;
    canvas_ = canvas;
    placed();
    update();
}

// The rectangle excludes the labels of the axes, which need no repaint when a layer changes.
QRectF TimelineLayer::boundingRect() const
{
    const QPointF corner(geometry_.plot.left() - beyondPlot, geometry_.plot.bottom() + beyondPlot);
    return QRectF(corner, canvas_.topRight()).normalized();
}

void TimelineLayer::setTheme(const Theme& theme)
{
    theme_ = theme;
    placed();
    update();
}

void BandsLayer::setPrepared(PreparedTimelinePtr prepared)
{
    prepared_ = std::move(prepared);
    update();
}

void BandsLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    if (!prepared_ || prepared_->image.isNull())
        return;
    const auto& request = prepared_->request;
    const auto& plot = geometry().plot;
    if (request.viewport.ms == geometry().ms.data && request.bytes == geometry().bytes.data) {
        painter->drawImage(plot, prepared_->image);
        return;
    }
    const QRectF target(
        QPointF(geometry().ms.toPixel(request.viewport.ms.begin), geometry().bytes.toPixel(request.bytes.end)),
        QPointF(geometry().ms.toPixel(request.viewport.ms.end), geometry().bytes.toPixel(request.bytes.begin)));
    painter->save();
    painter->setClipRect(plot);
    painter->drawImage(target, prepared_->image);
    painter->restore();
}

void PhaseLayer::setPhases(std::vector<PhaseSpan> phases)
{
    phases_ = std::move(phases);
    placed();
    update();
}

void PhaseLayer::placed()
{
    placed_ = placePhases(phases_, geometry(), canvas().right() - 4, theme());
}

void PhaseLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    paintPhases(*painter, placed_, geometry(), theme());
}

void MarksLayer::setPeaks(std::vector<PeakMark> peaks)
{
    marks_ = std::move(peaks);
    placed();
    update();
}

void MarksLayer::setAddedTime(std::optional<AddedTime> added)
{
    added_ = added;
    placed();
    update();
}

void MarksLayer::setSelection(std::optional<TimeSelection> selection)
{
    selection_ = std::move(selection);
    update();
}

void MarksLayer::setPin(std::optional<double> ms)
{
    pin_ = ms;
    update();
}

void MarksLayer::setFocused(bool focused)
{
    focused_ = focused;
    update();
}

void MarksLayer::placed()
{
    placedAdded_ = added_ ? placeAddedTime(*added_, geometry(), theme()) : std::nullopt;
    std::vector<QRectF> taken;
    if (placedAdded_)
        taken.push_back(placedAdded_->label.adjusted(0, 0, 0, 8));
    placed_ = placePeaks(marks_, geometry(), theme(), taken);
}

std::vector<QRectF> MarksLayer::labels() const
{
    std::vector<QRectF> taken;
    for (const auto& peak : placed_)
        taken.push_back(peak.label | QRectF(peak.point - QPointF(5, 5), QSizeF(10, 10)));
    if (placedAdded_)
        taken.push_back(placedAdded_->label.adjusted(0, 0, 0, 8));
    return taken;
}

/// Paints a vertical line from which the labels of peaks are left out.
void MarksLayer::paintEdge(QPainter& painter, double x) const
{
    double top = geometry().plot.top();
    std::vector<QRectF> crossed = labels();
    std::erase_if(crossed, [x](const QRectF& label) { return x < label.left() || x > label.right(); });
    std::ranges::sort(crossed, {}, &QRectF::top);
    for (const QRectF& label : crossed) {
        if (label.top() > top)
            painter.drawLine(QPointF(x, top), QPointF(x, label.top()));
        top = std::max(top, label.bottom());
    }
    painter.drawLine(QPointF(x, top), QPointF(x, geometry().plot.bottom()));
}

void MarksLayer::paintSelection(QPainter& painter) const
{
    constexpr double leastForLabel = 90;

    const auto& plot = geometry().plot;
    const double begin = std::clamp(geometry().ms.toPixel(selection_->beginMs), plot.left(), plot.right());
    const double end = std::clamp(geometry().ms.toPixel(selection_->endMs), plot.left(), plot.right());
    auto veil = theme().card;
    veil.setAlphaF(0.62f);
    painter.fillRect(QRectF(plot.left(), plot.top(), begin - plot.left(), plot.height()), veil);
    painter.fillRect(QRectF(end, plot.top(), plot.right() - end, plot.height()), veil);
    painter.setPen(QPen(theme().text, 1));
    for (const double ms : {selection_->beginMs, selection_->endMs})
        if (geometry().ms.data.contains(ms))
            paintEdge(painter, std::floor(geometry().ms.toPixel(ms)) + 0.5);
    if (plot.height() < leastForLabel)
        return; // the label would hide the bands
    painter.setFont(theme().numberStrong);
    const QFontMetricsF metrics(theme().numberStrong);
    const QSizeF size(metrics.horizontalAdvance(selection_->label) + 12, 20);
    double x = (begin + end - size.width()) / 2;
    x = std::clamp(x, plot.left() + 2, std::max(plot.left() + 2, plot.right() - size.width() - 2));
    const QRectF box(QPointF(x, plot.bottom() - size.height() - 6), size);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme().text);
    painter.drawRoundedRect(box, 4, 4);
    painter.setPen(theme().card);
    painter.drawText(box, Qt::AlignCenter, selection_->label);
    painter.setRenderHint(QPainter::Antialiasing, false);
}

void MarksLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    if (selection_)
        paintSelection(*painter);
    if (pin_ && geometry().ms.data.contains(*pin_)) {
        const double x = std::floor(geometry().ms.toPixel(*pin_)) + 0.5;
        painter->setPen(QPen(theme().text, 1));
        painter->drawLine(QPointF(x, geometry().plot.top()), QPointF(x, geometry().plot.bottom()));
        painter->setRenderHint(QPainter::Antialiasing);
        painter->setPen(Qt::NoPen);
        painter->setBrush(theme().text);
        const double top = geometry().plot.top();
        painter->drawPolygon(QPolygonF{{x - 5, top - 1}, {x + 5, top - 1}, {x, top + 7}});
        painter->setRenderHint(QPainter::Antialiasing, false);
    }
    if (placedAdded_)
        paintAddedTime(*painter, *placedAdded_, theme());
    paintPeaks(*painter, placed_, theme());
    if (focused_) {
        painter->setRenderHint(QPainter::Antialiasing, false);
        painter->setPen(QPen(theme().secondText, 1));
        painter->setBrush(Qt::NoBrush);
        painter->drawRect(geometry().plot.adjusted(0, 0, -1, -1));
    }
}

void BudgetLayer::setBudget(Bytes budget, bool feasible)
{
    if (budget == budget_ && feasible == feasible_)
        return;
    prepareGeometryChange();
    budget_ = budget;
    feasible_ = feasible;
    update();
}

QRectF BudgetLayer::boundingRect() const
{
    const double y = geometry().bytes.toPixel(static_cast<double>(budget_));
    return {geometry().plot.left(), y - 2, geometry().plot.width(), 4};
}

void BudgetLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    if (budget_ > 0)
        paintBudgetLine(*painter, budget_, feasible_, geometry(), theme());
}

void CursorLayer::show(double ms, Bytes sum, HoverCard card, const std::vector<QRectF>& avoid)
{
    prepareGeometryChange();
    card_ = std::move(card);
    point_ = {geometry().ms.toPixel(ms), geometry().bytes.toPixel(static_cast<double>(sum))};
    const auto& plot = geometry().plot;
    cardRect_ = placeBeside(point_, card_->size(), cardArea(), avoid, 12);
    bounds_ = cardRect_.adjusted(-1, -1, 1, 1) | QRectF(point_.x() - 5, plot.top(), 10, plot.height())
        | QRectF(plot.left(), point_.y() - 5, plot.width(), 10);
    update();
}

void CursorLayer::clear()
{
    if (!card_)
        return;
    prepareGeometryChange();
    card_.reset();
    cardRect_ = {};
    bounds_ = {};
    update();
}

void CursorLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    if (!card_)
        return;
    const auto& plot = geometry().plot;
    painter->setPen(QPen(theme().text, 1, Qt::DotLine));
    const double x = std::floor(point_.x()) + 0.5;
    painter->drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
    auto faint = theme().secondText;
    faint.setAlphaF(0.7f);
    painter->setPen(QPen(faint, 1, Qt::DotLine));
    const double y = std::floor(point_.y()) + 0.5;
    painter->drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(theme().card, 1.5));
    painter->setBrush(theme().text);
    painter->drawEllipse(QPointF(x, y), 3.5, 3.5);
    card_->paint(*painter, cardRect_.topLeft());
}

namespace {

constexpr double symbolSize = 8;
constexpr double halo = 4; // background around a symbol: bands may be as dark as the accent
constexpr double changedDistance = 4; // pixels; triangles of one kind with less distance are painted as one

} // namespace

void paintChangedOpSymbol(QPainter& painter, QPointF bottom, double size, const QColor& color, const QColor& ground)
{
    painter.setPen(QPen(color, 1.2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter.setBrush(ground);
    painter.drawPolygon(
        QPolygonF{bottom + QPointF(-size / 2, 0), bottom + QPointF(size / 2, 0), bottom + QPointF(0, -size * 0.9)});
}

void ChangedOpLayer::setChanged(std::vector<TimelineChangedOp> changed)
{
    if (changed == changed_)
        return;
    changed_ = std::move(changed);
    update();
}

QRectF ChangedOpLayer::boundingRect() const
{
    const QRectF& plot = geometry().plot;
    const double size = symbolSize + halo;
    return {plot.left() - size, plot.bottom() - size - 2, plot.width() + 2 * size, size + 4};
}

void ChangedOpLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    painter->setRenderHint(QPainter::Antialiasing);
    std::array<double, 2> last{-1e9, -1e9}; // by kind
    const QRectF& plot = geometry().plot;
    for (const TimelineChangedOp& change : changed_) {
        const double x = geometry().ms.toPixel(change.ms);
        double& before = last[change.again ? 1 : 0];
        if (x < plot.left() || x > plot.right() || x - before < changedDistance)
            continue;
        before = x;
        paintChangedOpSymbol(*painter, {x, plot.bottom()}, symbolSize + halo, theme().card, theme().card);
        paintChangedOpSymbol(*painter, {x, plot.bottom()}, symbolSize, theme().accent,
                             change.again ? theme().accent : theme().card);
    }
}

namespace {

constexpr double closest = 3; // pixels; lines with less distance are painted as a single line
constexpr double padding = 4;

} // namespace

void FailureLayer::setFailures(std::vector<TimelineFailure> failures)
{
    if (failures == failures_)
        return;
    failures_ = std::move(failures);
    update();
}

void FailureLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    const QRectF& plot = geometry().plot;
    std::vector<std::pair<double, const TimelineFailure*>> shown;
    for (const TimelineFailure& failure : failures_) {
        const double x = geometry().ms.toPixel(failure.ms);
        if (x >= plot.left() && x <= plot.right() && (shown.empty() || x - shown.back().first >= closest))
            shown.emplace_back(x, &failure);
    }
    painter->setPen(QPen(theme().danger, 1.5, Qt::DashLine));
    for (const auto& [x, failure] : shown)
        painter->drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
    // From right to left: a label ends at the line on the right.
    double right = plot.right();
    for (auto line = shown.rbegin(); line != shown.rend(); ++line) {
        if (!paintLabel(*painter, line->first, line->second->label, right))
            paintLabel(*painter, line->first, tr("Out of memory"), right);
        right = line->first;
    }
}

/// Paints a label beside the line, on the side with room for it; false: no room.
bool FailureLayer::paintLabel(QPainter& painter, double x, const QString& text, double right) const
{
    const QRectF& plot = geometry().plot;
    const QFontMetricsF metrics(theme().caption);
    const QSizeF size(metrics.horizontalAdvance(text) + 2 * padding, metrics.height() + padding);
    double left = x + 3;
    if (left + size.width() > right)
        left = x - 3 - size.width();
    if (left < plot.left())
        return false;
    const QRectF box(QPointF(left, plot.bottom() - size.height() - 4), size); // labels of peaks are above
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme().dangerSoft);
    painter.drawRoundedRect(box, 3, 3);
    painter.setPen(theme().danger);
    painter.setFont(theme().caption);
    painter.drawText(box, Qt::AlignCenter, text);
    return true;
}

} // namespace headroom
