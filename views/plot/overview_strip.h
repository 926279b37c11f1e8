// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_preparer.h"

#include <QWidget>

namespace headroom {

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
    int columns() const; ///< number of pixel columns to prepare for it

    QSize sizeHint() const override;

Q_SIGNALS:
    /// `step`: a drag begins, a new entry of the zoom stack; false: it goes on and replaces the entry.
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
    double grabbedAt_ = 0; ///< distance of the pointer from the window's begin, in ms
    bool begins_ = true; ///< the next range is a new entry of the zoom stack
};

} // namespace headroom
