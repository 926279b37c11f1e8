// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"
#include "app/window/open_step.h"

#include <QByteArray>
#include <QSettings>
#include <QString>
#include <QStringList>
#include <QVariantMap>

#include <memory>
#include <string>

namespace headroom {

enum class ThemeChoice { followDesktop, light, dark };
ThemeChoice themeNamed(const QString& name); ///< "light" or "dark"; any other: followDesktop

/// Settings that the window stores between two runs: recent files, geometry, theme and more. Each set function writes
/// at once.
class Settings
{
public:
    static constexpr int recentFileLimit = 8;

    Settings(); ///< the user's settings
    explicit Settings(const QString& iniFile);

    QStringList recentFiles() const; ///< latest first, without files that do not exist
    void addRecentFile(const QString& path);
    void clearRecentFiles();

    ThemeChoice theme() const;
    void setTheme(ThemeChoice choice);

    /// Geometry and splitter positions by name of the widget.
    QByteArray layout(const QString& widget) const;
    void setLayout(const QString& widget, const QByteArray& state);

    /// Options of the last recording, for files of a kind, and for a single file by path.
    QVariantMap recordChoices(SourceKind kind) const;
    QVariantMap recordChoices(const QString& file) const;
    void setRecordChoices(SourceKind kind, const QVariantMap& choices);
    void setRecordChoices(const QString& file, const QVariantMap& choices);

    /// Programs that the user has allowed a step file to name.
    QStringList trustedPrograms() const;
    void trustProgram(const QString& path);

    /// The card for training, as CardChoice::card.
    std::string card() const;
    void setCard(const std::string& card);

    /// Whether plans may use host memory, and how much: the window's choice, as the card.
    OffloadChoice offload() const;
    void setOffload(const OffloadChoice& choice);

    /// The command that opens a line of source code, with %f for the file and %l for the line, as "code -g %f:%l".
    /// Empty: the desktop opens the file.
    QString editor() const;
    void setEditor(const QString& command);

    QString exportFolder() const; ///< folder of the last export; initially the user's documents
    void setExportFolder(const QString& folder);

private:
    std::unique_ptr<QSettings> store_;
};

} // namespace headroom
