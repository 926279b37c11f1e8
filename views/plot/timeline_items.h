// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/hover_card.h"
#include "views/plot/timeline_paint.h"
#include "views/plot/timeline_preparer.h"

#include <QGraphicsObject>

#include <optional>

namespace headroom {

/// Base of the timeline's layers inside the chart. All layers use the chart's coordinates; each has a copy of geometry
/// and theme for painting.
class TimelineLayer : public QGraphicsObject
{
    Q_OBJECT
public:
    TimelineLayer(QGraphicsItem* chart, double z); ///< layers of higher `z` are on top

    void setGeometryOf(const TimelineGeometry& geometry, const QRectF& canvas);
    void setTheme(const Theme& theme);
    QRectF boundingRect() const override;

protected:
    const TimelineGeometry& geometry() const { return geometry_; }
    const Theme& theme() const { return theme_; }
    const QRectF& canvas() const { return canvas_; }
    virtual void placed() {} ///< called after geometry or theme changed

private:
    TimelineGeometry geometry_;
    QRectF canvas_;
    Theme theme_;
};

/// The bands: the worker's image, scaled to the shown range until the image for that range is ready.
class BandsLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setPrepared(PreparedTimelinePtr prepared);
    QRectF boundingRect() const override { return geometry().plot; }
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    PreparedTimelinePtr prepared_;
};

/// A selected range of time and its label.
struct TimeSelection
{
    double beginMs = 0;
    double endMs = 0;
    QString label;
};

/// Phases: names above the plot, lines behind the bands.
class PhaseLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setPhases(std::vector<PhaseSpan> phases);
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

protected:
    void placed() override;

private:
    std::vector<PhaseSpan> phases_;
    std::vector<PlacedPhase> placed_;
};

/// Marks that do not follow the pointer: peaks with labels, the time that the plan adds, selection, pinned instant.
class MarksLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setPeaks(std::vector<PeakMark> peaks);
    void setAddedTime(std::optional<AddedTime> added);
    void setSelection(std::optional<TimeSelection> selection);
    void setPin(std::optional<double> ms);
    void setFocused(bool focused);
    std::vector<QRectF> labels() const; ///< rectangles that a hover card must not cover

    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

protected:
    void placed() override;

private:
    void paintSelection(QPainter& painter) const;

    std::vector<PeakMark> marks_;
    std::optional<AddedTime> added_;
    std::vector<PlacedPeak> placed_;
    std::optional<PlacedAddedTime> placedAdded_;
    std::optional<TimeSelection> selection_;
    std::optional<double> pin_;
    bool focused_ = false;
};

/// The budget as a line across the plot.
class BudgetLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setBudget(Bytes budget, bool feasible);
    QRectF boundingRect() const override;
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    Bytes budget_ = 0;
    bool feasible_ = true;
};

/// Cross-hair and card of the hovered instant.
class CursorLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void show(double ms, Bytes sum, HoverCard card, const std::vector<QRectF>& avoid);
    double mostCardHeight() const { return cardArea().height(); } ///< in pixels
    void clear();
    QRectF cardRect() const noexcept { return cardRect_; } ///< empty while nothing is hovered

    QRectF boundingRect() const override { return bounds_; }
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    QRectF cardArea() const { return geometry().plot.adjusted(2, 2, -2, 0); }

    std::optional<HoverCard> card_;
    QPointF point_;
    QRectF cardRect_;
    QRectF bounds_;
};

} // namespace headroom
