// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_watch.h"

#include "app/window/session.h"

#include <QFileInfo>

#include <algorithm>
#include <filesystem>
#include <utility>

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
    connect(&settling_, &QTimer::timeout, this, &StepWatch::check);
    connect(&session_, &Session::stepChanged, this, &StepWatch::watch);
    connect(&session_, &Session::comparisonChanged, this, &StepWatch::watch);
    connect(&watcher_, &QFileSystemWatcher::fileChanged, &settling_, qOverload<>(&QTimer::start));
    connect(&watcher_, &QFileSystemWatcher::directoryChanged, &settling_, qOverload<>(&QTimer::start));
}

void StepWatch::watch()
{
    std::vector<File> files;
    if (session_.isOpen() && session_.step()->stamp)
        files.push_back({session_.step()->path, session_.step()->stamp});
    if (session_.isComparing() && session_.comparedStamp())
        files.push_back({session_.comparedFile(), session_.comparedStamp()});
    for (File& file : files) {
        const auto before = std::ranges::find_if(
            files_, [&](const File& old) { return old.path == file.path && old.shown == file.shown; });
        if (before != files_.end())
            file.known = before->known; // this state was already reported
    }
    files_ = std::move(files);
    if (const QStringList before = watcher_.files() + watcher_.directories(); !before.isEmpty())
        watcher_.removePaths(before);
    watchPaths();
    settling_.start(); // the files may have changed before
}

/// Watches the folders, too: the watch of a file ends when another file takes the name.
void StepWatch::watchPaths()
{
    QStringList paths;
    for (const File& file : files_) {
        const QFileInfo info(file.path);
        for (const QString& path : {info.absoluteFilePath(), info.absolutePath()}) {
            if (QFileInfo::exists(path) && !paths.contains(path))
                paths << path;
        }
    }
    for (const QString& watched : watcher_.files() + watcher_.directories())
        paths.removeAll(watched);
    if (!paths.isEmpty())
        watcher_.addPaths(paths);
}

void StepWatch::check()
{
    watchPaths();
    std::vector<File> news;
    for (File& file : files_) {
        const std::optional<FileStamp> now = stampOf(std::filesystem::path(file.path.toStdU16String()));
        if (std::exchange(file.known, now) != now && now != file.shown)
            news.push_back(file);
    }
    for (const File& file : news) {
        if (file.known)
            Q_EMIT changed(file.path);
        else
            Q_EMIT gone(file.path);
    }
}

} // namespace headroom
