// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_preparer.h"

#include <QWidget>

namespace headroom {

/// The whole time axis as a small silhouette, with a window over the stretch that the timeline shows: drag the window
/// to pan, its edges to zoom, click beside it to go there.
class OverviewStrip : public QWidget
{
    Q_OBJECT
public:
    explicit OverviewStrip(QWidget* parent = nullptr);

    void setPlotEdges(double left, double right); ///< so that it lies below the plot, in own pixels
    void setPrepared(PreparedTimelinePtr prepared);
    void setRange(AxisRange all, AxisRange shown, double shortest);
    int columns() const; ///< that it wants to be prepared for

    QSize sizeHint() const override;

Q_SIGNALS:
    /// `step`: a drag begins; else it goes on, as one step of the zoom stack.
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
    double shortest_ = 0;
    Grip grip_ = Grip::none;
    double grabbedAt_ = 0; ///< ms from the window's begin
    bool begins_ = true; ///< the next range is a step of its own
};

} // namespace headroom
