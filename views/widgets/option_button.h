// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRadioButton>

namespace headroom {

/// One of several ways to treat a module: a title, and below it what is kept (left) and what that costs (right). The
/// chosen one is drawn in the accent and its circle is filled.
class OptionButton : public QRadioButton
{
    Q_OBJECT
public:
    explicit OptionButton(const QString& title, QWidget* parent = nullptr);

    void setDetails(const QString& kept, const QString& cost);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    bool hitButton(const QPoint& position) const override;

private:
    QString kept_;
    QString cost_;
};

} // namespace headroom
