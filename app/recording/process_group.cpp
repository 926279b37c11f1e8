// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/process_group.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>

#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

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

/// Adds the processes that `parent` started, and those that they started. A recording of a script is the parent of what
/// the script left behind, in whatever session.
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

} // namespace headroom
