// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/theme/theme.h"

#include <QRectF>
#include <QString>

#include <vector>

class QPainter;

namespace headroom {

/// One entry of a legend.
struct LegendEntry
{
    enum class Symbol { square, hatch, line, dash, dot, triangle, hollowTriangle };

    QString text;
    QColor color;
    Symbol symbol = Symbol::square;

    bool operator==(const LegendEntry&) const = default;
};

/// A title with the entries right of it if they fit, else in rows below. Laid out for a width in the constructor;
/// painted by the window and by exported pictures.
class Legend
{
public:
    /// `afterTitle` is the width in pixels reserved after the title. A title that is still too wide is elided in the
    /// middle.
    Legend(const QString& title, std::vector<LegendEntry> entries, double width, const Theme& theme,
           double afterTitle = 0);

    double height() const noexcept { return height_; }
    const QString& title() const noexcept { return title_; } ///< as it is painted
    double titleWidth() const noexcept { return titleWidth_; }
    void paint(QPainter& painter, QPointF topLeft) const;

private:
    Theme theme_;
    QString title_;
    std::vector<LegendEntry> entries_;
    std::vector<QPointF> places_;
    double height_ = 0;
    double titleWidth_ = 0;
};

} // namespace headroom
