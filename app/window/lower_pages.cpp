// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/lower_pages.h"

#include "app/window/actions.h"
#include "app/window/allocator_page.h"
#include "app/window/fit_page.h"
#include "app/window/jobs.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "views/models/ops_model.h"
#include "views/plot/icicle.h"
#include "views/plot/number_text.h"
#include "views/plot/timeline_view.h"
#include "views/plot/tradeoff_view.h"
#include "views/widgets/allocator_panel.h"
#include "views/widgets/fit_panel.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/peak_panel.h"

#include <QAction>
#include <QMenu>
#include <QScopedValueRollback>
#include <QTreeView>

#include <array>
#include <utility>

namespace headroom {

LowerPages::LowerPages(Session& session, Jobs& jobs, Actions& actions, TimelineView& timeline, TradeOffView* tradeOff,
                       QObject* parent)
    : QObject(parent)
    , session_(session)
    , jobs_(jobs)
    , live_(new LiveBlocksModel(this))
    , ops_(new OpsModel(this))
    , allocator_(new AllocatorPage(session, this))
    , fit_(new FitPage(session, this))
    , peaks_(new PeakPanel)
    , panel_(new LowerPanel(tradeOff, live_, ops_, allocator_->panel(), fit_->panel(), peaks_))
{
    wire(jobs, timeline);
    wireRange(jobs, timeline);
    wireActions(actions);
}

void LowerPages::wire(Jobs& jobs, TimelineView& timeline)
{
    connect(&session_, &Session::stepChanged, this, &LowerPages::showStep);
    connect(&session_, &Session::answerChanged, this, &LowerPages::askForLiveMemory);
    connect(&session_, &Session::answerChanged, this, &LowerPages::showOps);
    connect(&session_, &Session::modeChanged, this, &LowerPages::showOps);
    connect(&session_, &Session::selectionChanged, this, &LowerPages::showOps);
    connect(&session_, &Session::comparisonChanged, this, [this] {
        askForLiveMemory();
        showOps();
        showPeaks();
    });
    connect(&jobs, &Jobs::liveMemoryListed, this, [this](const LiveBlocksAtPtr& memory) { showLiveMemory(*memory); });
    connect(panel_, &LowerPanel::onlyChangedWanted, this, [this](bool only) {
        onlyChanged_ = only;
        ops_->setOnlyChanged(only);
        showOps();
    });
    connect(panel_, &LowerPanel::unitsWanted, this, [this](bool wanted) {
        units_ = wanted;
        askForLiveMemory();
    });
    connect(panel_, &LowerPanel::moduleWanted, &session_, &Session::select);
    connect(panel_->icicle(), &IcicleView::nodeSelected, this, &LowerPages::selectNode);
    connect(panel_, &LowerPanel::lineWanted, this, [this] { Q_EMIT lineWanted(currentLine()); });
    connect(&session_, &Session::selectionChanged, this, [this] {
        if (!selectsNode_)
            panel_->icicle()->selectModule(session_.selected());
    });
    connect(&timeline, &TimelineView::instantPinned, this, [this](std::size_t changeCount, bool planned) {
        pinned_ = Instant{changeCount, planned};
        panel_->show(LowerPanel::Page::liveBlocks);
        askForLiveMemory();
    });
    connect(&timeline, &TimelineView::pinMoved, this, [this](std::size_t changeCount, bool planned) {
        pinned_ = Instant{changeCount, planned};
        askForLiveMemory();
    });
    connect(&timeline, &TimelineView::unpinned, this, [this] {
        pinned_.reset();
        askForLiveMemory();
    });
}

void LowerPages::wireRange(Jobs& jobs, TimelineView& timeline)
{
    for (const auto changed : {&Session::answerChanged, &Session::comparisonChanged})
        connect(&session_, changed, this, &LowerPages::askForRange);
    connect(&timeline, &TimelineView::rangeSelected, this, [this](double beginMs, double endMs) {
        selected_ = TimeRange{beginMs, endMs};
        askForRange();
    });
    connect(&timeline, &TimelineView::selectionCleared, this, [this] {
        selected_.reset();
        jobs_.forgetRange();
        showRange(nullptr);
    });
    connect(&jobs, &Jobs::rangeSummarised, this, &LowerPages::showRange);
    connect(panel_, &LowerPanel::rangeClosed, &timeline, &TimelineView::unpin);
    connect(panel_, &LowerPanel::icicleShown, this, &LowerPages::askForLiveMemory);
    connect(panel_, &LowerPanel::onlyModuleWanted, this, [this](bool only) {
        onlyModule_ = only;
        showOps();
    });
}

void LowerPages::wireActions(const Actions& actions)
{
    connect(actions.openLine, &QAction::triggered, panel_, &LowerPanel::lineWanted);
    connect(panel_->icicle(), &IcicleView::menuWanted, this, [this, &actions](quint32, const QPoint& position) {
        QMenu::exec({actions.openLine}, position, nullptr, panel_);
    });
    using Page = LowerPanel::Page;
    const std::array shown{
        std::pair(Page::tradeOff, actions.showTradeOff), std::pair(Page::liveBlocks, actions.showLiveBlocks),
        std::pair(Page::ops, actions.showOps),           std::pair(Page::reserved, actions.showReserved),
        std::pair(Page::fit, actions.showFit),           std::pair(Page::peaks, actions.showPeaks)};
    for (const auto& [page, action] : shown)
        connect(action, &QAction::triggered, panel_, [this, page = page] { panel_->show(page); });
    connect(panel_, &LowerPanel::pageShown, this, [this, shown](Page page) {
        shown[static_cast<std::size_t>(page)].second->setChecked(true);
        askForLiveMemory();
        showOps();
        allocator_->setShown(page == Page::reserved);
    });
}

void LowerPages::showStep()
{
    pinned_.reset();
    selected_.reset();
    showRange(nullptr);
    live_->clear();
    panel_->icicle()->setTree(nullptr);
    panel_->setHasLines(session_.isOpen() && hasSourceLines(session_.step()->trace()));
    ops_->setStep(nullptr);
    showOps();
    // A step that cannot be planned has no trade-off to show.
    if (session_.isOpen() && !plannable(session_.step()->trace()))
        panel_->show(LowerPanel::Page::reserved);
}

TimelinePtr LowerPages::planned() const
{
    // With a measured step, the timeline shows the step without a plan.
    return session_.comparison() ? nullptr : session_.shownTimeline();
}

void LowerPages::askForRange()
{
    if (!session_.isOpen() || !selected_)
        return;
    const TimelinePtr ofPlan = planned();
    jobs_.summarise(session_.step(), ofPlan ? ofPlan : session_.step()->engine->recorded(), *selected_);
}

/// Filters all tables by the range; null: by none.
void LowerPages::showRange(const StepRangePtr& range)
{
    if (!range && !range_)
        return;
    range_ = range;
    panel_->setRange(range ? rangeSums(range->summary) : QString(),
                     range ? rangeMost(range->step->trace(), range->summary) : QString());
    askForLiveMemory();
    showOps();
    Q_EMIT rangeChanged(range);
}

void LowerPages::askForLiveMemory()
{
    if (!session_.isOpen() || panel_->page() != LowerPanel::Page::liveBlocks)
        return;
    const TimelinePtr& recorded = session_.step()->engine->recorded();
    const TimelinePtr ofPlan = planned();
    const TimelinePtr& timeline = ofPlan && (!pinned_ || pinned_->planned) ? ofPlan : recorded;
    const std::size_t peak = timeline->peakChange == Timeline::npos ? 0 : timeline->peakChange + 1;
    jobs_.listLiveMemory({session_.step(), timeline, pinned_ ? pinned_->changeCount : peak, range_,
                          units_ ? LiveBlocksTable::Of::units : LiveBlocksTable::Of::modules, panel_->showsIcicle()});
}

void LowerPages::showLiveMemory(const LiveBlocksAt& memory)
{
    if (!session_.isOpen())
        return;
    live_->setTable(memory.table);
    if (memory.tree) {
        panel_->icicle()->setTree(memory.tree);
        panel_->icicle()->selectModule(session_.selected());
    }
    panel_->setHasUnits(memory.table.hasUnits);
    const bool ofPlan = memory.request.timeline != session_.step()->engine->recorded();
    const QString where = memory.request.range ? tr("Made in the range")
        : pinned_                              ? tr("At the pinned instant, %1").arg(msText(memory.ms))
        : ofPlan                               ? tr("At the planned peak, %1").arg(msText(memory.ms))
                                               : tr("At the recorded peak, %1").arg(msText(memory.ms));
    const QString blocks
        = tr("%1: %2 in %3 blocks").arg(where, bytesText(live_->totalBytes(), 2)).arg(live_->blockCount());
    if (!memory.table.hasUnits)
        panel_->setLiveTitle(blocks);
    else if (units_)
        panel_->setLiveTitle(memory.table.names == 1
                                 ? tr("%1 that FSDP has unsharded in a unit").arg(blocks)
                                 : tr("%1 that FSDP has unsharded in %2 units").arg(blocks).arg(memory.table.names));
    else
        panel_->setLiveTitle(tr("%1; FSDP has %2 unsharded").arg(blocks, bytesText(memory.table.unsharded, 2)));
}

/// Selects the module of a node of the icicle: the node itself, or the nearest module around the node.
void LowerPages::selectNode(std::uint32_t node)
{
    const LiveTree& tree = *panel_->icicle()->tree();
    while (node != LiveTree::none && tree.nodes[node].level != LiveTree::Level::module)
        node = tree.nodes[node].parent;
    const QScopedValueRollback selecting(selectsNode_, true); // the node stays selected, which may be a block
    session_.select(node == LiveTree::none ? ModuleId() : ModuleId(tree.nodes[node].id));
}

/// Returns the frame of the selected op, block or node of the icicle (of its largest block), else of the op at the
/// recorded peak; invalid: not known.
FrameId LowerPages::currentLine() const
{
    const StepTrace& trace = session_.step()->trace();
    const auto shown = [&](auto row) { return lineOf(trace, frameOf(trace, row)).shown(); };
    const IcicleView& icicle = *panel_->icicle();
    if (panel_->page() == LowerPanel::Page::ops && panel_->ops()->currentIndex().isValid())
        return shown(ops_->opAt(panel_->ops()->currentIndex()));
    if (panel_->page() == LowerPanel::Page::liveBlocks) {
        if (icicle.isVisible() && !panel_->liveBlocks()->hasFocus() && icicle.selected() != LiveTree::none) {
            const LiveTree& tree = *icicle.tree();
            const LiveTree::Node* node = &tree.nodes[icicle.selected()];
            while (node->children > 0)
                node = &tree.nodes[node->firstChild]; // the largest
            if (node->level == LiveTree::Level::block)
                return shown(tree.blocks[node->id].storage);
        }
        if (const StorageId block = live_->storageAt(panel_->liveBlocks()->currentIndex()); block.valid())
            return shown(block);
    }
    const Timeline& recorded = *session_.step()->engine->recorded();
    return recorded.peakChange == Timeline::npos ? FrameId() : shown(recorded.changes[recorded.peakChange].op);
}

void LowerPages::showOps()
{
    if (!session_.isOpen() || panel_->page() != LowerPanel::Page::ops)
        return;
    ops_->setStep(session_.step()->engine->trace());
    const bool planned = session_.mode() == PlanMode::ops;
    const OpsDecisionsPtr answer = planned && session_.feasible() ? session_.answer()->ops : nullptr;
    panel_->setOpsPlanned(planned);
    panel_->setComparing(session_.comparison() && session_.comparison()->hasTimes);
    ops_->setComparison(session_.comparison());
    ops_->setPlan(answer ? answer->decisions : std::vector<OpDecision>(),
                  answer ? answer->changed : std::vector<ChangedOp>());
    // Changed decisions are shown of the whole step, and a range has ops of many modules.
    const bool ofModule = range_ ? onlyModule_ : !onlyChanged_;
    ops_->setModule(ofModule ? session_.selected() : ModuleId());
    ops_->setRange(range_ ? range_->summary.runs : std::vector<bool>());
    showOpsTitle();
}

/// Shows the compared peaks. The page comes to the front if nothing lies over the timeline.
void LowerPages::showPeaks()
{
    peaks_->setTables(session_.peaks());
    if (session_.peaks() && !session_.comparison())
        panel_->show(LowerPanel::Page::peaks);
}

void LowerPages::showOpsTitle()
{
    const QString count = QString::number(ops_->rowCount());
    if (range_) {
        const QString of = onlyModule_ && session_.selected().valid()
            ? tr("%1 ops of %2 in the range").arg(count, QString::fromStdString(session_.selectedFqn()))
            : tr("%1 ops in the range").arg(count);
        panel_->setOpsTitle(onlyChanged_ ? tr("%1, with a changed decision").arg(of) : of);
    } else if (onlyChanged_)
        panel_->setOpsTitle(ops_->rowCount() == 1
                                ? tr("1 op with a changed decision at this point of the frontier")
                                : tr("%1 ops with a changed decision at this point of the frontier").arg(count));
    else if (session_.selected().valid())
        panel_->setOpsTitle(tr("%1 ops of %2").arg(count, QString::fromStdString(session_.selectedFqn())));
    else
        panel_->setOpsTitle(tr("%1 ops of the whole step").arg(count));
}

} // namespace headroom
