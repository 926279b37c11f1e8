// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/kept_picture.h"
#include "views/plot/plot_chart.h"
#include "views/plot/tradeoff_paint.h"

namespace headroom {

/// The chart of the trade-off plot: axes, curves and dots, and a current point. Arrow keys move the current point along
/// the curve, and Enter chooses it. What is the same for every plan is painted once.
class TradeOffChart : public PlotChart
{
    Q_OBJECT
public:
    explicit TradeOffChart(QWidget* parent);

    /// `empty` is the sentence shown if the picture has no curve.
    void setPicture(const TradeOffPicture& picture, double msPerGiB, const QString& empty);

    TradeOffPlane plane() const; ///< in pixels of the viewport

Q_SIGNALS:
    void pointChosen(double ratio);

protected:
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    void place();
    void updateAxes(const Theme& theme);
    QRectF planRect() const;
    void paintPlan(QPainter& painter, const Theme& theme) const;
    int cornerAt(QPointF position) const; ///< -1: none
    QString words(const TradeOffPoint& point) const;

    KeptPicture scenery_; ///< axes, grid, and the curves of other modules
    TradeOffPicture picture_;
    double msPerGiB_ = 0;
    QString empty_;
    int current_ = -1;
};

} // namespace headroom
