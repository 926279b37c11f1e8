// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include <memory>

class QAction;
class QWidget;

namespace headroom {

class MainWindow;
class ManualWindow;
class Settings;

/// Opens the manual at the page of the focused widget, or of the nearest parent with a page.
class ManualController : public QObject
{
    Q_OBJECT
public:
    /// `wanted` is the action that opens the manual; the action is added to the window's dialogs too.
    ManualController(MainWindow& window, Settings& settings, QAction& wanted);
    ~ManualController() override;

    void open(); ///< opens the page of the focused widget
    void close();
    ManualWindow* manual() const noexcept { return manual_.get(); } ///< null: not opened yet

    /// The page of a widget: "window.md#timeline".
    static QString linkOf(const QWidget* widget);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void nameLinks(MainWindow& window);

    Settings& settings_;
    QAction& wanted_;
    std::unique_ptr<ManualWindow> manual_;
};

} // namespace headroom
