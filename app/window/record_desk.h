// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"
#include "app/recording/recording.h"
#include "core/trace/step_trace.h"
#include "views/widgets/start_page.h"

#include <QObject>
#include <QPointer>

#include <optional>

namespace headroom {

class RecordingBar;
class RecordSheet;
class Settings;

/// Where models and scripts become steps: asks how in a sheet, remembers the answer, runs the recording and shows it in
/// the bar. One at a time.
class RecordDesk : public QObject
{
    Q_OBJECT
public:
    struct Places
    {
        QString recorder; ///< the program
        QString folder; ///< of recordings
        QString sample; ///< a recorded step, in place of a demo while there is no recorder
    };
    RecordDesk(Places places, Settings& settings, RecordingBar& bar, QWidget* window);

    void ask(const QString& path); ///< opens the sheet for a model or a script
    void askAgain(const StepTrace& trace, const std::string& card); ///< for the script of a step, on another card
    void recordDemo(const DemoModel& demo);
    void start(const RecordRequest& request);

    Recording& recording() noexcept { return recording_; }
    RecordSheet* sheet() const; ///< null: none is open
    const QString& recorder() const noexcept { return places_.recorder; }
    QString destination(const QString& name) const; ///< of a recording of that name

Q_SIGNALS:
    void busyChanged(bool busy);
    void recorded(const QString& path, const QString& remark);
    void refused(const QString& reason); ///< nothing was started
    void cancelled();

private:
    void wire();
    bool refuseWhileBusy();
    RecordRequest requestFor(const QString& path) const;
    void openSheet(const RecordRequest& request);
    void run(const RecordCommand& command, const QString& name);

    const Places places_;
    Settings& settings_;
    RecordingBar& bar_;
    QWidget* window_;
    Recording recording_;
    QPointer<RecordSheet> sheet_;
    std::optional<RecordRequest> request_; ///< of the recording; nullopt: a demo, which has no options
};

} // namespace headroom
