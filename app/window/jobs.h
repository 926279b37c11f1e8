// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "core/base/task_runner.h"
#include "core/profile/import.h"

#include <QObject>

#include <functional>
#include <optional>

namespace headroom {

/// Background jobs of the window: reads files, lists the live blocks at an instant, and summarises a range. Jobs run on
/// worker threads, and the latest request wins. The result is a signal with an immutable value.
class Jobs : public QObject
{
    Q_OBJECT
public:
    explicit Jobs(StepEngineFactory makeEngine, QObject* parent = nullptr);

    /// Reads a file. `part` is a part of a memory snapshot; without `part`, the result for a large snapshot, or for a
    /// snapshot of several devices, is snapshotRead(). `profile` is the step of a trace. `card` is a GPU: the step gets
    /// this GPU's times if valid there.
    void open(const QString& path, const TimeChoice& times = {}, const std::optional<ImportRequest>& part = {},
              const ProfileRequest& profile = {}, const std::string& card = {});
    void openPart(const ReadSnapshotPtr& snapshot, const ImportRequest& part); ///< opens a part of the snapshot
    void changeTimes(const OpenStepPtr& step, const TimeChoice& times); ///< the result is opened(), again
    void listLiveMemory(const LiveMemoryRequest& request);
    void summarise(const OpenStepPtr& step, const TimelinePtr& timeline, TimeRange range);
    void forgetRange(); ///< drops a pending summary
    void forgetLiveMemory(); ///< drops a pending list and summary, since the step is closed
    void forgetOpening();

Q_SIGNALS:
    void openProgressed(const QString& path, const QString& stage, double share); ///< share < 0: not known
    void snapshotRead(const headroom::ReadSnapshotPtr& snapshot); ///< the user must choose a part of the snapshot
    void opened(const headroom::OpenStepPtr& step);
    void openFailed(const QString& path, const QString& reason);
    void liveMemoryListed(const headroom::LiveBlocksAtPtr& memory);
    void rangeSummarised(const headroom::StepRangePtr& range);

private:
    /// Runs a function on the GUI thread, unless a newer file is being opened by then.
    using Report = std::function<void(std::function<void()>)>;

    Report reportOpening();
    void readSnapshotFile(const QString& path, const std::optional<ImportRequest>& part, const Report& report,
                          const std::stop_token& stop);
    void makePart(const ReadSnapshotPtr& snapshot, const ImportRequest& part, const Report& report,
                  const std::stop_token& stop);
    SnapshotWatch watch(const QString& path, const QString& stage, const Report& report, const std::stop_token& stop);
    void makeStep(const QString& path, const StepTracePtr& trace, const TimeChoice& times,
                  const std::optional<FileStamp>& stamp, const Report& report);

    StepEngineFactory makeEngine_;
    quint64 openGeneration_ = 0;
    quint64 memoryGeneration_ = 0;
    quint64 rangeGeneration_ = 0;
    TaskRunner openRunner_; ///< the last members: the threads end before the other members
    TaskRunner memoryRunner_;
    TaskRunner rangeRunner_;
};

} // namespace headroom

Q_DECLARE_METATYPE(headroom::ReadSnapshotPtr)
Q_DECLARE_METATYPE(headroom::OpenStepPtr)
Q_DECLARE_METATYPE(headroom::LiveBlocksAtPtr)
Q_DECLARE_METATYPE(headroom::StepRangePtr)
