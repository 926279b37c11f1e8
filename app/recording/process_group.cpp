// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/process_group.h"

#include <QCoreApplication>

#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

namespace headroom {
namespace {

constexpr int graceMs = 2000;
constexpr int lastWaitMs = 2000;

/// Runs in the child, between fork and exec: only calls that are safe there.
void leadOwnGroup()
{
    setsid(); // no terminal, so no program of the group can wait for input
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

} // namespace

ProcessGroup::ProcessGroup(QObject* parent)
    : QObject(parent)
{
    process_.setStandardInputFile(QProcess::nullDevice());
    process_.setChildProcessModifier(leadOwnGroup);
    grace_.setSingleShot(true);
    grace_.setInterval(graceMs);
    connect(&grace_, &QTimer::timeout, this, [this] { signalAll(SIGKILL); });
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
    signalAll(SIGKILL);
    process_.kill(); // in case it does not lead its group yet
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

} // namespace headroom
