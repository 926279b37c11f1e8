// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/flip_layer.h"

#include <QPainter>

#include <array>

namespace headroom {
namespace {

constexpr double symbolSize = 8;
constexpr double halo = 4; // background around a symbol: bands may be as dark as the accent
constexpr double flipDistance = 4; // pixels; triangles of one kind with less distance are painted as one

} // namespace

void paintFlipSymbol(QPainter& painter, QPointF bottom, double size, const QColor& color, const QColor& ground)
{
    painter.setPen(QPen(color, 1.2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter.setBrush(ground);
    painter.drawPolygon(
        QPolygonF{bottom + QPointF(-size / 2, 0), bottom + QPointF(size / 2, 0), bottom + QPointF(0, -size * 0.9)});
}

void FlipLayer::setFlips(std::vector<TimelineFlip> flips)
{
    if (flips == flips_)
        return;
    flips_ = std::move(flips);
    update();
}

QRectF FlipLayer::boundingRect() const
{
    const QRectF& plot = geometry().plot;
    const double size = symbolSize + halo;
    return {plot.left() - size, plot.bottom() - size - 2, plot.width() + 2 * size, size + 4};
}

void FlipLayer::paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*)
{
    painter->setRenderHint(QPainter::Antialiasing);
    std::array<double, 2> last{-1e9, -1e9}; // by kind
    const QRectF& plot = geometry().plot;
    for (const TimelineFlip& flip : flips_) {
        const double x = geometry().ms.toPixel(flip.ms);
        double& before = last[flip.again ? 1 : 0];
        if (x < plot.left() || x > plot.right() || x - before < flipDistance)
            continue;
        before = x;
        paintFlipSymbol(*painter, {x, plot.bottom()}, symbolSize + halo, theme().card, theme().card);
        paintFlipSymbol(*painter, {x, plot.bottom()}, symbolSize, theme().accent,
                        flip.again ? theme().accent : theme().card);
    }
}

} // namespace headroom
