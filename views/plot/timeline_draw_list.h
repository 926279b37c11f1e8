// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/task_runner.h"
#include "core/timeline/pyramid.h"
#include "views/plot/axis_map.h"
#include "views/plot/module_grouping.h"
#include "views/theme/theme.h"

#include <QImage>
#include <QObject>
#include <QSize>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace headroom {

using PyramidPtr = std::shared_ptr<const TimelinePyramid>;

/// A set of categories.
using CategoryMask = std::uint32_t;
constexpr CategoryMask maskOf(Category category) noexcept
{
    return CategoryMask{1} << static_cast<unsigned>(category);
}
CategoryMask categoriesEver(const Timeline& timeline); ///< categories with bytes at some instant

/// The input of a timeline plot: a step, or a step without and with a plan.
struct TimelineScene
{
    PyramidPtr recorded;
    PyramidPtr planned; ///< null: no plan
    CategoryMask recordedCategories = 0;
    GroupedTimelinePtr groups; ///< of main(), for a stack by module; null: stack by category

    bool hasPlan() const noexcept { return planned != nullptr; }
    const TimelinePyramid& main() const noexcept { return planned ? *planned : *recorded; } ///< its stack is drawn
};

/// Makes a scene. `trace` null: stack by category.
TimelineScene makeScene(TimelinePtr recorded, TimelinePtr planned, const StepTrace* trace = nullptr);

/// The shown range of time, and the number of pixel columns.
struct TimelineViewport
{
    AxisRange ms;
    int columns = 0;

    double columnMs() const noexcept { return ms.length() / columns; }
    int columnAt(double instant) const noexcept; ///< clamped to the viewport
    bool operator==(const TimelineViewport&) const = default;
};

/// A band of the stack.
struct Band
{
    QString title;
    std::optional<Category> category; ///< nullopt: a group of modules, coloured by Theme::rampColor()
    double ramp = 0; ///< 0 to 1

    QColor color(const Theme& theme) const { return category ? theme.color(*category) : theme.rampColor(ramp); }
};

/// A timeline in pixel columns, up to the end. Each column shows the instant of its highest total, so that its bands
/// add up to a total that occurs in the step.
struct BandColumns
{
    std::size_t bands = 0;
    std::vector<std::size_t> changes; ///< by column: number of changes up to the shown instant
    std::vector<Bytes> totals;
    std::vector<Bytes> parts; ///< bytes of the bands from the bottom up, column after column

    std::size_t size() const noexcept { return totals.size(); }
    std::span<const Bytes> at(std::size_t column) const { return std::span(parts).subspan(column * bands, bands); }
};

/// All data for painting, prepared on a worker thread.
struct TimelineDrawList
{
    TimelineViewport viewport;
    std::vector<Band> bands; ///< from the bottom up
    BandColumns main;
    std::vector<Bytes> outline; ///< totals of the recorded step if a plan is shown; else empty
    bool planned = false; ///< main is the planned step
};
using TimelineDrawListPtr = std::shared_ptr<const TimelineDrawList>;

/// Prepares a list. `before` may be null; its outline is reused for the same recorded step and viewport.
TimelineDrawListPtr prepareDrawList(const TimelineScene& scene, const TimelineViewport& viewport,
                                    const TimelineDrawList* before = nullptr);

/// The bands for a legend, from the top of the stack down: bands high enough to be visible somewhere. `whole`
/// is a list of the whole step.
std::vector<Band> visibleBands(const TimelineDrawList& whole);

/// Draws the columns into an image of `size` device pixels, a column per pixel. Bands are separated by a line of one
/// logical pixel in the card's colour; a hatch fills from the planned total up to the recorded outline; the outline is
/// on top. `bytes` is the vertical range; outside of the data the image is transparent. Runs on any thread.
QImage rasterise(const TimelineDrawList& list, QSize size, AxisRange bytes, double pixelsPerPoint, const Theme& theme);

/// The input of prepareTimeline().
struct TimelineRequest
{
    StepTracePtr trace; ///< for a stack by module; may be null
    TimelinePtr own; ///< timeline of the trace, by which modules are grouped; null: `recorded`
    TimelinePtr recorded; ///< null: nothing to draw
    TimelinePtr planned; ///< null: no plan
    TimelineViewport viewport; ///< its columns are the width of `pixels`
    QSize pixels; ///< size of the image in device pixels
    double pixelsPerPoint = 1;
    AxisRange bytes;
    TimelineViewport overview; ///< viewport of the overview strip
    bool byModule = false; ///< stack by module, not by category
    bool dark = false; ///< dark theme
};

/// The result of prepareTimeline(), for painting and hovering.
struct PreparedTimeline
{
    TimelineRequest request;
    TimelineScene scene;
    ModuleGroupingPtr grouping; ///< null until a request was by module
    TimelineDrawListPtr list;
    TimelineDrawListPtr overview;
    QImage image;
};
using PreparedTimelinePtr = std::shared_ptr<const PreparedTimeline>;

/// Prepares a timeline, on any thread. Reuses the parts of `last` that are the same; `last` may be null.
PreparedTimelinePtr prepareTimeline(const TimelineRequest& request, const PreparedTimeline* last);

/// Prepares timelines on a separate thread. A new request replaces a waiting request.
class TimelinePreparer : public QObject
{
    Q_OBJECT
public:
    using QObject::QObject;

    void request(TimelineRequest wanted);
    bool busy() const noexcept { return asked_ != answered_; } ///< whether a result is pending; GUI thread only

Q_SIGNALS:
    void ready(headroom::PreparedTimelinePtr prepared);

private:
    std::uint64_t asked_ = 0;
    std::uint64_t answered_ = 0;
    PreparedTimelinePtr last_; ///< used on the lane only
    TaskRunner lane_; ///< the last member: the thread ends before the other members are destroyed
};

} // namespace headroom
