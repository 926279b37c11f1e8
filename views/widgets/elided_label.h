// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

namespace headroom {

/// One line of plain text that is shortened with an ellipsis if it does not fit.
class ElidedLabel : public QLabel
{
    Q_OBJECT
public:
    /// The part of a long text that gives way: its middle, its end, or what tells module names apart least
    /// (shortenedName()).
    enum class Elide { middle, end, name };
    explicit ElidedLabel(Elide elide, QWidget* parent = nullptr);

    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    Elide elide_;
};

} // namespace headroom
