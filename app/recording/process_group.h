// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QProcess>
#include <QTimer>

namespace headroom {

/// A process with all its children: the workers of a training script must not outlive it. end() sends SIGTERM to all,
/// and SIGKILL after a while. The process is killed if this program dies.
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
    void endNow(); ///< kills all processes and waits until they have ended
    void end(); ///< SIGTERM now, SIGKILL after the time of setGrace()
    void setGrace(int milliseconds) { grace_.setInterval(milliseconds); }

private:
    void signalAll(int signal); ///< to the process's group
    void killAll(); ///< kills the group and all descendants of the process, whatever their sessions

    QProcess process_;
    QTimer grace_;
    qint64 group_ = 0; ///< process group; 0: none
};

/// The signal that ended a process: "segmentation fault (SIGSEGV)".
QString signalText(int signal);

} // namespace headroom
