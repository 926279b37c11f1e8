// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

class QLabel;
class QToolButton;

namespace headroom {

class ElidedLabel;

/// A comparison with a measured step as text.
struct ComparisonFacts
{
    QString title; ///< "Measured on cuda:0: run.hrs"
    QString axis; ///< a sentence: how the time axes were aligned
    QString peak; ///< predicted, measured, difference
    QString times; ///< the same for the time of ops
};

/// The line above the cards that shows a comparison: the measured step, the alignment of time, and the differences of
/// peak and time from the prediction.
class ComparisonBar : public QWidget
{
    Q_OBJECT
public:
    explicit ComparisonBar(QWidget* parent = nullptr);

    void setFacts(const ComparisonFacts& facts);
    QString text() const; ///< the whole text, for tests and screen readers

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
