// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

#include <array>

namespace headroom {

/// A label that wraps its text to the width of its column and caches the height. A QLabel lays out its text repeatedly
/// to find its own width, each time a neighbour changes; this label has no width of its own. Its text can be selected
/// with the mouse, and is a document only while it may be: that is laid out three times as slowly as plain text, and
/// looks the same.
class WrappedLabel : public QLabel
{
    Q_OBJECT
public:
    explicit WrappedLabel(QWidget* parent = nullptr);

    QSize sizeHint() const override { return minimumSizeHint(); }
    QSize minimumSizeHint() const override;
    int heightForWidth(int width) const override;

protected:
    void changeEvent(QEvent* event) override;
    void enterEvent(QEnterEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    void setSelectable(bool selectable);

    struct Height
    {
        int width = -1;
        int height = 0;
    };
    mutable std::array<Height, 3> heights_; ///< the latest first
    mutable QString text_; ///< text of the cached heights
};

} // namespace headroom
