// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractButton>

namespace headroom {

/// A line of a list that does something when it is clicked: title, grey detail, and at the right a word for what will
/// happen.
class RowButton : public QAbstractButton
{
    Q_OBJECT
public:
    RowButton(const QString& title, const QString& detail, const QString& verb, QWidget* parent = nullptr);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString detail_;
    QString verb_;
};

} // namespace headroom
