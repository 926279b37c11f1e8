// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractButton>
#include <QButtonGroup>
#include <QStringList>
#include <QTest>
#include <QWidget>

#include <algorithm>
#include <vector>

namespace headroom {

/// "QLineEdit filter of ModulePanel, …"
inline QString namesOf(const std::vector<QWidget*>& widgets)
{
    QStringList names;
    for (const QWidget* widget : widgets)
        names << QLatin1String(widget->metaObject()->className()) + QLatin1Char(' ') + widget->objectName()
                + QLatin1String(" of ") + QLatin1String(widget->parentWidget()->metaObject()->className());
    return names.join(QStringLiteral(",\n"));
}

/// The widgets that have the focus in turn when the user presses `key` in `window`, until it is where it began.
inline std::vector<QWidget*> focusRound(QWidget& window, Qt::Key key)
{
    std::vector<QWidget*> visited;
    QWidget* const first = window.focusWidget();
    int presses = 0;
    do {
        QWidget* const now = window.focusWidget();
        if (visited.empty() || visited.back() != now) // a text goes through its links first
            visited.push_back(now);
        QTest::keyClick(now, key, key == Qt::Key_Backtab ? Qt::ShiftModifier : Qt::NoModifier);
    } while (window.focusWidget() != first && ++presses < 500);
    return visited;
}

/// Whether a user who only presses Tab can reach the widget itself, and not one for it.
inline bool hasTabStop(const QWidget& window, const QWidget& widget)
{
    if (!widget.isVisibleTo(&window) || !widget.isEnabled() || widget.window() != &window || widget.focusProxy())
        return false;
    const auto* button = qobject_cast<const QAbstractButton*>(&widget);
    const bool isOneOfSeveral = button && button->isCheckable()
        && (button->autoExclusive() || (button->group() && button->group()->exclusive()));
    return widget.focusPolicy() & Qt::TabFocus && (!isOneOfSeveral || button->isChecked());
}

/// What is wrong with the tab order of a window; empty: Tab visits each stop once, and Backtab the same ones backward.
inline QString tabOrderFault(QWidget& window)
{
    if (!window.focusWidget())
        return QStringLiteral("no widget has the focus");
    const std::vector<QWidget*> forward = focusRound(window, Qt::Key_Tab);
    std::vector<QWidget*> backward = focusRound(window, Qt::Key_Backtab);
    std::reverse(backward.begin() + 1, backward.end());
    if (forward != backward) {
        const auto differ = std::ranges::mismatch(forward, backward);
        return QStringLiteral("forward, from where they differ:\n%1\nbackward:\n%2")
            .arg(namesOf({differ.in1, forward.cend()}).left(400), namesOf({differ.in2, backward.end()}).left(400));
    }
    std::vector<QWidget*> faults;
    for (QWidget* widget : window.findChildren<QWidget*>()) {
        const auto visits = std::ranges::count(forward, widget);
        if (visits > 1 || (visits == 0 && hasTabStop(window, *widget)))
            faults.push_back(widget);
    }
    return faults.empty() ? QString() : QStringLiteral("visited never or twice:\n") + namesOf(faults);
}

} // namespace headroom
