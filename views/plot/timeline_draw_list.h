// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/pyramid.h"
#include "views/plot/axis_map.h"
#include "views/plot/module_grouping.h"
#include "views/theme/theme.h"

#include <QImage>

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
CategoryMask categoriesEver(const Timeline& timeline); ///< that hold a byte at any instant

/// What a timeline plot shows: one step, or one step and what a plan makes of it.
struct TimelineScene
{
    PyramidPtr recorded;
    PyramidPtr planned; ///< null: no plan
    CategoryMask recordedCategories = 0;
    GroupedTimelinePtr groups; ///< of main(), to stack by module; null: by category

    bool hasPlan() const noexcept { return planned != nullptr; }
    const TimelinePyramid& main() const noexcept { return planned ? *planned : *recorded; } ///< whose stack is drawn
};

/// The scene of timelines at hand. `trace` null: stacked by category.
TimelineScene makeScene(TimelinePtr recorded, TimelinePtr planned, const StepTrace* trace = nullptr);

/// The stretch of time on the screen, and into how many pixel columns it is cut.
struct TimelineViewport
{
    AxisRange ms;
    int columns = 0;

    double columnMs() const noexcept { return ms.length() / columns; }
    int columnAt(double instant) const noexcept; ///< clamped to the viewport
    bool operator==(const TimelineViewport&) const = default;
};

/// One band of the stack.
struct Band
{
    QString title;
    std::optional<Category> category; ///< none: a group of modules, coloured along the ramp
    double ramp = 0; ///< 0 .. 1

    QColor color(const Theme& theme) const { return category ? theme.color(*category) : theme.rampColor(ramp); }
};

/// One timeline cut into the pixel columns that lie before its end. Each column shows the instant of its highest total,
/// so that its bands add up to a total that the step really had.
struct BandColumns
{
    std::size_t bands = 0;
    std::vector<std::size_t> changes; ///< count of changes at the instant of each column
    std::vector<Bytes> totals;
    std::vector<Bytes> parts; ///< bands from the bottom up, column after column

    std::size_t size() const noexcept { return totals.size(); }
    std::span<const Bytes> at(std::size_t column) const { return std::span(parts).subspan(column * bands, bands); }
};

/// Everything that painting needs, prepared on a worker thread: painting looks nothing up.
struct TimelineDrawList
{
    TimelineViewport viewport;
    std::vector<Band> bands; ///< from the bottom up
    BandColumns main;
    std::vector<Bytes> outline; ///< totals of the recorded step while a plan is shown; else empty
    bool planned = false; ///< main is the planned step
};
using TimelineDrawListPtr = std::shared_ptr<const TimelineDrawList>;

/// `before`: a list of the same recorded step, whose outline is taken over where it is of the same viewport; may be
/// null.
TimelineDrawListPtr prepareDrawList(const TimelineScene& scene, const TimelineViewport& viewport,
                                    const TimelineDrawList* before = nullptr);

/// Bands that a legend lists, from the top of the stack down: those that are ever high enough to be seen. `whole` is a
/// list of the whole step.
std::vector<Band> visibleBands(const TimelineDrawList& whole);

/// The columns as an image of `size` device pixels, one column each: bands parted by a card-coloured edge of one
/// logical pixel, hatch from the planned total up to the recorded outline, the outline on top. `bytes` is the vertical
/// range; outside of the data the image is transparent. Runs on any thread.
QImage rasterise(const TimelineDrawList& list, QSize size, AxisRange bytes, double pixelsPerPoint, const Theme& theme);

} // namespace headroom
