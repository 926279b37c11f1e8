// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/fit/fit.h"
#include "views/plot/axis_map.h"
#include "views/plot/legend.h"

#include <QString>
#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// A size of a training step on a card.
struct FitPoint
{
    enum class Outcome { plain, planned, outOfMemory, failed };

    std::size_t row = 0; ///< of FitSeries::rows
    std::int64_t size = 0; ///< batch, or tokens of a sample
    double rate = 0; ///< samples or tokens a second; 0: the step does not run, or has no times
    Outcome outcome = Outcome::plain;
    bool isRecorded = false;
    QString words; ///< all numbers of the point

    bool runs() const noexcept { return outcome == Outcome::plain || outcome == Outcome::planned; }
};

/// A FitSeries as a line, sizes ascending. The indexes are points; nullopt: no such point.
struct FitCurve
{
    QString title; ///< of the card, with the other size if there are several
    std::vector<FitPoint> points;
    std::optional<std::size_t> largest;
    std::optional<std::size_t> fastest;
};

/// What a chart of a FitResult shows. A curve has the index of its series.
struct FitPicture
{
    std::vector<FitCurve> curves;
    bool ofSequences = false; ///< sizes are sequence lengths and rates tokens a second, not batches and samples

    bool hasRates() const noexcept; ///< a step runs, and has times
    bool hasSizesOutOfReach() const noexcept; ///< a size does not run, or failed
};
FitPicture fitPicture(const FitResult& result, bool ofSequences);

/// Title and legend of the chart.
QString fitTitle(const FitPicture& picture);
std::vector<LegendEntry> fitLegend(const FitPicture& picture, const Theme& theme);

/// The axes of a FitPicture: sizes on a logarithmic axis, rates from 0 on, and below 0 a row of marks for each curve
/// with sizes out of reach.
struct FitPlane
{
    FitPlane() = default;
    /// `canvas` includes the labels of the axes.
    FitPlane(const FitPicture& picture, const QRectF& canvas);

    QPointF at(std::size_t curve, const FitPoint& point) const;

    QRectF plot; ///< without the rows of marks
    AxisMap size; ///< of the logarithm to base 2
    AxisMap rate;
    std::vector<double> rows; ///< by curve: the height of its marks
    double ground = 0; ///< below the rows
};

/// Paints axes, lines, points and the names of the largest and the fastest size.
void paintFit(QPainter& painter, const FitPicture& picture, const FitPlane& plane, const Theme& theme);

/// The chart of FitPicture in the window. Left and Right go along a line, Up and Down to another line; a click, Return
/// and Enter choose a point.
class FitChart : public QWidget
{
    Q_OBJECT
public:
    explicit FitChart(QWidget* parent = nullptr);

    /// `empty` is the sentence shown if there is no point. The current point stays if the new picture has its size.
    void setPicture(FitPicture picture, const QString& empty);
    const FitPicture& picture() const noexcept { return picture_; }
    FitPlane plane() const; ///< in pixels of the widget

    QSize sizeHint() const override { return {640, 220}; }
    QSize minimumSizeHint() const override { return {260, 88}; }

Q_SIGNALS:
    void chosen(std::size_t series, std::size_t row); ///< indexes of FitResult::series and FitSeries::rows

protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

private:
    struct PointIndex
    {
        std::size_t curve = 0;
        std::size_t point = 0;
        bool operator==(const PointIndex&) const = default;
    };

    const FitPoint& pointAt(PointIndex at) const { return picture_.curves[at.curve].points[at.point]; }
    std::optional<PointIndex> pointNear(QPointF position) const; ///< nullopt: no point is near
    std::optional<PointIndex> firstPoint() const;
    std::optional<PointIndex> besideCurve(PointIndex from, int step) const; ///< the point of nearly the same size
    void go(std::optional<PointIndex> at);
    void choose(PointIndex at);

    FitPicture picture_;
    QString empty_;
    std::optional<PointIndex> current_;
};

} // namespace headroom
