// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/tradeoff_curve.h"

#include <QWidget>

#include <vector>

namespace headroom {

/// The break points of a module's trade-off curve as lines of text; the chosen one has a dot in the accent colour.
class CurveTable : public QWidget
{
    Q_OBJECT
public:
    explicit CurveTable(QWidget* parent = nullptr);

    void setPoints(std::vector<TradeOffPoint> points, int chosen); ///< `chosen`: index of the plan's choice; -1: none

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {160, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<TradeOffPoint> points_;
    int chosen_ = -1;
};

} // namespace headroom
