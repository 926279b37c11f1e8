// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/bytes_control.h"
#include "views/plot/plot_chart.h"
#include "views/plot/timeline_draw_list.h"
#include "views/plot/timeline_layers.h"

#include <QElapsedTimer>
#include <QWidget>

#include <optional>

namespace headroom {

/// The drawing area of the timeline: a chart with axes and grid, layers, and the budget handle in the margin. It
/// only turns input into signals: a range to show, a selected range, a clicked instant.
class TimelineCanvas : public PlotChart
{
    Q_OBJECT
public:
    explicit TimelineCanvas(QWidget* parent);

    /// Limits of zoom and pan.
    void setLimits(AxisRange all, double shortestMs);
    void setRanges(AxisRange ms, AxisRange bytes);
    void setPrepared(PreparedTimelinePtr prepared) { bands_->setPrepared(std::move(prepared)); }
    void setBudget(Bytes budget, bool feasible);
    void setBudgetVisible(bool visible);
    void applyStyle(const Theme& theme);

    const TimelineGeometry& geometryOfPlot() const noexcept { return geometry_; }
    PhaseLayer& phases() { return *phases_; }
    MarksLayer& marks() { return *marks_; }
    ChangedOpLayer& changed() { return *changed_; }
    FailureLayer& failures() { return *failures_; }
    CursorLayer& cursorLayer() { return *cursor_; }
    BudgetHandle& handle() { return *handle_; }
    std::optional<double> pointerMs() const noexcept { return pointerMs_; } ///< time under the pointer

Q_SIGNALS:
    /// `step`: a zoom or pan begins, a new entry of the zoom stack; false: the drag goes on and replaces the entry.
    void rangeWanted(double beginMs, double endMs, bool step);
    void selecting(double beginMs, double endMs); ///< during the drag
    void selected(double beginMs, double endMs);
    void clicked(double ms);
    void hovered(double ms);
    void hoverLeft();
    void placed(); ///< the plot's size changed

protected:
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    bool viewportEvent(QEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    enum class Drag { none, press, select, pan, budget };
    void place();
    void updateAxes();
    void zoomAt(double x, double factor, bool step);
    void pan(double pixels, bool step);
    bool wheelBegins(); ///< whether this is the first event of a turn of the wheel
    bool nearBudgetLine(QPointF position) const;
    bool gesture(QEvent* event);

    PhaseLayer* phases_;
    BandsLayer* bands_;
    BudgetLayer* budget_;
    ChangedOpLayer* changed_;
    FailureLayer* failures_;
    MarksLayer* marks_;
    CursorLayer* cursor_;
    BudgetHandle* handle_;
    TimelineGeometry geometry_;
    AxisRange limits_;
    double shortestMs_ = 0;
    AxisRange ms_{0, 1};
    AxisRange bytes_{0, 1};
    Drag drag_ = Drag::none;
    QPointF pressed_;
    double pressedMs_ = 0;
    double lastX_ = 0;
    bool panBegins_ = false;
    bool plotIsStale_ = true; ///< the chart does not have the plot's current size yet
    QElapsedTimer sinceWheel_;
    std::optional<double> pointerMs_;
    bool budgetVisible_ = false;
};

/// The whole time axis as a small silhouette, with a window over the range that the timeline shows. Dragging the window
/// pans, dragging its edges zooms, and a click beside it moves it there.
class OverviewStrip : public QWidget
{
    Q_OBJECT
public:
    explicit OverviewStrip(QWidget* parent = nullptr);

    void setPlotEdges(double left, double right); ///< x of the plot's edges in own pixels, to align with the plot
    void setPrepared(PreparedTimelinePtr prepared);
    void setRange(AxisRange all, AxisRange shown, double shortest);
    void setSelection(std::optional<AxisRange> selection); ///< a selected range is marked at the bottom
    int columns() const; ///< number of pixel columns to prepare

    QSize sizeHint() const override;

Q_SIGNALS:
    /// `step`: a drag begins, a new entry of the zoom stack; false: the drag goes on and replaces the entry.
    void rangeWanted(double beginMs, double endMs, bool step);

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    enum class Grip { none, begin, end, window };
    Grip gripAt(double x) const;
    AxisMap map() const;
    void want(AxisRange range);
    void paintSilhouette(QPainter& painter, const std::vector<Bytes>& totals, const QColor& color) const;

    double left_ = 0;
    double right_ = 1;
    PreparedTimelinePtr prepared_;
    AxisRange all_;
    AxisRange shown_;
    std::optional<AxisRange> selection_;
    double shortest_ = 0;
    Grip grip_ = Grip::none;
    double grabbedAt_ = 0; ///< distance of the pointer from the window's begin, in ms
    bool begins_ = true; ///< the next range is a new entry of the zoom stack
};

} // namespace headroom
