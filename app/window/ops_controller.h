// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/task_runner.h"

#include <QObject>
#include <QString>
#include <QTimer>

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
    TaskRunner lane_; ///< the last member: its thread ends before the others are destroyed
};

class Session;

/// Plans the open step by op while the session is in that mode: the frontier once for a step, first with few points and
/// then in full; from it the plan for each budget; and, when the budget stops changing, the plan as lists of ops to
/// save. It runs on worker threads, the latest request wins, and results are set in the session.
class OpsController : public QObject
{
    Q_OBJECT
public:
    /// Numbers of planned fractions: a few first, for a quick first frontier, then all.
    static constexpr int fewPoints = 11;
    static constexpr int allPoints = 201;

    explicit OpsController(Session& session, QObject* parent = nullptr);

private:
    void ask();
    void askFrontier();
    void askPlan();
    void askPolicy();
    void forget(); ///< drops the requests for a closed step or a mode that was left

    /// Runs `function` on the GUI thread, unless the step has changed since.
    template <typename Function>
    void report(quint64 generation, Function function);

    Session& session_;
    QTimer rest_; ///< runs while the budget changes
    OpenStepPtr asked_; ///< the step whose frontier is being computed
    quint64 generation_ = 0; ///< number of the step
    quint64 question_ = 0;
    TaskRunner frontierRunner_; ///< lanes are the last members: their threads end before the others are destroyed
    TaskRunner planRunner_;
    TaskRunner policyRunner_;
};

} // namespace headroom
