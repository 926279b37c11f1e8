// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/jobs.h"

#include <QObject>
#include <QString>

#include <functional>
#include <optional>
#include <string>

namespace headroom {

class Actions;
class MessageBar;
class RecordController;
class Session;
class Settings;
class StartPage;
class WhatIf;

/// Opens files: shows the dialogs, reads a step or starts its recording, and replaces the session's open step. Keeps
/// the list of recent files, and shows progress and errors in the message bar.
class Opener : public QObject
{
    Q_OBJECT
public:
    /// The objects that the Opener uses.
    struct Parts
    {
        Session& session;
        Jobs& jobs;
        Settings& settings;
        Actions& actions;
        MessageBar& messages;
        StartPage& start;
        RecordController& records;
        WhatIf& whatIf;
        std::function<bool()> mayCloseStep; ///< whether the open step may be closed
        QWidget* window = nullptr; ///< parent of dialogs
    };
    explicit Opener(Parts parts);

    /// Settings for an opened step that replace the window's own choice.
    struct Wanted
    {
        std::optional<Bytes> budget;
        QString select;
        QString remark; ///< text to show with the step
        PlanMode mode = PlanMode::modules;
        QString inPlace; ///< reason for replacing the open step: "batch 64"; empty: a new document
        std::string card = {}; ///< GPU of the open step's times, if another GPU is chosen
        bool isRecording = false; ///< the file was recorded now
        std::optional<std::string> chosenCard = {}; ///< CardChoice::card of the step that replaces the open step
    };
    void openFile(const QString& path, const Wanted& wanted);
    /// Sets the op times of steps that are opened from now on, as for withTimes().
    void useTimes(const TimeChoice& times) { times_ = times; }
    /// Sets the part of the memory snapshot that is opened next; without a part, a dialog asks if there is a choice.
    void usePart(const std::optional<ImportRequest>& part, const ProfileRequest& profile = {})
    {
        part_ = part;
        profile_ = profile;
    }
    /// Replaces the open step by the same step with other times; a single undo step.
    void changeTimes(const TimeChoice& times);
    /// Makes `card` (CardChoice::card) the card of the open step, with the card's times if the recorded kernels run
    /// there; a single undo step.
    void chooseCard(const std::string& card);
    /// Records the open step's script, which ended out of memory, again as on a larger card.
    void recordLarger();
    /// Reads the open step's file again; a single undo step. Budget, pins and selection stay.
    void reload();
    /// Opens the line of a frame of the open step in the user's editor. Invalid: says that there is no line.
    void openLine(FrameId frame);
    void chooseEditor(); ///< asks for the command of the editor
    bool closeStep(); ///< false: the user keeps the step open

Q_SIGNALS:
    void openingBegan(); ///< another step is being read, and replaces the open step unless nothingOpened() follows
    void opened(bool budgetWasGiven);
    void cardChosen(); ///< by chooseCard(), and the session now has this card
    void failed(const QString& reason);
    void measuredWanted(const QString& path); ///< request to compare the file with the open step
    void nothingOpened(); ///< failed, or cancelled by the user

private:
    void wireReading();
    void wireRecording();
    bool isMeasurementOfOpenStep(const QString& path) const;
    void openStep(const QString& path, const Wanted& wanted);
    void endOpening();
    void takeStep(const OpenStepPtr& step);
    void keepForLater(const OpenStepPtr& step, const Wanted& wanted);
    void showRemark(const QString& remark);
    void calibrateTimes(bool calibrated);
    void askForPart(const ReadSnapshotPtr& snapshot);
    void refuse(const QString& reason);
    void offerRecording(const QString& reason);
    void askForFile();
    void askForScript();
    void fillRecentFiles();

    Parts parts_;
    Wanted wanted_;
    bool opensDocument_ = false; ///< another document is being read, and will replace the open step
    TimeChoice times_;
    std::optional<ImportRequest> part_; ///< part of the next snapshot; nullopt: ask if there is a choice
    ProfileRequest profile_; ///< step of the next trace
};

} // namespace headroom
