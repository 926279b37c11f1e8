// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/lane.h"

#include <QObject>

#include <functional>
#include <optional>
#include <string>

namespace headroom {

/// Reads what the window opens, and lists what is alive at an instant of it. Runs beside the GUI thread, the latest
/// question wins, and the answer is one signal with an immutable value.
class Jobs : public QObject
{
    Q_OBJECT
public:
    explicit Jobs(StepEngineFactory makeEngine, QObject* parent = nullptr);
    ~Jobs() override;

    /// Of a memory snapshot a part can be wanted; where it is not, and the
    /// snapshot is large or of several devices, the answer is snapshotRead().
    void open(const QString& path, const TimeChoice& times = {}, const std::optional<ImportRequest>& part = {});
    void openPart(const ReadSnapshotPtr& snapshot, const ImportRequest& part); ///< of one that was read
    void changeTimes(const OpenStepPtr& step, const TimeChoice& times); ///< it is opened() once more
    void listLiveMemory(const OpenStepPtr& step, const TimelinePtr& timeline, std::size_t changeCount,
                        LiveBlocksTable::Of of = LiveBlocksTable::Of::modules);
    void forgetLiveMemory(); ///< of a step that is closed: its list will not come
    void forgetOpening();

Q_SIGNALS:
    void openProgressed(const QString& path, const QString& stage, double share); ///< share < 0: not known
    void snapshotRead(const headroom::ReadSnapshotPtr& snapshot); ///< which part of it is to be opened?
    void opened(const headroom::OpenStepPtr& step);
    void openFailed(const QString& path, const QString& reason);
    void liveMemoryListed(const headroom::LiveMemoryPtr& memory);

private:
    /// Runs something on the GUI thread, if nothing else is being opened by then.
    using Report = std::function<void(std::function<void()>)>;

    Report reportOpening();
    void readSnapshotFile(const QString& path, const std::optional<ImportRequest>& part, const Report& report,
                          const std::stop_token& stop);
    void makePart(const ReadSnapshotPtr& snapshot, const ImportRequest& part, const Report& report,
                  const std::stop_token& stop);
    SnapshotWatch watch(const QString& path, const QString& stage, const Report& report, const std::stop_token& stop);
    void makeStep(const QString& path, const StepTracePtr& trace, const TimeChoice& times, const Report& report);

    StepEngineFactory makeEngine_;
    quint64 openGeneration_ = 0;
    quint64 memoryGeneration_ = 0;
    Lane openLane_; ///< lanes last: their threads end before what they report to
    Lane memoryLane_;
};

} // namespace headroom

Q_DECLARE_METATYPE(headroom::ReadSnapshotPtr)
Q_DECLARE_METATYPE(headroom::OpenStepPtr)
Q_DECLARE_METATYPE(headroom::LiveMemoryPtr)
