// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recorder_run.h"

#include "app/recording/interpreters.h"
#include "app/recording/recorder_program.h"
#include "core/base/json_reader.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QRegularExpression>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>
#include <vector>

namespace headroom {
namespace {

constexpr char escape = '\x1b';

/// Index of the last byte of the escape sequence that begins at `at`.
qsizetype endOfEscape(const QByteArray& line, qsizetype at)
{
    if (at + 1 >= line.size() || line[at + 1] != '[')
        return std::min(at + 1, line.size() - 1);
    qsizetype end = at + 2;
    while (end < line.size() && (line[end] < 0x40 || line[end] > 0x7e))
        ++end;
    return std::min(end, line.size() - 1);
}

} // namespace

QList<QByteArray> OutputLines::take(const QByteArray& bytes)
{
    QList<QByteArray> lines;
    qsizetype begin = 0;
    while (begin < bytes.size()) {
        const qsizetype newline = bytes.indexOf('\n', begin);
        const qsizetype end = newline < 0 ? bytes.size() : newline;
        QByteArray piece = bytes.mid(begin, end - begin);
        const qsizetype back = piece.lastIndexOf('\r', piece.size() - 2);
        if (piece.size() > 1 && back >= 0) { // a progress bar that overwrites itself: only the last state is a line
            piece.remove(0, back + 1);
            pending_.clear();
            skipping_ = false;
        }
        if (!skipping_) {
            const qsizetype room = longestLine - pending_.size();
            pending_ += piece.left(room);
            skipping_ = piece.size() > room;
        }
        if (newline < 0)
            break;
        lines << std::exchange(pending_, {});
        skipping_ = false;
        begin = newline + 1;
    }
    return lines;
}

QByteArray OutputLines::rest()
{
    skipping_ = false;
    return std::exchange(pending_, {});
}

QString shownLine(const QByteArray& line)
{
    QByteArray end = line;
    while (end.endsWith('\r'))
        end.chop(1);
    QByteArray visible;
    for (qsizetype i = 0; i < end.size(); ++i) {
        const char c = end[i];
        if (c == escape)
            i = endOfEscape(end, i);
        else if (c == '\r')
            visible.clear();
        else if (c == '\b')
            visible.chop(1);
        else if (c == '\t')
            visible += "    ";
        else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
            visible += c;
    }
    return QString::fromUtf8(visible);
}

namespace {

constexpr int graceMs = 2000;
constexpr int lastWaitMs = 2000;

/// Runs in the child, between fork and exec: only calls that are safe there.
void leadOwnGroup()
{
    setsid(); // no terminal, so no program of the group can wait for input
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/// Adds the processes that `parent` started, and the descendants of such processes. A recording of a script is the
/// parent of what the script left behind, in whatever session.
void addDescendants(qint64 parent, std::vector<pid_t>& found)
{
    const QDir threads(QStringLiteral("/proc/%1/task").arg(parent));
    for (const QString& thread : threads.entryList(QDir::Dirs | QDir::NoDotAndDotDot)) {
        QFile children(threads.filePath(thread + QStringLiteral("/children")));
        if (!children.open(QIODevice::ReadOnly))
            continue;
        for (const QByteArray& child : children.readAll().split(' ')) {
            if (const qint64 process = child.trimmed().toLongLong(); process > 0) {
                found.push_back(static_cast<pid_t>(process));
                addDescendants(process, found);
            }
        }
    }
}

} // namespace

ProcessGroup::ProcessGroup(QObject* parent)
    : QObject(parent)
{
    process_.setStandardInputFile(QProcess::nullDevice());
    process_.setChildProcessModifier(leadOwnGroup);
    grace_.setSingleShot(true);
    grace_.setInterval(graceMs);
    connect(&grace_, &QTimer::timeout, this, &ProcessGroup::killAll);
    connect(&process_, &QProcess::finished, this, [this] {
        grace_.stop();
        signalAll(SIGKILL); // children that the process left behind
        group_ = 0;
    });
}

ProcessGroup::~ProcessGroup()
{
    process_.disconnect(this);
    endNow();
}

void ProcessGroup::endNow()
{
    killAll();
    process_.kill(); // in case the process does not lead the group yet
    process_.waitForFinished(lastWaitMs);
}

void ProcessGroup::start(const QString& program, const QStringList& arguments)
{
    process_.start(program, arguments);
    group_ = process_.processId();
}

void ProcessGroup::end()
{
    if (!running())
        return;
    signalAll(SIGTERM);
    grace_.start();
}

void ProcessGroup::signalAll(int signal)
{
    if (group_ > 0)
        ::kill(-static_cast<pid_t>(group_), signal);
}

void ProcessGroup::killAll()
{
    std::vector<pid_t> descendants;
    if (group_ > 0 && running())
        addDescendants(group_, descendants);
    signalAll(SIGKILL);
    for (const pid_t process : descendants)
        ::kill(process, SIGKILL);
}

QString signalText(int signal)
{
    static const std::pair<int, const char*> known[] = {
        {SIGSEGV, QT_TRANSLATE_NOOP("Signal", "segmentation fault (SIGSEGV)")},
        {SIGBUS, QT_TRANSLATE_NOOP("Signal", "bus error (SIGBUS)")},
        {SIGABRT, QT_TRANSLATE_NOOP("Signal", "abort (SIGABRT)")},
        {SIGFPE, QT_TRANSLATE_NOOP("Signal", "arithmetic error (SIGFPE)")},
        {SIGILL, QT_TRANSLATE_NOOP("Signal", "illegal instruction (SIGILL)")},
        {SIGKILL, "SIGKILL"},
        {SIGTERM, "SIGTERM"},
        {SIGINT, "SIGINT"},
        {SIGHUP, "SIGHUP"},
    };
    for (const auto& [number, text] : known) {
        if (number == signal)
            return QCoreApplication::translate("Signal", text);
    }
    return QCoreApplication::translate("Signal", "signal %1").arg(signal);
}

namespace {

constexpr int shellSignalBase = 128; // a shell reports a signal as 128 + the signal's number

/// The message without the name of the program in front, for the window.
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
        environment.insert(QStringLiteral("PYTHONUNBUFFERED"), QStringLiteral("1")); // output is shown at once
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
        return tr("%1 has no package torch-headroom: install the package with `%2`.")
            .arg(command_.program, installCommand(command_.program));
    if (exitCode > shellSignalBase && exitCode < shellSignalBase + SIGSYS)
        return reasonOfSignal(exitCode - shellSignalBase);
    const QString said = cause_.isEmpty() ? lastMessage_ : cause_; // others may print after the cause
    if (said.isEmpty())
        return tr("%1 was not recorded: the run ended with exit code %2 and no message.")
            .arg(command_.title)
            .arg(exitCode);
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
        fail(tr("The recorder cannot be started: there is no program %1. Install Headroom again.")
                 .arg(command_.program));
}

} // namespace headroom
