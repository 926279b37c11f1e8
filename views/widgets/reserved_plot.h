// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// The highest bytes in each of equal intervals of the time axis, so that every spike is kept.
using BytesOverTime = std::vector<Bytes>;

/// Bytes that the caching allocator has reserved and in use, over the step.
struct ReservedCurves
{
    double durationMs = 0;
    std::size_t intervals = 0; ///< of the whole time axis; a curve that ends early has fewer
    BytesOverTime active; ///< bytes in use, simulated; shorter if memory ran out
    BytesOverTime reserved; ///< reserved bytes, simulated under the settings; shorter if memory ran out
    BytesOverTime recorded; ///< reserved bytes on the real device; empty: not recorded
    std::optional<double> failureMs; ///< time at which memory runs out
    Bytes capacity = 0; ///< memory of the GPU; 0: no limit
};

/// Plots ReservedCurves: bytes in use as an area, reserved bytes as a line, and the GPU's memory as a horizontal line.
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
