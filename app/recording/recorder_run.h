// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/output_lines.h"
#include "app/recording/process_group.h"
#include "app/recording/record_request.h"

#include <QObject>
#include <QString>
#include <QStringList>

namespace headroom {

/// One run of torch-headroom-record, or of a training script under torch_headroom.record, in processes of its own: a
/// crash does not affect the window, and cancel() ends the processes. Its stderr becomes progress, lines to show, or
/// the sentence of a failure. A run ends with exited(), failed() or cancelled().
class RecorderRun : public QObject
{
    Q_OBJECT
public:
    ~RecorderRun() override;

    void cancel(); ///< ends the processes; emits cancelled() when they have ended
    bool running() const noexcept { return processes_.running(); }
    void setGrace(int milliseconds) { processes_.setGrace(milliseconds); }
    qint64 processId() const { return processes_.process().processId(); }

Q_SIGNALS:
    void progressed(double share, const QString& stage); ///< share of the work done, 0 to 1; < 0: not known
    void printed(const QStringList& lines); ///< output of the program or the script, as a terminal shows it
    void failed(const QString& reason); ///< one sentence
    void cancelled();

protected:
    explicit RecorderRun(QObject* parent);

    void begin(const RecordCommand& command); ///< starts a run; clears the messages of the last one
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
    bool inTraceback_ = false; ///< the lines are those of a traceback, which ends with the exception
    bool cancelling_ = false;
};

} // namespace headroom
