// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/pyramid.h"
#include "views/plot/axis_map.h"
#include "views/theme/theme.h"

#include <QImage>

#include <memory>
#include <vector>

namespace headroom {

using PyramidPtr = std::shared_ptr<const TimelinePyramid>;

/// What a timeline plot shows: one step, or one step and what a plan makes of it.
struct TimelineScene
{
    PyramidPtr recorded;
    PyramidPtr planned; ///< null: no plan

    bool hasPlan() const noexcept { return planned != nullptr; }
    const TimelinePyramid& main() const noexcept { return planned ? *planned : *recorded; } ///< whose stack is drawn
};

/// The stretch of time on the screen, and into how many pixel columns it is cut.
struct TimelineViewport
{
    AxisRange ms;
    int columns = 0;

    double columnMs() const noexcept { return ms.length() / columns; }
    int columnAt(double instant) const noexcept; ///< clamped to the viewport
    bool operator==(const TimelineViewport&) const = default;
};

/// One timeline cut into pixel columns. Each column shows the instant of its highest total, so that its bands add up to
/// a total that the step really had.
struct BandColumns
{
    std::vector<TimelinePyramid::PixelColumn> columns; ///< those before the end of the step only
    std::vector<Bytes> totals; ///< of columns[i].atMaximum
};

/// Everything that painting needs, prepared on a worker thread: painting looks nothing up.
struct TimelineDrawList
{
    TimelineViewport viewport;
    BandColumns main;
    std::vector<Bytes> outline; ///< totals of the recorded step while a plan is shown; else empty
    bool planned = false; ///< main is the planned step
};
using TimelineDrawListPtr = std::shared_ptr<const TimelineDrawList>;

/// `before`: a list of the same recorded step, whose outline is taken over where it is of the same viewport; may be
/// null.
TimelineDrawListPtr prepareDrawList(const TimelineScene& scene, const TimelineViewport& viewport,
                                    const TimelineDrawList* before = nullptr);

/// A set of categories.
using CategoryMask = std::uint32_t;
constexpr CategoryMask maskOf(Category category) noexcept
{
    return CategoryMask{1} << static_cast<unsigned>(category);
}

/// Which categories ever hold a byte in a step.
CategoryMask categoriesEver(const Timeline& timeline);
/// Which hold any at its start or at its peak: enough for a plan, which adds no category to the step that it changes.
CategoryMask categoriesAtPeak(const Timeline& timeline);
/// From the bottom of the stack up: what a legend lists.
std::vector<Category> inStackOrder(CategoryMask mask);

/// The columns as an image of `size` device pixels, one column each: bands parted by a card-coloured edge of one
/// logical pixel, hatch from the planned total up to the recorded outline, the outline on top. `bytes` is the vertical
/// range; outside of the data the image is transparent. Runs on any thread.
QImage rasterise(const TimelineDrawList& list, QSize size, AxisRange bytes, double pixelsPerPoint, const Theme& theme);

} // namespace headroom
