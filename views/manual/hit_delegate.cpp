// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/manual/hit_delegate.h"

#include "views/theme/theme.h"

#include <QApplication>
#include <QPainter>
#include <QTextLayout>

namespace headroom {
namespace {

constexpr int sideRoom = 10;
constexpr int upperRoom = 7;
constexpr int excerptLines = 2;

QList<QTextLayout::FormatRange> found(const QString& text, const QStringList& words, const Theme& theme)
{
    QTextCharFormat look;
    look.setForeground(theme.text);
    look.setFontWeight(QFont::DemiBold);
    QList<QTextLayout::FormatRange> ranges;
    for (const QString& word : words) {
        for (qsizetype at = text.indexOf(word, 0, Qt::CaseInsensitive); at >= 0;
             at = text.indexOf(word, at + word.size(), Qt::CaseInsensitive))
            ranges.push_back({static_cast<int>(at), static_cast<int>(word.size()), look});
    }
    return ranges;
}

/// Draws the first lines of the text.
void drawLines(QPainter& painter, const QString& text, const QRect& place, const QStringList& words, const Theme& theme)
{
    QTextLayout layout(text, theme.caption);
    layout.setFormats(found(text, words, theme));
    layout.beginLayout();
    int y = 0;
    for (int i = 0; i < excerptLines; ++i) {
        QTextLine line = layout.createLine();
        if (!line.isValid())
            break;
        line.setLineWidth(place.width());
        line.setPosition({0.0, static_cast<double>(y)});
        y += QFontMetrics(theme.caption).lineSpacing();
    }
    layout.endLayout();
    painter.setPen(theme.secondText);
    layout.draw(&painter, place.topLeft());
}

} // namespace

void HitDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    QStyleOptionViewItem ground(option);
    initStyleOption(&ground, index);
    ground.text.clear();
    const QWidget* widget = option.widget;
    (widget ? widget->style() : QApplication::style())->drawControl(QStyle::CE_ItemViewItem, &ground, painter, widget);
    if (!widget)
        return;
    const Theme& theme = Theme::of(*widget);
    painter->save();
    const QRect place = option.rect.adjusted(sideRoom, upperRoom, -sideRoom, -upperRoom);
    const QFontMetrics title(theme.bodyStrong);
    painter->setFont(theme.bodyStrong);
    painter->setPen(theme.text);
    painter->drawText(QRect(place.topLeft(), QSize(place.width(), title.height())), Qt::AlignLeft | Qt::AlignTop,
                      title.elidedText(index.data().toString(), Qt::ElideRight, place.width()));
    drawLines(*painter, index.data(excerptRole).toString(), place.adjusted(0, title.lineSpacing() + 1, 0, 0), words_,
              theme);
    painter->restore();
}

QSize HitDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex&) const
{
    if (!option.widget)
        return {};
    const Theme& theme = Theme::of(*option.widget);
    const int height = QFontMetrics(theme.bodyStrong).lineSpacing() + 1
        + excerptLines * QFontMetrics(theme.caption).lineSpacing() + 2 * upperRoom;
    return {0, height};
}

} // namespace headroom
