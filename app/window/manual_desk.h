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

/// Opens the manual: the page of what has the focus, which a widget says itself or the nearest of its parents that has
/// one.
class ManualDesk : public QObject
{
    Q_OBJECT
public:
    /// `wanted` asks for the manual; the sheets of the window get it, too.
    ManualDesk(MainWindow& window, Settings& settings, QAction& wanted);
    ~ManualDesk() override;

    void open(); ///< the page of the widget that has the focus
    void close();
    ManualWindow* manual() const noexcept { return manual_.get(); } ///< null: it was not opened yet

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
