// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/labels.h"

#include "views/plot/text_line.h"

#include <QEvent>
#include <QGuiApplication>
#include <QPainter>
#include <QRegularExpression>
#include <QTextDocumentFragment>

#include <algorithm>

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

namespace {

constexpr int narrowest = 120;

} // namespace

WrappedLabel::WrappedLabel(QWidget* parent)
    : QLabel(parent)
{
    setTextFormat(Qt::PlainText);
    setWordWrap(true);
    setAlignment(Qt::AlignLeft | Qt::AlignTop); // in the middle plain text may begin between two pixels
    connect(QGuiApplication::clipboard(), &QClipboard::changed, this, &WrappedLabel::mendCopy);
}

void WrappedLabel::setText(const QString& text)
{
    set(text, false);
}

void WrappedLabel::setHtml(const QString& html)
{
    set(html, true);
}

void WrappedLabel::set(const QString& text, bool isHtml)
{
    if (text == text_ && isHtml == isHtml_)
        return;
    text_ = text;
    isHtml_ = isHtml;
    setTextFormat(isHtml ? Qt::RichText : Qt::PlainText);
    showText();
}

void WrappedLabel::showText()
{
    static const QRegularExpression gap(QStringLiteral("(<[^>]*>|\\s|%1)+").arg(breakPoint));
    QFont widest = font();
    widest.setBold(isHtml_);
    QString shown = withBreakPoints(text_);
    elided_.clear();
    for (const QString& part : shown.split(gap, Qt::SkipEmptyParts)) {
        const QString fitting = part.size() < longWord
            ? part
            : QFontMetrics(widest).elidedText(part, Qt::ElideMiddle, contentsRect().width());
        if (fitting != part)
            elided_.emplace_back(fitting, part);
    }
    for (const auto& [fitting, part] : elided_)
        shown.replace(part, fitting);
    const QString whole = isHtml_ ? QTextDocumentFragment::fromHtml(text_).toPlainText() : text_;
    setAccessibleName(shown == text_ ? QString() : whole);
    setToolTip(elided_.isEmpty() ? QString() : whole);
    if (shown != QLabel::text())
        heights_.fill({});
    QLabel::setText(shown);
}

/// Replaces the copied selection by the same part of the text as set.
void WrappedLabel::mendCopy(QClipboard::Mode mode)
{
    if (!hasSelectedText())
        return;
    QClipboard& clipboard = *QGuiApplication::clipboard();
    const QString copied = clipboard.text(mode);
    if (copied != selectedText().replace(QChar::ParagraphSeparator, QChar::LineFeed))
        return;
    QString whole = copied;
    for (const auto& [fitting, part] : elided_)
        whole.replace(fitting, part);
    whole.remove(breakPoint);
    if (whole != copied)
        clipboard.setText(whole, mode);
}

QSize WrappedLabel::minimumSizeHint() const
{
    return {narrowest, fontMetrics().height()};
}

int WrappedLabel::heightForWidth(int width) const
{
    const auto known = std::ranges::find(heights_, width, &Height::width);
    if (known != heights_.end())
        return known->height;
    std::shift_right(heights_.begin(), heights_.end(), 1);
    heights_.front() = {width, QLabel::heightForWidth(width)};
    return heights_.front().height;
}

void WrappedLabel::changeEvent(QEvent* event)
{
    QLabel::changeEvent(event);
    if (event->type() == QEvent::FontChange || event->type() == QEvent::StyleChange) {
        heights_.fill({});
        showText();
    }
}

void WrappedLabel::resizeEvent(QResizeEvent* event)
{
    QLabel::resizeEvent(event);
    showText();
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
