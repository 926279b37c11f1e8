// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/frame_pacer.h"

#include <QCoreApplication>
#include <QEvent>
#include <QWidget>

#include <utility>

namespace headroom {

FramePacer::FramePacer(QWidget* window, std::function<bool()> incomplete)
    : QObject(window)
    , window_(window)
    , incomplete_(std::move(incomplete))
{
    timer_.setSingleShot(true);
    timer_.setTimerType(Qt::PreciseTimer);
    timer_.setInterval(patience);
    connect(&timer_, &QTimer::timeout, this, [this] {
        overdue_ = true;
        repaint();
    });
    window->installEventFilter(this);
}

void FramePacer::release()
{
    if (!timer_.isActive() || incomplete_())
        return;
    timer_.stop();
    repaint();
}

// The priority is low, so that the layout that the same change requested comes first.
void FramePacer::repaint()
{
    QCoreApplication::postEvent(window_, new QEvent(QEvent::UpdateRequest), Qt::LowEventPriority);
}

bool FramePacer::eventFilter(QObject* watched, QEvent* event)
{
    if (event->type() != QEvent::UpdateRequest)
        return QObject::eventFilter(watched, event);
    if (timer_.isActive())
        return true;
    if (std::exchange(overdue_, false) || !incomplete_())
        return false;
    timer_.start();
    return true;
}

} // namespace headroom
