// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_view_private.h"

#include "views/plot/number_text.h"
#include "views/theme/styles.h"

#include <QKeyEvent>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

// Requests in quick succession belong to a drag: on a screen of high density they are drawn at scale 1, and once more
// at full density after the last one.
constexpr int draftMs = 100;
constexpr int settleMs = 140;

/// Whole before the canvas is made: widgets get the focus in the order in which they are made.
LegendBar* makeLegend(TimelineView* view)
{
    auto* legend = new LegendBar(view);
    legend->setTitle(TimelineView::tr("Allocated memory"));
    legend->setChoices(TimelineView::tr("by category"), TimelineView::tr("by module"));
    legend->setChoicesEnabled(false);
    return legend;
}

constexpr int roomForOverview = 70; ///< pixels of height beyond the least

} // namespace

void TimelineView::Private::giveRoom()
{
    overview->setVisible(q->height() >= q->minimumSizeHint().height() + roomForOverview);
}

TimelineView::Private::Private(TimelineView* view)
    : q(view)
    , legend(makeLegend(view))
    , canvas(new TimelineCanvas(view))
    , lane(new CollectiveLane(view))
    , overview(new OverviewStrip(view))
    , table(new TimelineTable(view))
{
    auto* column = makeLayout<QVBoxLayout>(q, {12, 8, 8, 8}, 2);
    column->addWidget(legend);
    column->addWidget(canvas, 1);
    column->addWidget(lane);
    column->addWidget(overview);
    canvas->installEventFilter(q);
    settle.setSingleShot(true);
    settle.setInterval(settleMs);
    connect(legend, &LegendBar::chosen, q,
            [this](int index) { q->setGrouping(index == 0 ? Grouping::category : Grouping::module); });

    connect(&settle, &QTimer::timeout, q, [this] {
        sinceRequest.invalidate();
        request();
    });
    connect(&preparer, &TimelinePreparer::ready, q, [this](PreparedTimelinePtr made) { take(std::move(made)); });
    connect(canvas, &TimelineCanvas::placed, q, [this] {
        const auto& plot = canvas->geometryOfPlot().plot;
        const double shift = canvas->x() - overview->x();
        overview->setPlotEdges(plot.left() + shift, plot.right() + shift);
        lane->setPlotEdges(plot.left() + shift, plot.right() + shift);
        rescale();
    });
    connect(canvas, &TimelineCanvas::themeChanged, q, [this] { themeChanged(); });
    connect(canvas, &TimelineCanvas::rangeWanted, q, [this](double begin, double end, bool step) {
        showRange({begin, end}, step);
    });
    connect(overview, &OverviewStrip::rangeWanted, q, [this](double begin, double end, bool step) {
        showRange({begin, end}, step);
    });
    connect(lane, &CollectiveLane::chosen, q, [this](ModuleId module, double ms) { chooseCollective(module, ms); });
    connect(lane, &CollectiveLane::instantWanted, q, [this](double ms) {
        const double half = zoom.current().length() / 2;
        showRange({ms - half, ms + half}, false);
    });
    connect(canvas, &TimelineCanvas::hovered, q, [this](double ms) { hover(ms); });
    connect(canvas, &TimelineCanvas::hoverLeft, q, [this] {
        canvas->cursorLayer().clear();
        Q_EMIT q->hoverLeft();
    });
    connect(canvas, &TimelineCanvas::clicked, q, [this](double ms) { pinAt(ms); });
    connect(canvas, &TimelineCanvas::selecting, q, [this](double a, double b) { setSelection(AxisRange{a, b}); });
    connect(canvas, &TimelineCanvas::selected, q, [this](double a, double b) { select(a, b); });
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
    wanted.trace = trace;
    wanted.own = own;
    wanted.recorded = recorded;
    wanted.planned = planned;
    wanted.pixelsPerPoint = draft ? 1 : density;
    wanted.pixels = (plot.size() * wanted.pixelsPerPoint).toSize();
    if (wanted.pixels.isEmpty())
        return; // narrower than a pixel, while the window is laid out
    wanted.viewport = {zoom.current(), wanted.pixels.width()};
    wanted.bytes = bytes;
    wanted.overview = {zoom.all(), overview->columns()};
    wanted.byModule = grouping == Grouping::module;
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
        return; // of a previous step or plan
    answer = std::move(made);
    canvas->setPrepared(answer);
    overview->setPrepared(answer);
    table->setPrepared(trace, answer);
    canvas->marks().setAddedTime(showsPlan() ? addedTime(*recorded, *planned, answer->scene.main())
                                             : std::optional<AddedTime>());
    updateLegend();
    if (selection)
        updateMarks(); // the label says by how much the memory changes
    if (canvas->pointerMs())
        hover(*canvas->pointerMs());
    Q_EMIT q->prepared();
}

void TimelineView::Private::rescale()
{
    const double duration = std::max(recorded ? recorded->durationMs : 0, planned ? planned->durationMs : 0);
    const Bytes peak = std::max(recorded ? recorded->peak : 0, planned ? planned->peak : 0);
    // The axis ends at a coarse mark, so that it does not move while a drag makes the step a little longer or shorter.
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
    lane->setRange(zoom.current());
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
    if (!prepared() || answer->request.viewport.ms != zoom.current())
        return;
    const auto& main = answer->list->main;
    const auto column = static_cast<std::size_t>(answer->list->viewport.columnAt(ms));
    if (column >= main.size()) {
        canvas->cursorLayer().clear();
        return;
    }
    const auto change = main.changes[column];
    auto instant = describeInstant(trace.get(), answer->scene.main(), change);
    const double shown
        = answer->list->viewport.ms.begin + (static_cast<double>(column) + 0.5) * answer->list->viewport.columnMs();
    HoverCard card(instant, answer->list->bands, main.at(column), byteUnitFor(bytes.end), Theme::of(*q),
                   canvas->cursorLayer().mostCardHeight());
    canvas->cursorLayer().show(shown, instant.sum, std::move(card), canvas->marks().labels());
    Q_EMIT q->instantHovered(change, showsPlan());
}

void TimelineView::Private::pinAt(double ms)
{
    clearSelection();
    if (!prepared())
        return;
    const auto column = static_cast<std::size_t>(answer->list->viewport.columnAt(ms));
    if (column < answer->list->main.size())
        pinChange(answer->list->main.changes[column]);
}

/// Pins the last change before the collective: the memory that is live during the collective.
void TimelineView::Private::chooseCollective(ModuleId module, double ms)
{
    if (const Timeline* timeline = mainTimeline()) {
        const auto after = std::ranges::upper_bound(timeline->changes, ms, {}, &MemoryChange::ms);
        pinChange(static_cast<std::size_t>(after - timeline->changes.begin()));
    }
    Q_EMIT q->moduleChosen(module);
}

void TimelineView::Private::pinChange(std::size_t change)
{
    clearSelection();
    pin = change;
    updateMarks();
    Q_EMIT q->instantPinned(change, showsPlan());
}

void TimelineView::Private::stepPin(int columns)
{
    if (!prepared() || !pin)
        return;
    const auto& changes = answer->list->main.changes;
    auto index = std::lower_bound(changes.begin(), changes.end(), *pin) - changes.begin();
    const auto last = static_cast<std::ptrdiff_t>(changes.size()) - 1;
    // A column without a change repeats the previous instant, and is skipped.
    do
        index += columns;
    while (index > 0 && index < last && changes[static_cast<std::size_t>(index)] == *pin);
    pinChange(changes[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(index, 0, last))]);
}

// Finds the pinned change in the timeline of another plan, under another number.
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
        Q_EMIT q->pinMoved(*pin, showsPlan());
    } else {
        pin.reset();
        Q_EMIT q->unpinned();
    }
}

void TimelineView::Private::setSelection(std::optional<AxisRange> range)
{
    selection = range;
    lane->setSelection(range ? std::optional(TimeRange{range->begin, range->end}) : std::nullopt);
    overview->setSelection(range);
    updateMarks();
}

void TimelineView::Private::clearSelection()
{
    if (!selection)
        return;
    setSelection({});
    Q_EMIT q->selectionCleared();
}

/// Selects what lies between two instants, as far as the step reaches.
void TimelineView::Private::select(double anchor, double head)
{
    const auto* timeline = mainTimeline();
    if (!timeline)
        return;
    const auto inside = [&](double ms) { return std::clamp(ms, 0.0, timeline->durationMs); };
    const AxisRange range{inside(std::min(anchor, head)), inside(std::max(anchor, head))};
    if (!(range.length() > 0)) {
        clearSelection();
        return;
    }
    if (std::exchange(pin, std::nullopt))
        Q_EMIT q->unpinned();
    anchorMs = inside(anchor);
    setSelection(range);
    Q_EMIT q->rangeSelected(range.begin, range.end);
}

/// Moves the end of the selection that is not the anchor. Without a selection, one begins at the pinned instant, else
/// in the middle.
void TimelineView::Private::extendSelection(double ms)
{
    const auto* timeline = mainTimeline();
    if (!timeline)
        return;
    const AxisRange& shown = zoom.current();
    const double start = pin ? (*pin == 0 ? 0 : timeline->changes[*pin - 1].ms) : (shown.begin + shown.end) / 2;
    const double anchor = selection ? anchorMs : std::clamp(start, 0.0, timeline->durationMs);
    const double head = !selection ? anchor : selection->begin == anchor ? selection->end : selection->begin;
    const double moved = std::clamp(head + ms, 0.0, timeline->durationMs);
    select(anchor, moved);
    if (moved < shown.begin || moved > shown.end) {
        const double shift = moved < shown.begin ? moved - shown.begin : moved - shown.end;
        showRange({shown.begin + shift, shown.end + shift}, false);
    }
}

void TimelineView::Private::updateMarks()
{
    auto& marks = canvas->marks();
    const auto* timeline = mainTimeline();
    canvas->phases().setPhases(timeline ? timeline->phases : std::vector<PhaseSpan>());
    marks.setPeaks(recorded ? peakMarks(*recorded, planned.get(), outlineName(), stackName())
                            : std::vector<PeakMark>());
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
    const auto& theme = Theme::of(*q);
    std::vector<LegendEntry> entries;
    // The entries belong to the drawn image, possibly of the previous plan. Without entries in between, the
    // legend would lose its second row, and the plot would change its height twice for each plan.
    if (answer && answer->overview) {
        for (const auto& band : visibleBands(*answer->overview))
            entries.push_back({band.title, band.color(theme), LegendEntry::Symbol::square});
        const TimelineRequest& drawn = answer->request;
        if (compared)
            entries.push_back({isMeasured ? tr("Measured above predicted") : tr("Compared step above this step"),
                               theme.secondText, LegendEntry::Symbol::hatch});
        else if (drawn.planned && drawn.planned->peak < drawn.recorded->peak)
            entries.push_back({tr("Saved by the plan"), theme.secondText, LegendEntry::Symbol::hatch});
    }
    if (!canvas->changed().changed().empty()) {
        entries.push_back({tr("Op with a changed decision"), theme.accent, LegendEntry::Symbol::hollowTriangle});
        entries.push_back({tr("runs again"), theme.accent, LegendEntry::Symbol::triangle});
    }
    legend->setTitle(recorded ? tr("Allocated memory, %1").arg(QLatin1String(byteUnitFor(bytes.end).name))
                              : tr("Allocated memory"));
    legend->setEntries(std::move(entries));
}

void TimelineView::Private::updateDescription()
{
    QStringList sentences;
    const auto peak = [&](const QString& name, const Timeline& timeline) {
        const double at = timeline.peakChange == Timeline::npos ? 0 : timeline.changes[timeline.peakChange].ms;
        sentences << tr("%1: peak %2 at %3, the step takes %4.")
                         .arg(name, bytesText(timeline.peak, 2), msText(at), msText(timeline.durationMs));
    };
    if (recorded)
        peak(outlineName(), *recorded);
    if (planned)
        peak(stackName(), *planned);
    for (const TimelineFailure& failure : canvas->failures().failures())
        sentences << tr("Out of memory at %1: %2").arg(msText(failure.ms), failure.sentence);
    canvas->setAccessibleDescription(sentences.join(QLatin1Char(' ')));
}

void TimelineView::Private::themeChanged()
{
    canvas->applyStyle(Theme::of(*q));
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
        if (event->modifiers().testFlag(Qt::ShiftModifier))
            extendSelection(direction * (control ? 0.1 : 0.02) * range.length());
        else if (pin)
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

} // namespace headroom
