// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/legend_bar.h"

#include "views/theme/looks.h"

#include <QButtonGroup>
#include <QPainter>
#include <QToolButton>

#include <cmath>

namespace headroom {
namespace {

constexpr int choicesGap = 10;
constexpr int choiceHeight = 20;

} // namespace

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
    layOut();
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
    layOut();
    update();
}

void LegendBar::setChoices(const QString& first, const QString& second)
{
    auto* group = new QButtonGroup(this);
    choices_ = {makeSegment(first, this), makeSegment(second, this)};
    for (auto* button : choices_) {
        button->setFocusPolicy(Qt::TabFocus);
        button->setProperty("small", true);
        group->addButton(button, button == choices_.front() ? 0 : 1);
    }
    choices_.front()->setChecked(true);
    connect(group, &QButtonGroup::idClicked, this, &LegendBar::chosen);
    layOut();
}

void LegendBar::choose(int index)
{
    choices_[static_cast<std::size_t>(index)]->setChecked(true);
}

void LegendBar::setChoicesEnabled(bool enabled)
{
    for (auto* button : choices_)
        button->setVisible(enabled);
    layOut();
    update();
}

double LegendBar::choicesWidth() const
{
    double width = 0;
    for (const auto* button : choices_)
        width += button && button->isVisibleTo(this) ? button->sizeHint().width() : 0;
    return width > 0 ? width + choicesGap : 0;
}

// The height is fixed for the current width. A layout with an item that has height-for-width would ignore the minimum
// size of the plot.
void LegendBar::layOut()
{
    legend_.emplace(title_, entries_, static_cast<double>(width()), Theme::of(*this), choicesWidth());
    setToolTip(legend_->title() == title_ ? QString() : title_);
    setFixedHeight(static_cast<int>(std::ceil(legend_->height())));
    int x = static_cast<int>(std::ceil(legend_->titleWidth() + choicesGap));
    for (auto* button : choices_) {
        if (!button)
            continue;
        button->setGeometry(x, 0, button->sizeHint().width(), choiceHeight);
        x += button->width();
    }
}

void LegendBar::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    layOut();
}

void LegendBar::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    if (legend_)
        legend_->paint(painter, {0, 0});
}

void LegendBar::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange)
        layOut();
}

} // namespace headroom
