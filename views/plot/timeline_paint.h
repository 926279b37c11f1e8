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

/// Where a timeline is drawn: the plot's rectangle and its two axes. The window and the exported picture share what
/// follows; only the bands differ, an image of pixel columns there, polygons here.
struct TimelineGeometry
{
    QRectF plot;
    AxisMap ms; ///< to x
    AxisMap bytes; ///< to y; pixelBegin is the bottom

    static TimelineGeometry of(const QRectF& plot, AxisRange ms, AxisRange bytes);
};

/// The vertical range for a plot of `height` pixels: from 0 to so much above the highest peak that its label has room.
AxisRange byteRangeFor(Bytes highestPeak, double height);

/// A highest point of a timeline, with its words.
struct PeakMark
{
    double ms = 0;
    Bytes bytes = 0;
    QString name; ///< "Planned peak"
    QString value; ///< "44.5 GiB"
    bool planned = false;
};

/// Of the recorded step and, where there is one, of the plan; one mark when both are the same point.
std::vector<PeakMark> peakMarks(const Timeline& recorded, const Timeline* planned, const QString& recordedName,
                                const QString& plannedName);

/// A label beside the mark that it belongs to.
struct PlacedPeak
{
    PeakMark mark;
    QPointF point;
    QRectF label;
};
/// Marks inside the plot, with labels that cover neither each other, nor another mark, nor `avoid`, as far as there is
/// room.
std::vector<PlacedPeak> placePeaks(const std::vector<PeakMark>& marks, const TimelineGeometry& geometry,
                                   const Theme& theme, const std::vector<QRectF>& avoid);

void paintPeaks(QPainter& painter, const std::vector<PlacedPeak>& peaks, const Theme& theme);

/// A phase with its name above the plot.
struct PlacedPhase
{
    PhaseSpan span;
    double x = 0; ///< where it begins
    QRectF label; ///< empty: a longer phase beside it leaves no room
};
/// Phases on the plot; `right` is how far names may reach.
std::vector<PlacedPhase> placePhases(const std::vector<PhaseSpan>& phases, const TimelineGeometry& geometry,
                                     double right, const Theme& theme);
void paintPhases(QPainter& painter, const std::vector<PlacedPhase>& phases, const TimelineGeometry& geometry,
                 const Theme& theme);
QString phaseTitle(Phase phase);
inline constexpr double phaseBandHeight = 22;

/// By how much the plan makes the step longer.
struct AddedTime
{
    double recordedEndMs = 0;
    double plannedEndMs = 0;
    Bytes height = 0; ///< above which there is room: the highest total of that stretch
};
std::optional<AddedTime> addedTime(const Timeline& recorded, const Timeline& planned, const TimelinePyramid& pyramid);

/// The added time as a measure from the one end to the other, with its label above.
struct PlacedAddedTime
{
    QLineF measure;
    QRectF label;
    QString text;
};
/// Nothing where the end of the step is not on the plot.
std::optional<PlacedAddedTime> placeAddedTime(const AddedTime& added, const TimelineGeometry& geometry,
                                              const Theme& theme);
void paintAddedTime(QPainter& painter, const PlacedAddedTime& added, const Theme& theme);

/// Bands, hatch and outline as polygons, for SVG and PDF.
void paintBandPolygons(QPainter& painter, const TimelineDrawList& list, const TimelineGeometry& geometry,
                       const Theme& theme);

void paintBudgetLine(QPainter& painter, Bytes budget, bool feasible, const TimelineGeometry& geometry,
                     const Theme& theme);

} // namespace headroom
