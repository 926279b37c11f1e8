// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QTimer>

#include <chrono>
#include <functional>

class QWidget;

namespace headroom {

/// Holds the repaints of a window while the window's new contents are incomplete, and then lets a single repaint
/// through. Without a FramePacer, a new plan repaints the whole window several times: for the budget, for each plot,
/// for the layout, and for the timeline's image.
class FramePacer : public QObject
{
    Q_OBJECT
public:
    /// The longest that a repaint is held.
    static constexpr std::chrono::milliseconds patience{10};

    /// `incomplete`: whether there is something to wait for.
    FramePacer(QWidget* window, std::function<bool()> incomplete);

    bool pending() const { return timer_.isActive(); } ///< a repaint is held
    void release(); ///< repaints, if a repaint is held and there is nothing more to wait for

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void repaint();

    QWidget* window_;
    std::function<bool()> incomplete_;
    QTimer timer_; ///< runs while a repaint is held
    bool overdue_ = false; ///< a repaint was held long enough
};

} // namespace headroom
