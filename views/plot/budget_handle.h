// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/bytes_control.h"
#include "views/plot/timeline_paint.h"

namespace headroom {

/// The handle of the budget line in the right margin of the timeline: a tag that is dragged up and down. If the budget
/// is above the axis, the tag stays at the top edge, with an arrow.
class BudgetHandle : public BytesControl
{
    Q_OBJECT
public:
    explicit BudgetHandle(QWidget* parent);

    void setGeometryOf(const TimelineGeometry& geometry); ///< in the parent's pixels
    void setFeasible(bool feasible);
    bool feasible() const noexcept { return feasible_; }

    QSize sizeHint() const override;
    static constexpr int marginWidth = 92; ///< width of the margin right of the plot

Q_SIGNALS:
    void moved();

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void valueMoved() override;

private:
    double lineY() const; ///< y of the value, clamped to the axis

    TimelineGeometry geometry_;
    bool feasible_ = true;
    double grabbedAt_ = 0; ///< distance of the pointer from the line when the drag began
};

} // namespace headroom
