// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/task_runner.h"

#include <QObject>
#include <QString>

namespace headroom {

class Session;
class SolverChoice;

/// Sets the user's choice of solver and op cost in the session. For measured times it opens a file dialog and reads the
/// file on a worker thread.
class OpsChoiceController : public QObject
{
    Q_OBJECT
public:
    OpsChoiceController(Session& session, SolverChoice& view, QObject* parent = nullptr);

    /// Plans by the times in this file; emits refused() if it has none.
    void takeTimes(const QString& path);

Q_SIGNALS:
    void refused(const QString& reason);

private:
    void show();
    void askForTimes();

    Session& session_;
    SolverChoice& view_;
    TaskRunner runner_; ///< the last member: the runner's thread ends before the others are destroyed
};

} // namespace headroom
