// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/frame_pacer.h"

#include <QCoreApplication>
#include <QEvent>
#include <QWidget>

namespace headroom {

FramePacer::FramePacer(QWidget* window)
    : QObject(window)
{
    timer_.setSingleShot(true);
    timer_.setTimerType(Qt::PreciseTimer);
    connect(&timer_, &QTimer::timeout, window,
            [window] { QCoreApplication::postEvent(window, new QEvent(QEvent::UpdateRequest), Qt::LowEventPriority); });
    window->installEventFilter(this);
}

bool FramePacer::eventFilter(QObject* watched, QEvent* event)
{
    if (event->type() != QEvent::UpdateRequest)
        return QObject::eventFilter(watched, event);
    if (timer_.isActive())
        return true;
    const std::chrono::milliseconds since(sincePainted_.isValid() ? sincePainted_.elapsed() : frame.count());
    if (since < frame) {
        timer_.start(frame - since);
        return true;
    }
    sincePainted_.start();
    return false;
}

} // namespace headroom
