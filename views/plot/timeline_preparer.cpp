// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_preparer.h"

#include <algorithm>

namespace headroom {
namespace {

// The pyramid of a timeline: that of the answer before where it is the same timeline, as it is while a view zooms.
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

} // namespace

TimelinePreparer::TimelinePreparer(QObject* parent)
    : QObject(parent)
    , worker_([this](std::stop_token stop) { run(std::move(stop)); })
{
}

TimelinePreparer::~TimelinePreparer()
{
    worker_.request_stop();
    worker_.join();
}

void TimelinePreparer::request(TimelineRequest wanted)
{
    {
        const std::lock_guard lock(mutex_);
        waiting_ = Job{std::move(wanted), ++asked_};
    }
    wake_.notify_one();
}

void TimelinePreparer::run(std::stop_token stop)
{
    PreparedTimelinePtr last;
    while (true) {
        Job job;
        {
            std::unique_lock lock(mutex_);
            if (!wake_.wait(lock, stop, [this] { return waiting_.has_value(); }))
                return;
            job = *std::exchange(waiting_, std::nullopt);
        }
        last = prepareTimeline(job.request, last.get());
        QMetaObject::invokeMethod(
            this,
            [this, prepared = last, number = job.number] {
                answered_ = number;
                Q_EMIT ready(prepared);
            },
            Qt::QueuedConnection);
    }
}

PreparedTimelinePtr prepareTimeline(const TimelineRequest& request, const PreparedTimeline* last)
{
    auto made = std::make_shared<PreparedTimeline>();
    made->request = request;
    if (!request.recorded || request.pixels.isEmpty() || request.viewport.columns <= 0)
        return made;
    made->scene = {pyramidOf(request.recorded, last), pyramidOf(request.planned, last)};
    const bool sameStep = last && last->list && last->scene.recorded == made->scene.recorded;
    const bool sameScene = sameStep && last->scene.planned == made->scene.planned;
    made->recordedCategories = sameStep ? last->recordedCategories : categoriesEver(*request.recorded);
    made->categories = inStackOrder(made->recordedCategories
                                    | (request.planned ? categoriesAtPeak(*request.planned) : CategoryMask{0}));
    made->list = prepareDrawList(made->scene, request.viewport, sameStep ? last->list.get() : nullptr);
    if (sameScene && last->request.overview == request.overview)
        made->overview = last->overview;
    else if (request.overview.columns > 0)
        made->overview = prepareDrawList(made->scene, request.overview, sameStep ? last->overview.get() : nullptr);
    made->image
        = rasterise(*made->list, request.pixels, request.bytes, request.pixelsPerPoint, Theme::make(request.dark));
    return made;
}

} // namespace headroom
