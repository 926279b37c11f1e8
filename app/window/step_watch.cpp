// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_watch.h"

#include "app/window/session.h"

#include <QFileInfo>

namespace headroom {
namespace {

constexpr int settleMs = 300; // a file is often written in several pieces

} // namespace

StepWatch::StepWatch(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
{
    settling_.setSingleShot(true);
    settling_.setInterval(settleMs);
    connect(&settling_, &QTimer::timeout, this, &StepWatch::look);
    connect(&session_, &Session::stepChanged, this, &StepWatch::watch);
    connect(&watcher_, &QFileSystemWatcher::fileChanged, &settling_, qOverload<>(&QTimer::start));
    connect(&watcher_, &QFileSystemWatcher::directoryChanged, &settling_, qOverload<>(&QTimer::start));
}

void StepWatch::watch()
{
    if (const QStringList before = watcher_.files() + watcher_.directories(); !before.isEmpty())
        watcher_.removePaths(before);
    said_.reset();
    settling_.stop();
    if (!session_.isOpen())
        return;
    // The folder, too: the watch of a file ends when another one takes its name.
    const QFileInfo file(session_.step()->path);
    watcher_.addPaths({file.absoluteFilePath(), file.absolutePath()});
    settling_.start(); // it may have changed before
}

void StepWatch::look()
{
    if (!session_.isOpen() || !session_.step()->stamp)
        return;
    const QString& path = session_.step()->path;
    const std::optional<FileStamp> now = stampOf(std::filesystem::path(path.toStdU16String()));
    if (!now)
        return; // the file is gone, or is being replaced
    const QString file = QFileInfo(path).absoluteFilePath();
    if (!watcher_.files().contains(file))
        watcher_.addPath(file);
    if (now == session_.step()->stamp || now == said_)
        return;
    said_ = now;
    Q_EMIT changed(path);
}

} // namespace headroom
