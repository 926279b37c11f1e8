// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

#include <chrono>

class QWidget;

namespace headroom {

/// Merges the repaints of a window within one frame into one; the first after a pause is not delayed. Without it, a new
/// plan repaints the whole window several times: for each plot, for the layout, and for the timeline's image.
class FramePacer : public QObject
{
    Q_OBJECT
public:
    static constexpr std::chrono::milliseconds frame{10};

    explicit FramePacer(QWidget* window);

    bool pending() const { return timer_.isActive(); } ///< a repaint is pending

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QElapsedTimer sincePainted_;
    QTimer timer_;
};

} // namespace headroom
