// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/jobs.h"
#include "app/window/opener.h"
#include "app/window/session.h"
#include "app/window/settings.h"
#include "app/window/theme_switch.h"
#include "views/widgets/start_page.h"

#include <QMainWindow>

#include <optional>

class QStackedWidget;

namespace headroom {

class Actions;
class CardController;
class DocumentPage;
class Exporter;
class FramePacer;
class ManualController;
class MeasuredController;
class MessageBar;
class OpsChoiceController;
class PlanController;
class RecordController;
class RecordingBar;
class StepWatch;
class VerifyController;
class WhatIf;

/// The main window: the start page or the open step, with the message bar above. Creates and connects all parts.
class MainWindow : public QMainWindow
{
    Q_OBJECT
public:
    struct Parts
    {
        StepEngineFactory makeEngine;
        QString recorder; ///< path of torch-headroom-record
        QString recordingsFolder; ///< folder of recordings of demo models
        QString sample = {}; ///< a recorded step that opens instead of a demo if there is no recorder
    };

    MainWindow(Parts parts, Settings& settings, QWidget* parent = nullptr);
    ~MainWindow() override;

    /// Opens a file. The open step stays until the new step is read, and if reading fails. `budget` and `select` (fqn)
    /// replace the window's own choice. For a model (.pt2, TorchScript .pt) or a training script (.py) a dialog opens
    /// that records a step first.
    void openFile(const QString& path, std::optional<Bytes> budget = {}, const QString& select = {},
                  PlanMode mode = PlanMode::modules);
    /// Sets the op times of steps that are opened from now on, as for withTimes().
    void useTimes(const TimeChoice& times) { opener_->useTimes(times); }
    /// Sets the part of the memory snapshot that is opened next; without a part, a dialog asks if there is a choice.
    void usePart(const std::optional<ImportRequest>& part, const ProfileRequest& profile = {})
    {
        opener_->usePart(part, profile);
    }
    /// Compares a measured step or a memory snapshot with the open step, or with the step that is being opened.
    void compareWith(const QString& path);
    bool closeStep(); ///< false: the user wants to export the plan first
    void fitScreen(); ///< makes the window no larger than the screen

    Session& session() noexcept { return session_; }
    Jobs& jobs() noexcept { return jobs_; }
    PlanController& planController() noexcept { return *planController_; }
    CardController& cardController() noexcept { return *cardController_; }
    ThemeSwitch& theme() noexcept { return theme_; }
    Actions& actions() noexcept { return *actions_; }
    DocumentPage& page() noexcept { return *page_; }
    StartPage& startPage() noexcept { return *start_; }
    MessageBar& messages() noexcept { return *messages_; }
    Exporter& exporter() noexcept { return *exporter_; }
    RecordController& recordController() noexcept { return *recordController_; }
    MeasuredController& measuredController() noexcept { return *measuredController_; }
    WhatIf& whatIf() noexcept { return *whatIf_; }
    const FramePacer& frames() const noexcept { return *frames_; }
    OpsChoiceController& opsChoiceController() noexcept { return *opsChoiceController_; }
    RecordingBar& recordingBar() noexcept { return *recordingBar_; }
    ManualController& manualController() noexcept { return *manualController_; }
    void askBeforeClosing(bool ask) noexcept { askBeforeClosing_ = ask; }

Q_SIGNALS:
    void openFailed(const QString& reason);

protected:
    void closeEvent(QCloseEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void layOut();
    void wireSession();
    void wireActions();
    void wireControllers();
    void wireFit(const QString& folder);
    void wireMessages();

    void refusePlan(const QString& reason);
    void askForMeasured();
    void showPage();
    void showTitle();
    bool planIsComing() const; ///< the window does not show the plan for the budget yet
    void showAbout();
    void sayChanged(const QString& path);
    void sayGone(const QString& path);
    bool takeDrag(QDropEvent& event);
    bool mayCloseStep();

    Settings& settings_;
    ThemeSwitch theme_;
    FramePacer* frames_;
    Session session_;
    Jobs jobs_;
    Actions* actions_;
    MessageBar* messages_;
    RecordingBar* recordingBar_;
    RecordController* recordController_;
    QStackedWidget* pages_;
    StartPage* start_;
    DocumentPage* page_;
    WhatIf* whatIf_;
    VerifyController* verifyController_;
    CardController* cardController_;
    PlanController* planController_;
    MeasuredController* measuredController_;
    OpsChoiceController* opsChoiceController_;
    Exporter* exporter_;
    Opener* opener_;
    StepWatch* stepWatch_;
    ManualController* manualController_;
    QString measuredFile_; ///< compared as soon as the step is open
    bool askBeforeClosing_ = true;
    bool takesDrag_ = false; ///< what is dragged over the window is a file
};

} // namespace headroom
