// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QByteArray>
#include <QObject>
#include <QProcess>
#include <QString>
#include <QStringList>
#include <QTemporaryDir>

#include <memory>

namespace headroom {

/// Where the recorder is: beside this program.
QString recorderProgram();

/// One run of headroom-record in a process of its own, so that a crash in a kernel cannot take the window down and
/// cancel is ending a process. Exactly one of finished, failed and cancelled comes at the end. The recording is made in
/// a folder of its own and moved to its place when it is complete: a cancelled or failed one leaves nothing.
class Recording : public QObject
{
    Q_OBJECT
public:
    Recording(QString program, QObject* parent = nullptr);
    ~Recording() override;

    /// `arguments` follow the subcommand: the model and its options, without -o.
    void start(const QStringList& arguments, const QString& destination);
    void cancel();
    bool running() const noexcept { return process_.state() != QProcess::NotRunning; }

Q_SIGNALS:
    void progressed(double share, const QString& stage); ///< share of the work done, 0..1; < 0: not known
    void finished(const QString& path);
    void failed(const QString& reason); ///< one sentence
    void cancelled();

private:
    void readMessages();
    void readMessage(const QByteArray& line);
    void ended(int exitCode, QProcess::ExitStatus status);
    void couldNotStart();
    void keepResult();

    QString program_;
    QString destination_;
    QProcess process_;
    QByteArray messages_; ///< of stderr, since the last end of line
    QString lastMessage_; ///< that is no progress
    std::unique_ptr<QTemporaryDir> folder_;
    bool cancelling_ = false;
};

} // namespace headroom
