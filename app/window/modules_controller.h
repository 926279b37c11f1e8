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

/// Plans the open step by modules. For each request of the session it computes a plan, first within one frame and then
/// a proven one; the frontier for each set of pins and each world size; and the ways of the selected module. It runs on
/// worker threads, the latest request wins, and results are set in the session. Each kind of request has a lane of its
/// own, so that a long frontier never delays a drag.
class ModulesController : public QObject
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

    explicit ModulesController(Session& session, QObject* parent = nullptr);

    /// Whether the session's budget is the window's own choice: then, until the user changes something, the least
    /// feasible budget replaces it if no plan fits.
    void setBudgetIsGuess(bool guess) noexcept { budgetIsGuess_ = guess; }

    bool solving() const noexcept { return askedGeneration_ > answeredGeneration_; }

Q_SIGNALS:
    void failed(const QString& reason); ///< the current request failed
    void frontierFailed(const QString& reason);

private:
    class ClosestPlan;

    void ask();
    void askFrontier();
    void askWays();
    void forget(); ///< drops the requests for a step that is closed
    void prove(const OpenStepPtr& step, const PlanAnswer& first);
    void acceptAnswer(const OpenStepPtr& step, const PlanAnswerPtr& answer);
    void acceptFailure(quint64 generation, const Error& error);
    void show(const PlanAnswerPtr& answer);
    void stopStaleSolve();

    Session& session_;
    std::shared_ptr<ClosestPlan> closest_; ///< used only on planLane_
    QTimer staleTimer_;
    bool budgetIsGuess_ = false;
    quint64 askedGeneration_ = 0; ///< generations ascend; outdated results may arrive
    quint64 answeredGeneration_ = 0;
    quint64 frontierGeneration_ = 0;
    quint64 waysGeneration_ = 0;
    TaskRunner planRunner_; ///< lanes are the last members: their threads end before the others are destroyed
    TaskRunner proofRunner_;
    TaskRunner frontierRunner_;
    TaskRunner waysRunner_;
};

} // namespace headroom
