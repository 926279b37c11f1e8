// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/mainwindow.h"

#include "app/recording/recording_bar.h"
#include "app/recording/sentence.h"
#include "app/window/actions.h"
#include "app/window/demos.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/measured_desk.h"
#include "app/window/ops_desk.h"
#include "app/window/record_desk.h"
#include "app/window/snapshot_sheet.h"
#include "app/window/step_header.h"
#include "app/window/verify_desk.h"
#include "app/window/what_if.h"
#include "core/snapshot/out_of_memory.h"
#include "views/plot/number_text.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/inspector.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QStackedWidget>
#include <QVBoxLayout>

#include <utility>

namespace headroom {
namespace {

constexpr int frontierPoints = 60;
const auto windowName = QStringLiteral("window");

/// The first local file of what is dragged.
QString draggedFile(const QMimeData& data)
{
    for (const QUrl& url : data.urls()) {
        if (url.isLocalFile())
            return url.toLocalFile();
    }
    return {};
}

} // namespace

MainWindow::MainWindow(Parts parts, Settings& settings, QWidget* parent)
    : QMainWindow(parent)
    , settings_(settings)
    , theme_(settings)
    , jobs_(std::move(parts.makeEngine))
    , actions_(new Actions(this))
    , messages_(new MessageBar)
    , recordingBar_(new RecordingBar)
    , recordDesk_(new RecordDesk(parts.recorder, parts.recordingsFolder, settings, *recordingBar_, this))
    , pages_(new QStackedWidget)
    , start_(new StartPage)
    , page_(new DocumentPage(session_, jobs_, *actions_))
    , whatIf_(new WhatIf(session_, *page_->header()->sizes(), parts.recorder, parts.recordingsFolder, this))
    , verifyDesk_(
          new VerifyDesk(session_, *page_->inspector()->verifyRow(), *actions_->verifyPlan, parts.recorder, this))
    , opsDesk_(new OpsDesk(session_, this))
    , measuredDesk_(new MeasuredDesk(session_, this))
    , exporter_(new Exporter(session_, settings_, *messages_, this))
{
    setObjectName(windowName);
    setAcceptDrops(true);
    layOut();
    wireJobs();
    wireActions();
    wireRecording();
    start_->setDemos(demoModels());
    fillRecentFiles();
    showPage();
    restoreGeometry(settings_.layout(windowName));
    page_->restoreLayout(settings_);
}

MainWindow::~MainWindow()
{
    session_.disconnect(this);
    jobs_.disconnect(this);
    delete recordDesk_; // these end what they record, before what shows it
    delete whatIf_;
    delete verifyDesk_;
    delete opsDesk_;
    delete measuredDesk_;
    delete takeCentralWidget(); // before the session and the jobs that it shows
}

void MainWindow::layOut()
{
    actions_->fillMenuBar(menuBar());
    auto* centre = new QWidget;
    auto* column = new QVBoxLayout(centre);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    auto* messageRow = new QVBoxLayout;
    messageRow->setContentsMargins(12, 6, 12, 0);
    messageRow->setSpacing(6);
    messageRow->addWidget(recordingBar_);
    messageRow->addWidget(messages_);
    column->addLayout(messageRow);
    column->addWidget(pages_, 1);
    pages_->addWidget(start_);
    pages_->addWidget(page_);
    setCentralWidget(centre);
    resize(1440, 900);
}

void MainWindow::wireJobs()
{
    connect(&jobs_, &Jobs::openProgressed, this, [this](const QString& path, const QString& stage, double share) {
        if (!opening_.inPlace.isEmpty())
            return; // the header says it
        messages_->showProgress(tr("Opening %1: %2").arg(QFileInfo(path).fileName(), stage), share,
                                {tr("Cancel"), [this] {
                                     jobs_.forgetOpening();
                                     messages_->dismiss();
                                 }});
    });
    connect(&jobs_, &Jobs::snapshotRead, this, &MainWindow::askForPart);
    connect(&jobs_, &Jobs::opened, this, &MainWindow::takeStep);
    connect(&jobs_, &Jobs::openFailed, this, &MainWindow::refuseFile);
    connect(&jobs_, &Jobs::planned, this, &MainWindow::takeAnswer);
    connect(&jobs_, &Jobs::planFailed, this, &MainWindow::refusePlan);
    connect(&jobs_, &Jobs::frontierComputed, &session_, &Session::setFrontier);
    connect(&jobs_, &Jobs::frontierFailed, this, [this](const QString& reason) {
        if (messages_->kind() != MessageBar::Kind::error) // the solve failed for the same reason, and says what to do
            messages_->showError(sentence(reason));
    });

    connect(&session_, &Session::stepAboutToChange, &jobs_, &Jobs::forgetPlans);
    connect(&session_, &Session::stepChanged, this, &MainWindow::showPage);
    connect(&session_, &Session::stepChanged, this, &MainWindow::askFrontier);
    connect(&session_, &Session::questionChanged, this, &MainWindow::ask);
    connect(&session_, &Session::pinsChanged, this, &MainWindow::askFrontier);
    connect(&session_, &Session::worldSizeChanged, this, &MainWindow::askFrontier);
    connect(&session_, &Session::dirtyChanged, this, &MainWindow::showTitle);
    connect(&session_.undoStack(), &QUndoStack::indexChanged, this, [this] { budgetIsOurs_ = false; });
}

void MainWindow::wireActions()
{
    Actions& a = *actions_;
    connect(a.open, &QAction::triggered, this, &MainWindow::askForFile);
    connect(a.closeStep, &QAction::triggered, this, &MainWindow::closeStep);
    connect(a.compare, &QAction::triggered, this, &MainWindow::askForMeasured);
    connect(a.stopComparing, &QAction::triggered, measuredDesk_, &MeasuredDesk::stop);
    connect(measuredDesk_, &MeasuredDesk::failed, this, [this](const QString& reason) {
        messages_->showError(reason);
        Q_EMIT openFailed(reason);
    });
    connect(measuredDesk_, &MeasuredDesk::comparedInstead, this, [this] {
        const QString file = session_.comparedFile();
        messages_->showDone(tr("%1 was measured, and lies over the open step.").arg(QFileInfo(file).fileName()),
                            {tr("Open it instead"), [this, file] {
                                 messages_->dismiss();
                                 openFile(file);
                             }});
    });
    connect(measuredDesk_, &MeasuredDesk::wanted, this, [this](const QString& path) { openFile(path); });
    connect(a.quit, &QAction::triggered, this, &QWidget::close);
    connect(a.exportPolicy, &QAction::triggered, exporter_, &Exporter::askPolicy);
    connect(a.exportTimeline, &QAction::triggered, exporter_, &Exporter::askTimeline);
    connect(a.exportTradeOff, &QAction::triggered, exporter_, &Exporter::askTradeOff);
    connect(a.exportFrontier, &QAction::triggered, exporter_, &Exporter::askFrontier);
    connect(a.calibratedTimes, &QAction::triggered, this, &MainWindow::changeTimes);
    a.wireUndo(session_.undoStack());
    theme_.wire(a);
    connect(a.about, &QAction::triggered, this, &MainWindow::showAbout);
    connect(a.aboutQt, &QAction::triggered, qApp, &QApplication::aboutQt);

    connect(page_->timeline(), &TimelineView::groupingChanged, this, [this](TimelineView::Grouping grouping) {
        exporter_->setStackByModule(grouping == TimelineView::Grouping::module);
    });
    connect(start_, &StartPage::openWanted, this, &MainWindow::askForFile);
    connect(start_, &StartPage::fileWanted, this, [this](const QString& path) { openFile(path); });
    connect(start_, &StartPage::scriptWanted, this, &MainWindow::askForScript);
}

void MainWindow::wireRecording()
{
    connect(start_, &StartPage::demoWanted, recordDesk_, &RecordDesk::recordDemo);
    connect(recordDesk_, &RecordDesk::busyChanged, this, [this](bool busy) {
        start_->setBusy(busy);
        if (busy)
            messages_->dismiss();
    });
    connect(recordDesk_, &RecordDesk::recorded, this, [this](const QString& path, const QString& remark) {
        openStep(path, {{}, {}, remark, PlanMode::modules, {}});
    });
    connect(whatIf_, &WhatIf::recorded, this, [this](const QString& path, const QString& sizes) {
        openStep(path, {{}, {}, {}, PlanMode::modules, sizes});
    });
    connect(whatIf_, &WhatIf::failed, this, [this](const QString& reason) { messages_->showError(reason); });
    connect(recordDesk_, &RecordDesk::refused, this, [this](const QString& reason) {
        messages_->showError(reason);
        Q_EMIT openFailed(reason);
    });
    connect(recordDesk_, &RecordDesk::cancelled, this,
            [this] { messages_->showDone(tr("The recording was cancelled; nothing was written.")); });
}

void MainWindow::openFile(const QString& path, std::optional<Bytes> budget, const QString& select, PlanMode mode)
{
    const SourceKind kind = sourceKind(path);
    if (const QString reason = whyNotOpened(kind, path); !reason.isEmpty())
        refuseFile(path, reason);
    else if (kind == SourceKind::step)
        openStep(path, {budget, select, {}, mode, {}});
    else
        recordDesk_->ask(path);
}

void MainWindow::openStep(const QString& path, const Opening& wanted)
{
    opening_ = wanted;
    const bool keepsRoofline = !wanted.inPlace.isEmpty() && session_.isOpen() && !session_.step()->times.gpu.empty()
        && !session_.step()->times.calibrated;
    jobs_.open(path, keepsRoofline ? "none" : calibration_, std::exchange(part_, {}));
}

/// The open step with other times, in its place: one undo step.
void MainWindow::changeTimes(bool calibrated)
{
    if (!session_.isOpen() || session_.step()->times.calibrated == calibrated)
        return;
    opening_ = {{}, {}, {}, PlanMode::modules, calibrated ? tr("calibrated times") : tr("roofline times")};
    jobs_.changeTimes(session_.step(), !calibrated ? "none" : calibration_ == "none" ? "auto" : calibration_);
}

/// A snapshot of several devices, or a large one: which part of it?
void MainWindow::askForPart(const ReadSnapshotPtr& snapshot)
{
    messages_->dismiss();
    auto* sheet = new SnapshotSheet(*snapshot, this);
    sheet->setAttribute(Qt::WA_DeleteOnClose);
    connect(sheet, &QDialog::accepted, this, [this, sheet, snapshot] { jobs_.openPart(snapshot, sheet->part()); });
    connect(sheet, &QDialog::rejected, this, [this] {
        jobs_.forgetOpening();
        measuredFile_.clear();
    });
    sheet->open();
}

void MainWindow::takeStep(const OpenStepPtr& step)
{
    if (!opening_.inPlace.isEmpty()) {
        takeOther(step, std::exchange(opening_, {}).inPlace);
        return;
    }
    messages_->dismiss();
    if (session_.isOpen() && !maySayGoodbye())
        return;
    settings_.addRecentFile(step->path);
    fillRecentFiles();
    const Opening wanted = std::exchange(opening_, {});
    session_.open(step, wanted.budget.value_or(firstBudget(step->trace(), step->engine->recorded()->peak)),
                  wanted.mode);
    budgetIsOurs_ = !wanted.budget;
    if (const ModuleId module = moduleNamed(step->trace(), wanted.select.toStdString()); module.valid())
        session_.select(module);
    page_->modules()->setFocus();
    if (!measuredFile_.isEmpty())
        measuredDesk_->compare(std::exchange(measuredFile_, {}));
    if (!wanted.remark.isEmpty())
        messages_->showError(wanted.remark);
    else if (const auto failures = outOfMemoryEvents(step->trace()); !failures.empty())
        messages_->showError(
            tr("Out of memory at %1. %2")
                .arg(msText(failures.front().ms), QString::fromStdString(whyOutOfMemory(failures.front())))
            + (failures.size() > 1 ? tr(" It happened %1 times.").arg(failures.size()) : QString()));
}

/// The open step at another size, or with other times: kept in the undo stack, with what was found for it.
void MainWindow::takeOther(const OpenStepPtr& step, const QString& what)
{
    if (session_.isOpen())
        session_.replaceStep(step, what);
}

void MainWindow::refuseFile(const QString& path, const QString& reason)
{
    Q_UNUSED(path);
    whatIf_->cancel();
    measuredFile_.clear();
    messages_->showError(sentence(reason));
    Q_EMIT openFailed(reason);
}

void MainWindow::ask()
{
    if (session_.mode() == PlanMode::modules)
        jobs_.solve(session_.step(), session_.request());
}

void MainWindow::askFrontier()
{
    if (session_.isOpen())
        jobs_.computeFrontier(session_.step(), session_.request(), frontierPoints);
}

void MainWindow::takeAnswer(const PlanAnswerPtr& answer)
{
    if (session_.mode() != PlanMode::modules)
        return; // ops are planned by now
    session_.setAnswer(answer);
    // The first budget is a guess: when nothing fits it, the least that does is the better one.
    const Plan& plan = answer->step.plan;
    if (std::exchange(budgetIsOurs_, false) && plan.status == PlanStatus::infeasible && plan.leastBudget > 0)
        session_.suggestBudget(plan.leastBudget);
}

void MainWindow::refusePlan(const QString& reason)
{
    MessageBar::Action undo;
    if (session_.undoStack().canUndo())
        undo = {tr("Undo"), [this] {
                    messages_->dismiss();
                    session_.undoStack().undo();
                }};
    messages_->showError(sentence(reason), undo);
}

bool MainWindow::closeStep()
{
    if (!session_.isOpen())
        return true;
    if (!maySayGoodbye())
        return false;
    jobs_.forgetOpening(); // of the step at another size
    session_.close();
    return true;
}

void MainWindow::askForFile()
{
    const QStringList recent = settings_.recentFiles();
    const QString folder = recent.isEmpty() ? QString() : QFileInfo(recent.first()).absolutePath();
    const QString path = QFileDialog::getOpenFileName(
        this, tr("Open a recorded step, a model or a training script"), folder,
        tr("All that Headroom opens (*.hrs *.pt2 *.pt *.py *.pickle *.pkl);;Recorded steps (*.hrs);;Memory snapshots "
           "(*.pickle *.pkl);;Exported models (*.pt2);;"
           "TorchScript models (*.pt);;Training scripts (*.py);;All files (*)"));
    if (!path.isEmpty())
        openFile(path);
}

void MainWindow::askForMeasured()
{
    if (const QString reason = measuredDesk_->whyNot(); !reason.isEmpty()) {
        messages_->showError(reason);
        return;
    }
    const QString path = QFileDialog::getOpenFileName(
        this, tr("Compare with a measured step"), QFileInfo(session_.step()->path).absolutePath(),
        tr("Measured steps and memory snapshots (*.hrs *.pickle *.pkl);;All files (*)"));
    if (!path.isEmpty())
        compareWith(path);
}

void MainWindow::compareWith(const QString& path)
{
    if (session_.isOpen())
        measuredDesk_->compare(path);
    else
        measuredFile_ = path;
}

void MainWindow::askForScript()
{
    const QString path
        = QFileDialog::getOpenFileName(this, tr("Choose a training script"), {}, tr("Training scripts (*.py)"));
    if (!path.isEmpty())
        openFile(path);
}

void MainWindow::fillRecentFiles()
{
    const QStringList files = settings_.recentFiles();
    start_->setRecentFiles(files.mid(0, 4));
    QMenu* menu = actions_->recentMenu;
    menu->clear();
    for (const QString& path : files) {
        QAction* action = menu->addAction(QFileInfo(path).fileName());
        action->setStatusTip(path);
        action->setToolTip(path);
        connect(action, &QAction::triggered, this, [this, path] { openFile(path); });
    }
    menu->setEnabled(!files.isEmpty());
    if (files.isEmpty())
        return;
    menu->addSeparator();
    QAction* clear = menu->addAction(tr("Clear this list"));
    clear->setStatusTip(tr("Forget which files were open"));
    connect(clear, &QAction::triggered, this, [this] {
        settings_.clearRecentFiles();
        fillRecentFiles();
    });
}

void MainWindow::showPage()
{
    pages_->setCurrentWidget(session_.isOpen() ? static_cast<QWidget*>(page_) : start_);
    actions_->setDocumentOpen(session_.isOpen());
    showTitle();
}

void MainWindow::showTitle()
{
    setWindowTitle(session_.isOpen() ? tr("%1[*] – Headroom").arg(QFileInfo(session_.step()->path).fileName())
                                     : tr("Headroom"));
    setWindowModified(session_.dirty());
}

void MainWindow::showAbout()
{
    QMessageBox::about(this, tr("About Headroom"),
                       tr("<h3>Headroom %1</h3><p>Plans the GPU memory of PyTorch training to the byte.</p>"
                          "<p>Free software under the GNU General Public License, version 3 or later.</p>"
                          "<p>`headroom doctor` says what this machine has.</p>")
                           .arg(QStringLiteral(HEADROOM_VERSION)));
}

/// Asks when the plan was changed and not exported since.
bool MainWindow::maySayGoodbye()
{
    if (!session_.dirty() || !askBeforeClosing_)
        return true;
    QMessageBox box(QMessageBox::Question, tr("Headroom"), tr("The plan has changed since it was opened or exported."),
                    QMessageBox::NoButton, this);
    box.setInformativeText(tr("Export it as policy.json, so that training can apply it?"));
    QPushButton* exportIt = box.addButton(tr("Export policy…"), QMessageBox::AcceptRole);
    QPushButton* discard = box.addButton(tr("Close without"), QMessageBox::DestructiveRole);
    box.addButton(QMessageBox::Cancel);
    box.exec();
    if (box.clickedButton() == exportIt) {
        exporter_->askPolicy();
        return !session_.dirty();
    }
    return box.clickedButton() == discard;
}

void MainWindow::closeEvent(QCloseEvent* event)
{
    if (!maySayGoodbye()) {
        event->ignore();
        return;
    }
    recordDesk_->recording().cancel();
    settings_.setLayout(windowName, saveGeometry());
    page_->saveLayout(settings_);
    QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event)
{
    if (!draggedFile(*event->mimeData()).isEmpty())
        event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event)
{
    const QString path = draggedFile(*event->mimeData());
    if (path.isEmpty())
        return;
    event->acceptProposedAction();
    if (session_.isOpen() && QFileInfo(path).suffix() == QLatin1String("hrs"))
        measuredDesk_->compareOrOpen(path);
    else
        openFile(path);
}

} // namespace headroom
