// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include <utility>

namespace headroom {

/// Calls the function on the thread of `object`, later: the way of a worker's result to the GUI thread. The call is
/// dropped if the object is destroyed before.
template <typename Function>
void callLater(QObject* object, Function function)
{
    QMetaObject::invokeMethod(object, std::move(function), Qt::QueuedConnection);
}

} // namespace headroom
