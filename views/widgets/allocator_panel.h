// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/widgets/reserved_plot.h"

#include <QWidget>

class QLabel;
class QLineEdit;

namespace headroom {

/// The panel for trying settings of the caching allocator: fields for PYTORCH_CUDA_ALLOC_CONF and the GPU's memory, and
/// a plot of the reserved memory. It emits the input and shows the given result; it computes nothing.
class AllocatorPanel : public QWidget
{
    Q_OBJECT
public:
    explicit AllocatorPanel(QWidget* parent = nullptr);

    QString settings() const;
    QString card() const; ///< empty: no limit
    void setQuestion(const QString& settings, const QString& card); ///< emits no signal

    void showAnswer(const QString& words, const ReservedCurves& curves);
    void showProblem(const QString& sentence); ///< shows an error in the input; the plot stays

    ReservedPlot* plot() const noexcept { return plot_; }
    QLabel* words() const noexcept { return words_; }
    QLineEdit* settingsEdit() const noexcept { return settings_; }
    QLineEdit* cardEdit() const noexcept { return card_; }

Q_SIGNALS:
    void questionChanged(); ///< emitted on every edit

private:
    QLineEdit* settings_;
    QLineEdit* card_;
    QLabel* words_;
    ReservedPlot* plot_;
};

} // namespace headroom
