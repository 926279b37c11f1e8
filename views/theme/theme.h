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
class QPainter;
class QRectF;
class QWidget;

namespace headroom {

/// Colours and fonts of the light or the dark theme. Widgets use no other colours.
///
/// What carries meaning has a contrast of at least 3 to the card, as WCAG 2 asks of graphics: accent, host, danger,
/// `quiet`, `hatch`, categories, ramp. The accent only means "the plan changed this", beside `host` "the plan
/// recomputes this"; danger only means "does not fit". No category has the hue of accent or danger. A widget calls
/// Theme::of(*this) in its paint code and repaints on QEvent::PaletteChange.
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
    QColor host; ///< what the plan moves to host memory
    QColor hostSoft; ///< the same as a background of text
    QColor danger;
    QColor dangerSoft;
    QColor hover; ///< background of the item under the pointer
    QColor selected; ///< background of the selected row
    QColor ghost; ///< what is not selected, as a ground
    QColor quiet; ///< curves behind the selected one: of other modules, and of the estimate
    QColor hatch; ///< strokes of "saved by the plan" and of the budgets that do not fit; the recorded overview

    std::array<QColor, categoryCount> categories; ///< by value of Category
    const QColor& color(Category category) const { return categories[static_cast<std::size_t>(category)]; }
    /// A bar of recorded bytes, behind that of kept bytes: pale, with an edge of the whole colour.
    void paintPale(QPainter& painter, const QRectF& bar, Category category) const;

    std::array<QColor, 6> ramp; ///< colours of groups of modules, in order: from dark to light and from cold to warm
    QColor rampColor(double share) const; ///< `share`, 0 to 1, is the position on the ramp

    QFont body; ///< 12 px Inter
    QFont bodyStrong; ///< 12 px semibold
    QFont title; ///< 13 px semibold
    QFont selection; ///< 16 px semibold
    QFont caption; ///< 11 px
    QFont number; ///< 12 px Roboto: tabular digits
    QFont numberStrong; ///< 12 px Roboto medium
    QFont numberCaption; ///< 11 px Roboto
    QFont numberLarge; ///< 20 px Roboto medium

    static Theme light();
    static Theme dark();
    static const Theme& make(bool isDark);

    /// The theme of a widget, by the lightness of its palette's window colour.
    static const Theme& of(const QWidget& widget);

    QPalette palette() const;
    QString styleSheet() const;
};

/// Near black or white: what has more contrast to `ground`.
QColor inkOn(const QColor& ground);

/// Registers the fonts of the resources with Qt; needs a QGuiApplication. A second call does nothing.
void loadFonts();

/// Sets font, palette and style sheet of the application. Every widget gets QEvent::PaletteChange.
void applyTheme(QApplication& application, const Theme& theme);

/// Order of the bands from the bottom up: categories that a plan can change are on top.
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

/// "Parameters", "Optimizer state", …: the category's name in legends and tables.
QString categoryTitle(Category category);

} // namespace headroom
