// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <QWidget>

#include <memory>
#include <vector>

class QAbstractItemModel;

namespace headroom {

class CollectiveRows;
struct TimelineFailure;
struct TimelineChangedOp;

/// Plots live memory of a step over time: the stack of the planned step (of the recorded step if there is no plan),
/// the outline of the recorded step with a hatch over the memory that the plan saves, phases, peaks, and the budget as
/// a line with a handle. A worker thread prepares the drawing; the latest request wins. Cursor, selection and budget
/// line are painted on top without waiting for the image.
class TimelineView : public QWidget
{
    Q_OBJECT
public:
    explicit TimelineView(QWidget* parent = nullptr);
    ~TimelineView() override;

    void setStep(StepTracePtr trace, TimelinePtr recorded); ///< clears plan, zoom, pin and selection
    void setPlanned(TimelinePtr planned); ///< null: no plan; keeps zoom and selection
    /// Sets the memory of a compared step, on the time axis of the step. The outline replaces the recorded one, in
    /// front of the outline is the stack of the step without a plan. Null: no comparison. `isMeasured`: of this step on
    /// a device, which the stack predicts; otherwise of any other step.
    void setCompared(TimelinePtr compared, bool isMeasured);
    /// Ops that the plan treats differently from the plan with the next larger budget, on the plan's time axis; ms
    /// ascending.
    void setChanged(std::vector<TimelineChangedOp> changed);
    /// Instants of failed allocations of the recorded step; ms ascending.
    void setFailures(std::vector<TimelineFailure> failures);
    /// Collectives of the shown step, on its time axis; drawn in a lane below the stack.
    void setCollectives(CollectiveRows collectives);
    void setBudget(Bytes budget, bool feasible); ///< moves the line; emits no signal
    void setBudgetRange(Bytes least, Bytes most); ///< limits of the handle
    /// Names in legend and labels, by default "Recorded" and "Planned".
    void setNames(const QString& recorded, const QString& planned);

    /// The meaning of a band of the stack; `module` needs a trace.
    enum class Grouping { category, module };
    void setGrouping(Grouping grouping);
    Grouping grouping() const;

    void showRange(double beginMs, double endMs); ///< adds an entry to the zoom stack
    void showAll();
    void zoomBack();
    void zoomToSelection();
    /// Selects a range of the stack's step, as a drag does. Either a range is selected or an instant is pinned.
    void selectRange(double beginMs, double endMs);
    void selectVisible();
    void unpin(); ///< clears the pin and the selection

    double visibleBeginMs() const;
    double visibleEndMs() const;
    bool zoomedIn() const;
    bool hasSelection() const;

    /// The numbers of the visible columns as a table (instant, op, module, bytes by band) of at most some thousand
    /// rows. Owned and updated by the view.
    QAbstractItemModel* table() const;

    bool drawn() const; ///< whether this step and plan are painted; during a drag perhaps as a draft
    bool upToDate() const; ///< whether this step and plan are painted and in the table

    QSize sizeHint() const override { return {860, 480}; }
    QSize minimumSizeHint() const override; ///< with a plot that can be read, and without the overview

Q_SIGNALS:
    void prepared(); ///< the worker's result is shown
    void budgetDragged(headroom::Bytes budget); ///< during a drag of the handle
    void budgetCommitted(headroom::Bytes budget); ///< the handle was released, or moved by a key
    void instantHovered(std::size_t changeCount, bool planned);
    void hoverLeft();
    void instantPinned(std::size_t changeCount, bool planned);
    void pinMoved(std::size_t changeCount, bool planned); ///< the timeline of another plan has the pinned change, too
    void unpinned();
    void moduleChosen(headroom::ModuleId module); ///< of a collective
    void rangeSelected(double beginMs, double endMs);
    void selectionCleared();
    void rangeShown(double beginMs, double endMs);
    void groupingChanged(headroom::TimelineView::Grouping grouping);

protected:
    bool event(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;
    void showEvent(QShowEvent* event) override;

private:
    class Private;
    std::unique_ptr<Private> d_;
};

} // namespace headroom
