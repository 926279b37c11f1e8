// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRadioButton>

namespace headroom {

/// A radio button for one way to treat a module: a title, and below it the kept bytes (left) and the cost (right). The
/// checked one is drawn in the accent colour with a filled circle.
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
