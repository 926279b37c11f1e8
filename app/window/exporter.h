// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/base/task_runner.h"

#include <QObject>
#include <QString>

#include <filesystem>
#include <functional>

class QWidget;

namespace headroom {

struct ExportOptions;
struct FitExport;
class MessageBar;
struct Policy;
class Session;
class Settings;

/// Writes the policy, pictures or tables of the plots, and the report, to files. Opens file dialogs and reports the
/// outcome in the message bar. A file that the window shows is never replaced.
class Exporter : public QObject
{
    Q_OBJECT
public:
    Exporter(Session& session, Settings& settings, MessageBar& messages, QWidget* window);

    void askReport();
    void askPolicy(); ///< opens the dialog for the policy's file
    void askTimeline();
    void askTradeOff();
    void askFrontier();
    void askFit(const FitExport& fit);

    void setStackByModule(bool byModule) noexcept { stackByModule_ = byModule; } ///< of the exported timeline

    bool writePolicyTo(const QString& path); ///< false: failed; the message bar says why
    bool writeTimelineTo(const QString& path);
    bool writeTradeOffTo(const QString& path);
    bool writeFrontierTo(const QString& path);
    bool writeFitTo(const QString& path, const FitExport& fit);
    /// Computes and writes the report of the open step and its plan on a worker thread. The message bar shows the
    /// progress, with a button that cancels. The file is written whole or not at all. A report in progress is
    /// cancelled.
    void writeReportTo(const QString& path);
    void cancelReport();

Q_SIGNALS:
    void reportEnded(bool written); ///< not after a cancellation

private:
    QString ask(const QString& title, const QString& fileName, const QString& filter);
    bool frontierIsFinal(); ///< else says so
    QString askPicture(const QString& title, const QString& what); ///< empty: none
    /// Whether a policy that takes more memory than the budget is exported all the same: asks the user.
    bool mayExceedBudget(const Policy& policy);
    bool mayReplace(const QString& path); ///< false: the window shows that file; says so
    bool write(const QString& path, const std::function<Status(const std::filesystem::path&)>& writeFile);
    ExportOptions options() const; ///< in the window's theme
    bool report(const Status& written, const QString& path);
    void endReport(const Status& written, const QString& path, bool withFrontier);

    Session& session_;
    Settings& settings_;
    MessageBar& messages_;
    QWidget* window_;
    bool stackByModule_ = false;
    quint64 reportGeneration_ = 0;
    bool writesReport_ = false;
    TaskRunner reportRunner_; ///< the last member: the thread ends before the other members
};

} // namespace headroom
