// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/document_page.h"

#include "app/window/actions.h"
#include "app/window/card_text.h"
#include "app/window/lower_pages.h"
#include "app/window/measured_controller.h"
#include "app/window/plan_text.h"
#include "app/window/session.h"
#include "app/window/settings.h"
#include "app/window/step_header.h"
#include "app/window/step_text.h"
#include "core/cost/card_memory.h"
#include "views/models/module_tree_model.h"
#include "views/models/table_delegate.h"
#include "views/plot/collective_lane.h"
#include "views/plot/number_text.h"
#include "views/plot/timeline_layers.h"
#include "views/plot/timeline_view.h"
#include "views/plot/tradeoff_view.h"
#include "views/theme/styles.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/comparison_bar.h"
#include "views/widgets/inspector.h"
#include "views/widgets/module_panel.h"
#include "views/widgets/ops_panel.h"

#include <QAction>
#include <QClipboard>
#include <QFrame>
#include <QGuiApplication>
#include <QLineEdit>
#include <QMenu>
#include <QSplitter>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr int spacing = 10;
const auto sidesName = QStringLiteral("sides");
const auto centreName = QStringLiteral("centre");

std::vector<TimelineFailure> failureMarks(const StepTrace& trace)
{
    std::vector<TimelineFailure> marks;
    for (const OutOfMemory& event : outOfMemoryEvents(trace))
        marks.push_back({event.ms,
                         DocumentPage::tr("Out of memory: asked for %1, %2 left")
                             .arg(bytesText(event.requested, 2), bytesText(event.deviceFree, 2)),
                         QString::fromStdString(whyOutOfMemory(trace, event))});
    return marks;
}

// The content fills its own background: otherwise each change in it repaints the window's background and the card's,
// too. The margins keep it inside of the round corners.
QFrame* cardAround(QWidget* content)
{
    QFrame* card = makeCard();
    content->setBackgroundRole(QPalette::Base);
    content->setAutoFillBackground(true);
    auto* layout = makeLayout<QVBoxLayout>(card, {2, 2, 2, 2});
    layout->addWidget(content);
    return card;
}

} // namespace

DocumentPage::DocumentPage(Session& session, Jobs& jobs, Actions& actions, QWidget* parent)
    : QWidget(parent)
    , session_(session)
    , actions_(actions)
    , header_(new StepHeader(session, actions))
    , comparison_(new ComparisonBar)
    , comparisonCard_(cardAround(comparison_))
    , moduleModel_(new ModuleTreeModel(this))
    , modules_(new ModulePanel(moduleModel_))
    , timeline_(new TimelineView)
    , tradeOff_(new TradeOffView)
    , lower_(new LowerPages(session, jobs, actions, *timeline_, tradeOff_, this))
    , inspector_(new Inspector)
    , budgetBar_(new BudgetBar)
{
    layOut();
    wireSession();
    wireViews();
    wireActions();
    actions_.setDocumentOpen(false);
}

void DocumentPage::layOut()
{
    centre_ = new QSplitter(Qt::Vertical);
    centre_->setObjectName(centreName);
    centre_->addWidget(cardAround(timeline_));
    centre_->addWidget(cardAround(lower_->panel()));
    centre_->setStretchFactor(0, 3);
    centre_->setStretchFactor(1, 2);
    centre_->setSizes({600, 400});
    sides_ = new QSplitter(Qt::Horizontal);
    sides_->setObjectName(sidesName);
    sides_->addWidget(cardAround(modules_));
    sides_->addWidget(centre_);
    sides_->addWidget(cardAround(inspector_));
    sides_->setStretchFactor(0, 0);
    sides_->setStretchFactor(1, 1);
    sides_->setStretchFactor(2, 0);
    sides_->setSizes({400, 880, 290});
    for (QSplitter* splitter : {sides_, centre_}) {
        splitter->setHandleWidth(spacing);
        splitter->setChildrenCollapsible(false);
    }
    modules_->setMinimumWidth(274);
    auto* column = makeLayout<QVBoxLayout>(this, {12, 6, 12, 12}, spacing);
    column->addWidget(header_);
    column->addWidget(comparisonCard_);
    comparisonCard_->hide();
    column->addWidget(sides_, 1);
    column->addWidget(cardAround(budgetBar_));
}

void DocumentPage::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    budgetBar_->setWindowHeight(height());
}

void DocumentPage::wireSession()
{
    connect(&session_, &Session::stepChanged, this, &DocumentPage::showStep);
    connect(&session_, &Session::budgetChanged, this, &DocumentPage::showBudget);
    connect(&session_, &Session::requestChanged, this,
            [this] { budgetBar_->setResult(session_.answer().get(), true); });
    connect(&session_, &Session::answerChanged, this, &DocumentPage::showAnswer);
    connect(&session_, &Session::pinsChanged, this, &DocumentPage::showPins);
    connect(&session_, &Session::worldSizeChanged, inspector_, &Inspector::setWorldSize);
    connect(&session_, &Session::modeChanged, this, &DocumentPage::showMode);
    connect(&session_, &Session::offloadChanged, this, &DocumentPage::showOffload);
    connect(&session_, &Session::opsPolicyChanged, this, &DocumentPage::showInspector);
    connect(&session_, &Session::selectionChanged, this, &DocumentPage::showSelection);
    connect(&session_, &Session::optionsChanged, this, [this] {
        tradeOff_->setOptions(session_.selectedFqn(), session_.options()->options);
        showInspector();
    });
    connect(&session_, &Session::comparisonChanged, this, &DocumentPage::showComparison);
    for (const auto changed : {&Session::stepChanged, &Session::cardChanged, &Session::cardPlanChanged,
                               &Session::cardPointsChanged, &Session::frontierChanged})
        connect(&session_, changed, this,
                [this] { budgetBar_->setCards(cardStops(session_), failingPeaks(session_)); });
    connect(&session_, &Session::frontierChanged, this, [this] {
        const auto points = [](const FrontierPtr& of) { return of ? *of : std::vector<FrontierPoint>(); };
        const bool alsoWithout = session_.recomputeFrontier() != session_.frontier();
        budgetBar_->setFrontier(points(session_.frontier()),
                                points(alsoWithout ? session_.recomputeFrontier() : nullptr));
        showBudgetRange();
        showInspector();
    });
}

void DocumentPage::wireViews()
{
    connect(timeline_, &TimelineView::budgetDragged, &session_, &Session::dragBudget);
    connect(timeline_, &TimelineView::budgetCommitted, &session_, &Session::commitBudget);
    connect(timeline_, &TimelineView::moduleChosen, &session_, &Session::select);
    connect(budgetBar_, &BudgetBar::budgetDragged, &session_, &Session::dragBudget);
    connect(budgetBar_, &BudgetBar::budgetCommitted, &session_, &Session::commitBudget);
    connect(comparison_, &ComparisonBar::closed, actions_.stopComparing, &QAction::trigger);
    const auto takeLeast = [this] {
        if (session_.leastBudget() > 0)
            session_.commitBudget(session_.leastBudget());
    };
    connect(budgetBar_, &BudgetBar::leastBudgetWanted, this, takeLeast);
    connect(inspector_, &Inspector::leastBudgetWanted, this, takeLeast);
    connect(budgetBar_, &BudgetBar::modeWanted, &session_, &Session::setMode);
    connect(budgetBar_->offload(), &OffloadRow::wanted, &session_, [this](bool allowed, Bytes hostMemory) {
        session_.setOffload({allowed, hostMemory});
    });
    OpsPanel* ops = inspector_->opsPanel();
    connect(ops, &OpsPanel::modulesWanted, this, [this] { session_.setMode(PlanMode::modules); });
    connect(ops, &OpsPanel::tableWanted, lowerPanel(), &LowerPanel::showChanged);
    connect(ops, &OpsPanel::copyWanted, actions_.copyFraction, &QAction::trigger);
    connect(ops, &OpsPanel::exportWanted, actions_.exportPolicy, &QAction::trigger);
    connect(inspector_, &Inspector::pinWanted, this, &DocumentPage::applyPin);
    connect(inspector_, &Inspector::worldSizeWanted, &session_, &Session::setWorldSize);
    connect(inspector_, &Inspector::lineWanted, this,
            [this] { Q_EMIT lineWanted(session_.step()->linesOfModules[session_.selected().value].shown()); });
    connect(lower_, &LowerPages::lineWanted, this, &DocumentPage::lineWanted);
    connect(header_, &StepHeader::lineWanted, this, &DocumentPage::lineWanted);
    connect(inspector_, &Inspector::pinsCleared, &session_, &Session::clearPins);
    connect(modules_, &ModulePanel::moduleSelected, &session_, &Session::select);
    connect(lower_, &LowerPages::rangeChanged, this, [this](const StepRangePtr& range) {
        modules_->setRange(range ? range->summary.modulesAtWork(range->step->trace()) : std::vector<bool>());
        modules_->select(session_.selected());
    });
    connect(modules_, &ModulePanel::menuWanted, this, [this](ModuleId module, const QPoint& position) {
        session_.select(module);
        QMenu::exec({actions_.pinFree, actions_.pinKeep, actions_.pinRecompute, actions_.pinOffload}, position, nullptr,
                    this);
    });
    connect(tradeOff_, &TradeOffView::pointChosen, this, [this](const std::string& fqn, double ratio) {
        if (session_.mode() == PlanMode::modules)
            session_.setPin(fqn, ratio > 0 ? Pin::recompute : Pin::save);
    });
}

void DocumentPage::wireActions()
{
    connect(actions_.selectVisible, &QAction::triggered, timeline_, &TimelineView::selectVisible);
    connect(actions_.fitStep, &QAction::triggered, timeline_, &TimelineView::showAll);
    connect(actions_.zoomBack, &QAction::triggered, timeline_, &TimelineView::zoomBack);
    connect(actions_.zoomToSelection, &QAction::triggered, timeline_, &TimelineView::zoomToSelection);
    using Grouping = TimelineView::Grouping;
    connect(actions_.stackByCategory, &QAction::triggered, timeline_,
            [this] { timeline_->setGrouping(Grouping::category); });
    connect(actions_.stackByModule, &QAction::triggered, timeline_,
            [this] { timeline_->setGrouping(Grouping::module); });
    connect(timeline_, &TimelineView::groupingChanged, this, [this](Grouping grouping) {
        (grouping == Grouping::module ? actions_.stackByModule : actions_.stackByCategory)->setChecked(true);
    });
    connect(actions_.copyPicture, &QAction::triggered, timeline_,
            [this] { QGuiApplication::clipboard()->setPixmap(timeline_->grab()); });
    connect(actions_.copyTable, &QAction::triggered, timeline_,
            [this] { QGuiApplication::clipboard()->setText(tabSeparated(*timeline_->table())); });
    connect(actions_.planModules, &QAction::triggered, &session_, [this] { session_.setMode(PlanMode::modules); });
    connect(actions_.planOps, &QAction::triggered, &session_, [this] { session_.setMode(PlanMode::ops); });
    connect(actions_.copyFraction, &QAction::triggered, this,
            [this] { QGuiApplication::clipboard()->setText(compileLines(session_)); });
    connect(actions_.findModule, &QAction::triggered, modules_, &ModulePanel::focusFilter);
    connect(actions_.pinFree, &QAction::triggered, this, [this] { applyPin(std::nullopt); });
    connect(actions_.pinKeep, &QAction::triggered, this, [this] { applyPin(Pin::save); });
    connect(actions_.pinRecompute, &QAction::triggered, this, [this] { applyPin(Pin::recompute); });
    connect(actions_.pinOffload, &QAction::triggered, this, [this] { applyPin(Pin::offload); });
    connect(actions_.clearPins, &QAction::triggered, &session_, &Session::clearPins);
}

LowerPanel* DocumentPage::lowerPanel() const noexcept
{
    return lower_->panel();
}

FitPage* DocumentPage::fit() const noexcept
{
    return lower_->fit();
}

void DocumentPage::restoreLayout(const Settings& settings)
{
    sides_->restoreState(settings.layout(sidesName));
    centre_->restoreState(settings.layout(centreName));
}

void DocumentPage::saveLayout(Settings& settings) const
{
    settings.setLayout(sidesName, sides_->saveState());
    settings.setLayout(centreName, centre_->saveState());
}

void DocumentPage::showStep()
{
    const OpenStepPtr& step = session_.step();
    const StepTracePtr trace = step ? step->engine->trace() : nullptr;
    actions_.setDocumentOpen(step != nullptr);
    moduleModel_->setStep(trace, step ? step->recorded() : std::vector<ModuleEffect>());
    timeline_->setStep(trace, step ? step->engine->recorded() : nullptr);
    timeline_->setFailures(trace ? failureMarks(*trace) : std::vector<TimelineFailure>());
    modules_->setDistributed(step && step->clock && !step->clock->collectives.empty());
    showCollectives();
    tradeOff_->clearPlan();
    tradeOff_->setModules(step ? step->engine->moduleInfo() : nullptr);
    budgetBar_->setFrontier({});
    if (!step) {
        actions_.calibratedTimes->setEnabled(false);
        return;
    }
    header_->setStep(step);
    const QString noPlan = whyNoPlan(session_);
    for (QAction* action : {actions_.planModules, actions_.planOps, actions_.exportFrontier})
        setPossible(*action, noPlan);
    setPossible(*actions_.exportTradeOff, step->engine->moduleInfo()->stats.empty() ? noPlan : QString());
    inspector_->setShardable(noPlan);
    actions_.calibratedTimes->setEnabled(!step->times.gpu.empty());
    actions_.calibratedTimes->setChecked(step->times.calibrated);
    inspector_->setWorldSize(session_.worldSize());
    inspector_->setOfJob(trace->info.distributed.has_value());
    showMode();
    showBudgetRange();
    showBudget(session_.budget());
    showInspector();
    if (session_.selected().valid()) { // the same model at another size
        showSelection();
        return;
    }
    session_.select(firstCandidate(*step->engine->moduleInfo(), *trace));
    selectionIsOurs_ = true;
}

/// Selects a module that the plan changes when a step opens, so that the inspector has something to show.
void DocumentPage::selectFirstRegion()
{
    const CheckpointPlan& regions = session_.answer()->shown().regions;
    if (!std::exchange(selectionIsOurs_, false) || regions.empty())
        return;
    const auto first = std::min_element(regions.begin(), regions.end(),
                                        [](const auto& a, const auto& b) { return a.module < b.module; });
    session_.select(first->module);
}

void DocumentPage::showBudgetRange()
{
    if (!session_.isOpen())
        return;
    const Bytes peak = session_.recordedPeak();
    const Bytes least = session_.leastBudget();
    const Bytes axisMax = peak + peak / 20;
    const Bytes axisMin = least > 0 ? std::max<Bytes>(0, least - (peak - least) / 4) : peak / 5;
    budgetBar_->setPossible(whyNoPlan(session_));
    budgetBar_->setRange(least, peak, axisMin, axisMax);
    timeline_->setBudgetRange(axisMin, axisMax);
}

void DocumentPage::showBudget(Bytes budget)
{
    budgetBar_->setBudget(budget);
    timeline_->setBudget(budget, session_.budgetSeemsEnough());
}

void DocumentPage::showMode()
{
    const bool ops = session_.mode() == PlanMode::ops;
    (ops ? actions_.planOps : actions_.planModules)->setChecked(true);
    budgetBar_->setMode(session_.mode());
    inspector_->setByOps(ops);
    showOffload();
    showInspector();
}

void DocumentPage::showOffload()
{
    const QString whyNot = whyNoOffload(session_);
    budgetBar_->offload()->setPossible(whyNot);
    budgetBar_->offload()->setChoice(session_.offloadChoice().allowed && whyNot.isEmpty(),
                                     session_.offloadChoice().hostMemory);
    const bool offloads = mayOffload(session_);
    budgetBar_->setOffloading(offloads);
    modules_->setOffloading(offloads, session_.mode() == PlanMode::modules);
}

/// Shows the step as it was recorded.
void DocumentPage::showNoAnswer()
{
    moduleModel_->clearPlan();
    tradeOff_->clearPlan();
    timeline_->setPlanned(nullptr);
    timeline_->setChanged({});
    showCollectives();
    budgetBar_->setResult(nullptr, false);
    showInspector();
}

void DocumentPage::showAnswer()
{
    if (!session_.answer() || !whyNoPlan(session_).isEmpty()) {
        showNoAnswer();
        return;
    }
    const PlanAnswer& answer = *session_.answer();
    const PlanAnswer& shown = answer.shown();
    if (shown.timeline) {
        if (answer.ops && shown.offloads.empty()) {
            moduleModel_->setOpsPlan(shown.effects);
            tradeOff_->clearPlan();
        } else {
            moduleModel_->setPlan(shown.regions, shown.effects, shown.offloads);
            if (!answer.ops)
                tradeOff_->setPlan(plannedPoints(session_), session_.msPerGiB(), answer.fits());
        }
    } else {
        moduleModel_->clearPlan();
        tradeOff_->clearPlan();
    }
    timeline_->setNames(tr("Recorded"), answer.fits() ? tr("Planned") : tr("Least"));
    timeline_->setPlanned(shown.timeline);
    timeline_->setChanged(answer.ops && answer.fits() ? changedMarks(*answer.ops, *shown.timeline)
                                                      : std::vector<TimelineChangedOp>());
    showCollectives();
    if (!session_.frontierIsFinal())
        showBudgetRange();
    showBudget(session_.budget());
    budgetBar_->setResult(&answer, !session_.answerIsCurrent());
    selectFirstRegion();
    showInspector();
}

/// Shows the compared step over the open one, in place of the plan.
void DocumentPage::showComparison()
{
    const StepComparisonPtr& comparison = session_.comparison();
    timeline_->setCompared(session_.beside(), comparison != nullptr);
    showCollectives();
    moduleModel_->setComparison(comparison);
    modules_->setComparing(comparison && comparison->hasTimes);
    if (comparison)
        comparison_->setFacts(comparisonFacts(*comparison, session_.comparedFile()));
    else if (session_.peaks())
        comparison_->setFacts(comparisonFacts(*session_.peaks()));
    comparisonCard_->setVisible(session_.isComparing());
    actions_.stopComparing->setEnabled(session_.isComparing());
}

/// Shows the collectives of the same step as the timeline's stack: the planned or the recorded one.
void DocumentPage::showCollectives()
{
    const OpenStepPtr& step = session_.step();
    const bool ofPlan = session_.shownTimeline() && session_.answer()->shown().clock && !session_.isComparing();
    const std::optional<StepClock> none;
    const std::optional<StepClock>& clock = !step ? none : ofPlan ? session_.answer()->shown().clock : step->clock;
    if (!clock || clock->collectives.empty()) {
        timeline_->setCollectives({});
        moduleModel_->setExposed({});
        return;
    }
    timeline_->setCollectives(CollectiveRows(step->engine->trace(), step->collectiveModules, clock->collectives));
    moduleModel_->setExposed(exposedByModule(step->trace(), step->collectiveModules, *clock));
}

void DocumentPage::showSelection()
{
    selectionIsOurs_ = false;
    modules_->select(session_.selected());
    tradeOff_->select(session_.selectedFqn());
    showInspector();
}

void DocumentPage::showPins()
{
    moduleModel_->setPins(session_.request().pins);
    showOffload();
    showInspector();
}

void DocumentPage::showInspector()
{
    if (!session_.isOpen())
        return;
    const ModuleId module = session_.selected();
    const QString noPlan = whyNoPlan(session_);
    QString whyNotPinned = noPlan.isEmpty() ? tr("Select a module to pin.") : noPlan;
    QString whyNotMoved = whyNoOffload(session_);
    if (module.valid()) {
        const ModuleFacts facts = moduleFacts(session_);
        whyNotPinned = facts.treatable ? facts.whyNot : tr("Modules are pinned in plans by module.");
        inspector_->setModule(facts);
        if (whyNotMoved.isEmpty())
            whyNotMoved = facts.whyNoOffload;
        QAction* chosen = !facts.pin       ? actions_.pinFree
            : *facts.pin == Pin::save      ? actions_.pinKeep
            : *facts.pin == Pin::recompute ? actions_.pinRecompute
                                           : actions_.pinOffload;
        chosen->setChecked(true);
    } else {
        inspector_->setNoModule(stepName(session_.step()->trace()), planSummary(session_));
    }
    for (QAction* action : {actions_.pinFree, actions_.pinKeep, actions_.pinRecompute})
        setPossible(*action, whyNotPinned);
    setPossible(*actions_.pinOffload, whyNotPinned.isEmpty() ? whyNotMoved : whyNotPinned);
    const bool ops = session_.mode() == PlanMode::ops;
    actions_.clearPins->setEnabled(session_.hasPins() && !ops);
    actions_.copyFraction->setEnabled(!compileLines(session_).isEmpty());
    if (ops)
        inspector_->opsPanel()->setFacts(opsFacts(session_));
    inspector_->setInfeasible(infeasibleFacts(session_));
    setPossible(*actions_.exportPolicy, whyNoExport(session_));
    // The line is red if no plan fits, and then says nothing about the cost curve and the clock.
    QStringList lines{solverLine(session_)};
    if (session_.feasible() && noPlan.isEmpty())
        lines << frontierLine(session_) << copiesLine(session_) << clockLine(session_);
    lines.removeAll(QString());
    inspector_->setSolver(lines.join(QChar::LineFeed), !session_.answer() || session_.feasible() || !noPlan.isEmpty(),
                          ops ? 0 : static_cast<int>(session_.request().pins.size()));
    const TimelinePtr shown = noPlan.isEmpty() ? session_.shownTimeline() : nullptr;
    inspector_->setPeaks(session_.step()->engine->recorded()->atPeak,
                         shown ? std::optional(shown->atPeak) : std::nullopt);
}

void DocumentPage::applyPin(std::optional<Pin> pin)
{
    if (session_.selected().valid())
        session_.setPin(session_.selectedFqn(), pin);
}

} // namespace headroom
