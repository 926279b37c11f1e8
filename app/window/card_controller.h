// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "core/base/task_runner.h"

#include <QObject>

namespace headroom {

/// Runs the shown plan on the session's card, plans for the card, runs the plans of the frontier there, and finds why
/// the step takes its memory, for which the step without a plan is run. Each runs on a worker thread of its own, the
/// latest request wins, and results are set in the session. A verdict is part of the answer that was judged, so that
/// the session never shows that of an earlier one.
class CardController : public QObject
{
    Q_OBJECT
public:
    explicit CardController(Session& session, QObject* parent = nullptr);

    /// Sets the budget to the plan for the card as soon as it is known, unless the user moves it before. A step that
    /// was just opened gets it without an undo step.
    void follow();
    /// The budget stays as it is: it was asked for.
    void keepBudget() noexcept { follows_ = false; }

    bool busy() const noexcept { return judging_ || planning_ || sifting_; }

Q_SIGNALS:
    void causesFound(const headroom::CausesPtr& causes); ///< of the open step

private:
    void askCauses();
    void askVerdict();
    void askPlan();
    void askPoints();
    void accept(const PlanAnswerPtr& plan);
    void takeBudget(const PlanAnswer& plan);
    void forget(); ///< drops the requests for a step that is closed

    Session& session_;
    bool follows_ = false;
    bool judging_ = false;
    bool planning_ = false;
    bool sifting_ = false; ///< the plans of the frontier are being run
    quint64 verdicts_ = 0; ///< number of requests
    quint64 plans_ = 0;
    quint64 causes_ = 0;
    CardPoints asked_; ///< card and frontier whose points are run, or were
    TaskRunner verdictRunner_; ///< runners are the last members: their threads end before the others are destroyed
    TaskRunner planRunner_;
    TaskRunner pointsRunner_;
    TaskRunner causesRunner_;
};

} // namespace headroom
