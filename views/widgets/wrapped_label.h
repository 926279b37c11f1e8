// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

#include <array>

namespace headroom {

/// A label that wraps its text to the width of its column and caches the height. A QLabel lays out its text repeatedly
/// to find its own width, each time a neighbour changes; this label has no width of its own.
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

private:
    struct Height
    {
        int width = -1;
        int height = 0;
    };
    mutable std::array<Height, 3> heights_; ///< the latest first
    mutable QString text_; ///< text of the cached heights
};

} // namespace headroom
