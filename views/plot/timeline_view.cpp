// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_view.h"

#include "views/plot/timeline_view_private.h"

#include <QKeyEvent>
#include <QLayout>

#include <utility>

namespace headroom {

TimelineView::TimelineView(QWidget* parent)
    : QWidget(parent)
    , d_(std::make_unique<Private>(this))
{
}

TimelineView::~TimelineView() = default;

void TimelineView::setStep(StepTracePtr trace, TimelinePtr recorded)
{
    d_->trace = std::move(trace);
    d_->own = std::move(recorded);
    d_->recorded = d_->own;
    d_->planned.reset();
    d_->plan.reset();
    d_->compared.reset();
    d_->answer.reset();
    d_->pin.reset();
    d_->setSelection({});
    d_->canvas->setPrepared(nullptr);
    d_->canvas->setBudgetVisible(false);
    d_->canvas->changed().setChanged({});
    d_->canvas->failures().setFailures({});
    d_->lane->setRows({});
    d_->overview->setPrepared(nullptr);
    d_->table->setPrepared(nullptr, nullptr);
    d_->legend->setChoicesEnabled(d_->trace != nullptr);
    d_->zoom.reset({});
    d_->rescale();
    d_->updateMarks();
    d_->updateLegend();
}

void TimelineView::setPlanned(TimelinePtr planned)
{
    d_->plan = planned;
    if (d_->compared || planned == d_->planned)
        return;
    const TimelinePtr before = d_->planned ? d_->planned : d_->recorded;
    d_->planned = std::move(planned);
    d_->followPin(before.get());
    d_->rescale();
    d_->updateMarks();
}

void TimelineView::setCompared(TimelinePtr compared, bool isMeasured)
{
    if (compared == d_->compared)
        return;
    unpin(); // the pinned instant is of the previous stack
    d_->compared = std::move(compared);
    d_->isMeasured = isMeasured;
    d_->recorded = d_->compared ? d_->compared : d_->own;
    d_->planned = d_->compared ? d_->own : d_->plan;
    d_->rescale();
    d_->updateMarks();
}

void TimelineView::setChanged(std::vector<TimelineChangedOp> changed)
{
    d_->canvas->changed().setChanged(std::move(changed));
    d_->updateLegend();
}

void TimelineView::setFailures(std::vector<TimelineFailure> failures)
{
    d_->canvas->failures().setFailures(std::move(failures));
    d_->updateDescription();
}

void TimelineView::setCollectives(CollectiveRows collectives)
{
    d_->lane->setRows(std::move(collectives));
}

void TimelineView::setBudget(Bytes budget, bool feasible)
{
    d_->canvas->setBudgetVisible(budget > 0);
    d_->canvas->setBudget(budget, feasible);
}

void TimelineView::setBudgetRange(Bytes least, Bytes most)
{
    d_->canvas->handle().setLimits(least, most);
}

void TimelineView::setGrouping(Grouping grouping)
{
    if (grouping == d_->grouping)
        return;
    d_->grouping = grouping;
    d_->legend->choose(grouping == Grouping::category ? 0 : 1);
    d_->request();
    Q_EMIT groupingChanged(grouping);
}

TimelineView::Grouping TimelineView::grouping() const
{
    return d_->grouping;
}

void TimelineView::setNames(const QString& recorded, const QString& planned)
{
    if (recorded == d_->recordedName && planned == d_->plannedName)
        return;
    d_->recordedName = recorded;
    d_->plannedName = planned;
    d_->updateMarks();
}

void TimelineView::showRange(double beginMs, double endMs)
{
    d_->showRange({beginMs, endMs}, true);
}

void TimelineView::showAll()
{
    d_->zoom.showAll();
    d_->rangeChanged();
    Q_EMIT rangeShown(d_->zoom.current().begin, d_->zoom.current().end);
}

void TimelineView::zoomBack()
{
    if (!d_->zoom.pop())
        return;
    d_->rangeChanged();
    Q_EMIT rangeShown(d_->zoom.current().begin, d_->zoom.current().end);
}

void TimelineView::zoomToSelection()
{
    if (!d_->selection)
        return;
    if (*d_->selection != d_->zoom.current())
        d_->showRange(*d_->selection, true);
}

void TimelineView::selectRange(double beginMs, double endMs)
{
    d_->select(beginMs, endMs);
}

void TimelineView::selectVisible()
{
    d_->select(d_->zoom.current().begin, d_->zoom.current().end);
}

void TimelineView::unpin()
{
    if (std::exchange(d_->pin, std::nullopt))
        Q_EMIT unpinned();
    d_->clearSelection();
    d_->updateMarks();
}

double TimelineView::visibleBeginMs() const
{
    return d_->zoom.current().begin;
}

double TimelineView::visibleEndMs() const
{
    return d_->zoom.current().end;
}

bool TimelineView::zoomedIn() const
{
    return d_->zoom.zoomedIn();
}

bool TimelineView::hasSelection() const
{
    return d_->selection.has_value();
}

QAbstractItemModel* TimelineView::table() const
{
    return d_->table;
}

bool TimelineView::drawn() const
{
    // Nothing is requested before the first layout: a preparer that is not busy need not have an answer.
    const auto& answer = d_->answer;
    return !d_->recorded
        || (answer && answer->request.recorded == d_->recorded && answer->request.planned == d_->planned);
}

bool TimelineView::upToDate() const
{
    return !d_->preparer.busy() && !d_->settle.isActive() && drawn();
}

QSize TimelineView::minimumSizeHint() const
{
    int height = layout()->totalMinimumSize().height();
    if (!d_->overview->isHidden())
        height -= d_->overview->sizeHint().height() + layout()->spacing();
    return {420, height};
}

bool TimelineView::event(QEvent* event)
{
    const bool done = QWidget::event(event);
    if (event->type() == QEvent::Resize || event->type() == QEvent::LayoutRequest)
        d_->giveRoom();
    return done;
}

bool TimelineView::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == d_->canvas && event->type() == QEvent::KeyPress)
        return d_->key(static_cast<QKeyEvent*>(event));
    return QWidget::eventFilter(watched, event);
}

void TimelineView::showEvent(QShowEvent* event)
{
    QWidget::showEvent(event);
    d_->request();
}

} // namespace headroom
