// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/theme/theme.h"

#include <QRectF>
#include <QString>
#include <QWidget>

#include <array>
#include <optional>
#include <vector>

class QPainter;
class QToolButton;

namespace headroom {

/// An entry of a legend.
struct LegendEntry
{
    enum class Symbol { square, hatch, line, dash, dot, diamond, ring, cross, triangle, hollowTriangle };

    QString text;
    QColor color;
    Symbol symbol = Symbol::square;

    bool operator==(const LegendEntry&) const = default;
};

/// A title with the entries on the right if space allows, else in rows below; without a title, rows of entries. Laid
/// out for a width in the constructor; painted by the window and by exported pictures.
class Legend
{
public:
    /// `afterTitle` is the width in pixels reserved after the title. A title that is still too wide is elided in the
    /// middle.
    Legend(const QString& title, std::vector<LegendEntry> entries, double width, const Theme& theme,
           double afterTitle = 0);

    double height() const noexcept { return height_; }
    const QString& title() const noexcept { return title_; } ///< as painted
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

/// The header of a plot: title and legend, in as many rows as the width needs.
class LegendBar : public QWidget
{
    Q_OBJECT
public:
    explicit LegendBar(QWidget* parent = nullptr);

    void setTitle(const QString& title);
    void setEntries(std::vector<LegendEntry> entries);
    /// Shows two exclusive buttons after the title: the groupings of the plot's stack.
    void setChoices(const QString& first, const QString& second);
    void choose(int index); ///< emits no signal
    void setChoicesEnabled(bool enabled);

    QSize sizeHint() const override { return {400, height()}; }

Q_SIGNALS:
    void chosen(int index);

protected:
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void layOut(); ///< also sets the height
    double choicesWidth() const;

    QString title_;
    std::vector<LegendEntry> entries_;
    std::array<QToolButton*, 2> choices_{};
    std::optional<Legend> legend_; ///< nullopt: not laid out yet
};

} // namespace headroom
