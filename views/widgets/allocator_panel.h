// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/widgets/reserved_plot.h"

#include <QWidget>

class QLabel;
class QLineEdit;

namespace headroom {

/// The caching allocator as a what-if: its settings as PYTORCH_CUDA_ALLOC_CONF has them, the card's memory, and what it
/// reserves then. Says what was asked for, and shows what it is told.
class AllocatorPanel : public QWidget
{
    Q_OBJECT
public:
    explicit AllocatorPanel(QWidget* parent = nullptr);

    QString settings() const;
    QString card() const; ///< empty: no limit
    void setQuestion(const QString& settings, const QString& card); ///< without a signal

    void showAnswer(const QString& words, const ReservedCurves& curves);
    void showProblem(const QString& sentence); ///< of what was typed; the plot stays

    ReservedPlot* plot() const noexcept { return plot_; }
    QLabel* words() const noexcept { return words_; }
    QLineEdit* settingsEdit() const noexcept { return settings_; }
    QLineEdit* cardEdit() const noexcept { return card_; }

Q_SIGNALS:
    void questionChanged(); ///< while typing

private:
    QLineEdit* settings_;
    QLineEdit* card_;
    QLabel* words_;
    ReservedPlot* plot_;
};

} // namespace headroom
