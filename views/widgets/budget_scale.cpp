// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/budget_bar.h"

#include "views/plot/number_text.h"
#include "views/theme/styles.h"

#include <QFontMetricsF>
#include <QHelpEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

constexpr double sideMargin = 14; ///< half of a tick label, and the knob
constexpr double curveTop = 20; ///< below the labels of the stops
constexpr double breakPointRadius = 1.8;
constexpr double breakPointDistance = 10;
constexpr double knobRadius = 9;
constexpr double tickTop = 9; ///< below the track
constexpr double tickLabelTop = 13;
constexpr int heightOfRest = 56; ///< all but the curve

} // namespace

BudgetScale::BudgetScale(QWidget* parent)
    : BytesControl(parent)
{
    setAttribute(Qt::WA_OpaquePaintEvent);
    setMouseTracking(true); // the cursor tells labels that can be clicked
    setMinimumWidth(240);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setAccessibleName(tr("Budget"));
    setAccessibleDescription(tr("Left and Right move the budget a step, with Ctrl to the next plan of the frontier "
                                "that runs on the card, Home to the least feasible budget, End to no "
                                "checkpointing."));
}

void BudgetScale::setCurveHeight(int height)
{
    if (height == curveHeight_)
        return;
    curveHeight_ = height;
    scenery_.forget();
    updateGeometry();
    update();
}

double BudgetScale::trackY() const
{
    return curveTop + curveHeight_ + 4;
}

QSize BudgetScale::sizeHint() const
{
    return {640, heightOfRest + curveHeight_};
}

QSize BudgetScale::minimumSizeHint() const
{
    return {240, heightOfRest + curveHeight_};
}

void BudgetScale::setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax)
{
    least_ = least;
    recordedPeak_ = recordedPeak;
    axis_ = {static_cast<double>(axisMin), static_cast<double>(std::max(axisMax, axisMin + 1))};
    setLimits(axisMin, axisMax);
    setLandmarks(least > 0 ? least : axisMin, recordedPeak);
    updateStops();
}

void BudgetScale::setFrontier(std::vector<FrontierPoint> frontier, std::vector<FrontierPoint> recompute)
{
    frontier_ = std::move(frontier);
    recompute_ = std::move(recompute);
    updateStops();
}

void BudgetScale::setCards(std::vector<CardStop> cards, std::vector<Bytes> failing)
{
    cards_ = std::move(cards);
    failing_ = std::move(failing);
    updateStops();
}

bool BudgetScale::fails(const FrontierPoint& point) const
{
    return std::ranges::binary_search(failing_, point.peak);
}

void BudgetScale::updateStops()
{
    std::vector<Bytes> stops;
    std::vector<Bytes> magnets{least_, recordedPeak_};
    for (const auto& point : frontier_)
        if (!fails(point))
            stops.push_back(point.peak);
    for (const CardStop& card : cards_) {
        stops.push_back(card.bytes);
        magnets.push_back(card.bytes);
    }
    std::ranges::sort(stops);
    const auto again = std::ranges::unique(stops);
    stops.erase(again.begin(), again.end());
    setStops(std::move(stops));
    std::ranges::sort(magnets);
    setMagnets(std::move(magnets));
    scenery_.forget();
    update();
}

AxisMap BudgetScale::map() const
{
    return {axis_, sideMargin, width() - sideMargin};
}

double BudgetScale::knobX() const
{
    return std::clamp(map().toPixel(static_cast<double>(value())), sideMargin, width() - sideMargin);
}

void BudgetScale::paintHatch(QPainter& painter, const Theme& theme) const
{
    if (least_ <= minimum())
        return;
    const double end = std::min(map().toPixel(static_cast<double>(least_)), map().pixelEnd);
    const QRectF area(sideMargin, curveTop, end - sideMargin, curveHeight_ + 2);
    painter.save();
    painter.setClipRect(area);
    painter.setPen(QPen(theme.hatch, 1));
    for (double x = area.left() - area.height(); x < area.right(); x += 7)
        painter.drawLine(QPointF(x, area.bottom()), QPointF(x + area.height(), area.top()));
    painter.restore();
}

void BudgetScale::paintCurve(QPainter& painter, const Theme& theme) const
{
    if (frontier_.empty())
        return;
    // The plan of least memory may wait long for copies: what is above the highest cost of recomputation leaves the
    // plot.
    double highest = 0;
    for (const auto& point : recompute_.empty() ? frontier_ : recompute_)
        highest = std::max(highest, point.costMs());
    const double base = curveTop + curveHeight_ + 2;
    const AxisMap y{{0, std::max(highest, 1e-9)}, base, curveTop + 2};
    const double end = map().pixelEnd;
    // A staircase: between two plans of the frontier the cheaper plan does not fit yet.
    const auto staircase = [&](const std::vector<FrontierPoint>& points) {
        QPolygonF line;
        for (const auto& point : points) {
            const double x = std::clamp(map().toPixel(static_cast<double>(point.peak)), map().pixelBegin, end);
            if (!line.empty())
                line << QPointF(x, line.last().y());
            line << QPointF(x, y.toPixel(std::min(point.costMs(), highest)));
        }
        line << QPointF(end, line.last().y());
        return line;
    };
    const QPolygonF line = staircase(frontier_);
    QPolygonF area = line;
    area << QPointF(end, base) << QPointF(line.first().x(), base);
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme.accentSoft);
    painter.drawPolygon(area);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme.accent, 1.5, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin));
    if (!recompute_.empty()) {
        painter.setPen(QPen(theme.secondText, 1, Qt::DashLine, Qt::FlatCap, Qt::RoundJoin));
        painter.drawPolyline(staircase(recompute_));
        painter.setPen(QPen(theme.accent, 1.5, Qt::SolidLine, Qt::FlatCap, Qt::RoundJoin));
    }
    painter.drawPolyline(line);
    // The curve's break points, where wide enough apart. Points of plans that do not run on the GPU are hollow.
    painter.setPen(QPen(theme.accent, 1));
    double before = -breakPointDistance;
    for (const auto& point : frontier_) {
        const double x = map().toPixel(static_cast<double>(point.peak));
        if (x - before < breakPointDistance || x < map().pixelBegin || x > end)
            continue;
        painter.setBrush(fails(point) ? theme.card : theme.accent);
        painter.drawEllipse(QPointF(x, y.toPixel(std::min(point.costMs(), highest))), breakPointRadius,
                            breakPointRadius);
        before = x;
    }
}

void BudgetScale::placeLabels(std::vector<StopLabel>& labels, const QFontMetricsF& metrics) const
{
    // The recorded peak comes first, and may push a GPU's label out.
    std::vector<QRectF> taken;
    for (auto& label : labels) {
        const double w = metrics.horizontalAdvance(label.text) + 2;
        label.box = {};
        for (const double left : {label.x + 5, label.x - 5 - w}) {
            const QRectF box(left, 2, w, 15);
            const bool free = std::none_of(taken.begin(), taken.end(), [&](const QRectF& other) {
                return box.adjusted(-4, 0, 4, 0).intersects(other);
            });
            if (free && box.left() >= 0 && box.right() <= width()) {
                label.box = box;
                taken.push_back(box);
                break;
            }
        }
        taken.emplace_back(label.x - 1, 2, 2, 15); // its line
    }
}

std::vector<BudgetScale::StopLabel> BudgetScale::stopLabels(const QFontMetricsF& metrics) const
{
    std::vector<StopLabel> labels;
    if (recordedPeak_ > 0 && axis_.contains(static_cast<double>(recordedPeak_)))
        labels.push_back(
            {recordedPeak_, map().toPixel(static_cast<double>(recordedPeak_)), tr("recorded peak"), {}, false});
    for (const CardStop& card : cards_)
        labels.push_back(
            {card.bytes, map().toPixel(static_cast<double>(card.bytes)), QString::fromStdString(card.name), {}, true});
    placeLabels(labels, metrics);
    return labels;
}

std::optional<BudgetScale::StopLabel> BudgetScale::labelAt(QPointF position) const
{
    for (const StopLabel& label : stopLabels(QFontMetricsF(Theme::of(*this).caption))) {
        if (!label.box.isEmpty() && label.box.adjusted(-2, -2, 2, 2).contains(position))
            return label;
    }
    return std::nullopt;
}

void BudgetScale::paintStops(QPainter& painter, const Theme& theme) const
{
    painter.setFont(theme.caption);
    painter.setRenderHint(QPainter::Antialiasing, false);
    for (const auto& label : stopLabels(QFontMetricsF(theme.caption))) {
        const double x = std::floor(label.x) + 0.5;
        painter.setPen(QPen(label.card ? theme.secondText : theme.text, 1, label.card ? Qt::DotLine : Qt::SolidLine));
        painter.drawLine(QPointF(x, label.box.isEmpty() ? curveTop : 4.0), QPointF(x, trackY()));
        painter.setPen(theme.secondText);
        if (!label.box.isEmpty())
            painter.drawText(label.box, Qt::AlignLeft | Qt::AlignVCenter, label.text);
    }
    painter.setRenderHint(QPainter::Antialiasing);
}

void BudgetScale::paintTicks(QPainter& painter, const Theme& theme) const
{
    const auto unit = byteUnitFor(axis_.end);
    const AxisRange range{axis_.begin / unit.bytes, axis_.end / unit.bytes};
    const auto ticks = niceTicks(range, std::max(2, static_cast<int>(width() / 46)));
    painter.setFont(theme.numberCaption);
    for (int i = 0; i < ticks.count; ++i) {
        const double x = std::floor(map().toPixel(ticks.at(i) * unit.bytes)) + 0.5;
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(x, trackY() + tickTop - 4), QPointF(x, trackY() + tickTop));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(x - 40, trackY() + tickLabelTop, 80, 16), Qt::AlignHCenter | Qt::AlignTop,
                         QString::number(ticks.at(i), 'f', ticks.decimals));
    }
}

void BudgetScale::paintTrack(QPainter& painter, const Theme& theme) const
{
    const double x = knobX();
    const double first
        = std::clamp(map().toPixel(static_cast<double>(std::max(least_, minimum()))), sideMargin, map().pixelEnd);
    painter.setPen(QPen(theme.line, 3, Qt::SolidLine, Qt::RoundCap));
    painter.drawLine(QPointF(sideMargin, trackY()), QPointF(map().pixelEnd, trackY()));
    const bool feasible = value() >= least_;
    if (feasible && x > first) {
        painter.setPen(QPen(theme.accent, 3, Qt::SolidLine, Qt::RoundCap));
        painter.drawLine(QPointF(first, trackY()), QPointF(x, trackY()));
    }
    const QPointF middle(x, trackY());
    if (hasFocus()) {
        painter.setPen(QPen(theme.text, 1.5));
        painter.setBrush(theme.card);
        painter.drawEllipse(middle, knobRadius + 2.5, knobRadius + 2.5);
    }
    painter.setPen(QPen(theme.card, 1.5));
    painter.setBrush(feasible ? theme.text : theme.danger);
    const double radius = dragging() ? knobRadius : knobRadius - 1;
    painter.drawEllipse(middle, radius, radius);
}

void BudgetScale::paintScenery(QPainter& painter, const Theme& theme) const
{
    painter.setRenderHint(QPainter::Antialiasing);
    paintHatch(painter, theme);
    paintCurve(painter, theme);
    paintStops(painter, theme);
    paintTicks(painter, theme);
}

void BudgetScale::paintEvent(QPaintEvent*)
{
    const auto& theme = Theme::of(*this);
    QPainter painter(this);
    scenery_.paint(painter, *this, [&](QPainter& into) { paintScenery(into, theme); });
    painter.setRenderHint(QPainter::Antialiasing);
    paintTrack(painter, theme);
}

bool BudgetScale::event(QEvent* event)
{
    if (event->type() != QEvent::ToolTip)
        return BytesControl::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    if (const auto label = labelAt(help->pos())) {
        WrappedToolTips::show(help->globalPos(),
                              label->card ? tr("A plan runs on %1: %2").arg(label->text, bytesText(label->bytes, 2))
                                          : tr("%1: %2").arg(label->text, bytesText(label->bytes, 2)),
                              this);
        return true;
    }
    const Bytes budget = static_cast<Bytes>(map().toData(help->pos().x()));
    QString words = bytesText(budget);
    if (budget < least_)
        words += tr(": no plan fits");
    else if (!frontier_.empty()) {
        const double ms = recomputeAt(frontier_, budget);
        words += stepMs_ > 0 ? tr(": +%1 (%2 %)").arg(msText(ms), QString::number(100 * ms / stepMs_, 'f', 1))
                             : tr(": +%1").arg(msText(ms));
        if (!recompute_.empty() && budget >= recompute_.front().peak)
            words += tr("; +%1 without offload").arg(msText(recomputeAt(recompute_, budget)));
        else if (!recompute_.empty())
            words += tr("; no plan without offload");
    }
    WrappedToolTips::show(help->globalPos(), words, this);
    return true;
}

void BudgetScale::mousePressEvent(QMouseEvent* event)
{
    if (event->button() != Qt::LeftButton)
        return;
    if (const auto label = labelAt(event->position())) {
        moveTo(label->bytes);
        return;
    }
    const double x = event->position().x();
    const bool onKnob = std::abs(x - knobX()) <= knobRadius + 2;
    grabbedAt_ = onKnob ? x - knobX() : 0;
    beginDrag();
    if (!onKnob)
        mouseMoveEvent(event);
}

void BudgetScale::mouseMoveEvent(QMouseEvent* event)
{
    if (!dragging())
        setCursor(labelAt(event->position()) ? Qt::PointingHandCursor : Qt::ArrowCursor);
    else
        dragTo(static_cast<Bytes>(map().toData(event->position().x() - grabbedAt_)), map().dataPerPixel(),
               event->modifiers().testFlag(Qt::ShiftModifier));
}

void BudgetScale::mouseReleaseEvent(QMouseEvent* event)
{
    if (event->button() == Qt::LeftButton)
        endDrag();
}

} // namespace headroom
