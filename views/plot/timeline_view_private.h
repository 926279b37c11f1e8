// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/collective_lane.h"
#include "views/plot/legend.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_readout.h"
#include "views/plot/timeline_view.h"

#include <QElapsedTimer>
#include <QTimer>

#include <optional>

namespace headroom {

/// The state of a TimelineView: widgets, the step, and the user's zoom, selection and pin.
class TimelineView::Private
{
public:
    explicit Private(TimelineView* view);

    void request();
    void take(PreparedTimelinePtr answer);
    void rescale();
    void showRange(AxisRange range, bool step);
    void rangeChanged();
    void hover(double ms);
    void pinAt(double ms);
    void chooseCollective(ModuleId module, double ms);
    void pinChange(std::size_t change);
    void stepPin(int columns);
    void followPin(const Timeline* before);
    void select(double anchorMs, double headMs);
    void extendSelection(double ms);
    void setSelection(std::optional<AxisRange> range);
    void clearSelection();
    void updateMarks();
    void updateLegend();
    void updateDescription();
    void themeChanged();
    void giveRoom(); ///< shows the overview where the plot stays high enough
    bool key(QKeyEvent* event);

    const Timeline* mainTimeline() const { return planned ? planned.get() : recorded.get(); }
    /// Whether `answer` is of the current timelines. Until a new answer is ready, the old answer has other instants.
    bool prepared() const
    {
        return answer && answer->list && answer->request.recorded == recorded && answer->request.planned == planned;
    }
    Bytes totalAt(double ms) const;
    bool showsPlan() const { return planned && !compared; }
    QString outlineName() const { return !compared ? recordedName : isMeasured ? tr("Measured") : tr("Compared step"); }
    QString stackName() const { return !compared ? plannedName : isMeasured ? tr("Predicted") : tr("This step"); }

    TimelineView* q;
    LegendBar* legend;
    TimelineCanvas* canvas;
    CollectiveLane* lane;
    OverviewStrip* overview;
    TimelineTable* table;
    TimelinePreparer preparer;
    QTimer settle;
    QElapsedTimer sinceRequest;

    StepTracePtr trace;
    TimelinePtr own; ///< timeline of the recorded step
    TimelinePtr plan; ///< null: none
    TimelinePtr compared; ///< null: no comparison
    bool isMeasured = false; ///< `compared` is this step on a device
    TimelinePtr recorded; ///< drawn as an outline: `own`, or `compared`
    TimelinePtr planned; ///< drawn as a stack: `plan`, or `own`; null: the stack of `recorded`
    QString recordedName = tr("Recorded");
    QString plannedName = tr("Planned");
    AxisRange bytes{0, 1};
    ZoomStack zoom;
    double shortestMs = 1e-6;
    PreparedTimelinePtr answer;
    std::optional<AxisRange> selection;
    double anchorMs = 0; ///< the end of the selection that stays when keys extend the selection
    std::optional<std::size_t> pin; ///< number of changes of the main timeline up to the pinned instant
    Grouping grouping = Grouping::category;
};

} // namespace headroom
