// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QProcess>
#include <QTimer>

namespace headroom {

/// A process with all its children: a training script starts workers, and they must not outlive it. They are asked to
/// end first (SIGTERM), and ended after a while when they do not (SIGKILL). When this program dies, so does the
/// process.
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
    void endNow(); ///< and waits until it has ended
    void end(); ///< asks, and insists after graceMs
    void setGrace(int milliseconds) { grace_.setInterval(milliseconds); }

private:
    void signalAll(int signal);

    QProcess process_;
    QTimer grace_;
    qint64 group_ = 0; ///< 0: none
};

/// What ended a process: "segmentation fault (SIGSEGV)".
QString signalText(int signal);

} // namespace headroom
