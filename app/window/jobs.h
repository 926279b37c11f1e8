// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/lane.h"

#include <QObject>
#include <QTimer>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace headroom {

/// The bridge from core to the window: everything that takes longer than a frame runs here, beside the GUI thread, and
/// comes back as one signal with an immutable value. Each kind of question has a lane of its own in which the latest
/// wins, so that a long frontier never delays a drag.
class Jobs : public QObject
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

    explicit Jobs(StepEngineFactory makeEngine, QObject* parent = nullptr);
    ~Jobs() override;

    /// `calibration`: as withTimes() takes it. Of a memory snapshot a part can be wanted; where it is not, and the
    /// snapshot is large or of several devices, the answer is snapshotRead().
    void open(const QString& path, const std::string& calibration = "auto",
              const std::optional<ImportRequest>& part = {});
    void openPart(const ReadSnapshotPtr& snapshot, const ImportRequest& part); ///< of one that was read
    void changeTimes(const OpenStepPtr& step, const std::string& calibration); ///< it is opened() once more
    void solve(const OpenStepPtr& step, const PlanRequest& request);
    void computeFrontier(const OpenStepPtr& step, const PlanRequest& request, int points);
    void listLiveMemory(const OpenStepPtr& step, const TimelinePtr& timeline, std::size_t changeCount);
    void findWays(const OpenStepPtr& step, ModuleId module);
    void forgetPlans(); ///< drops questions about a step that is closed; their answers will not come
    void forgetOpening();

    bool solving() const noexcept { return askedGeneration_ > answeredGeneration_; }

Q_SIGNALS:
    void openProgressed(const QString& path, const QString& stage, double share); ///< share < 0: not known
    void snapshotRead(const headroom::ReadSnapshotPtr& snapshot); ///< which part of it is to be opened?
    void opened(const headroom::OpenStepPtr& step);
    void openFailed(const QString& path, const QString& reason);
    /// Generations ascend, and out of date ones may come in between. A plan that is not proven is followed by another
    /// of the same generation, unless a newer question comes first.
    void planned(const headroom::PlanAnswerPtr& answer);
    void planFailed(const QString& reason);
    void frontierGrew(const headroom::FrontierPtr& frontier); ///< there is more to come
    void frontierComputed(const headroom::FrontierPtr& frontier);
    void frontierFailed(const QString& reason);
    void liveMemoryListed(const headroom::LiveMemoryPtr& memory);
    void waysFound(const headroom::WaysOfModulePtr& ways);

private:
    class ClosestPlan;
    /// Runs something on the GUI thread, if nothing else is being opened by then.
    using Report = std::function<void(std::function<void()>)>;

    Report reportOpening();
    void readSnapshotFile(const QString& path, const std::optional<ImportRequest>& part, const Report& report,
                          const std::stop_token& stop);
    void makePart(const ReadSnapshotPtr& snapshot, const ImportRequest& part, const Report& report,
                  const std::stop_token& stop);
    SnapshotWatch watch(const QString& path, const QString& stage, const Report& report, const std::stop_token& stop);
    void makeStep(const QString& path, const StepTracePtr& trace, const std::string& calibration, const Report& report);

    void acceptAnswer(const OpenStepPtr& step, const PlanAnswerPtr& answer);
    void prove(const OpenStepPtr& step, const PlanAnswer& first);
    void acceptFailure(quint64 generation, const Error& error);
    void stopStaleSolve();

    StepEngineFactory makeEngine_;
    std::shared_ptr<ClosestPlan> closest_; ///< used on the plan lane only
    QTimer staleTimer_;
    quint64 askedGeneration_ = 0;
    quint64 answeredGeneration_ = 0;
    quint64 openGeneration_ = 0;
    quint64 frontierGeneration_ = 0;
    quint64 memoryGeneration_ = 0;
    quint64 waysGeneration_ = 0;
    Lane openLane_; ///< lanes last: their threads end before what they report to
    Lane planLane_;
    Lane proofLane_;
    Lane frontierLane_;
    Lane memoryLane_;
    Lane waysLane_;
};

} // namespace headroom

Q_DECLARE_METATYPE(headroom::ReadSnapshotPtr)
Q_DECLARE_METATYPE(headroom::OpenStepPtr)
Q_DECLARE_METATYPE(headroom::PlanAnswerPtr)
Q_DECLARE_METATYPE(headroom::FrontierPtr)
Q_DECLARE_METATYPE(headroom::LiveMemoryPtr)
Q_DECLARE_METATYPE(headroom::WaysOfModulePtr)
