// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_items.h"

#include <vector>

namespace headroom {

/// The begin of an op that another plan treats differently.
struct TimelineFlip
{
    double ms = 0;
    bool again = false; ///< the op runs a second time here; else the first time

    bool operator==(const TimelineFlip&) const = default;
};

/// Paints flips as triangles on the time axis: hollow for a first run, filled for a second.
class FlipLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setFlips(std::vector<TimelineFlip> flips); ///< ms ascending
    const std::vector<TimelineFlip>& flips() const noexcept { return flips_; }

    QRectF boundingRect() const override;
    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    std::vector<TimelineFlip> flips_;
};

/// Paints the triangle of the layer and of legends; `ground` fills the inside: the colour itself, or the background for
/// a hollow one.
void paintFlipSymbol(QPainter& painter, QPointF bottom, double size, const QColor& color, const QColor& ground);

} // namespace headroom
