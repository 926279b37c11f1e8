// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"
#include "app/recording/recording.h"
#include "core/trace/step_trace.h"
#include "views/widgets/start_page.h"

#include <QObject>
#include <QPointer>

#include <functional>
#include <optional>

namespace headroom {

class RecordingBar;
class RecordDialog;
class Settings;

/// Records models and scripts, a single recording at a time: opens the dialog with options, stores the options, runs
/// the recording and shows progress in the bar.
class RecordController : public QObject
{
    Q_OBJECT
public:
    struct Paths
    {
        QString recorder; ///< the program
        QString folder; ///< folder of recordings
        QString sample; ///< a recorded step that opens instead of a demo if there is no recorder
    };
    RecordController(Paths places, Settings& settings, RecordingBar& bar, QWidget* window);

    void ask(const QString& path); ///< opens the dialog for the model or script at `path`
    /// Opens the dialog for the step's script and another GPU. If the step file, or the folder named there, brings a
    /// Python that the user has not chosen before, the user is asked first: the dialog starts this Python to ask for
    /// the installed packages.
    void askAgain(const StepTrace& trace, const std::string& card);
    /// Records the step's script again at once, as on a larger card; asks first if askAgain() would.
    void recordLarger(const StepTrace& trace);
    /// Calls `run` with the Python that the step names for its script, after the user's consent if askAgain() would ask
    /// for it; without consent `refuse` is called.
    void withPython(const StepTrace& trace, const std::function<void(const QString& python)>& run,
                    const std::function<void()>& refuse);
    void recordDemo(const DemoModel& demo);
    void start(const RecordRequest& request);
    bool hasOutput() const; ///< the last recording printed something
    void showOutput(const QString& remark); ///< of the last recording, in the bar

    Recording& recording() noexcept { return recording_; }
    RecordDialog* dialog() const; ///< null: no dialog is open
    const QString& recorder() const noexcept { return paths_.recorder; }
    /// Path of the step file of the first recording named `name`.
    QString destination(const QString& name) const;

Q_SIGNALS:
    void busyChanged(bool busy);
    void recorded(const QString& path, const QString& remark);
    void refused(const QString& reason); ///< nothing was started
    void cancelled();

private:
    void wire();
    bool refuseWhileBusy();
    bool refuseUnreadable(const QString& path);
    RecordRequest requestFor(const QString& path) const;
    std::optional<RecordRequest> requestAgain(const StepTrace& trace); ///< nullopt: refused
    bool knows(const QString& interpreter, const QString& script) const;
    /// Calls `use` if the user agrees that the script's Python is started, and else `refuse`, which the button
    /// `refusal` names.
    void askForConsent(const QString& script, const QString& python, const QString& refusal,
                       const std::function<void()>& use, const std::function<void()>& refuse);
    void askForConsent(const RecordRequest& request); ///< opens the dialog afterwards
    void openDialog(const RecordRequest& request);
    void run(const RecordCommand& command, const QString& name);

    const Paths paths_;
    Settings& settings_;
    RecordingBar& bar_;
    QWidget* window_;
    Recording recording_;
    QPointer<RecordDialog> dialog_;
    std::optional<RecordRequest> request_; ///< request of the recording; nullopt: a demo, without options
};

} // namespace headroom
