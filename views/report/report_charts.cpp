// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/number_text.h"
#include "views/plot/timeline_paint.h"
#include "views/plot/timeline_readout.h"
#include "views/report/report_parts.h"

#include "core/trace/out_of_memory.h"
#include "core/trace/phase_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace headroom::html {

namespace {

// A chart is as wide as the page: places are in percent, and curves in a box of `grid` units that is stretched. So
// texts and lines keep their size on every screen.
constexpr int grid = 1000;
constexpr int curveColumns = 800;
constexpr int readoutColumns = 200;
constexpr double labelRoom = 1.2; ///< the vertical range, relative to the highest value

std::string number(double value, int decimals)
{
    std::array<char, 64> digits{};
    std::snprintf(digits.data(), digits.size(), "%.*f", decimals, value);
    return digits.data();
}

/// The two axes of a chart.
struct Plane
{
    AxisRange x;
    AxisRange y;

    double xShare(double value) const { return std::clamp((value - x.begin) / x.length(), 0.0, 1.0); }
    double yShare(double value) const { return 1 - std::clamp((value - y.begin) / y.length(), 0.0, 1.0); }
    std::string left(double value) const { return number(100 * xShare(value), 2) + '%'; }
    std::string top(double value) const { return number(100 * yShare(value), 2) + '%'; }
};

std::string line(std::string_view cssClass, const std::string& x1, const std::string& y1, const std::string& x2,
                 const std::string& y2)
{
    return "<line class=\"" + std::string(cssClass) + "\" x1=\"" + x1 + "\" y1=\"" + y1 + "\" x2=\"" + x2 + "\" y2=\""
        + y2 + "\"/>";
}

/// Text at a place in percent, moved by `dx` and `dy` pixels.
std::string textAt(std::string_view cssClass, const std::string& x, const std::string& y, int dx, int dy,
                   std::string_view content)
{
    return "<text class=\"" + std::string(cssClass) + "\" x=\"" + x + "\" y=\"" + y + "\" dx=\"" + std::to_string(dx)
        + "\" dy=\"" + std::to_string(dy) + "\">" + escaped(content) + "</text>";
}

/// A text beside a point, on the side that has more room.
std::string labelAt(std::string_view cssClass, const Plane& plane, double x, double y, int dy, std::string_view content)
{
    const bool isRight = plane.xShare(x) > 0.5;
    return textAt(std::string(cssClass) + (isRight ? " end" : ""), plane.left(x), plane.top(y), isRight ? -9 : 9, dy,
                  content);
}

std::string dot(std::string_view cssClass, const Plane& plane, double x, double y, double radius)
{
    return "<circle class=\"" + std::string(cssClass) + "\" cx=\"" + plane.left(x) + "\" cy=\"" + plane.top(y)
        + "\" r=\"" + number(radius, 1) + "\"/>";
}

std::string stretched(const std::string& curves)
{
    return "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">" + curves
        + "</svg>\n";
}

/// An axis as labels, with the lines of the grid for the vertical axis.
struct LabelledAxis
{
    Ticks ticks;
    double unit = 1; ///< of a label, in units of the data
    std::string suffix;

    double at(int i) const { return ticks.at(i) * unit; }
    std::string label(int i) const { return number(ticks.at(i), ticks.decimals) + suffix; }
};

LabelledAxis axisOf(AxisRange range, double unit, std::string suffix, int most)
{
    return {niceTicks({range.begin / unit, range.end / unit}, most), unit, std::move(suffix)};
}

/// A chart: the labels of both axes around `inside`, which is drawn over the grid. `over` are HTML elements on top.
std::string chart(const Plane& plane, const LabelledAxis& x, const LabelledAxis& y, const std::string& description,
                  const std::string& inside, const std::string& over)
{
    std::string rows;
    std::string lines;
    for (int i = 0; i < y.ticks.count; ++i) {
        const std::string top = plane.top(y.at(i));
        rows += textAt("axis end", "100%", top, 0, 4, y.label(i));
        lines += line("grid", "0", top, "100%", top);
    }
    std::string columns;
    for (int i = 0; i < x.ticks.count; ++i) {
        const double share = plane.xShare(x.at(i));
        columns += textAt(share < 0.04       ? "axis"
                              : share > 0.96 ? "axis end"
                                             : "axis middle",
                          plane.left(x.at(i)), "0", 0, 14, x.label(i));
    }
    return "<div class=\"chart\"><svg class=\"rows\" aria-hidden=\"true\">" + rows
        + "</svg>\n<div class=\"plot\"><svg role=\"img\" aria-label=\"" + escaped(description) + "\">" + lines + inside
        + "</svg>\n" + over + "</div>\n<svg class=\"columns\" aria-hidden=\"true\">" + columns + "</svg></div>\n";
}

// The timeline.

/// The area below heights, by column, as a staircase.
std::string area(std::string_view cssClass, const std::vector<Bytes>& heights, const Plane& plane)
{
    const auto y = [&](Bytes bytes) { return std::to_string(std::lround(grid * plane.yShare(double(bytes)))); };
    const auto x = [](std::size_t column) { return number(double(grid) * double(column) / curveColumns, 1); };
    std::string path = "M0 1000";
    std::string last = "1000";
    for (std::size_t column = 0; column < heights.size(); ++column) {
        std::string now = y(heights[column]);
        if (now == last)
            continue;
        path += (column > 0 ? "H" + x(column) : std::string()) + 'V' + now;
        last = std::move(now);
    }
    return "<path class=\"" + std::string(cssClass) + "\" d=\"" + path + 'H' + x(heights.size()) + "V1000Z\"/>";
}

std::string classOf(const Band& band)
{
    return categoryClass(*band.category);
}

/// The stack: each area reaches down to the axis, and the areas below cover it.
std::string stack(const TimelineDrawList& list, const Plane& plane)
{
    std::string drawn;
    if (!list.outline.empty())
        drawn += area("saved", list.outline, plane);
    std::vector<Bytes> heights = list.main.totals;
    for (std::size_t band = list.bands.size(); band-- > 0;) {
        drawn += area("band " + classOf(list.bands[band]), heights, plane);
        for (std::size_t column = 0; column < heights.size(); ++column)
            heights[column] -= list.main.at(column)[band];
    }
    return stretched(drawn);
}

std::string legend(const TimelineDrawList& list)
{
    std::string entries;
    for (const Band& band : visibleBands(list))
        entries += "<li><i class=\"" + classOf(band) + "\"></i>" + escaped(band.title.toStdString()) + "</li>";
    if (!list.outline.empty())
        entries += "<li><i class=\"saved\"></i>Without the plan</li>";
    return "<ul class=\"legend\">" + entries + "</ul>\n";
}

std::string phases(const Timeline& timeline, const Plane& plane)
{
    constexpr double narrow = 0.2; ///< least share of the axis for a name on a narrow screen
    constexpr double wide = 0.07;
    std::string drawn;
    for (const PhaseSpan& span : timeline.phases) {
        const std::string x = plane.left(span.beginMs);
        const double share = (span.endMs - span.beginMs) / plane.x.length();
        if (share < wide)
            continue;
        if (span.beginMs > 0)
            drawn += line("phase", x, "0", x, "100%");
        drawn += textAt(share < narrow ? "phase wide" : "phase", x, "0", 6, 14, phaseTitle(span.phase).toStdString());
    }
    return drawn;
}

std::string budgetLine(const Report& report, const Plane& plane)
{
    const PlanAnswer* const plan = report.of.plan.get();
    const auto budget = plan ? static_cast<double>(plan->plan.budget) : 0;
    if (budget <= 0 || budget > plane.y.end)
        return {};
    const std::string y = plane.top(budget);
    return line("budget", "0", y, "100%", y)
        + textAt("label wide", "0", y, 6, -5, "Budget " + bytesOf(plan->plan.budget));
}

std::string failures(const StepTrace& trace, const Plane& plane)
{
    std::string drawn;
    for (const OutOfMemory& failure : outOfMemoryEvents(trace)) {
        const std::string x = plane.left(failure.ms);
        if (drawn.empty())
            drawn += labelAt("label failure", plane, failure.ms, plane.y.end, 30, "Out of memory");
        drawn += line("failure", x, "0", x, "100%");
    }
    return drawn;
}

std::string peaks(const Report& report, const Plane& plane)
{
    const TimelinePtr planned = report.planned();
    const auto marks = peakMarks(*report.of.recorded, planned.get(), {}, {});
    constexpr double apart = 0.07; ///< least difference of two labels, as a share of the height
    std::string drawn;
    std::vector<double> taken;
    for (const PeakMark& mark : marks) {
        const auto bytes = static_cast<double>(mark.bytes);
        drawn += dot(mark.planned ? "peak planned" : "peak", plane, mark.ms, bytes, 3.5);
        const double y = plane.yShare(bytes);
        if (std::ranges::any_of(taken, [&](double other) { return std::abs(other - y) < apart; }))
            continue;
        taken.push_back(y);
        const std::string name = mark.planned ? "With the plan " : planned ? "Without the plan " : "Peak ";
        drawn += labelAt("label", plane, mark.ms, bytes, -8, name + bytesOf(mark.bytes));
    }
    return drawn;
}

/// What the pointer shows over a column.
std::string readout(const StepTrace& trace, const TimelineScene& scene, const TimelineDrawList& list,
                    std::size_t column)
{
    const Instant instant = describeInstant(&trace, scene.main(), list.main.changes[column]);
    std::string head = "<b>" + msOf(instant.ms) + "</b>";
    if (!instant.phase.isEmpty())
        head += ", " + escaped(instant.phase.toStdString());
    if (instant.recomputed)
        head += ", recomputed";
    if (!instant.module.isEmpty())
        head += ", " + nameOf(instant.module.toStdString());
    if (!instant.op.isEmpty())
        head += ", " + nameOf(instant.op.toStdString());
    std::string values = "<b>" + bytesOf(instant.sum) + "</b>";
    for (std::size_t band = list.bands.size(); band-- > 0;) {
        if (const Bytes bytes = list.main.at(column)[band]; bytes > 0)
            values += " <i class=\"" + classOf(list.bands[band]) + "\"></i>"
                + escaped(list.bands[band].title.toStdString()) + "&nbsp;" + bytesOf(bytes);
    }
    if (column < list.outline.size())
        values += " <i class=\"saved\"></i>without the plan&nbsp;" + bytesOf(list.outline[column]);
    return "<span>" + head + "<br>" + values + "</span>";
}

std::string readouts(const StepTrace& trace, const TimelineScene& scene, AxisRange ms)
{
    const TimelineDrawListPtr list = prepareDrawList(scene, {ms, readoutColumns});
    std::string items;
    for (std::size_t column = 0; column < readoutColumns; ++column)
        items += "<li>" + (column < list->main.size() ? readout(trace, scene, *list, column) : std::string()) + "</li>";
    return "<ol class=\"readouts\" aria-hidden=\"true\">" + items + "</ol>";
}

} // namespace

std::string timelineSection(const Report& report)
{
    const StepTrace& trace = report.trace();
    const TimelinePtr planned = report.planned();
    const TimelineScene scene = makeScene(report.of.recorded, planned);
    const Timeline& shown = scene.main().timeline();
    const Bytes peak = std::max(report.of.recorded->peak, shown.peak);
    const AxisRange ms{0, std::max({report.of.recorded->durationMs, shown.durationMs, 1e-6})};
    const Plane plane{ms, {0, std::max(1.0, static_cast<double>(peak)) * labelRoom}};
    const TimelineDrawListPtr list = prepareDrawList(scene, {ms, curveColumns});
    const ByteUnit unit = byteUnitFor(static_cast<double>(peak));
    const TimeUnit time = timeUnitFor(ms);
    const std::string inside = phases(shown, plane) + stack(*list, plane) + budgetLine(report, plane)
        + failures(trace, plane) + peaks(report, plane);
    const std::string description = "Allocated memory over the step, by category: " + bytesOf(report.of.recorded->peak)
        + " at the peak" + (planned ? ", " + bytesOf(planned->peak) + " with the plan" : std::string());
    return section("Memory over the step",
                   "<p class=\"note\">Allocated memory in " + std::string(unit.name) + bytesTag(trace.info)
                       + ", over time" + timesTag(trace.info) + "</p>\n" + legend(*list)
                       + chart(plane, axisOf(ms, time.ms, ' ' + std::string(time.name), 5),
                               axisOf(plane.y, unit.bytes, {}, 6), description, inside, readouts(trace, scene, ms))
                       + "<p class=\"note screen\">Point at the chart, or tap, for the values of an instant.</p>\n");
}

// The frontier.

namespace {

/// Between two plans of the frontier the cheaper plan does not fit yet.
std::string staircase(const std::vector<FrontierPoint>& points, const Plane& plane)
{
    std::string path;
    for (const FrontierPoint& point : points) {
        const std::string x = number(grid * plane.xShare(static_cast<double>(point.peak)), 1);
        const std::string y = number(grid * plane.yShare(point.costMs()), 1);
        path += path.empty() ? 'M' + x + ' ' + y : 'H' + x + 'V' + y;
    }
    return stretched("<path class=\"curve\" d=\"" + path + "\"/>");
}

std::string pointText(const FrontierPoint& point, double stepMs)
{
    return bytesOf(point.peak) + ": " + msOf(point.recomputeMs) + " of recomputation"
        + (point.movedBytes > 0 ? " and " + msOf(point.exposedMs) + " of waits for copies" : std::string())
        + (stepMs > 0 ? ", " + percentOf(point.costMs() / stepMs) + " of forward and backward" : std::string());
}

std::string dots(const std::vector<FrontierPoint>& points, const Plane& plane, double stepMs)
{
    std::string drawn;
    for (const FrontierPoint& point : points) {
        const auto x = static_cast<double>(point.peak);
        drawn += "<g><title>" + escaped(pointText(point, stepMs)) + "</title>"
            + dot("reach", plane, x, point.costMs(), 9) + dot("point", plane, x, point.costMs(), 2.5) + "</g>";
    }
    return drawn;
}

std::string frontierTable(const std::vector<FrontierPoint>& points, double stepMs)
{
    const bool moves = movesAny(points);
    std::vector<Rows::Column> columns{{"Peak", true}, {"Recomputation", true}};
    if (moves)
        columns.insert(columns.end(),
                       {{"Waits for copies", true}, {"To the host", true}, {"Pinned host memory", true}});
    columns.insert(columns.end(), {{"Of forward and backward", true}, {"A better plan saves at most", true}});
    Rows rows(columns);
    for (const FrontierPoint& point : points) {
        std::vector<std::string> cells{bytesOf(point.peak), msOf(point.recomputeMs)};
        if (moves)
            cells.insert(cells.end(), {msOf(point.exposedMs), bytesOf(point.movedBytes), bytesOf(point.hostBytes)});
        cells.insert(cells.end(), {stepMs > 0 ? percentOf(point.costMs() / stepMs) : "–", msOf(point.gapMs())});
        rows.add(cells);
    }
    return "<details><summary>All points as a table</summary>\n" + rows.text() + "</details>\n";
}

} // namespace

std::string frontierSection(const Report& report)
{
    const std::vector<FrontierPoint>& points = report.of.frontier;
    if (points.size() < 2)
        return {};
    double mostMs = 1e-6;
    for (const FrontierPoint& point : points)
        mostMs = std::max(mostMs, point.costMs());
    const auto first = static_cast<double>(points.front().peak);
    const auto last = static_cast<double>(points.back().peak);
    const double room = std::max((last - first) * 0.05, 1.0);
    const Plane plane{{std::max(0.0, first - room), last + room}, {-0.04 * mostMs, 1.12 * mostMs}};
    const ByteUnit unit = byteUnitFor(last);
    const TimeUnit time = timeUnitFor({0, mostMs});
    const double stepMs = forwardBackwardMs(report.trace());
    std::string inside = staircase(points, plane) + dots(points, plane, stepMs);
    if (const TimelinePtr planned = report.planned()) {
        const auto x = static_cast<double>(planned->peak);
        const double y = report.of.plan->plan.costMs();
        if (plane.x.contains(x) && plane.y.contains(y))
            inside += dot("peak planned", plane, x, y, 5) + labelAt("label", plane, x, y, -10, "The plan");
    }
    const std::string what = movesAny(points) ? "Recomputation and waits for copies" : "Recomputation";
    const std::string proof = isComplete(points) ? "The curve is complete, and each plan is proven optimal."
                                                 : "There may be more plans between the points.";
    return section("What less memory costs",
                   "<p class=\"note\">" + what + " in " + std::string(time.name) + timesTag(report.trace().info)
                       + ", over the peak in " + unit.name + tag("planned") + "</p>\n"
                       + chart(plane, axisOf(plane.x, unit.bytes, {}, 6), axisOf(plane.y, time.ms, {}, 5),
                               what + " over the peak: " + pointText(points.front(), stepMs) + " to "
                                   + pointText(points.back(), stepMs),
                               inside, {})
                       + "<p class=\"note\">" + proof + "</p>\n" + frontierTable(points, stepMs));
}

} // namespace headroom::html
