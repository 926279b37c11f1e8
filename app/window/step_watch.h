// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/mapped_file.h"

#include <QFileSystemWatcher>
#include <QObject>
#include <QTimer>

#include <optional>
#include <vector>

namespace headroom {

class Session;

/// Notices that another program has written, replaced or removed a file that the window shows: the file of the open
/// step, or of the measured step beside. The shown step does not change: the file was read into memory.
class StepWatch : public QObject
{
    Q_OBJECT
public:
    explicit StepWatch(Session& session, QObject* parent = nullptr);

    void check(); ///< compares the files with what is shown now; for file systems that report no changes

Q_SIGNALS:
    void changed(const QString& path); ///< once for each change
    void gone(const QString& path); ///< the file was removed, or has another name

private:
    struct File
    {
        QString path;
        std::optional<FileStamp> shown; ///< at the time of reading; nullopt: not watched
        std::optional<FileStamp> known = shown; ///< at the last check; nullopt: the file was gone
    };

    void watch();
    void watchPaths();

    Session& session_;
    std::vector<File> files_;
    QFileSystemWatcher watcher_;
    QTimer settling_; ///< runs while the files change
};

} // namespace headroom
