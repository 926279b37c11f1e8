// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_draw_list.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

using PixelColumns = std::vector<TimelinePyramid::PixelColumn>;

// Columns that begin before the step ends; at least one while the viewport touches the step.
int columnsBefore(double endMs, const TimelineViewport& viewport)
{
    if (endMs <= viewport.ms.begin)
        return 0;
    const double columns = std::ceil((endMs - viewport.ms.begin) / viewport.columnMs() - 1e-6);
    return static_cast<int>(std::clamp(columns, 1.0, static_cast<double>(viewport.columns)));
}

PixelColumns cut(const TimelinePyramid& pyramid, const TimelineViewport& viewport)
{
    const int count = columnsBefore(pyramid.timeline().durationMs, viewport);
    if (count == 0)
        return {};
    return pyramid.columns(viewport.ms.begin, viewport.ms.begin + count * viewport.columnMs(), count);
}

std::vector<Bytes> totalsOf(const PixelColumns& columns)
{
    std::vector<Bytes> totals;
    totals.reserve(columns.size());
    for (const auto& column : columns)
        totals.push_back(total(column.atMaximum));
    return totals;
}

// Adds a band for each category of the recorded step and of the shown columns.
void stackByCategory(const TimelineScene& scene, const PixelColumns& columns, TimelineDrawList& list)
{
    CategoryMask mask = scene.recordedCategories;
    for (const auto& column : columns) {
        for (std::size_t i = 0; i < categoryCount; ++i)
            mask |= column.atMaximum[i] > 0 ? maskOf(static_cast<Category>(i)) : 0;
    }
    for (const auto category : stackOrder) {
        if (mask & maskOf(category))
            list.bands.push_back({categoryTitle(category), category, 0});
    }
    list.main.parts.reserve(columns.size() * list.bands.size());
    for (const auto& column : columns) {
        for (const auto& band : list.bands)
            list.main.parts.push_back(column.atMaximum[static_cast<std::size_t>(*band.category)]);
    }
}

void stackByModule(const GroupedTimeline& groups, const PixelColumns& columns, TimelineDrawList& list)
{
    const auto& titles = groups.grouping().titles;
    constexpr std::size_t named = ModuleGrouping::otherGroup + 1;
    for (std::size_t i = 0; i < titles.size(); ++i) {
        const double last = std::max(1.0, static_cast<double>(titles.size() - named) - 1);
        Band band{QString::fromStdString(titles[i]), std::nullopt, static_cast<double>(i - named) / last};
        if (i == ModuleGrouping::optimizerGroup)
            band.category = Category::optimizer;
        if (i == ModuleGrouping::otherGroup)
            band.category = Category::buffer; // its grey
        list.bands.push_back(std::move(band));
    }
    list.main.parts.resize(columns.size() * titles.size());
    for (std::size_t i = 0; i < columns.size(); ++i)
        groups.bytesAt(columns[i].maximumChange, std::span(list.main.parts).subspan(i * titles.size(), titles.size()));
}

} // namespace

CategoryMask categoriesEver(const Timeline& timeline)
{
    CategoryMask mask = 0;
    for (std::size_t i = 0; i < categoryCount; ++i)
        mask |= timeline.start[i] > 0 ? maskOf(static_cast<Category>(i)) : 0;
    for (const auto& change : timeline.changes)
        mask |= maskOf(change.category);
    return mask;
}

TimelineScene makeScene(TimelinePtr recorded, TimelinePtr planned, const StepTrace* trace)
{
    TimelineScene scene;
    scene.recorded = std::make_shared<const TimelinePyramid>(recorded);
    scene.planned = planned ? std::make_shared<const TimelinePyramid>(planned) : nullptr;
    scene.recordedCategories = categoriesEver(*recorded);
    if (trace)
        scene.groups = std::make_shared<const GroupedTimeline>(*trace, planned ? planned : recorded,
                                                               ModuleGrouping::of(*trace, *recorded));
    return scene;
}

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
    const auto columns = cut(scene.main(), viewport);
    list->main.totals = totalsOf(columns);
    for (const auto& column : columns)
        list->main.changes.push_back(column.maximumChange);
    if (scene.groups)
        stackByModule(*scene.groups, columns, *list);
    else
        stackByCategory(scene, columns, *list);
    list->main.bands = list->bands.size();
    if (scene.hasPlan() && before && before->planned && before->viewport == viewport)
        list->outline = before->outline;
    else if (scene.hasPlan())
        list->outline = totalsOf(cut(*scene.recorded, viewport));
    return list;
}

std::vector<Band> visibleBands(const TimelineDrawList& whole)
{
    constexpr double leastShare = 0.002; // of the peak: a pixel
    const auto& main = whole.main;
    if (main.totals.empty())
        return {};
    const double peak = static_cast<double>(*std::max_element(main.totals.begin(), main.totals.end()));
    std::vector<Band> visible;
    for (std::size_t band = whole.bands.size(); band-- > 0;) {
        Bytes most = 0;
        for (std::size_t column = 0; column < main.size(); ++column)
            most = std::max(most, main.at(column)[band]);
        if (static_cast<double>(most) >= leastShare * peak)
            visible.push_back(whole.bands[band]);
    }
    return visible;
}

} // namespace headroom
