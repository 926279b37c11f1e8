// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/lane.h"

#include <QObject>
#include <QTimer>

#include <optional>

namespace headroom {

class Session;

/// Plans the open step op by op while the session asks for that: the frontier once for a step, roughly and then in
/// full; from it the plan for each budget; and, when the budget rests, the plan as per-op save lists. All of it runs
/// beside the GUI thread, the latest question wins, and the session is told what comes of it.
class OpsDesk : public QObject
{
    Q_OBJECT
public:
    /// So many fractions: a few at once, so that there is something to drag, then all.
    static constexpr int fewPoints = 11;
    static constexpr int allPoints = 201;

    explicit OpsDesk(Session& session, QObject* parent = nullptr);
    ~OpsDesk() override;

private:
    void ask();
    void askFrontier();
    void askPlan();
    void askPolicy();
    void forget(); ///< questions about a step that is closed, and about a mode that was left

    /// Runs on the GUI thread unless the step changed since.
    template <typename Function>
    void report(quint64 generation, Function function);

    Session& session_;
    QTimer rest_; ///< while the budget moves
    OpenStepPtr asked_; ///< the step whose frontier is on its way
    quint64 generation_ = 0; ///< of steps
    quint64 question_ = 0;
    Lane frontierLane_; ///< lanes last: their threads end before what they report to
    Lane planLane_;
    Lane policyLane_;
};

} // namespace headroom
