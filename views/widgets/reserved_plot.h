// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// Bytes in equal stretches of the time axis: the highest of each, so that no spike is lost.
using BytesOverTime = std::vector<Bytes>;

/// What the caching allocator has reserved and what of it is in use, over the step.
struct ReservedCurves
{
    double durationMs = 0;
    BytesOverTime active; ///< simulated
    BytesOverTime reserved; ///< simulated, under the settings; shorter when memory ran out
    BytesOverTime recorded; ///< reserved on the real device; empty: it was not recorded
    std::optional<double> failureMs; ///< memory runs out here
    Bytes capacity = 0; ///< of the card; 0: none was chosen
};

/// Draws them: what is in use as an area, what is reserved as a line over it, and the card's memory across.
class ReservedPlot : public QWidget
{
    Q_OBJECT
public:
    explicit ReservedPlot(QWidget* parent = nullptr);

    void setCurves(ReservedCurves curves);
    const ReservedCurves& curves() const noexcept { return curves_; }

    QSize sizeHint() const override { return {640, 200}; }
    QSize minimumSizeHint() const override { return {240, 90}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    Bytes top() const;
    void drawAxes(QPainter& painter, const QRectF& area) const;
    void drawCurves(QPainter& painter, const QRectF& area) const;
    void drawLegend(QPainter& painter, const QRectF& area) const;

    ReservedCurves curves_;
};

} // namespace headroom
