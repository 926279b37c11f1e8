// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <QWidget>

#include <optional>
#include <vector>

class QLabel;
class QLineEdit;

namespace headroom {

/// The highest bytes in each of equal intervals of the time axis, so that every spike is kept.
using BytesOverTime = std::vector<Bytes>;

/// Bytes that the caching allocator has reserved and in use, over the step.
struct ReservedCurves
{
    double durationMs = 0;
    std::size_t intervals = 0; ///< of the whole time axis; a curve that ends early has fewer
    BytesOverTime active; ///< bytes in use, simulated; shorter if memory ran out
    BytesOverTime reserved; ///< reserved bytes, simulated under the settings; shorter if memory ran out
    BytesOverTime recorded; ///< reserved bytes on the real device; empty: not recorded
    std::optional<double> failureMs; ///< time of the out-of-memory error
    Bytes capacity = 0; ///< memory of the GPU; 0: no limit
};

/// Plots ReservedCurves: bytes in use as an area, reserved bytes as a line, and the GPU's memory as a horizontal line.
class ReservedPlot : public QWidget
{
    Q_OBJECT
public:
    explicit ReservedPlot(QWidget* parent = nullptr);

    void setCurves(ReservedCurves curves);
    const ReservedCurves& curves() const noexcept { return curves_; }

    QSize sizeHint() const override { return {640, 200}; }
    QSize minimumSizeHint() const override { return {240, 90}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    Bytes top() const;
    void drawAxes(QPainter& painter, const QRectF& area) const;
    void drawCurves(QPainter& painter, const QRectF& area) const;
    void drawLegend(QPainter& painter, const QRectF& area) const;

    ReservedCurves curves_;
};

/// The panel for trying settings of the caching allocator: a field for PYTORCH_CUDA_ALLOC_CONF, and a plot of the
/// reserved memory. The panel emits the input and shows the given result, without computing.
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
