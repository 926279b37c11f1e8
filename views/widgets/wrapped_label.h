// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QClipboard>
#include <QLabel>

#include <array>
#include <utility>

namespace headroom {

/// A label that wraps its text to the width of its column and caches the height. A QLabel lays out its text repeatedly
/// to find its own width, each time a neighbour changes; this label has no width of its own.
///
/// Long names break after dots and underscores; a part that is wider than the column is elided in the middle. The text
/// can be selected with the mouse and is copied as it was set. It is a QTextDocument only while it can be selected: the
/// layout of a document takes three times as long as that of plain text, and both look the same.
class WrappedLabel : public QLabel
{
    Q_OBJECT
public:
    explicit WrappedLabel(QWidget* parent = nullptr);

    void setText(const QString& text);
    const QString& text() const noexcept { return text_; } ///< as it was set: QLabel::text() has the break points

    QSize sizeHint() const override { return minimumSizeHint(); }
    QSize minimumSizeHint() const override;
    int heightForWidth(int width) const override;

protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void enterEvent(QEnterEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    void setSelectable(bool selectable);
    void showText();
    void mendCopy(QClipboard::Mode mode);

    struct Height
    {
        int width = -1;
        int height = 0;
    };
    mutable std::array<Height, 3> heights_; ///< the latest first
    QString text_;
    QList<std::pair<QString, QString>> elided_; ///< elided parts of the shown text, and the whole ones
};

} // namespace headroom
