// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/plot/tradeoff_curve.h"
#include "views/theme/theme.h"

#include <QPointF>

class QPainter;

namespace headroom {

/// Where the points of a trade-off picture are painted.
struct TradeOffPlane
{
    AxisMap kept; ///< bytes
    AxisMap ms;

    QPointF at(const TradeOffPoint& point) const { return {kept.toPixel(point.kept), ms.toPixel(point.ms)}; }
};

// Curves and dots of the window and of exported pictures.

/// A disc with a border of `width`, half of it inside of the radius; 0: none. Two discs: to stroke a circle takes
/// several times as long as to fill it.
void paintDot(QPainter& painter, QPointF at, double radius, const QColor& fill, const QColor& border,
              double width = 1.5);

/// What is the same for every plan: the curves of other modules and PyTorch's estimate.
void paintOtherCurves(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane,
                      const Theme& theme);

/// The selected module's curve, with the plan's choices and its exchange rate of time for memory.
void paintChoices(QPainter& painter, const TradeOffPicture& picture, double msPerGiB, const TradeOffPlane& plane,
                  const Theme& theme);

} // namespace headroom
