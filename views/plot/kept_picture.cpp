// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/kept_picture.h"

#include "views/theme/theme.h"

#include <QPainter>
#include <QWidget>
#include <QtMath>

namespace headroom {

void KeptPicture::paint(QPainter& painter, const QWidget& widget, const std::function<void(QPainter&)>& make)
{
    const Theme& theme = Theme::of(widget);
    const qreal density = widget.devicePixelRatioF();
    const QSize pixels(qCeil(widget.width() * density), qCeil(widget.height() * density));
    if (picture_.size() != pixels || picture_.devicePixelRatio() != density || theme_ != &theme) {
        picture_ = QPixmap(pixels);
        picture_.setDevicePixelRatio(density);
        picture_.fill(theme.card);
        theme_ = &theme;
        QPainter into(&picture_);
        make(into);
    }
    painter.drawPixmap(QPointF(0, 0), picture_);
}

} // namespace headroom
