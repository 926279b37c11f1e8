// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include <mutex>
#include <utility>

namespace headroom {

/// The lock of Qt's event queue orders a call behind its callLater(), but ThreadSanitizer does not see it, because Qt
/// is not compiled for ThreadSanitizer. This lock says the same.
inline std::mutex callLaterMutex;

/// Calls the function on the thread of `object`, later: the way of a worker's result to the GUI thread. The call is
/// dropped if the object is destroyed before.
template <typename Function>
void callLater(QObject* object, Function function)
{
    const std::lock_guard lock(callLaterMutex);
    QMetaObject::invokeMethod(
        object,
        [function = std::move(function)] {
            callLaterMutex.lock();
            callLaterMutex.unlock();
            function();
        },
        Qt::QueuedConnection);
}

} // namespace headroom
