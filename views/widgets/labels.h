// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QClipboard>
#include <QLabel>

#include <array>
#include <utility>

namespace headroom {

/// Plain text in a line or in a few lines, shortened with an ellipsis if too long.
class ElidedLabel : public QLabel
{
    Q_OBJECT
public:
    /// The part of a long text that gives way: the middle, the end, or what tells module names apart least
    /// (shortenedName()).
    enum class Elide { middle, end, name };
    /// A text too long for a line takes up to `lines`. The label is always as high as all lines, so that
    /// another text moves nothing else.
    explicit ElidedLabel(Elide elide, QWidget* parent = nullptr, int lines = 1);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    int linesHeight() const;

    Elide elide_;
    int lines_;
};

/// A label that wraps text to the width of the column and caches the height. A QLabel lays out text repeatedly
/// to find a width, each time a neighbour changes; this label has no own width.
///
/// Long names break after dots and underscores; a part that is wider than the column is elided in the middle. The text
/// can be selected with the mouse and is copied as set. The label is a QTextDocument only while selectable: the
/// layout of a document takes three times as long as that of plain text, and both look the same.
class WrappedLabel : public QLabel
{
    Q_OBJECT
public:
    explicit WrappedLabel(QWidget* parent = nullptr);

    void setText(const QString& text);
    void setHtml(const QString& html); ///< names of the user are escaped
    const QString& text() const noexcept { return text_; } ///< as set: QLabel::text() has the break points

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
    void set(const QString& text, bool isHtml);
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
    bool isHtml_ = false;
    QList<std::pair<QString, QString>> elided_; ///< elided parts of the shown text, and the whole parts
};

} // namespace headroom
