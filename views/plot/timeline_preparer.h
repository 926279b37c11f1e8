// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/lane.h"
#include "views/plot/timeline_draw_list.h"

#include <QObject>
#include <QSize>

#include <cstdint>

namespace headroom {

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

/// Prepares timelines on a thread of its own. A new request replaces one that waits.
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
    Lane lane_; ///< the last member: its thread ends before the others are destroyed
};

} // namespace headroom
