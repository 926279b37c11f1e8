// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/theme_switch.h"

#include "views/theme/theme.h"

#include <QApplication>

namespace headroom {

ThemeSwitch::ThemeSwitch(Settings& settings, QObject* parent)
    : QObject(parent)
    , settings_(settings)
    , choice_(settings.theme())
{
    connect(&desktop_, &DesktopLook::changed, this, &ThemeSwitch::apply);
    apply();
}

void ThemeSwitch::choose(ThemeChoice choice)
{
    settings_.setTheme(choice);
    useOnce(choice);
}

void ThemeSwitch::useOnce(ThemeChoice choice)
{
    choice_ = choice;
    apply();
}

void ThemeSwitch::apply()
{
    const bool dark = choice_ == ThemeChoice::dark || (choice_ == ThemeChoice::followDesktop && desktop_.isDark());
    applyTheme(*qApp, Theme::make(dark));
}

} // namespace headroom
