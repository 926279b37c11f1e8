// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/legend_bar.h"

#include <QPainter>

#include <cmath>

namespace headroom {

LegendBar::LegendBar(QWidget* parent)
    : QWidget(parent)
{
    QSizePolicy policy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
}

void LegendBar::setTitle(const QString& title)
{
    title_ = title;
    setAccessibleName(title);
    updateGeometry();
    update();
}

void LegendBar::setEntries(std::vector<LegendEntry> entries)
{
    entries_ = std::move(entries);
    QStringList names;
    for (const auto& entry : entries_)
        names << entry.text;
    setAccessibleDescription(names.join(QStringLiteral(", ")));
    updateGeometry();
    update();
}

Legend LegendBar::laidOut(int width) const
{
    return {title_, entries_, static_cast<double>(width), Theme::of(*this)};
}

QSize LegendBar::sizeHint() const
{
    return {400, heightForWidth(400)};
}

int LegendBar::heightForWidth(int width) const
{
    return static_cast<int>(std::ceil(laidOut(width).height()));
}

void LegendBar::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    laidOut(width()).paint(painter, {0, 0});
}

} // namespace headroom
