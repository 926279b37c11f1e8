// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>

#include <chrono>

class QWidget;

namespace headroom {

/// Merges repaints of a window. An answer of the planner changes the tree, two plots, the inspector and the budget bar;
/// each plot asks for a repaint of the whole window of its own, the layout for another, and the timeline for one more
/// when its picture is ready. Within one frame of a screen they become one; the first after a rest is not delayed.
class FramePacer : public QObject
{
    Q_OBJECT
public:
    static constexpr std::chrono::milliseconds frame{10};

    explicit FramePacer(QWidget* window);

    bool pending() const { return timer_.isActive(); } ///< something is still to be painted

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QElapsedTimer sincePainted_;
    QTimer timer_;
};

} // namespace headroom
