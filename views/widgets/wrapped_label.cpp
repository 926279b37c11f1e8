// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/wrapped_label.h"

#include <QEvent>

#include <algorithm>

namespace headroom {
namespace {

constexpr int narrowest = 120;

} // namespace

WrappedLabel::WrappedLabel(QWidget* parent)
    : QLabel(parent)
{
    setWordWrap(true);
    setAlignment(Qt::AlignLeft | Qt::AlignTop); // in the middle plain text may begin between two pixels
}

QSize WrappedLabel::minimumSizeHint() const
{
    return {narrowest, fontMetrics().height()};
}

int WrappedLabel::heightForWidth(int width) const
{
    if (text_ != text()) {
        text_ = text();
        heights_.fill({});
    }
    const auto known = std::ranges::find(heights_, width, &Height::width);
    if (known != heights_.end())
        return known->height;
    std::shift_right(heights_.begin(), heights_.end(), 1);
    heights_.front() = {width, QLabel::heightForWidth(width)};
    return heights_.front().height;
}

void WrappedLabel::changeEvent(QEvent* event)
{
    if (event->type() == QEvent::FontChange || event->type() == QEvent::StyleChange)
        heights_.fill({});
    QLabel::changeEvent(event);
}

void WrappedLabel::setSelectable(bool selectable)
{
    setTextInteractionFlags(selectable ? Qt::TextSelectableByMouse : Qt::NoTextInteraction);
}

void WrappedLabel::enterEvent(QEnterEvent* event)
{
    setSelectable(true);
    QLabel::enterEvent(event);
}

void WrappedLabel::leaveEvent(QEvent* event)
{
    setSelectable(hasSelectedText() || hasFocus());
    QLabel::leaveEvent(event);
}

void WrappedLabel::focusOutEvent(QFocusEvent* event)
{
    QLabel::focusOutEvent(event);
    setSelectable(hasSelectedText() || underMouse());
}

} // namespace headroom
