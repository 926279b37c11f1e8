// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_draw_list.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

// Columns that begin before the step ends; at least one while the viewport touches the step.
int columnsBefore(double endMs, const TimelineViewport& viewport)
{
    if (endMs <= viewport.ms.begin)
        return 0;
    const double columns = std::ceil((endMs - viewport.ms.begin) / viewport.columnMs() - 1e-6);
    return static_cast<int>(std::clamp(columns, 1.0, static_cast<double>(viewport.columns)));
}

BandColumns cut(const TimelinePyramid& pyramid, const TimelineViewport& viewport)
{
    BandColumns made;
    const int count = columnsBefore(pyramid.timeline().durationMs, viewport);
    if (count == 0)
        return made;
    made.columns = pyramid.columns(viewport.ms.begin, viewport.ms.begin + count * viewport.columnMs(), count);
    made.totals.reserve(made.columns.size());
    for (const auto& column : made.columns)
        made.totals.push_back(total(column.atMaximum));
    return made;
}

} // namespace

int TimelineViewport::columnAt(double instant) const noexcept
{
    const double column = std::floor((instant - ms.begin) / columnMs());
    return static_cast<int>(std::clamp(column, 0.0, columns - 1.0));
}

TimelineDrawListPtr prepareDrawList(const TimelineScene& scene, const TimelineViewport& viewport,
                                    const TimelineDrawList* before)
{
    auto list = std::make_shared<TimelineDrawList>();
    list->viewport = viewport;
    list->planned = scene.hasPlan();
    list->main = cut(scene.main(), viewport);
    if (scene.hasPlan() && before && before->planned && before->viewport == viewport)
        list->outline = before->outline;
    else if (scene.hasPlan())
        list->outline = cut(*scene.recorded, viewport).totals;
    return list;
}

CategoryMask categoriesEver(const Timeline& timeline)
{
    CategoryMask mask = categoriesAtPeak(timeline);
    for (const auto& change : timeline.changes)
        mask |= maskOf(change.category);
    return mask;
}

CategoryMask categoriesAtPeak(const Timeline& timeline)
{
    CategoryMask mask = 0;
    for (std::size_t i = 0; i < categoryCount; ++i) {
        if (timeline.start[i] > 0 || timeline.atPeak[i] > 0)
            mask |= maskOf(static_cast<Category>(i));
    }
    return mask;
}

std::vector<Category> inStackOrder(CategoryMask mask)
{
    std::vector<Category> found;
    for (const auto category : stackOrder) {
        if (mask & maskOf(category))
            found.push_back(category);
    }
    return found;
}

} // namespace headroom
