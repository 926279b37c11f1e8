// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/elided_label.h"

#include "views/plot/text_line.h"

#include <QPainter>

namespace headroom {

ElidedLabel::ElidedLabel(Elide elide, QWidget* parent, int lines)
    : QLabel(parent)
    , elide_(elide)
    , lines_(lines)
{
    setTextFormat(Qt::PlainText);
}

QSize ElidedLabel::sizeHint() const
{
    return {QLabel::sizeHint().width(), linesHeight()};
}

QSize ElidedLabel::minimumSizeHint() const
{
    return {40, linesHeight()};
}

int ElidedLabel::linesHeight() const
{
    return QLabel::minimumSizeHint().height() + (lines_ - 1) * fontMetrics().lineSpacing();
}

void ElidedLabel::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.setPen(palette().color(foregroundRole()));
    const int room = contentsRect().width();
    QString left = text(), shown;
    for (int line = 1; line < lines_ && fontMetrics().horizontalAdvance(left) > room; ++line) {
        qsizetype end = left.lastIndexOf(u' ');
        while (end > 0 && fontMetrics().horizontalAdvance(left.first(end)) > room)
            end = left.lastIndexOf(u' ', end - 1);
        if (end <= 0)
            break;
        shown += left.first(end) + u'\n';
        left = left.sliced(end + 1);
    }
    shown += elide_ == Elide::name
        ? shortenedName(font(), left, room)
        : fontMetrics().elidedText(left, elide_ == Elide::end ? Qt::ElideRight : Qt::ElideMiddle, room);
    painter.drawText(contentsRect(), Qt::AlignLeft | Qt::AlignVCenter, shown);
}

} // namespace headroom
