// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

class QLabel;
class QToolButton;

namespace headroom {

class ElidedLabel;

/// What a comparison with a measured step says, ready to be shown.
struct ComparisonFacts
{
    QString title; ///< "Measured on cuda:0: run.hrs"
    QString axis; ///< how time was aligned, a sentence
    QString peak; ///< predicted, measured, difference
    QString times; ///< the same of the ops' time
};

/// One line above the cards while a measured step is compared: which one, on what axis, and how far peak and time are
/// from the prediction.
class ComparisonBar : public QWidget
{
    Q_OBJECT
public:
    explicit ComparisonBar(QWidget* parent = nullptr);

    void setFacts(const ComparisonFacts& facts);
    QString text() const; ///< all of it, for tests and readers

Q_SIGNALS:
    void closed();

private:
    QLabel* figure(QWidget* column, const QString& caption);

    ElidedLabel* title_;
    ElidedLabel* axis_;
    QLabel* peak_;
    QLabel* times_;
    QToolButton* close_;
};

} // namespace headroom
