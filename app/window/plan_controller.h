// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/task_runner.h"

#include <QObject>
#include <QTimer>

#include <chrono>
#include <memory>

namespace headroom {

class Session;

/// Plans the open step by modules or by op, as the session's mode says. Each request of the session goes to a worker
/// thread and comes back as one PlanAnswer, which is set in the session; the latest request wins. Each kind of request
/// has a runner of its own, so that a long frontier never delays a drag.
///
/// By modules a request is solved twice: within one frame, and until the plan is proven. The frontier is computed for
/// each set of pins, each world size and each choice of offload, and the options for the selected module. By op the
/// frontier is computed once for a step, with few points and then in full, and each budget has its plan there. When the
/// budget rests, the plan is made into lists of ops to save; if the request allows offload, results of some of these
/// ops go to the host.
class PlanController : public QObject
{
    Q_OBJECT
public:
    /// A solve is stopped after this time if a newer request waits: long enough to show plans during a drag, short
    /// enough that the last one is not late.
    static constexpr std::chrono::milliseconds patience{40};

    /// Time between two reports of a growing frontier.
    static constexpr std::chrono::milliseconds growthInterval{200};

    /// Time limits in ms: of the first plan, which is shown in the next frame, and of the proven one.
    static constexpr double firstAnswerMs = 5;
    static constexpr double proofMs = 3000;

    static constexpr int frontierPoints = 60;
    static constexpr int offloadFrontierPoints = 24; ///< with offload a point takes up to a second
    static constexpr int hostedFrontierPoints = 12; ///< of budgets for which a plan by op is known

    /// Numbers of fractions that are planned by op: a few first, for a quick first frontier, then all.
    static constexpr int fewFractions = 11;
    static constexpr int allFractions = 201;

    explicit PlanController(Session& session, QObject* parent = nullptr);

    /// Whether the session's budget is the window's own choice: then, until the user changes something, the least
    /// feasible budget replaces it if no plan by modules fits.
    void setBudgetIsGuess(bool guess) noexcept { budgetIsGuess_ = guess; }

    bool solving() const noexcept { return askedGeneration_ > answeredGeneration_; }

Q_SIGNALS:
    void failed(const QString& reason); ///< the current request failed
    void frontierFailed(const QString& reason);

private:
    class ClosestPlan;

    void ask();
    void askModules();
    void askOps();
    void prove(const OpenStepPtr& step, const PlanRequest& request, quint64 generation);
    void askFrontier();
    void askOpsFrontier();
    void askOpsPolicy();
    void askHostedFrontier();
    void requestOptions();
    void forget(); ///< drops the requests for a step that is closed
    void forgetOps(); ///< drops the requests by op, for a closed step, a mode that was left, or another choice

    /// Sets the answer in the session, unless a newer one was there, or the mode changed meanwhile.
    void accept(quint64 generation, const PlanAnswerPtr& answer);
    void acceptFailure(quint64 generation, const Error& error);
    void show(const PlanAnswerPtr& answer);
    void stopStaleSolve();
    /// Runs `function` on the GUI thread, unless forgetOps() was called since.
    template <typename Function>
    void reportOps(quint64 generation, Function function);

    Session& session_;
    std::shared_ptr<ClosestPlan> closest_; ///< used only on planRunner_
    QTimer staleTimer_;
    QTimer rest_; ///< runs while the budget of plans by op changes
    OpenStepPtr opsAsked_; ///< the step whose frontier by op is being computed
    OpsFrontierPtr hostedOf_; ///< the frontier that hostedRunner_ was asked for; null: none
    bool budgetIsGuess_ = false;
    quint64 askedGeneration_ = 0; ///< generations ascend; outdated results may arrive
    quint64 answeredGeneration_ = 0;
    quint64 frontierGeneration_ = 0;
    quint64 opsGeneration_ = 0; ///< number of forgetOps()
    quint64 optionsGeneration_ = 0;
    quint64 hostedGeneration_ = 0;
    TaskRunner planRunner_; ///< runners are the last members: their threads end before the others are destroyed
    TaskRunner proofRunner_;
    TaskRunner frontierRunner_;
    TaskRunner opsRunner_; ///< plans by op
    TaskRunner opsFrontierRunner_;
    TaskRunner policyRunner_;
    TaskRunner hostedRunner_;
    TaskRunner optionsRunner_;
};

} // namespace headroom
