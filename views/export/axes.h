// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/plot/legend.h"
#include "views/theme/theme.h"

#include <QRectF>

class QPainter;

namespace headroom {

/// One axis of an exported plot.
struct PictureAxis
{
    AxisMap map;
    double unit = 1; ///< size of one unit of the labels, in units of the data
    QString suffix; ///< text after each label: " ms"
    QString title;
};

/// Paints grid, labels and titles of a plot. The window uses Qt Charts for this, which needs widgets.
void paintAxes(QPainter& painter, const QRectF& plot, const PictureAxis& x, const PictureAxis& y, const Theme& theme);

/// Paints background, title line and legend of a picture. Returns the rectangle left for the plot and its labels.
QRectF paintFrame(QPainter& painter, QSize size, const QString& title, const Legend& legend, const Theme& theme);

/// The margin at both sides of a picture.
inline constexpr double pictureMargin = 20;

} // namespace headroom
