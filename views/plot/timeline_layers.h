// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_draw_list.h"
#include "views/plot/timeline_paint.h"
#include "views/plot/timeline_readout.h"

#include <QGraphicsObject>
#include <QString>

#include <optional>
#include <vector>

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

/// A selected range of time and the label.
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
    void paintEdge(QPainter& painter, double x) const;

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

/// The begin of an op that another plan treats differently.
struct TimelineChangedOp
{
    double ms = 0;
    bool again = false; ///< the op runs a second time here; else the first time

    bool operator==(const TimelineChangedOp&) const = default;
};

/// Paints ops with a changed decision as triangles on the time axis: hollow for a first run, filled for a second.
class ChangedOpLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setChanged(std::vector<TimelineChangedOp> changed); ///< ms ascending
    const std::vector<TimelineChangedOp>& changed() const noexcept { return changed_; }

    QRectF boundingRect() const override;
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    std::vector<TimelineChangedOp> changed_;
};

/// Paints the triangle of the layer and of legends; `ground` fills the inside: the colour itself, or the background for
/// a hollow one.
void paintChangedOpSymbol(QPainter& painter, QPointF bottom, double size, const QColor& color, const QColor& ground);

/// An instant at which an allocation failed.
struct TimelineFailure
{
    double ms = 0;
    QString label; ///< "Out of memory: asked for 2.00 GiB, 1.20 GiB left"
    QString sentence; ///< why

    bool operator==(const TimelineFailure&) const = default;
};

/// Paints failed allocations as vertical lines with labels; lines close together share the first line's label.
class FailureLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setFailures(std::vector<TimelineFailure> failures); ///< ms ascending
    const std::vector<TimelineFailure>& failures() const noexcept { return failures_; }

    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    bool paintLabel(QPainter& painter, double x, const QString& text, double right) const;

    std::vector<TimelineFailure> failures_;
};

} // namespace headroom
