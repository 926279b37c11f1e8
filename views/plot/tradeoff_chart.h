// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/tradeoff_curve.h"
#include "views/theme/theme.h"

#include <QChartView>
#include <QLineSeries>
#include <QScatterSeries>
#include <QValueAxis>

namespace headroom {

/// The chart of the trade-off plot: line and scatter series, and a current point. Arrow keys move the current point
/// along the curve, and Enter chooses it.
class TradeOffChart : public QChartView
{
    Q_OBJECT
public:
    explicit TradeOffChart(QWidget* parent);

    /// `empty` is the sentence shown if the picture has no curve.
    void setPicture(const TradeOffPicture& picture, double msPerGiB, const QString& empty);

Q_SIGNALS:
    void pointChosen(double ratio);
    void lookChanged();

protected:
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void changeEvent(QEvent* event) override;
    void drawForeground(QPainter* painter, const QRectF& rect) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    void place();
    void updateAxes(const Theme& theme);
    void addOthers(std::size_t wanted); ///< makes at least `wanted` series
    void fillSeries(double msPerGiB, const Theme& theme);
    void styleDots(QScatterSeries* series, double size, const QColor& fill, const QColor& border);
    QPointF pixelOf(const TradeOffPoint& point) const;
    int cornerAt(QPointF position) const; ///< -1: none
    QString words(const TradeOffPoint& point) const;

    QValueAxis* keptAxis_;
    QValueAxis* msAxis_;
    std::vector<QLineSeries*> others_; ///< series that are not needed now are empty
    QLineSeries* estimate_;
    QLineSeries* curve_;
    QLineSeries* tangent_;
    QScatterSeries* corners_;
    QScatterSeries* choices_;
    QScatterSeries* chosen_;
    TradeOffPicture picture_;
    QString empty_;
    int current_ = -1;
};

} // namespace headroom
