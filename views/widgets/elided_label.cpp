// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/elided_label.h"

#include "views/plot/text_line.h"

#include <QPainter>

namespace headroom {

ElidedLabel::ElidedLabel(Elide elide, QWidget* parent)
    : QLabel(parent)
    , elide_(elide)
{
    setTextFormat(Qt::PlainText);
}

QSize ElidedLabel::minimumSizeHint() const
{
    return {40, QLabel::minimumSizeHint().height()};
}

void ElidedLabel::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.setPen(palette().color(foregroundRole()));
    const int room = contentsRect().width();
    const QString shown = elide_ == Elide::name
        ? shortenedName(font(), text(), room)
        : fontMetrics().elidedText(text(), elide_ == Elide::end ? Qt::ElideRight : Qt::ElideMiddle, room);
    painter.drawText(contentsRect(), Qt::AlignLeft | Qt::AlignVCenter, shown);
}

} // namespace headroom
