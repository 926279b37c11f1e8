// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/mainwindow.h"
#include "tests/views/block_engine.h"

#include <QObject>
#include <QTemporaryDir>

#include <memory>

namespace headroom {

/// The whole window on a synthetic step of eight blocks, with real widgets, a planner by blocks, settings of its own
/// and a script in place of the recorder. Every test begins with a new window.
class WindowFixture : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init();
    void cleanup() { destroyWindow(); }

protected:
    WindowFixture();

    void makeWindow(); ///< with the settings that the one before left
    void destroyWindow();
    void forgetSettings();
    void openStep(); ///< and waits for its plan

    MainWindow& window() { return *window_; }
    Settings& settings() { return *settings_; }
    BlockEngine::Control& control() { return *control_; }
    const QString& file() const { return file_; }
    Bytes peak() const { return peak_; } ///< of the recorded step
    QString inFolder(const QString& name) const { return folder_.filePath(name); }
    QString inspectorText(const char* label);

private:
    QTemporaryDir folder_;
    QString file_;
    QString settingsFile_;
    Bytes peak_ = 0;
    std::shared_ptr<BlockEngine::Control> control_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<MainWindow> window_;
};

} // namespace headroom
