// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/plot/tradeoff_curve.h"
#include "views/theme/theme.h"

#include <QPointF>

class QPainter;

namespace headroom {

/// The axes on which a trade-off picture is painted.
struct TradeOffPlane
{
    AxisMap kept; ///< bytes
    AxisMap ms;

    QPointF at(const TradeOffPoint& point) const { return {kept.toPixel(point.kept), ms.toPixel(point.ms)}; }
};

/// Paints a disc with a border of `width`, half of it inside of the radius; 0: no border. It fills two discs, since
/// stroking a circle takes several times as long.
void paintDot(QPainter& painter, QPointF at, double radius, const QColor& fill, const QColor& border,
              double width = 1.5);

/// Paints the parts that are the same for every plan: the curves of other modules, and PyTorch's estimate.
void paintOtherCurves(QPainter& painter, const TradeOffPicture& picture, const TradeOffPlane& plane,
                      const Theme& theme);

/// Paints the selected module's curve, the plan's choices, and the tangent of its price of memory.
void paintChoices(QPainter& painter, const TradeOffPicture& picture, double msPerGiB, const TradeOffPlane& plane,
                  const Theme& theme);

} // namespace headroom
