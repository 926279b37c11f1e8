// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <QColor>
#include <QFont>
#include <QPalette>
#include <QString>

#include <array>

class QApplication;
class QWidget;

namespace headroom {

/// Palette tokens and fonts of one look, light or dark. A plain value: widgets never name a colour of their own.
///
/// The accent means "the plan changed this" and nothing else; danger means "does not fit" and nothing else. No category
/// has either hue. A widget asks Theme::of(*this) in its paint code and repaints on QEvent::PaletteChange.
struct Theme
{
    bool isDark = false;

    QColor surface; ///< behind the cards
    QColor card; ///< behind text and plots
    QColor line; ///< borders, grid
    QColor text;
    QColor secondText;
    QColor accent;
    QColor accentSoft; ///< the accent as a background of text
    QColor danger;
    QColor dangerSoft;
    QColor hover; ///< background of what the pointer is on
    QColor selected; ///< background of the selected row
    QColor ghost; ///< curves of other modules, behind the selected one
    QColor hatch; ///< strokes of "saved by the plan" and of the budgets that do not fit

    std::array<QColor, categoryCount> categories; ///< by value of Category
    const QColor& color(Category category) const { return categories[static_cast<std::size_t>(category)]; }
    QColor pale(Category category) const; ///< for bars of what was recorded, behind what the plan keeps

    std::array<QColor, 6> ramp; ///< groups of modules in their order: from dark to light and from cold to warm
    QColor rampColor(double share) const; ///< 0 .. 1 along it

    QFont body; ///< 12 px Inter
    QFont bodyStrong; ///< 12 px semibold
    QFont title; ///< 13 px semibold
    QFont selection; ///< 16 px semibold
    QFont caption; ///< 11 px
    QFont number; ///< 12 px Roboto: its digits have one width
    QFont numberStrong; ///< 12 px Roboto medium
    QFont numberCaption; ///< 11 px Roboto
    QFont numberLarge; ///< 20 px Roboto medium

    static Theme light();
    static Theme dark();
    static const Theme& make(bool isDark);

    /// The look in which a widget is painted now: by the lightness of its palette's window colour.
    static const Theme& of(const QWidget& widget);

    QPalette palette() const;
    QString styleSheet() const;
};

/// Makes the fonts in the resources known to Qt; needs a QGuiApplication. Calling it again does nothing.
void loadFonts();

/// Sets font, palette and style sheet of the whole program. Every widget gets QEvent::PaletteChange.
void applyTheme(QApplication& application, const Theme& theme);

/// Order of the bands from the bottom up: what no plan can move below, what it can move on top.
inline constexpr std::array<Category, categoryCount> stackOrder = {Category::nonPyTorch,
                                                                   Category::parameter,
                                                                   Category::buffer,
                                                                   Category::optimizer,
                                                                   Category::input,
                                                                   Category::other,
                                                                   Category::gradient,
                                                                   Category::unshardedParameter,
                                                                   Category::unshardedGradient,
                                                                   Category::communication,
                                                                   Category::activation,
                                                                   Category::temporary};

/// "Parameters", "Optimizer state", … as legends and tables print it.
QString categoryTitle(Category category);

} // namespace headroom
