// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/widgets/reserved_plot.h"

#include <QWidget>

class QLabel;
class QLineEdit;

namespace headroom {

/// The panel for trying settings of the caching allocator: a field for PYTORCH_CUDA_ALLOC_CONF, and a plot of the
/// reserved memory. It emits the input and shows the given result; it computes nothing.
class AllocatorPanel : public QWidget
{
    Q_OBJECT
public:
    explicit AllocatorPanel(QWidget* parent = nullptr);

    QString settings() const;
    void setSettings(const QString& settings); ///< emits no signal

    void showAnswer(const QString& words, const ReservedCurves& curves);
    void showProblem(const QString& sentence); ///< shows an error in the input; the plot stays

    ReservedPlot* plot() const noexcept { return plot_; }
    QLabel* words() const noexcept { return words_; }
    QLineEdit* settingsEdit() const noexcept { return settings_; }

Q_SIGNALS:
    void settingsChanged(); ///< emitted on every edit

private:
    QLineEdit* settings_;
    QLabel* words_;
    ReservedPlot* plot_;
};

} // namespace headroom
