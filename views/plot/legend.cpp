// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/legend.h"

#include "views/plot/text_line.h"
#include "views/plot/timeline_layers.h"
#include "views/theme/styles.h"

#include <QButtonGroup>
#include <QFontMetricsF>
#include <QPainter>
#include <QToolButton>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headroom {
namespace {

constexpr double rowHeight = 20;
constexpr double square = 9;
constexpr double squareGap = 6;
constexpr double entryGap = 15;
constexpr double titleGap = 24;

void paintSymbol(QPainter& painter, const LegendEntry& entry, const QRectF& box)
{
    painter.setPen(Qt::NoPen);
    painter.setBrush(entry.color);
    const double middle = std::floor(box.center().y()) + 0.5;
    switch (entry.symbol) {
    case LegendEntry::Symbol::square:
        painter.drawRoundedRect(box, 2, 2);
        break;
    case LegendEntry::Symbol::dot:
        painter.drawEllipse(box.adjusted(0.5, 0.5, -0.5, -0.5));
        break;
    case LegendEntry::Symbol::diamond: {
        const QPointF at = box.center();
        painter.drawPolygon(QPolygonF{{at.x(), box.top() - 0.5},
                                      {box.right() + 0.5, at.y()},
                                      {at.x(), box.bottom() + 0.5},
                                      {box.left() - 0.5, at.y()}});
        break;
    }
    case LegendEntry::Symbol::ring:
        painter.setPen(QPen(entry.color, 1.5));
        painter.setBrush(Qt::NoBrush);
        painter.drawEllipse(box.adjusted(1, 1, -1, -1));
        break;
    case LegendEntry::Symbol::cross:
        painter.setPen(QPen(entry.color, 1.75));
        painter.drawLine(box.topLeft() + QPointF(1.5, 1.5), box.bottomRight() - QPointF(1.5, 1.5));
        painter.drawLine(box.bottomLeft() + QPointF(1.5, -1.5), box.topRight() + QPointF(-1.5, 1.5));
        break;
    case LegendEntry::Symbol::line:
    case LegendEntry::Symbol::dash:
        painter.setPen(QPen(entry.color, 1.5));
        painter.drawLine(QPointF(box.left(), middle), QPointF(box.left() + 3.5, middle));
        if (entry.symbol == LegendEntry::Symbol::line)
            painter.drawLine(QPointF(box.left() + 3.5, middle), QPointF(box.right(), middle));
        else
            painter.drawLine(QPointF(box.right() - 3.5, middle), QPointF(box.right(), middle));
        break;
    case LegendEntry::Symbol::triangle:
    case LegendEntry::Symbol::hollowTriangle:
        paintChangedOpSymbol(painter, {box.center().x(), box.bottom() - 0.5}, box.width(), entry.color,
                             entry.symbol == LegendEntry::Symbol::triangle ? entry.color : QColor(Qt::transparent));
        break;
    case LegendEntry::Symbol::hatch: {
        painter.setPen(QPen(entry.color, 1));
        painter.setBrush(Qt::NoBrush);
        const auto inner = box.adjusted(0.5, 0.5, -0.5, -0.5);
        painter.drawRect(inner);
        painter.drawLine(inner.bottomLeft(), inner.topRight());
        painter.drawLine(QPointF(inner.left(), inner.center().y()), QPointF(inner.center().x(), inner.top()));
        painter.drawLine(QPointF(inner.center().x(), inner.bottom()), QPointF(inner.right(), inner.center().y()));
        break;
    }
    }
}

} // namespace

Legend::Legend(const QString& title, std::vector<LegendEntry> entries, double width, const Theme& theme,
               double afterTitle)
    : theme_(theme)
    , title_(shortenedName(theme.title, title, std::max(0.0, width - afterTitle)))
    , entries_(std::move(entries))
{
    std::vector<double> widths;
    for (const auto& entry : entries_)
        widths.push_back(square + squareGap + lineWidth(theme_.caption, entry.text));
    const double all = std::accumulate(widths.begin(), widths.end(), 0.0)
        + entryGap * static_cast<double>(entries_.empty() ? 0 : entries_.size() - 1);
    titleWidth_ = lineWidth(theme_.title, title_);
    const bool besideTitle = titleWidth_ + afterTitle + titleGap + all <= width;
    const bool alone = title_.isEmpty();
    double x = besideTitle && !alone ? width - all : 0;
    double y = besideTitle || alone || entries_.empty() ? 0 : rowHeight;
    for (const double entryWidth : widths) {
        if (!besideTitle && x > 0 && x + entryWidth > width) {
            x = 0;
            y += rowHeight;
        }
        places_.emplace_back(x, y);
        x += entryWidth + entryGap;
    }
    height_ = y + rowHeight;
}

void Legend::paint(QPainter& painter, QPointF topLeft) const
{
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setFont(theme_.title);
    painter.setPen(theme_.text);
    paintLine(painter, QRectF(topLeft, QSizeF(titleWidth_ + 2, rowHeight)), Qt::AlignLeft | Qt::AlignVCenter, title_);
    painter.setFont(theme_.caption);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const auto at = topLeft + places_[i];
        const QRectF box(at.x(), at.y() + (rowHeight - square) / 2, square, square);
        paintSymbol(painter, entries_[i], box);
        painter.setPen(theme_.secondText);
        const double width = lineWidth(theme_.caption, entries_[i].text);
        paintLine(painter, QRectF(box.right() + squareGap, at.y(), width + 2, rowHeight),
                  Qt::AlignLeft | Qt::AlignVCenter, entries_[i].text);
    }
}

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
