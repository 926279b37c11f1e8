// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_view.h"

#include "views/plot/legend.h"
#include "views/plot/legend_bar.h"
#include "views/plot/number_text.h"
#include "views/plot/overview_strip.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_table.h"

#include <QElapsedTimer>
#include <QKeyEvent>
#include <QTimer>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

// Requests that follow one another as fast as this belong to a drag: on a dense screen they are drawn at scale 1, and
// once more at full density when they stop.
constexpr int draftMs = 100;
constexpr int settleMs = 140;

} // namespace

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
    void pinChange(std::size_t change);
    void stepPin(int columns);
    void followPin(const Timeline* before);
    void setSelection(std::optional<AxisRange> range);
    void updateMarks();
    void updateLegend();
    void updateDescription();
    void lookChanged();
    bool key(QKeyEvent* event);

    const Timeline* mainTimeline() const { return planned ? planned.get() : recorded.get(); }
    bool prepared() const { return answer && answer->list && answer->request.recorded == recorded; }
    Bytes totalAt(double ms) const;

    TimelineView* q;
    LegendBar* legend;
    TimelineCanvas* canvas;
    OverviewStrip* overview;
    TimelineTable* table;
    TimelinePreparer preparer;
    QTimer settle;
    QElapsedTimer sinceRequest;

    StepTracePtr trace;
    TimelinePtr recorded;
    TimelinePtr planned;
    QString recordedName = tr("Recorded");
    QString plannedName = tr("Planned");
    AxisRange bytes{0, 1};
    ZoomStack zoom;
    double shortestMs = 1e-6;
    PreparedTimelinePtr answer;
    std::optional<AxisRange> selection;
    std::optional<std::size_t> pin; ///< count of changes of the main timeline
};

TimelineView::Private::Private(TimelineView* view)
    : q(view)
    , legend(new LegendBar(view))
    , canvas(new TimelineCanvas(view))
    , overview(new OverviewStrip(view))
    , table(new TimelineTable(view))
{
    auto* column = new QVBoxLayout(q);
    column->setContentsMargins(12, 8, 8, 8);
    column->setSpacing(2);
    column->addWidget(legend);
    column->addWidget(canvas, 1);
    column->addWidget(overview);
    q->setFocusProxy(canvas);
    q->setTabOrder(canvas, &canvas->handle());
    q->setTabOrder(&canvas->handle(), overview);
    canvas->installEventFilter(q);
    settle.setSingleShot(true);
    settle.setInterval(settleMs);
    legend->setTitle(tr("Allocated memory"));

    connect(&settle, &QTimer::timeout, q, [this] {
        sinceRequest.invalidate();
        request();
    });
    connect(&preparer, &TimelinePreparer::ready, q, [this](PreparedTimelinePtr made) { take(std::move(made)); });
    connect(canvas, &TimelineCanvas::placed, q, [this] {
        const auto& plot = canvas->geometryOfPlot().plot;
        const double shift = canvas->x() - overview->x();
        overview->setPlotEdges(plot.left() + shift, plot.right() + shift);
        rescale();
    });
    connect(canvas, &TimelineCanvas::lookChanged, q, [this] { lookChanged(); });
    connect(canvas, &TimelineCanvas::rangeWanted, q, [this](double begin, double end, bool step) {
        showRange({begin, end}, step);
    });
    connect(overview, &OverviewStrip::rangeWanted, q, [this](double begin, double end, bool step) {
        showRange({begin, end}, step);
    });
    connect(canvas, &TimelineCanvas::hovered, q, [this](double ms) { hover(ms); });
    connect(canvas, &TimelineCanvas::hoverLeft, q, [this] {
        canvas->cursorLayer().clear();
        Q_EMIT q->hoverLeft();
    });
    connect(canvas, &TimelineCanvas::clicked, q, [this](double ms) { pinAt(ms); });
    connect(canvas, &TimelineCanvas::selecting, q, [this](double a, double b) { setSelection(AxisRange{a, b}); });
    connect(canvas, &TimelineCanvas::selected, q, [this](double a, double b) {
        setSelection(AxisRange{a, b});
        Q_EMIT q->rangeSelected(a, b);
    });
    connect(&canvas->handle(), &BudgetHandle::dragged, q, &TimelineView::budgetDragged);
    connect(&canvas->handle(), &BudgetHandle::committed, q, &TimelineView::budgetCommitted);
}

void TimelineView::Private::request()
{
    const auto& plot = canvas->geometryOfPlot().plot;
    if (!recorded || plot.isEmpty() || !q->isVisible())
        return;
    const double density = q->devicePixelRatioF();
    const bool draft = density > 1 && sinceRequest.isValid() && sinceRequest.elapsed() < draftMs;
    sinceRequest.start();
    TimelineRequest wanted;
    wanted.recorded = recorded;
    wanted.planned = planned;
    wanted.pixelsPerPoint = draft ? 1 : density;
    wanted.pixels = (plot.size() * wanted.pixelsPerPoint).toSize();
    wanted.viewport = {zoom.current(), wanted.pixels.width()};
    wanted.bytes = bytes;
    wanted.overview = {zoom.all(), overview->columns()};
    wanted.dark = Theme::of(*q).isDark;
    preparer.request(std::move(wanted));
    if (draft)
        settle.start();
    else
        settle.stop();
}

void TimelineView::Private::take(PreparedTimelinePtr made)
{
    if (made->request.recorded != recorded || made->request.planned != planned || !made->list)
        return; // of a step or plan before; the answer for this one comes
    answer = std::move(made);
    canvas->setPrepared(answer);
    overview->setPrepared(answer);
    table->setPrepared(trace, answer);
    canvas->marks().setAddedTime(planned ? addedTime(*recorded, *planned, answer->scene.main())
                                         : std::optional<AddedTime>());
    updateLegend();
    if (canvas->pointerMs())
        hover(*canvas->pointerMs());
    Q_EMIT q->prepared();
}

void TimelineView::Private::rescale()
{
    const double duration = std::max(recorded ? recorded->durationMs : 0, planned ? planned->durationMs : 0);
    const Bytes peak = std::max(recorded ? recorded->peak : 0, planned ? planned->peak : 0);
    // Up to the next of coarse marks, so that the axis stands still while a drag makes the step a little longer or
    // shorter.
    const double mark = niceTicks({0, std::max(duration, 1e-6)}, 20).step;
    const AxisRange all{0, std::max(1.0, std::ceil(duration * 1.01 / mark)) * mark};
    bytes = byteRangeFor(peak, canvas->geometryOfPlot().plot.height());
    shortestMs = std::max(duration * 1e-7, 1e-6);
    if (!zoom.zoomedIn())
        zoom.reset(all);
    else
        zoom.setAll(all);
    canvas->setLimits(zoom.all(), shortestMs);
    rangeChanged();
}

void TimelineView::Private::rangeChanged()
{
    canvas->setRanges(zoom.current(), bytes);
    overview->setRange(zoom.all(), zoom.current(), shortestMs);
    canvas->cursorLayer().clear();
    request();
}

void TimelineView::Private::showRange(AxisRange range, bool step)
{
    const auto inside = clamped(range, zoom.all());
    if (step)
        zoom.push(inside);
    else
        zoom.replaceTop(inside);
    rangeChanged();
    Q_EMIT q->rangeShown(zoom.current().begin, zoom.current().end);
}

Bytes TimelineView::Private::totalAt(double ms) const
{
    const auto& pyramid = answer->scene.main();
    return total(pyramid.bytesAt(pyramid.changesUntil(ms)));
}

void TimelineView::Private::hover(double ms)
{
    // While a newer range or plan is being prepared, the old answer would name a wrong instant.
    if (!prepared() || answer->request.viewport.ms != zoom.current() || answer->request.planned != planned)
        return;
    const auto& columns = answer->list->main.columns;
    const auto column = static_cast<std::size_t>(answer->list->viewport.columnAt(ms));
    if (column >= columns.size()) {
        canvas->cursorLayer().clear();
        return;
    }
    const auto change = columns[column].maximumChange;
    auto instant = describeInstant(trace.get(), answer->scene.main(), change);
    const double shown
        = answer->list->viewport.ms.begin + (static_cast<double>(column) + 0.5) * answer->list->viewport.columnMs();
    HoverCard card(instant, answer->categories, byteUnitFor(bytes.end), Theme::of(*q));
    canvas->cursorLayer().show(shown, instant.sum, std::move(card), canvas->marks().labels());
    Q_EMIT q->instantHovered(change, planned != nullptr);
}

void TimelineView::Private::pinAt(double ms)
{
    if (selection) {
        setSelection({});
        Q_EMIT q->selectionCleared();
    }
    if (!prepared())
        return;
    const auto column = static_cast<std::size_t>(answer->list->viewport.columnAt(ms));
    if (column < answer->list->main.columns.size())
        pinChange(answer->list->main.columns[column].maximumChange);
}

void TimelineView::Private::pinChange(std::size_t change)
{
    pin = change;
    updateMarks();
    Q_EMIT q->instantPinned(change, planned != nullptr);
}

void TimelineView::Private::stepPin(int columns)
{
    if (!prepared() || !pin)
        return;
    const auto& shown = answer->list->main.columns;
    const auto at = std::lower_bound(shown.begin(), shown.end(), *pin, [](const auto& column, std::size_t change) {
        return column.maximumChange < change;
    });
    auto index = at - shown.begin();
    const auto last = static_cast<std::ptrdiff_t>(shown.size()) - 1;
    // Columns without a change of their own repeat the instant of the one before: go on to another instant.
    do
        index += columns;
    while (index > 0 && index < last && shown[static_cast<std::size_t>(index)].maximumChange == *pin);
    index = std::clamp<std::ptrdiff_t>(index, 0, last);
    pinChange(shown[static_cast<std::size_t>(index)].maximumChange);
}

// Another plan moves the pinned instant: the same storage comes or goes at another count of changes.
void TimelineView::Private::followPin(const Timeline* before)
{
    if (!pin || *pin == 0)
        return;
    const auto& pinned = before->changes[*pin - 1];
    const auto& changes = mainTimeline()->changes;
    const auto same = std::find_if(changes.begin(), changes.end(), [&](const MemoryChange& change) {
        return change.storage == pinned.storage && change.delta == pinned.delta && change.op == pinned.op;
    });
    if (same != changes.end()) {
        pin = static_cast<std::size_t>(same - changes.begin()) + 1;
        Q_EMIT q->instantPinned(*pin, planned != nullptr);
    } else {
        pin.reset();
        Q_EMIT q->unpinned();
    }
}

void TimelineView::Private::setSelection(std::optional<AxisRange> range)
{
    selection = range;
    updateMarks();
}

void TimelineView::Private::updateMarks()
{
    auto& marks = canvas->marks();
    const auto* timeline = mainTimeline();
    canvas->phases().setPhases(timeline ? timeline->phases : std::vector<PhaseSpan>());
    marks.setPeaks(recorded ? peakMarks(*recorded, planned.get(), recordedName, plannedName) : std::vector<PeakMark>());
    std::optional<double> pinMs;
    if (pin && timeline)
        pinMs = *pin == 0 ? 0 : timeline->changes[*pin - 1].ms;
    marks.setPin(pinMs);
    std::optional<TimeSelection> shown;
    if (selection && prepared()) {
        const Bytes change = totalAt(selection->end) - totalAt(selection->begin);
        const auto words = QStringLiteral("%1 – %2,  %3%4")
                               .arg(msText(selection->begin), msText(selection->end),
                                    QString(change < 0 ? QStringLiteral("−") : QStringLiteral("+")),
                                    bytesText(change < 0 ? -change : change, 2));
        shown = TimeSelection{selection->begin, selection->end, words};
    }
    marks.setSelection(std::move(shown));
    updateDescription();
}

void TimelineView::Private::updateLegend()
{
    const auto theme = Theme::of(*q);
    std::vector<LegendEntry> entries;
    if (prepared()) {
        for (auto category = answer->categories.rbegin(); category != answer->categories.rend(); ++category)
            entries.push_back({categoryTitle(*category), theme.color(*category), LegendEntry::Symbol::square});
        if (planned && planned->peak < recorded->peak)
            entries.push_back({tr("Saved by the plan"), theme.secondText, LegendEntry::Symbol::hatch});
    }
    legend->setTitle(recorded ? tr("Allocated memory, %1").arg(QLatin1String(byteUnitFor(bytes.end).name))
                              : tr("Allocated memory"));
    legend->setEntries(std::move(entries));
}

void TimelineView::Private::updateDescription()
{
    QStringList sentences;
    const auto peak = [&](const QString& name, const Timeline& timeline) {
        sentences
            << tr("%1 peak %2 of %3 long step.").arg(name, bytesText(timeline.peak, 2), msText(timeline.durationMs));
    };
    if (recorded)
        peak(recordedName, *recorded);
    if (planned)
        peak(plannedName, *planned);
    canvas->setAccessibleDescription(sentences.join(QLatin1Char(' ')));
}

void TimelineView::Private::lookChanged()
{
    canvas->applyLook(Theme::of(*q));
    updateLegend();
    request();
}

bool TimelineView::Private::key(QKeyEvent* event)
{
    const bool control = event->modifiers().testFlag(Qt::ControlModifier);
    const auto range = zoom.current();
    const auto zoomBy = [&](double factor) {
        const auto& map = canvas->geometryOfPlot().ms;
        const double at = canvas->pointerMs().value_or((range.begin + range.end) / 2);
        showRange(map.zoomed(factor, map.toPixel(at), zoom.all(), shortestMs), true);
    };
    const auto along = [&](int direction) {
        if (pin)
            stepPin(direction * (control ? 10 : 1));
        else
            showRange({range.begin + direction * range.length() / 10, range.end + direction * range.length() / 10},
                      false);
    };
    switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal:
        zoomBy(1.5);
        return true;
    case Qt::Key_Minus:
        zoomBy(1 / 1.5);
        return true;
    case Qt::Key_Left:
        along(-1);
        return true;
    case Qt::Key_Right:
        along(+1);
        return true;
    case Qt::Key_Backspace:
        q->zoomBack();
        return true;
    case Qt::Key_0:
        if (!control)
            return false;
        q->showAll();
        return true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
        q->zoomToSelection();
        return true;
    case Qt::Key_Space:
        if (const auto* timeline = mainTimeline())
            pinChange(timeline->peakChange == Timeline::npos ? 0 : timeline->peakChange + 1);
        return true;
    case Qt::Key_Escape:
        if (!pin && !selection)
            return false;
        q->unpin();
        return true;
    default:
        return false;
    }
}

TimelineView::TimelineView(QWidget* parent)
    : QWidget(parent)
    , d_(std::make_unique<Private>(this))
{
}

TimelineView::~TimelineView() = default;

void TimelineView::setStep(StepTracePtr trace, TimelinePtr recorded)
{
    d_->trace = std::move(trace);
    d_->recorded = std::move(recorded);
    d_->planned.reset();
    d_->answer.reset();
    d_->pin.reset();
    d_->selection.reset();
    d_->canvas->setPrepared(nullptr);
    d_->canvas->setBudgetVisible(false);
    d_->overview->setPrepared(nullptr);
    d_->table->setPrepared(nullptr, nullptr);
    d_->zoom.reset({});
    d_->rescale();
    d_->updateMarks();
    d_->updateLegend();
}

void TimelineView::setPlanned(TimelinePtr planned)
{
    if (planned == d_->planned)
        return;
    const TimelinePtr before = d_->planned ? d_->planned : d_->recorded;
    d_->planned = std::move(planned);
    d_->followPin(before.get());
    d_->rescale();
    d_->updateMarks();
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

void TimelineView::setNames(const QString& recorded, const QString& planned)
{
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
    const auto range = *d_->selection;
    d_->setSelection({});
    Q_EMIT selectionCleared();
    d_->showRange(range, true);
}

void TimelineView::unpin()
{
    if (std::exchange(d_->pin, std::nullopt))
        Q_EMIT unpinned();
    if (d_->selection) {
        d_->setSelection({});
        Q_EMIT selectionCleared();
    }
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

bool TimelineView::upToDate() const
{
    return !d_->preparer.busy() && !d_->settle.isActive();
}

QSize TimelineView::sizeHint() const
{
    return {860, 480};
}

QSize TimelineView::minimumSizeHint() const
{
    return {420, 240};
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
