// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/option_button.h"

#include "views/plot/text_line.h"
#include "views/theme/theme.h"

#include <QPainter>

namespace headroom {
namespace {

constexpr int optionHeight = 40;
constexpr int radius = 6;
constexpr int textLeft = 30;
constexpr int textRight = 8;

} // namespace

OptionButton::OptionButton(const QString& title, QWidget* parent)
    : QRadioButton(title, parent)
{
    setAttribute(Qt::WA_Hover);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void OptionButton::setDetails(const QString& kept, const QString& cost)
{
    if (kept == kept_ && cost == cost_)
        return;
    kept_ = kept;
    cost_ = cost;
    setAccessibleDescription(cost.isEmpty() ? kept : kept + QStringLiteral(", ") + cost);
    update();
}

QSize OptionButton::sizeHint() const
{
    return {240, optionHeight};
}

QSize OptionButton::minimumSizeHint() const
{
    return {120, optionHeight};
}

bool OptionButton::hitButton(const QPoint& position) const
{
    return rect().contains(position);
}

void OptionButton::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF frame = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
    painter.setPen(hasFocus() ? QPen(theme.text, 1) : QPen(Qt::NoPen));
    if (isChecked())
        painter.setBrush(theme.accentSoft);
    else if (underMouse() && isEnabled())
        painter.setBrush(theme.hover);
    painter.drawRoundedRect(frame, radius, radius);

    const QPointF circle(16, height() / 2.0);
    painter.setPen(QPen(isChecked() ? theme.accent : theme.secondText, 1.4));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(circle, 5, 5);
    if (isChecked()) {
        painter.setPen(Qt::NoPen);
        painter.setBrush(theme.accent);
        painter.drawEllipse(circle, 2.6, 2.6);
    }

    const QRect top(textLeft, 4, width() - textLeft - textRight, height() / 2 - 4);
    const QRect bottom(textLeft, height() / 2, top.width(), height() / 2 - 4);
    painter.setFont(isChecked() ? theme.bodyStrong : theme.body);
    painter.setPen(!isEnabled() ? theme.secondText : isChecked() ? theme.accent : theme.text);
    paintElided(painter, top, Qt::AlignLeft | Qt::AlignVCenter, text(), Qt::ElideRight);
    painter.setFont(theme.numberCaption);
    painter.setPen(theme.secondText);
    const int costWidth = qRound(lineWidth(theme.numberCaption, cost_));
    paintLine(painter, bottom, Qt::AlignRight | Qt::AlignVCenter, cost_);
    paintElided(painter, bottom.adjusted(0, 0, -costWidth - 8, 0), Qt::AlignLeft | Qt::AlignVCenter, kept_,
                Qt::ElideRight);
}

} // namespace headroom
