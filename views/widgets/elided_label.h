// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

namespace headroom {

/// Plain text in one line, or in a few, that is shortened with an ellipsis if it does not fit.
class ElidedLabel : public QLabel
{
    Q_OBJECT
public:
    /// The part of a long text that gives way: its middle, its end, or what tells module names apart least
    /// (shortenedName()).
    enum class Elide { middle, end, name };
    /// A text that does not fit into one line takes up to `lines`. The label is always as high as all of them, so that
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

} // namespace headroom
