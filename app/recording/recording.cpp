// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recording.h"

#include "app/recording/interpreters.h"
#include "app/recording/sentence.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

namespace headroom {
namespace {

constexpr int shellSignalBase = 128; // a shell reports a signal as 128 + its number
const auto folderPrefix = QStringLiteral(".recording-");

QString resultIn(const QTemporaryDir& folder)
{
    return folder.filePath(QStringLiteral("step.hrs"));
}

/// The recorder says who it is; the window does not.
QString withoutProgram(const QString& message)
{
    for (const QString& prefix :
         {QStringLiteral("headroom-record: "), QStringLiteral("headroom.record: "), QStringLiteral("headroom: ")}) {
        if (message.startsWith(prefix))
            return message.mid(prefix.size());
    }
    return message;
}

/// {"stage": "backward", "done": 0.42}; nullopt: the line is something else.
std::optional<QJsonObject> progressIn(const QByteArray& line)
{
    if (!line.startsWith('{'))
        return std::nullopt;
    const QJsonObject object = QJsonDocument::fromJson(line).object();
    const QJsonValue done = object.value(QLatin1String("done"));
    const bool valid = done.isDouble() && done.toDouble() >= 0 && done.toDouble() <= 1
        && object.value(QLatin1String("stage")).isString();
    return valid ? std::optional(object) : std::nullopt;
}

/// Folders that recordings of a program left which was ended by force.
void removeAbandoned(QDir place)
{
    const QStringList folders = place.entryList({folderPrefix + QLatin1Char('*')}, QDir::Dirs | QDir::Hidden);
    for (const QString& name : folders) {
        const int owner = name.mid(folderPrefix.size()).section(QLatin1Char('-'), 0, 0).toInt();
        if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH)
            QDir(place.filePath(name)).removeRecursively();
    }
}

bool lacksPackage(const QString& message)
{
    return message.contains(QLatin1String("No module named")) && message.contains(QLatin1String("headroom"));
}

} // namespace

Recording::Recording(QObject* parent)
    : QObject(parent)
{
    QProcess& process = processes_.process();
    connect(&process, &QProcess::readyReadStandardError, this, &Recording::readErrors);
    connect(&process, &QProcess::readyReadStandardOutput, this, &Recording::readPrinted);
    connect(&process, &QProcess::finished, this, &Recording::ended);
    connect(&process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart)
            couldNotStart();
    });
}

Recording::~Recording()
{
    processes_.process().disconnect(this);
}

void Recording::start(const RecordCommand& command, const QString& destination)
{
    command_ = command;
    destination_ = destination;
    cancelling_ = false;
    errors_ = {};
    prints_ = {};
    stage_.clear();
    lastMessage_.clear();
    const QDir place = QFileInfo(destination).absoluteDir();
    if (!place.mkpath(QStringLiteral("."))) {
        fail(tr("The folder %1 for the recording cannot be made.").arg(place.path()));
        return;
    }
    removeAbandoned(place);
    // Beside the destination: the finished file is then moved by a rename.
    const QString name = folderPrefix + QString::number(QCoreApplication::applicationPid()) + QStringLiteral("-XXXXXX");
    folder_ = std::make_unique<QTemporaryDir>(place.filePath(name));
    if (!folder_->isValid()) {
        fail(tr("The recording cannot be written to %1: %2.").arg(place.path(), folder_->errorString()));
        return;
    }
    QProcess& process = processes_.process();
    process.setWorkingDirectory(command.workingFolder);
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    if (command.isScript) {
        environment.insert(QStringLiteral("PYTHONUNBUFFERED"), QStringLiteral("1")); // its output is shown as it comes
        environment.insert(QStringLiteral("PYTHONFAULTHANDLER"), QStringLiteral("1")); // a crash says where it was
    }
    process.setProcessEnvironment(environment);
    Q_EMIT progressed(-1, tr("starting"));
    processes_.start(command.program, command.arguments(resultIn(*folder_)));
}

void Recording::cancel()
{
    if (!running() || cancelling_)
        return;
    cancelling_ = true;
    Q_EMIT progressed(-1, tr("ending"));
    processes_.end();
}

void Recording::readErrors()
{
    QStringList shown;
    for (const QByteArray& line : errors_.take(processes_.process().readAllStandardError()))
        readMessage(line, shown);
    if (!shown.isEmpty())
        Q_EMIT printed(shown);
}

void Recording::readPrinted()
{
    QStringList shown;
    for (const QByteArray& line : prints_.take(processes_.process().readAllStandardOutput()))
        shown << shownLine(line);
    // headroom-record prints its answer for a terminal; the window has its own.
    if (!shown.isEmpty() && command_.isScript)
        Q_EMIT printed(shown);
}

/// Progress, or a message for the user.
void Recording::readMessage(const QByteArray& line, QStringList& shown)
{
    if (const auto progress = progressIn(line)) {
        if (cancelling_)
            return;
        stage_ = progress->value(QLatin1String("stage")).toString();
        Q_EMIT progressed(progress->value(QLatin1String("done")).toDouble(), stage_);
        return;
    }
    const QString text = shownLine(line);
    shown << text;
    if (!text.trimmed().isEmpty())
        lastMessage_ = text.trimmed();
}

void Recording::ended(int exitCode, QProcess::ExitStatus status)
{
    readErrors();
    readPrinted();
    QStringList rest;
    if (const QByteArray line = errors_.rest(); !line.isEmpty())
        readMessage(line, rest);
    if (const QByteArray line = prints_.rest(); !line.isEmpty() && command_.isScript)
        rest << shownLine(line);
    if (!rest.isEmpty())
        Q_EMIT printed(rest);
    if (cancelling_) {
        folder_.reset();
        Q_EMIT cancelled();
    } else if (status == QProcess::CrashExit) {
        fail(reasonOfSignal(exitCode));
    } else if (exitCode == 0) {
        keepResult({});
    } else if (QFile::exists(resultIn(*folder_))) {
        keepResult(reasonOfExit(exitCode)); // it is written when it is complete: the script went wrong after its step
    } else {
        fail(reasonOfExit(exitCode));
    }
}

QString Recording::reasonOfExit(int exitCode) const
{
    if (command_.isScript && lacksPackage(lastMessage_))
        return tr("%1 has no package headroom: install it with `%2`.")
            .arg(command_.program, installCommand(command_.program));
    if (exitCode > shellSignalBase && exitCode < shellSignalBase + SIGSYS)
        return reasonOfSignal(exitCode - shellSignalBase);
    if (lastMessage_.isEmpty())
        return tr("%1 was not recorded: it ended with exit code %2 and no message.").arg(command_.title).arg(exitCode);
    QString message = withoutProgram(lastMessage_);
    if (folder_) // the recording is in its place by the time that this is read
        message.replace(resultIn(*folder_), QFileInfo(destination_).fileName());
    return command_.isScript && message == lastMessage_ ? sentence(command_.title + QStringLiteral(": ") + message)
                                                        : sentence(message);
}

QString Recording::reasonOfSignal(int signal) const
{
    const QString where = stage_.isEmpty() ? QString() : tr(" in the stage “%1”").arg(stage_);
    switch (signal) {
    case SIGKILL:
        return tr("The system ended the recording of %1%2 (SIGKILL), most likely because the machine ran out of "
                  "memory; "
                  "nothing was written.")
            .arg(command_.title, where);
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
        return tr("The recording of %1 was ended from outside%2 (%3); nothing was written.")
            .arg(command_.title, where, signalText(signal));
    default:
        return tr("The recording of %1 crashed%2 with a %3; nothing was written.")
            .arg(command_.title, where, signalText(signal));
    }
}

void Recording::fail(const QString& reason)
{
    folder_.reset();
    Q_EMIT failed(reason);
}

void Recording::keepResult(const QString& remark)
{
    const QByteArray from = QFile::encodeName(resultIn(*folder_));
    const bool kept = std::rename(from.constData(), QFile::encodeName(destination_).constData()) == 0;
    if (!kept) {
        fail(command_.isScript
                 ? tr("%1 ended before it made a training step, so there is nothing to show.").arg(command_.title)
                 : tr("The recorder ended without writing %1.").arg(destination_));
        return;
    }
    folder_.reset();
    Q_EMIT finished(destination_, remark);
}

void Recording::couldNotStart()
{
    if (command_.isScript)
        fail(tr("%1 cannot be started: choose the Python that runs %2.").arg(command_.program, command_.title));
    else
        fail(tr("The recorder cannot be started: %1 is not there or is no program. It comes with Headroom; install it "
                "again.")
                 .arg(command_.program));
}

} // namespace headroom
