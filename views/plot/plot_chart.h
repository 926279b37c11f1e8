// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/theme/theme.h"

#include <QChartView>
#include <QValueAxis>

namespace headroom {

/// Base of the plots that Qt Charts lays out: a chart without frame, legend and background, with a horizontal and a
/// vertical axis. Screen readers find a chart with name and description, not a scroll area of graphics items.
class PlotChart : public QChartView
{
    Q_OBJECT
public:
    PlotChart(const QString& accessibleName, QWidget* parent);

Q_SIGNALS:
    void themeChanged(); ///< another theme, to be passed to setAxisStyle()

protected:
    void changeEvent(QEvent* event) override;

    QValueAxis& xAxis() const noexcept { return *xAxis_; }
    QValueAxis& yAxis() const noexcept { return *yAxis_; }
    void setAxisStyle(const Theme& theme);
    void setPlotArea(const QRectF& plot); ///< moves the axes, too

    /// Sets the range and the labels at `ticks`; `unit` is the text after each number.
    static void setAxis(QValueAxis& axis, AxisRange range, const Ticks& ticks, const QString& unit = {});

private:
    QValueAxis* xAxis_;
    QValueAxis* yAxis_;
};

} // namespace headroom
