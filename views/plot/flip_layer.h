// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_items.h"

#include <vector>

namespace headroom {

/// An instant at which an op begins that another plan treats in another way.
struct TimelineFlip
{
    double ms = 0;
    bool again = false; ///< it runs a second time here; else for the first time

    bool operator==(const TimelineFlip&) const = default;
};

/// Those instants as triangles that stand on the time axis: hollow for the first time, filled for the second.
class FlipLayer : public TimelineLayer
{
    Q_OBJECT
public:
    explicit FlipLayer(QGraphicsItem* chart);

    void setFlips(std::vector<TimelineFlip> flips); ///< ms ascending
    const std::vector<TimelineFlip>& flips() const noexcept { return flips_; }

    QRectF boundingRect() const override;
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    std::vector<TimelineFlip> flips_;
};

/// The triangle, for the layer and for legends: filled, or hollow on `ground`.
void paintFlipSymbol(QPainter& painter, QPointF bottom, double size, const QColor& color, const QColor& ground);

} // namespace headroom
