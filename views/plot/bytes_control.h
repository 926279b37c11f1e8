// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// One value in bytes that is dragged or moved by keys: what the slider of the budget bar and the handle in the
/// timeline have in common, with an accessible slider role and value. Subclasses paint it and say where a pixel is.
///
/// Left/Down and Right/Up one step, Ctrl with them the stop before or after, Page 16 steps, Home and End the two
/// landmarks; Escape while dragging restores.
class BytesControl : public QWidget
{
    Q_OBJECT
public:
    explicit BytesControl(QWidget* parent);

    Bytes value() const noexcept { return value_; }
    void setValue(Bytes value); ///< emits nothing; ignored while the user drags
    void setLimits(Bytes minimum, Bytes maximum);
    Bytes minimum() const noexcept { return minimum_; }
    Bytes maximum() const noexcept { return maximum_; }
    void setLandmarks(Bytes home, Bytes end); ///< least feasible, no checkpointing
    Bytes home() const noexcept { return home_; }
    Bytes end() const noexcept { return end_; }
    void setStops(std::vector<Bytes> stops); ///< break points, ascending
    const std::vector<Bytes>& stops() const noexcept { return stops_; }
    void setMagnets(std::vector<Bytes> magnets); ///< values that a drag snaps to, ascending

    Bytes step() const noexcept;
    Bytes page() const noexcept;
    void moveTo(Bytes value); ///< as a key does: clamped, then dragged() and committed()
    void moveToStop(int direction);
    bool dragging() const noexcept { return before_.has_value(); }

    void beginDrag();
    void dragTo(Bytes value, double bytesPerPixel, bool free); ///< rounded; `free`: without snapping
    void endDrag();
    void cancelDrag();

Q_SIGNALS:
    void dragged(headroom::Bytes value);
    void committed(headroom::Bytes value);

protected:
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    virtual void valueMoved() = 0; ///< place or repaint

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

} // namespace headroom
