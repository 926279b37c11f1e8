// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/theme_switch.h"

#include "app/window/actions.h"
#include "views/theme/theme.h"

#include <QAction>
#include <QApplication>

namespace headroom {

ThemeSwitch::ThemeSwitch(Settings& settings, QObject* parent)
    : QObject(parent)
    , settings_(settings)
    , choice_(settings.theme())
{
    connect(&desktop_, &DesktopColours::changed, this, &ThemeSwitch::apply);
    apply();
}

void ThemeSwitch::wire(Actions& actions)
{
    connect(actions.themeDesktop, &QAction::triggered, this, [this] { choose(ThemeChoice::followDesktop); });
    connect(actions.themeLight, &QAction::triggered, this, [this] { choose(ThemeChoice::light); });
    connect(actions.themeDark, &QAction::triggered, this, [this] { choose(ThemeChoice::dark); });
    QAction* chosen = choice_ == ThemeChoice::light ? actions.themeLight
        : choice_ == ThemeChoice::dark              ? actions.themeDark
                                                    : actions.themeDesktop;
    chosen->setChecked(true);
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
