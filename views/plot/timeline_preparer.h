// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/lane.h"
#include "views/plot/timeline_draw_list.h"

#include <QObject>
#include <QSize>

#include <cstdint>

namespace headroom {

/// What a timeline plot wants to have drawn.
struct TimelineRequest
{
    StepTracePtr trace; ///< for the stack by module; may be null
    TimelinePtr own; ///< of the trace, by which modules are grouped; null: recorded
    TimelinePtr recorded; ///< null: nothing to draw
    TimelinePtr planned; ///< null: no plan
    TimelineViewport viewport; ///< columns = width of `pixels`
    QSize pixels; ///< of the image
    double pixelsPerPoint = 1;
    AxisRange bytes;
    TimelineViewport overview; ///< of the strip that shows the whole time axis
    bool byModule = false; ///< stack by module, not by category
    bool dark = false; ///< look
};

/// The answer: painting replays it, hovering looks up in it.
struct PreparedTimeline
{
    TimelineRequest request;
    TimelineScene scene;
    ModuleGroupingPtr grouping; ///< once it was asked for
    TimelineDrawListPtr list;
    TimelineDrawListPtr overview;
    QImage image;
};
using PreparedTimelinePtr = std::shared_ptr<const PreparedTimeline>;

/// The work itself, on any thread. What `last` has in common with the request is taken over from it; may be null.
PreparedTimelinePtr prepareTimeline(const TimelineRequest& request, const PreparedTimeline* last);

/// Prepares timelines on one thread of its own. Only the latest request counts: one that waits is replaced.
class TimelinePreparer : public QObject
{
    Q_OBJECT
public:
    explicit TimelinePreparer(QObject* parent = nullptr);

    void request(TimelineRequest wanted);
    bool busy() const noexcept { return asked_ != answered_; } ///< is an answer still to come? (GUI thread)

Q_SIGNALS:
    void ready(headroom::PreparedTimelinePtr prepared);

private:
    std::uint64_t asked_ = 0;
    std::uint64_t answered_ = 0;
    PreparedTimelinePtr last_; ///< used on the lane only
    Lane lane_; ///< last: its thread ends before what it uses
};

} // namespace headroom
