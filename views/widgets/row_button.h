// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractButton>

namespace headroom {

/// A button as a row of a list: title, grey detail, and at the right the verb of its action.
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
