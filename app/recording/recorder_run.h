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

/// One run of torch-headroom-record, or of a training script under torch_headroom.record, in processes of its own, so
/// that a crash in a kernel cannot take the window down and cancel is ending them. What it says on stderr becomes
/// progress, lines to show, or the one sentence of a failure. Either it exits, which a subclass takes, or one of failed
/// and cancelled comes.
class RecorderRun : public QObject
{
    Q_OBJECT
public:
    ~RecorderRun() override;

    void cancel(); ///< ends the processes; cancelled() comes when they have ended
    bool running() const noexcept { return processes_.running(); }
    void setGrace(int milliseconds) { processes_.setGrace(milliseconds); }
    qint64 processId() const { return processes_.process().processId(); }

Q_SIGNALS:
    void progressed(double share, const QString& stage); ///< share of the work done, 0..1; < 0: not known
    void printed(const QStringList& lines); ///< by the program or the script, as a terminal would show them
    void failed(const QString& reason); ///< one sentence
    void cancelled();

protected:
    explicit RecorderRun(QObject* parent);

    void begin(const RecordCommand& command); ///< forgets what the last run said
    void launch(const QStringList& arguments);
    void abandon(); ///< ends the processes, says nothing: for destructors
    void fail(const QString& reason);
    QString reasonOfExit(int exitCode) const;
    const RecordCommand& command() const noexcept { return command_; }

    virtual void exited(int exitCode) = 0; ///< neither by a signal nor because of cancel()
    virtual void takeOutput(const QByteArray& bytes) = 0; ///< of stdout
    virtual void endOfOutput(QStringList& shown) = 0;
    virtual void cleanUp() {} ///< before failed() and cancelled()

private:
    void readErrors();
    void readMessage(const QByteArray& line, QStringList& shown);
    void ended(int exitCode, QProcess::ExitStatus status);
    void couldNotStart();
    QString reasonOfSignal(int signal) const;

    RecordCommand command_;
    ProcessGroup processes_;
    OutputLines errors_;
    QString stage_; ///< the last
    QString lastMessage_; ///< on stderr, that is no progress
    bool cancelling_ = false;
};

} // namespace headroom
