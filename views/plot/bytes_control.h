// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "views/plot/timeline_paint.h"

#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// Base of the budget bar's slider and the timeline's handle: a value in bytes that is dragged or moved by keys, with
/// an accessible slider role and value. Subclasses paint the control and map pixels to bytes.
///
/// Keys: Left/Down and Right/Up move a step, with Ctrl to the previous or next stop; Page Up/Down 16 steps; Home and
/// End go to the two landmarks; Escape cancels a drag.
class BytesControl : public QWidget
{
    Q_OBJECT
public:
    explicit BytesControl(QWidget* parent);

    Bytes value() const noexcept { return value_; }
    void setValue(Bytes value); ///< emits no signal; ignored during a drag
    void setLimits(Bytes minimum, Bytes maximum);
    Bytes minimum() const noexcept { return minimum_; }
    Bytes maximum() const noexcept { return maximum_; }
    void setLandmarks(Bytes home, Bytes end); ///< least feasible budget, and peak without checkpointing
    Bytes home() const noexcept { return home_; }
    Bytes end() const noexcept { return end_; }
    void setStops(std::vector<Bytes> stops); ///< break points, ascending
    const std::vector<Bytes>& stops() const noexcept { return stops_; }
    void setMagnets(std::vector<Bytes> magnets); ///< values that a drag snaps to, ascending

    Bytes step() const noexcept;
    Bytes page() const noexcept;
    void moveTo(Bytes value); ///< as by a key: clamps, then emits dragged() and committed()
    void moveToStop(int direction);
    bool dragging() const noexcept { return before_.has_value(); }

    void beginDrag();
    void dragTo(Bytes value, double bytesPerPixel, bool free); ///< rounds the value; `free`: does not snap
    void endDrag();
    void cancelDrag();

Q_SIGNALS:
    void dragged(headroom::Bytes value);
    void committed(headroom::Bytes value);

protected:
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    virtual void valueMoved() = 0; ///< called after a change: place or repaint

private:
    void assign(Bytes value);

    Bytes value_ = 0;
    Bytes minimum_ = 0;
    Bytes maximum_ = GiB;
    Bytes home_ = 0;
    Bytes end_ = GiB;
    std::vector<Bytes> stops_;
    std::vector<Bytes> magnets_;
    std::optional<Bytes> before_; ///< value when the drag began
};

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
