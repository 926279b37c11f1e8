// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/output_lines.h"
#include "app/recording/process_group.h"
#include "app/recording/record_request.h"

#include <QObject>
#include <QString>
#include <QStringList>
#include <QTemporaryDir>

#include <memory>

namespace headroom {

/// One run of headroom-record, or of a training script under headroom.record, in processes of its own, so that a crash
/// in a kernel cannot take the window down and cancel is ending them. Exactly one of finished, failed and cancelled
/// comes at the end. The recording is made in a folder of its own and moved to its place when it is complete: a
/// cancelled or failed one leaves nothing.
class Recording : public QObject
{
    Q_OBJECT
public:
    explicit Recording(QObject* parent = nullptr);
    ~Recording() override;

    void start(const RecordCommand& command, const QString& destination);
    void cancel(); ///< ends the processes; cancelled() comes when they have ended
    bool running() const noexcept { return processes_.running(); }
    bool cancelling() const noexcept { return cancelling_; }
    void setGrace(int milliseconds) { processes_.setGrace(milliseconds); }
    qint64 processId() const { return processes_.process().processId(); }

Q_SIGNALS:
    void progressed(double share, const QString& stage); ///< share of the work done, 0..1; < 0: not known
    void printed(const QStringList& lines); ///< by the program or the script, as a terminal would show them
    /// `remark`: what went wrong though the step is complete, as a script's exception after it; empty: nothing.
    void finished(const QString& path, const QString& remark);
    void failed(const QString& reason); ///< one sentence
    void cancelled();

private:
    void readErrors();
    void readPrinted();
    void readMessage(const QByteArray& line, QStringList& shown);
    void ended(int exitCode, QProcess::ExitStatus status);
    void fail(const QString& reason);
    void couldNotStart();
    void keepResult(const QString& remark);
    QString reasonOfExit(int exitCode) const;
    QString reasonOfSignal(int signal) const;

    RecordCommand command_;
    QString destination_;
    std::unique_ptr<QTemporaryDir> folder_; ///< removed when the processes have ended
    ProcessGroup processes_;
    OutputLines errors_;
    OutputLines prints_;
    QString stage_; ///< the last
    QString lastMessage_; ///< on stderr, that is no progress
    bool cancelling_ = false;
};

} // namespace headroom
