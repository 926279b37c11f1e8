// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/result_figure.h"

#include "views/theme/theme.h"

#include <QFontMetrics>
#include <QPainter>

#include <algorithm>

namespace headroom {
namespace {

constexpr int captionHeight = 18;
constexpr int numberHeight = 28;
constexpr int restGap = 5;

} // namespace

ResultFigure::ResultFigure(const QString& caption, QWidget* parent)
    : QWidget(parent)
    , caption_(caption)
{
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    setValue(QStringLiteral("–"), {});
}

void ResultFigure::setValue(const QString& number, const QString& rest)
{
    if (number == number_ && rest == rest_)
        return;
    number_ = number;
    rest_ = rest;
    setAccessibleName(caption_ + QStringLiteral(": ") + number_ + QLatin1Char(' ') + rest_);
    const auto& theme = Theme::of(*this);
    const int needed = std::max(QFontMetrics(theme.body).horizontalAdvance(caption_),
                                QFontMetrics(theme.numberLarge).horizontalAdvance(number_) + restGap
                                    + QFontMetrics(theme.number).horizontalAdvance(rest_));
    if (needed > widest_) {
        widest_ = needed;
        updateGeometry();
    }
    update();
}

void ResultFigure::setMood(Mood mood)
{
    if (mood == mood_)
        return;
    mood_ = mood;
    update();
}

QSize ResultFigure::sizeHint() const
{
    return {std::max(widest_ + 4, 96), captionHeight + numberHeight};
}

void ResultFigure::paintEvent(QPaintEvent*)
{
    const auto& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setFont(theme.body);
    painter.setPen(theme.secondText);
    painter.drawText(QRect(0, 0, width(), captionHeight), Qt::AlignLeft | Qt::AlignVCenter, caption_);
    const int baseline = captionHeight + QFontMetrics(theme.numberLarge).ascent() + 2;
    painter.setFont(theme.numberLarge);
    painter.setPen(mood_ == Mood::danger ? theme.danger : mood_ == Mood::old ? theme.secondText : theme.text);
    painter.drawText(QPoint(0, baseline), number_);
    const int x = QFontMetrics(theme.numberLarge).horizontalAdvance(number_) + restGap;
    painter.setFont(theme.number);
    painter.setPen(theme.secondText);
    painter.drawText(QPoint(x, baseline), rest_);
}

} // namespace headroom
