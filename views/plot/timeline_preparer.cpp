// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_preparer.h"

#include "views/plot/call_later.h"

namespace headroom {
namespace {

// The pyramid of a timeline; that of `last` if the timeline is the same, as during a zoom.
PyramidPtr pyramidOf(const TimelinePtr& timeline, const PreparedTimeline* last)
{
    if (!timeline)
        return nullptr;
    if (last) {
        for (const auto& known : {last->scene.recorded, last->scene.planned}) {
            if (known && &known->timeline() == timeline.get())
                return known;
        }
    }
    return std::make_shared<const TimelinePyramid>(timeline);
}

// Adds the stack by module. Groups are made once for a step, and their sums once for a plan.
void group(PreparedTimeline& made, const PreparedTimeline* last)
{
    const auto& request = made.request;
    if (!made.grouping)
        made.grouping = ModuleGrouping::of(*request.trace, request.own ? *request.own : *request.recorded);
    const auto& main = request.planned ? request.planned : request.recorded;
    if (last && last->scene.groups && &last->scene.groups->timeline() == main.get())
        made.scene.groups = last->scene.groups;
    else
        made.scene.groups = std::make_shared<const GroupedTimeline>(*request.trace, main, made.grouping);
}

} // namespace

void TimelinePreparer::request(TimelineRequest wanted)
{
    lane_.post([this, wanted = std::move(wanted), number = ++asked_](const std::stop_token&) {
        last_ = prepareTimeline(wanted, last_.get());
        callLater(this, [this, prepared = last_, number] {
            answered_ = number;
            Q_EMIT ready(prepared);
        });
    });
}

PreparedTimelinePtr prepareTimeline(const TimelineRequest& request, const PreparedTimeline* last)
{
    auto made = std::make_shared<PreparedTimeline>();
    made->request = request;
    if (!request.recorded || request.pixels.isEmpty() || request.viewport.columns <= 0)
        return made;
    const bool sameStep = last && last->list && last->request.recorded == request.recorded;
    made->scene.recorded = pyramidOf(request.recorded, last);
    made->scene.planned = pyramidOf(request.planned, last);
    made->scene.recordedCategories = sameStep ? last->scene.recordedCategories
        : request.own                         ? categoriesEver(*request.recorded) | categoriesEver(*request.own)
                                              : categoriesEver(*request.recorded);
    if (sameStep)
        made->grouping = last->grouping;
    if (request.byModule && request.trace)
        group(*made, sameStep ? last : nullptr);
    made->list = prepareDrawList(made->scene, request.viewport, sameStep ? last->list.get() : nullptr);
    const bool samePlan
        = sameStep && last->request.planned == request.planned && last->scene.groups == made->scene.groups;
    if (samePlan && last->request.overview == request.overview)
        made->overview = last->overview;
    else if (request.overview.columns > 0)
        made->overview = prepareDrawList(made->scene, request.overview, sameStep ? last->overview.get() : nullptr);
    made->image
        = rasterise(*made->list, request.pixels, request.bytes, request.pixelsPerPoint, Theme::make(request.dark));
    return made;
}

} // namespace headroom
