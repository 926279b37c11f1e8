// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"

#include <QByteArray>
#include <QObject>
#include <QProcess>
#include <QString>
#include <QStringList>
#include <QTimer>

namespace headroom {

/// Splits the output of another program into lines. Accepts any output: invalid text, terminal colours, progress
/// bars with carriage returns, endless lines. Memory is bounded.
class OutputLines
{
public:
    static constexpr qsizetype longestLine = 4096;

    /// Adds output and returns the lines that the output completes, unchanged, since a line may be JSON.
    QList<QByteArray> take(const QByteArray& bytes);
    QByteArray rest(); ///< returns the text after the last newline, at the end of the output

private:
    QByteArray pending_;
    bool skipping_ = false; ///< skips the rest of a line that was too long
};

/// The line as a terminal shows it, without control characters, colours and overwritten text.
QString shownLine(const QByteArray& line);

/// A process with all its children: the workers of a training script must not outlive the script. end() sends SIGTERM
/// to all, and SIGKILL after a while. The process is killed if this program dies.
class ProcessGroup : public QObject
{
    Q_OBJECT
public:
    explicit ProcessGroup(QObject* parent = nullptr);
    ~ProcessGroup() override;

    QProcess& process() noexcept { return process_; }
    const QProcess& process() const noexcept { return process_; }
    bool running() const noexcept { return process_.state() != QProcess::NotRunning; }

    void start(const QString& program, const QStringList& arguments);
    void endNow(); ///< kills all processes and waits for the end
    void end(); ///< SIGTERM now, SIGKILL after the time of setGrace()
    void setGrace(int milliseconds) { grace_.setInterval(milliseconds); }

private:
    void signalAll(int signal); ///< to the process's group
    void killAll(); ///< kills the group and all descendants of the process, in any session

    QProcess process_;
    QTimer grace_;
    qint64 group_ = 0; ///< process group; 0: none
};

/// The signal that ended a process: "segmentation fault (SIGSEGV)".
QString signalText(int signal);

/// A run of torch-headroom-record, or of a training script under torch_headroom.record, in separate processes: a
/// crash does not affect the window, and cancel() ends the processes. The stderr becomes progress, lines to show, or
/// the sentence of a failure. A run ends with exited(), failed() or cancelled().
class RecorderRun : public QObject
{
    Q_OBJECT
public:
    ~RecorderRun() override;

    void cancel(); ///< ends the processes; emits cancelled() at the end
    bool running() const noexcept { return processes_.running(); }
    void setGrace(int milliseconds) { processes_.setGrace(milliseconds); }
    qint64 processId() const { return processes_.process().processId(); }

Q_SIGNALS:
    void progressed(double share, const QString& stage); ///< share of the work done, 0 to 1; < 0: not known
    void printed(const QStringList& lines); ///< output of the program or the script, as a terminal shows it
    void failed(const QString& reason); ///< a sentence
    void cancelled();

protected:
    explicit RecorderRun(QObject* parent);

    void begin(const RecordCommand& command); ///< starts a run; clears the messages of the last run
    void launch(const QStringList& arguments);
    void abandon(); ///< ends the processes without a signal, for destructors
    void fail(const QString& reason);
    QString reasonOfExit(int exitCode) const;
    const RecordCommand& command() const noexcept { return command_; }

    virtual void exited(int exitCode) = 0; ///< called if the process exits by itself, not by a signal or cancel()
    virtual void takeOutput(const QByteArray& bytes) = 0; ///< receives stdout
    virtual void endOfOutput(QStringList& shown) = 0;
    virtual void cleanUp() {} ///< called before failed() and cancelled()

private:
    void readErrors();
    void readMessage(const QByteArray& line, QStringList& shown);
    void ended(int exitCode, QProcess::ExitStatus status);
    void couldNotStart();
    QString reasonOfSignal(int signal) const;

    RecordCommand command_;
    ProcessGroup processes_;
    OutputLines errors_;
    QString stage_; ///< the latest stage
    QString lastMessage_; ///< the last line of stderr that is not progress
    /// The last line of stderr that names the cause of a failure: the program's own sentence, or a Python exception.
    QString cause_;
    bool inTraceback_ = false; ///< the lines are of a traceback, until the exception
    bool cancelling_ = false;
};

} // namespace headroom
