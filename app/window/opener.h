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
class RecordDesk;
class Session;
class Settings;
class StartPage;
class WhatIf;

/// Opens documents: asks which, reads a step or has one recorded, and puts it into the session in place of what is open
/// there. Keeps the list of recent files, and says in the message bar what goes on and what went wrong.
class Opener : public QObject
{
    Q_OBJECT
public:
    /// What takes part in it.
    struct Parts
    {
        Session& session;
        Jobs& jobs;
        Settings& settings;
        Actions& actions;
        MessageBar& messages;
        StartPage& start;
        RecordDesk& records;
        WhatIf& whatIf;
        std::function<bool()> maySayGoodbye; ///< to what is open; false: it stays
        QWidget* window = nullptr; ///< of dialogs
    };
    explicit Opener(Parts parts);

    /// What to show of a document in place of the window's own choice.
    struct Wanted
    {
        std::optional<Bytes> budget;
        QString select;
        QString remark; ///< to show with the step
        PlanMode mode = PlanMode::modules;
        QString inPlace; ///< of the open step, and why: "batch 64"; empty: a document of its own
        std::string card = {}; ///< of an open step's times, where they are to be of another one
    };
    void openFile(const QString& path, const Wanted& wanted);
    /// Which times the steps that are opened from now on have, as withTimes() takes it.
    void useTimes(const TimeChoice& times) { times_ = times; }
    /// Which part of the memory snapshot that is opened next; without it a sheet asks where there is a choice.
    void usePart(const std::optional<ImportRequest>& part) { part_ = part; }
    /// The open step with other times, in its place: one undo step.
    void changeTimes(const TimeChoice& times);
    bool closeStep(); ///< false: the user wants to keep it

Q_SIGNALS:
    void opened(bool budgetWasGiven);
    void failed(const QString& reason);
    void measuredWanted(const QString& path); ///< to be laid beside the open step
    void nothingOpened(); ///< failed, or the user did not want it any more

private:
    void wireReading();
    void wireRecording();
    bool isMeasurementOfOpenStep(const QString& path) const;
    void openStep(const QString& path, const Wanted& wanted);
    void takeStep(const OpenStepPtr& step);
    void calibrateTimes(bool calibrated);
    void askForPart(const ReadSnapshotPtr& snapshot);
    void refuse(const QString& reason);
    void offerRecording(const QString& reason);
    void askForFile();
    void askForScript();
    void fillRecentFiles();

    Parts parts_;
    Wanted wanted_;
    TimeChoice times_;
    std::optional<ImportRequest> part_; ///< of the snapshot that is opened next; none: ask where there is a choice
};

} // namespace headroom
