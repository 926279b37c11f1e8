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
struct TimelineFlip;

/// Live memory of one step over time: the stack of the planned step (of the recorded one while there is no plan), the
/// outline of the recorded step with a hatch over what the plan saves, phases, peaks, and the budget as a line with a
/// handle. What is drawn is prepared on a worker thread, latest wins, and replayed here; cursor, selection and budget
/// line lie on top and move at once.
class TimelineView : public QWidget
{
    Q_OBJECT
public:
    explicit TimelineView(QWidget* parent = nullptr);
    ~TimelineView() override;

    void setStep(StepTracePtr trace, TimelinePtr recorded); ///< forgets plan, zoom, pin and selection
    void setPlanned(TimelinePtr planned); ///< null: no plan; keeps zoom and selection
    /// Memory as it was measured, on the time axis of the step: its outline in place of the recorded one, in front of
    /// it the stack of the step without a plan. Null: no comparison.
    void setMeasured(TimelinePtr measured);
    /// Ops that the plan treats in another way than the one with more memory, on the plan's axis; ms ascending.
    void setFlips(std::vector<TimelineFlip> flips);
    /// Instants of the recorded step at which the device had no room; ms ascending.
    void setFailures(std::vector<TimelineFailure> failures);
    /// Collectives of the step that the stack is of, on its axis: they have a lane below it.
    void setCollectives(CollectiveRows collectives);
    void setBudget(Bytes budget, bool feasible); ///< moves the line; emits nothing
    void setBudgetRange(Bytes least, Bytes most); ///< what the handle can be dragged to
    /// Words of legend and labels, by default "Recorded" and "Planned".
    void setNames(const QString& recorded, const QString& planned);

    /// What the stack is made of; by module only with a trace.
    enum class Grouping { category, module };
    void setGrouping(Grouping grouping);
    Grouping grouping() const;

    void showRange(double beginMs, double endMs); ///< one step of the zoom stack
    void showAll();
    void zoomBack();
    void zoomToSelection();
    void unpin(); ///< and clears the selection

    double visibleBeginMs() const;
    double visibleEndMs() const;
    bool zoomedIn() const;
    bool hasSelection() const;

    /// The same numbers as a table (instant, op, module, bytes by band), at most some thousand rows: the changes
    /// that the visible columns show. Owned by the view, updated with it.
    QAbstractItemModel* table() const;

    bool drawn() const; ///< is what is painted of this step and plan? While a drag lasts it may be a draft
    bool upToDate() const; ///< is what is painted, and the table, of this step and plan?

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

Q_SIGNALS:
    void prepared(); ///< what the worker prepared is on the screen
    void budgetDragged(headroom::Bytes budget); ///< while the handle moves
    void budgetCommitted(headroom::Bytes budget); ///< released, or a key moved it
    void instantHovered(std::size_t changeCount, bool planned);
    void hoverLeft();
    void instantPinned(std::size_t changeCount, bool planned);
    void unpinned();
    void moduleChosen(headroom::ModuleId module); ///< of a collective
    void rangeSelected(double beginMs, double endMs);
    void selectionCleared();
    void rangeShown(double beginMs, double endMs);
    void groupingChanged(headroom::TimelineView::Grouping grouping);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void showEvent(QShowEvent* event) override;

private:
    class Private;
    std::unique_ptr<Private> d_;
};

} // namespace headroom
