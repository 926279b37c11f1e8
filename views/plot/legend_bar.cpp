// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/legend_bar.h"

#include <QPainter>

#include <cmath>

namespace headroom {

LegendBar::LegendBar(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LegendBar::setTitle(const QString& title)
{
    if (title == title_)
        return;
    title_ = title;
    setAccessibleName(title);
    fitHeight();
    update();
}

void LegendBar::setEntries(std::vector<LegendEntry> entries)
{
    if (entries == entries_)
        return;
    entries_ = std::move(entries);
    QStringList names;
    for (const auto& entry : entries_)
        names << entry.text;
    setAccessibleDescription(names.join(QStringLiteral(", ")));
    fitHeight();
    update();
}

Legend LegendBar::laidOut() const
{
    return {title_, entries_, static_cast<double>(width()), Theme::of(*this)};
}

// A fixed height for the width that is there, not height-for-width: a layout with such an item forgets the minimum size
// of the plot around it.
void LegendBar::fitHeight()
{
    setFixedHeight(static_cast<int>(std::ceil(laidOut().height())));
}

QSize LegendBar::sizeHint() const
{
    return {400, height()};
}

void LegendBar::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    fitHeight();
}

void LegendBar::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    laidOut().paint(painter, {0, 0});
}

} // namespace headroom
