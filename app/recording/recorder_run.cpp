// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recorder_run.h"

#include "app/recording/interpreters.h"
#include "app/recording/sentence.h"
#include "core/base/json_reader.h"

#include <QRegularExpression>

#include <csignal>
#include <optional>

namespace headroom {
namespace {

constexpr int shellSignalBase = 128; // a shell reports a signal as 128 + its number

/// The message without the name of the program in front, which the window does not show.
QString withoutProgram(const QString& message)
{
    for (const QString& prefix : {QStringLiteral("torch-headroom-record: "), QStringLiteral("torch_headroom.record: "),
                                  QStringLiteral("torch-headroom: ")}) {
        if (message.startsWith(prefix))
            return message.mid(prefix.size());
    }
    return message;
}

struct Progress
{
    double done = 0; ///< 0 to 1
    QString stage;
};

/// {"stage": "backward", "done": 0.42}; nullopt: the line is something else.
std::optional<Progress> progressIn(const QByteArray& line)
{
    if (!line.startsWith('{'))
        return std::nullopt;
    const auto progress = json::read(line.toStdString(), "progress", [](const json::Json& object) {
        const double done = json::at(object, "done", json::notNegative);
        return Progress{done, QString::fromStdString(json::at(object, "stage", json::string))};
    });
    return progress && progress->done <= 1 ? std::optional(*progress) : std::nullopt;
}

/// Whether Python found no torch_headroom.record to run. The message names the package in any failure of a script:
/// "torch_headroom.record: train.py raised ModuleNotFoundError: No module named 'datasets'".
bool lacksPackage(const QString& message)
{
    static const QRegularExpression words(QStringLiteral("No module named '?torch_headroom(\\.record)?'?\\)?$"));
    return message == withoutProgram(message) && words.match(message).hasMatch();
}

} // namespace

RecorderRun::RecorderRun(QObject* parent)
    : QObject(parent)
{
    QProcess& process = processes_.process();
    connect(&process, &QProcess::readyReadStandardError, this, &RecorderRun::readErrors);
    connect(&process, &QProcess::readyReadStandardOutput, this,
            [this] { takeOutput(processes_.process().readAllStandardOutput()); });
    connect(&process, &QProcess::finished, this, &RecorderRun::ended);
    connect(&process, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart)
            couldNotStart();
    });
}

RecorderRun::~RecorderRun()
{
    abandon();
}

void RecorderRun::abandon()
{
    processes_.process().disconnect(this);
    processes_.endNow();
}

void RecorderRun::begin(const RecordCommand& command)
{
    command_ = command;
    cancelling_ = false;
    errors_ = {};
    stage_.clear();
    lastMessage_.clear();
    cause_.clear();
    inTraceback_ = false;
}

void RecorderRun::launch(const QStringList& arguments)
{
    QProcess& process = processes_.process();
    process.setWorkingDirectory(command_.workingFolder);
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    if (command_.isScript) {
        environment.insert(QStringLiteral("PYTHONUNBUFFERED"), QStringLiteral("1")); // its output is shown as it comes
        environment.insert(QStringLiteral("PYTHONFAULTHANDLER"), QStringLiteral("1")); // a crash prints a traceback
    }
    process.setProcessEnvironment(environment);
    Q_EMIT progressed(-1, tr("starting"));
    processes_.start(command_.program, arguments);
}

void RecorderRun::cancel()
{
    if (!running() || cancelling_)
        return;
    cancelling_ = true;
    Q_EMIT progressed(-1, tr("ending"));
    processes_.end();
}

void RecorderRun::readErrors()
{
    QStringList shown;
    for (const QByteArray& line : errors_.take(processes_.process().readAllStandardError()))
        readMessage(line, shown);
    if (!shown.isEmpty())
        Q_EMIT printed(shown);
}

/// Reads a line of stderr: progress, or a message, which is added to `shown`.
void RecorderRun::readMessage(const QByteArray& line, QStringList& shown)
{
    if (const auto progress = progressIn(line)) {
        if (cancelling_)
            return;
        stage_ = progress->stage;
        Q_EMIT progressed(progress->done, stage_);
        return;
    }
    const QString text = shownLine(line);
    shown << text;
    const QString message = text.trimmed();
    if (message.isEmpty())
        return;
    lastMessage_ = message;
    if (message.startsWith(QLatin1String("Traceback (most recent call last)"))) {
        inTraceback_ = true;
    } else if (inTraceback_ && !text.at(0).isSpace()) {
        inTraceback_ = false;
        cause_ = message;
    } else if (withoutProgram(message) != message) {
        cause_ = message;
    }
}

void RecorderRun::ended(int exitCode, QProcess::ExitStatus status)
{
    readErrors();
    takeOutput(processes_.process().readAllStandardOutput());
    QStringList rest;
    if (const QByteArray line = errors_.rest(); !line.isEmpty())
        readMessage(line, rest);
    endOfOutput(rest);
    if (!rest.isEmpty())
        Q_EMIT printed(rest);
    if (cancelling_) {
        cleanUp();
        Q_EMIT cancelled();
    } else if (status == QProcess::CrashExit) {
        fail(reasonOfSignal(exitCode));
    } else {
        exited(exitCode);
    }
}

QString RecorderRun::reasonOfExit(int exitCode) const
{
    if (command_.isScript && cause_.isEmpty() && lacksPackage(lastMessage_))
        return tr("%1 has no package torch-headroom: install it with `%2`.")
            .arg(command_.program, installCommand(command_.program));
    if (exitCode > shellSignalBase && exitCode < shellSignalBase + SIGSYS)
        return reasonOfSignal(exitCode - shellSignalBase);
    const QString said = cause_.isEmpty() ? lastMessage_ : cause_; // others may print after the cause
    if (said.isEmpty())
        return tr("%1 was not recorded: it ended with exit code %2 and no message.").arg(command_.title).arg(exitCode);
    const QString message = withoutProgram(said);
    return command_.isScript && message == said ? sentence(command_.title + QStringLiteral(": ") + message)
                                                : sentence(message);
}

QString RecorderRun::reasonOfSignal(int signal) const
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

void RecorderRun::fail(const QString& reason)
{
    cleanUp();
    Q_EMIT failed(reason);
}

void RecorderRun::couldNotStart()
{
    if (command_.isScript)
        fail(tr("%1 cannot be started: choose the Python that runs %2.").arg(command_.program, command_.title));
    else
        fail(tr("The recorder cannot be started: %1 is not there or is no program. It comes with Headroom; install it "
                "again.")
                 .arg(command_.program));
}

} // namespace headroom
