// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/row_button.h"

#include "views/theme/theme.h"

#include <QPainter>

namespace headroom {
namespace {

constexpr int buttonHeight = 46;
constexpr int textMargin = 14;

} // namespace

RowButton::RowButton(const QString& title, const QString& detail, const QString& verb, QWidget* parent)
    : QAbstractButton(parent)
    , detail_(detail)
    , verb_(verb)
{
    setText(title);
    setAccessibleDescription(detail);
    setAttribute(Qt::WA_Hover);
    setFocusPolicy(Qt::StrongFocus);
    setCursor(Qt::PointingHandCursor);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

QSize RowButton::sizeHint() const
{
    return {480, buttonHeight};
}

void RowButton::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const bool hovered = underMouse() && isEnabled();
    painter.setPen(QPen(hasFocus() ? theme.text : theme.line, 1));
    painter.setBrush(isDown() ? theme.selected : hovered ? theme.hover : theme.card);
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);

    painter.setFont(theme.bodyStrong);
    const int verbWidth = painter.fontMetrics().horizontalAdvance(verb_);
    painter.setPen(isEnabled() ? theme.text : theme.secondText);
    painter.drawText(rect().adjusted(textMargin, 0, -textMargin, 0), Qt::AlignRight | Qt::AlignVCenter, verb_);
    const int width_ = width() - 3 * textMargin - verbWidth;
    const QRect top(textMargin, 6, width_, height() / 2 - 6);
    const QRect bottom(textMargin, height() / 2, width_, height() / 2 - 6);
    painter.drawText(top, Qt::AlignLeft | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(text(), Qt::ElideMiddle, width_));
    painter.setFont(theme.caption);
    painter.setPen(theme.secondText);
    painter.drawText(bottom, Qt::AlignLeft | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(detail_, Qt::ElideMiddle, width_));
}

} // namespace headroom
