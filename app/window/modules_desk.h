// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/lane.h"

#include <QObject>
#include <QTimer>

#include <chrono>
#include <memory>

namespace headroom {

class Session;

/// Plans the open step by modules: the plan for each budget while the session asks for that, first as well as a frame
/// allows and then proven; the frontier for each set of pins and each world size; what can be done to the module that
/// is selected. All of it runs beside the GUI thread, the latest question wins, and the session is told what comes of
/// it. Each kind of question has a lane of its own, so that a long frontier never delays a drag.
class ModulesDesk : public QObject
{
    Q_OBJECT
public:
    /// A solve that a newer question waits for may go on for so long before it is stopped: long enough that a drag
    /// shows plans on its way, short enough that its end is not late.
    static constexpr std::chrono::milliseconds patience{40};

    /// Between two reports of a frontier that grows.
    static constexpr std::chrono::milliseconds growthInterval{200};

    /// Search for a first answer, which is to be seen in the frame after the question; and for its proof.
    static constexpr double firstAnswerMs = 5;
    static constexpr double proofMs = 3000;

    static constexpr int frontierPoints = 60;

    explicit ModulesDesk(Session& session, QObject* parent = nullptr);
    ~ModulesDesk() override;

    /// The session's budget is the window's guess: if nothing fits it, the least that does takes its place. Until the
    /// user changes something.
    void setBudgetIsGuess(bool guess) noexcept { budgetIsGuess_ = guess; }

    bool solving() const noexcept { return askedGeneration_ > answeredGeneration_; }

Q_SIGNALS:
    void failed(const QString& reason); ///< there is no answer to the question as it stands
    void frontierFailed(const QString& reason);

private:
    class ClosestPlan;

    void ask();
    void askFrontier();
    void askWays();
    void forget(); ///< questions about a step that is closed: their answers will not come
    void prove(const OpenStepPtr& step, const PlanAnswer& first);
    void acceptAnswer(const OpenStepPtr& step, const PlanAnswerPtr& answer);
    void acceptFailure(quint64 generation, const Error& error);
    void show(const PlanAnswerPtr& answer);
    void stopStaleSolve();

    /// Runs on the GUI thread, later.
    template <typename Function>
    void report(Function function);

    Session& session_;
    std::shared_ptr<ClosestPlan> closest_; ///< used on the plan lane only
    QTimer staleTimer_;
    bool budgetIsGuess_ = false;
    quint64 askedGeneration_ = 0; ///< generations ascend; answers that are out of date may come in between
    quint64 answeredGeneration_ = 0;
    quint64 frontierGeneration_ = 0;
    quint64 waysGeneration_ = 0;
    Lane planLane_; ///< lanes last: their threads end before what they report to
    Lane proofLane_;
    Lane frontierLane_;
    Lane waysLane_;
};

} // namespace headroom
