// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"

#include <QByteArray>
#include <QSettings>
#include <QString>
#include <QStringList>
#include <QVariantMap>

#include <memory>

namespace headroom {

enum class ThemeChoice { followDesktop, light, dark };

/// What the window remembers between two runs: files opened last, its geometry, its theme. Written at once.
class Settings
{
public:
    static constexpr int recentFileLimit = 8;

    Settings(); ///< the user's own
    explicit Settings(const QString& iniFile);

    QStringList recentFiles() const; ///< latest first; those that are gone are left out
    void addRecentFile(const QString& path);
    void clearRecentFiles();

    ThemeChoice theme() const;
    void setTheme(ThemeChoice choice);

    /// Geometry and splitter positions by the name of the widget that they belong to.
    QByteArray layout(const QString& widget) const;
    void setLayout(const QString& widget, const QByteArray& state);

    /// What was chosen when something was recorded last: for files of a kind, and for one file by its path.
    QVariantMap recordChoices(SourceKind kind) const;
    QVariantMap recordChoices(const QString& file) const;
    void setRecordChoices(SourceKind kind, const QVariantMap& choices);
    void setRecordChoices(const QString& file, const QVariantMap& choices);

    QString exportFolder() const; ///< of the last export; the user's documents at first
    void setExportFolder(const QString& folder);

private:
    std::unique_ptr<QSettings> store_;
};

} // namespace headroom
