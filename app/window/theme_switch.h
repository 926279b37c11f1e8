// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/settings.h"
#include "views/theme/desktop_look.h"

#include <QObject>

namespace headroom {

class Actions;

/// Keeps the look of the program what the user chose: light, dark, or as the desktop is now.
class ThemeSwitch : public QObject
{
    Q_OBJECT
public:
    explicit ThemeSwitch(Settings& settings, QObject* parent = nullptr);

    void wire(Actions& actions); ///< those of the menu choose, and show the choice
    ThemeChoice choice() const noexcept { return choice_; }
    void choose(ThemeChoice choice); ///< and remembers it
    void useOnce(ThemeChoice choice); ///< without remembering it

private:
    void apply();

    Settings& settings_;
    DesktopLook desktop_;
    ThemeChoice choice_;
};

} // namespace headroom
