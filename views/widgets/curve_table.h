// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <QWidget>

#include <vector>

namespace headroom {

/// One point of a module's trade-off curve.
struct CurvePoint
{
    Bytes kept = 0;
    double recomputeMs = 0;
    bool chosen = false; ///< by the plan
};

/// The break points of a module's trade-off curve as lines of text, the chosen one with a dot in the accent.
class CurveTable : public QWidget
{
    Q_OBJECT
public:
    explicit CurveTable(QWidget* parent = nullptr);

    void setPoints(std::vector<CurvePoint> points);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<CurvePoint> points_;
};

} // namespace headroom
