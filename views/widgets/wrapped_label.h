// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

#include <array>

namespace headroom {

/// Text in as many lines as its width asks for, in a column that says how wide it is. A QLabel lays its text out again
/// and again to find a width of its own, each time that a neighbour changes; this one has none, and remembers its
/// height.
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
    mutable QString text_; ///< of the heights
};

} // namespace headroom
