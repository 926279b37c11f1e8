// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/plot/legend.h"
#include "views/theme/theme.h"

#include <QRectF>

class QPainter;

namespace headroom {

/// One axis of an exported plot: the range on it is in units of `unit`.
struct PictureAxis
{
    AxisMap map;
    double unit = 1; ///< of the data in one unit of the labels
    QString suffix; ///< of each label: " ms"
    QString title;
};

/// Grid, labels and titles. What the window leaves to Qt Charts, which needs widgets.
void paintAxes(QPainter& painter, const QRectF& plot, const PictureAxis& x, const PictureAxis& y, const Theme& theme);

/// Background, title line and legend of a picture; returns what is left for the plot with its labels.
QRectF paintFrame(QPainter& painter, QSize size, const QString& title, const Legend& legend, const Theme& theme);

/// The margin at both sides of a picture.
inline constexpr double pictureMargin = 20;

} // namespace headroom
