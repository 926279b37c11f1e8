// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/settings.h"
#include "views/theme/styles.h"

#include <QObject>

namespace headroom {

class Actions;

/// Applies the theme that the user chose: light, dark, or that of the desktop.
class ThemeSwitch : public QObject
{
    Q_OBJECT
public:
    explicit ThemeSwitch(Settings& settings, QObject* parent = nullptr);

    void wire(Actions& actions); ///< connects the theme actions of the menu
    ThemeChoice choice() const noexcept { return choice_; }
    void choose(ThemeChoice choice); ///< applies and stores the choice
    void useOnce(ThemeChoice choice); ///< applies without storing

private:
    void apply();

    Settings& settings_;
    DesktopColours desktop_;
    ThemeChoice choice_;
};

} // namespace headroom
