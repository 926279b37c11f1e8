// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_draw_list.h"

#include <QLineF>
#include <QRectF>
#include <QString>

#include <optional>
#include <vector>

class QPainter;

namespace headroom {

/// The plot's rectangle and both axes. The window and exported pictures share the functions below; only the bands
/// differ: the window paints an image of pixel columns, exports paint polygons.
struct TimelineGeometry
{
    QRectF plot;
    AxisMap ms; ///< to x
    AxisMap bytes; ///< to y; pixelBegin is the bottom

    static TimelineGeometry of(const QRectF& plot, AxisRange ms, AxisRange bytes);
};

/// The area of `box` that the others cover, counted for each of them.
double overlap(const QRectF& box, const std::vector<QRectF>& others);

/// The vertical range for a plot of `height` pixels: from 0 to above the highest peak, with room for its label.
AxisRange byteRangeFor(Bytes highestPeak, double height);

/// The peak of a timeline and the label.
struct PeakMark
{
    double ms = 0;
    Bytes bytes = 0;
    QString name; ///< "Planned peak"
    QString value; ///< "44.5 GiB"
    bool planned = false;
};

/// The marks of the recorded step and of the plan, if there is one; a single mark if both are the same point.
std::vector<PeakMark> peakMarks(const Timeline& recorded, const Timeline* planned, const QString& recordedName,
                                const QString& plannedName);

/// A peak mark with the place of the label.
struct PlacedPeak
{
    PeakMark mark;
    QPointF point;
    QRectF label;
};
/// Places labels of the marks inside the plot so that they cover neither each other, nor a mark, nor `avoid`, as far as
/// there is room.
std::vector<PlacedPeak> placePeaks(const std::vector<PeakMark>& marks, const TimelineGeometry& geometry,
                                   const Theme& theme, const std::vector<QRectF>& avoid);

void paintPeaks(QPainter& painter, const std::vector<PlacedPeak>& peaks, const Theme& theme);

/// A phase with the name above the plot.
struct PlacedPhase
{
    PhaseSpan span;
    double x = 0; ///< x of the begin
    QRectF label; ///< empty: no room beside a longer phase
};
/// Places phases on the plot; names reach at most to x = `right`.
std::vector<PlacedPhase> placePhases(const std::vector<PhaseSpan>& phases, const TimelineGeometry& geometry,
                                     double right, const Theme& theme);
void paintPhases(QPainter& painter, const std::vector<PlacedPhase>& phases, const TimelineGeometry& geometry,
                 const Theme& theme);
QString phaseTitle(Phase phase);
inline constexpr double phaseBandHeight = 22;

/// The time that the plan adds to the step.
struct AddedTime
{
    double recordedEndMs = 0;
    double plannedEndMs = 0;
    Bytes height = 0; ///< highest total during the added time: the mark is above it
};
std::optional<AddedTime> addedTime(const Timeline& recorded, const Timeline& planned, const TimelinePyramid& pyramid);

/// The added time as a line from the recorded end to the planned end, with its label above.
struct PlacedAddedTime
{
    QLineF measure;
    QRectF label;
    QString text;
};
/// Empty if the end of the step is not on the plot.
std::optional<PlacedAddedTime> placeAddedTime(const AddedTime& added, const TimelineGeometry& geometry,
                                              const Theme& theme);
void paintAddedTime(QPainter& painter, const PlacedAddedTime& added, const Theme& theme);

/// Paints bands, hatch and outline as polygons, for SVG and PDF.
void paintBandPolygons(QPainter& painter, const TimelineDrawList& list, const TimelineGeometry& geometry,
                       const Theme& theme);

void paintBudgetLine(QPainter& painter, Bytes budget, bool feasible, const TimelineGeometry& geometry,
                     const Theme& theme);

} // namespace headroom
