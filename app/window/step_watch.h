// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/mapped_file.h"

#include <QFileSystemWatcher>
#include <QObject>
#include <QTimer>

#include <optional>

namespace headroom {

class Session;

/// Notices that another program has written the file of the open step, or has replaced it. The step itself does not
/// change: it was read into memory.
class StepWatch : public QObject
{
    Q_OBJECT
public:
    explicit StepWatch(Session& session, QObject* parent = nullptr);

    void look(); ///< compares the file with the open step now; for file systems that report no changes

Q_SIGNALS:
    void changed(const QString& path); ///< once for each change

private:
    void watch();

    Session& session_;
    QFileSystemWatcher watcher_;
    QTimer settling_; ///< runs while the file changes
    std::optional<FileStamp> said_; ///< state of the file that was reported
};

} // namespace headroom
