// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/mainwindow.h"

#include "app/recording/recorder_program.h"
#include "app/recording/recording_bar.h"
#include "app/window/actions.h"
#include "app/window/card_bar.h"
#include "app/window/card_controller.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/fit_page.h"
#include "app/window/frame_pacer.h"
#include "app/window/manual_controller.h"
#include "app/window/measured_controller.h"
#include "app/window/opener.h"
#include "app/window/ops_choice_controller.h"
#include "app/window/plan_controller.h"
#include "app/window/plan_text.h"
#include "app/window/record_controller.h"
#include "app/window/step_header.h"
#include "app/window/step_watch.h"
#include "app/window/verify_controller.h"
#include "app/window/what_if.h"
#include "views/plot/timeline_view.h"
#include "views/theme/styles.h"
#include "views/widgets/inspector.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QScreen>
#include <QStackedWidget>
#include <QTreeView>
#include <QVBoxLayout>

#include <utility>

namespace headroom {
namespace {

const auto windowName = QStringLiteral("window");

/// The first local file that is dragged; empty: none.
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
    , frames_(new FramePacer(this, [this] { return planIsComing(); }))
    , jobs_(std::move(parts.makeEngine))
    , actions_(new Actions(this))
    , messages_(new MessageBar)
    , recordingBar_(new RecordingBar)
    , recordController_(
          new RecordController({parts.recorder, parts.recordingsFolder, parts.sample}, settings, *recordingBar_, this))
    , pages_(new QStackedWidget)
    , start_(new StartPage)
    , page_(new DocumentPage(session_, jobs_, *actions_))
    , whatIf_(new WhatIf(session_, *page_->header()->sizes(), *recordController_, parts.recordingsFolder, this))
    , verifyController_(new VerifyController(session_, *page_->inspector()->verifyRow(), *actions_->verifyPlan,
                                             *recordController_, this))
    , cardController_(new CardController(session_, this))
    , planController_(new PlanController(session_, this))
    , measuredController_(new MeasuredController(session_, this))
    , opsChoiceController_(new OpsChoiceController(session_, *page_->inspector()->solverChoice(), this))
    , exporter_(new Exporter(session_, settings_, *messages_, this))
    , opener_(new Opener({session_, jobs_, settings_, *actions_, *messages_, *start_, *recordController_, *whatIf_,
                          [this] { return mayCloseStep(); }, this}))
    , stepWatch_(new StepWatch(session_, this))
    , manualController_(new ManualController(*this, settings_, *actions_->manual))
{
    setObjectName(windowName);
    setAcceptDrops(true);
    new WrappedToolTips(this);
    qApp->installEventFilter(this); // plots and fields would refuse a dropped file, or take the file's name
    layOut();
    wireSession();
    wireActions();
    wireControllers();
    wireFit(parts.recordingsFolder);
    wireMessages();
    start_->setDemos(demoModels());
    showPage();
    restoreGeometry(settings_.layout(windowName));
    page_->restoreLayout(settings_);
}

MainWindow::~MainWindow()
{
    session_.disconnect(this);
    session_.undoStack().disconnect(this);
    jobs_.disconnect(this);
    delete exporter_; // ends a report in progress
    delete opener_;
    delete recordController_; // the controllers end recordings before the widgets that show recordings are deleted
    delete whatIf_;
    delete verifyController_;
    delete cardController_;
    delete planController_;
    delete opsChoiceController_;
    delete measuredController_;
    delete takeCentralWidget(); // before the session and the jobs, used by the widget
}

void MainWindow::layOut()
{
    actions_->fillMenuBar(menuBar());
    auto* centre = new QWidget;
    auto* column = makeLayout<QVBoxLayout>(centre, {0, 0, 0, 0}, 0);
    auto* messageRow = makeLayout<QVBoxLayout>(nullptr, {12, 6, 12, 0}, 6);
    messageRow->addWidget(recordingBar_);
    messageRow->addWidget(messages_);
    column->addLayout(messageRow);
    column->addWidget(pages_, 1);
    pages_->addWidget(start_);
    pages_->addWidget(page_);
    setCentralWidget(centre);
    resize(1440, 900);
}

void MainWindow::wireSession()
{
    connect(planController_, &PlanController::failed, this, &MainWindow::refusePlan);
    connect(planController_, &PlanController::frontierFailed, this, [this](const QString& reason) {
        if (messages_->type()
            != MessageBar::MessageType::error) // the solve failed for the same reason, and says what to do
            messages_->showError(sentence(reason));
    });
    connect(&session_, &Session::stepAboutToChange, &jobs_, &Jobs::forgetLiveMemory);
    connect(&session_, &Session::stepChanged, this, &MainWindow::showPage);
    connect(&session_, &Session::answerChanged, frames_, &FramePacer::release);
    connect(page_->timeline(), &TimelineView::prepared, frames_, &FramePacer::release);
    connect(&session_, &Session::dirtyChanged, this, &MainWindow::showTitle);
}

void MainWindow::wireActions()
{
    Actions& a = *actions_;
    connect(a.quit, &QAction::triggered, this, &QWidget::close);
    connect(a.exportPolicy, &QAction::triggered, exporter_, &Exporter::askPolicy);
    connect(a.exportReport, &QAction::triggered, exporter_, &Exporter::askReport);
    connect(a.exportTimeline, &QAction::triggered, exporter_, &Exporter::askTimeline);
    connect(a.exportTradeOff, &QAction::triggered, exporter_, &Exporter::askTradeOff);
    connect(a.exportFrontier, &QAction::triggered, exporter_, &Exporter::askFrontier);
    a.wireUndo(session_.undoStack());
    theme_.wire(a);
    connect(a.about, &QAction::triggered, this, &MainWindow::showAbout);
    connect(a.aboutQt, &QAction::triggered, qApp, &QApplication::aboutQt);

    connect(page_->timeline(), &TimelineView::groupingChanged, this, [this](TimelineView::Grouping grouping) {
        exporter_->setStackByModule(grouping == TimelineView::Grouping::module);
    });
}

void MainWindow::wireControllers()
{
    Actions& a = *actions_;
    connect(opener_, &Opener::opened, this, [this](bool budgetWasGiven) {
        planController_->setBudgetIsGuess(!budgetWasGiven);
        if (budgetWasGiven)
            cardController_->keepBudget();
        else
            cardController_->follow();
        page_->modules()->tree()->setFocus();
        if (!measuredFile_.isEmpty())
            measuredController_->compare(std::exchange(measuredFile_, {}));
    });
    connect(opener_, &Opener::failed, this, &MainWindow::openFailed);
    connect(opener_, &Opener::nothingOpened, this, [this] { measuredFile_.clear(); });
    connect(opsChoiceController_, &OpsChoiceController::refused, this,
            [this](const QString& reason) { messages_->showError(sentence(reason)); });
    connect(page_->header(), &StepHeader::timesWanted, opener_, &Opener::changeTimes);
    connect(page_, &DocumentPage::lineWanted, opener_, &Opener::openLine);
    const CardBar* card = page_->header()->card();
    connect(card, &CardBar::cardWanted, opener_, &Opener::chooseCard);
    connect(cardController_, &CardController::causesFound, page_->header(), &StepHeader::setCauses);
    connect(card, &CardBar::planWanted, cardController_, &CardController::follow);
    connect(card, &CardBar::helpWanted, actions_->whatHelps, &QAction::trigger);
    connect(card, &CardBar::largerWanted, opener_, &Opener::recordLarger);
    connect(opener_, &Opener::cardChosen, cardController_, &CardController::follow);
    // Undone and redone, too: the card is the window's, not the document's.
    for (const auto changed : {&Session::cardChanged, &Session::stepChanged})
        connect(&session_, changed, this, [this] {
            if (session_.isOpen())
                settings_.setCard(session_.cardChoice().card);
        });
    connect(&session_, &Session::offloadChanged, this, [this] {
        if (session_.isOpen())
            settings_.setOffload(session_.offloadChoice());
    });
    connect(a.compare, &QAction::triggered, this, &MainWindow::askForMeasured);
    connect(opener_, &Opener::measuredWanted, measuredController_, &MeasuredController::compareOrOpen);
    connect(opener_, &Opener::openingBegan, measuredController_, &MeasuredController::beginOpening);
    connect(opener_, &Opener::nothingOpened, measuredController_, &MeasuredController::endOpening);
    connect(a.stopComparing, &QAction::triggered, measuredController_, &MeasuredController::stop);
    connect(measuredController_, &MeasuredController::failed, this, [this](const QString& reason) {
        messages_->showError(reason);
        Q_EMIT openFailed(reason);
    });
    connect(measuredController_, &MeasuredController::comparedInstead, this, [this] {
        const QString file = session_.comparedFile();
        messages_->showDone(tr("%1 was measured, and lies over the open step.").arg(QFileInfo(file).fileName()),
                            {tr("Open this step instead"), [this, file] {
                                 messages_->dismiss();
                                 openFile(file);
                             }});
    });
    connect(measuredController_, &MeasuredController::wanted, this, [this](const QString& path) { openFile(path); });
    connect(stepWatch_, &StepWatch::changed, this, &MainWindow::sayChanged);
    connect(stepWatch_, &StepWatch::gone, this, &MainWindow::sayGone);
}

/// A size opens in place of the open step, with the plan for its card.
void MainWindow::wireFit(const QString& folder)
{
    FitPage* fit = page_->fit();
    fit->use({[this](const auto& step, const auto& run, const auto& refuse) {
                  recordController_->withPython(step, run, refuse);
              },
              recordController_->recorder().toStdString(), folder});
    connect(fit, &FitPage::stepWanted, opener_,
            [this](const QString& path, const QString& size, const std::string& card) {
                opener_->openFile(path, {{}, {}, {}, PlanMode::modules, size, card, false, card});
            });
    connect(&fit->changes(), &ChangesSearch::stepWanted, opener_,
            [this](const QString& path, const QString& what, const std::string& card) {
                opener_->openFile(path, {{}, {}, {}, PlanMode::modules, what, card});
            });
    connect(&fit->changes(), &ChangesSearch::cardWanted, opener_, &Opener::chooseCard);
    connect(actions_->whatHelps, &QAction::triggered, this, [this, fit] {
        actions_->showFit->trigger();
        fit->startChanges();
    });
    connect(fit->panel(), &FitPanel::exportWanted, this, [this, fit] { exporter_->askFit(fit->exported()); });
}

/// An error leaves when a later request of the user succeeds.
void MainWindow::wireMessages()
{
    const auto succeed = [this] {
        if (session_.answerIsCurrent())
            messages_->succeed();
    };
    connect(&session_.undoStack(), &QUndoStack::indexChanged, this, [this, succeed] {
        messages_->beginAction();
        succeed();
    });
    connect(&session_, &Session::answerChanged, this, succeed);
    connect(&session_, &Session::comparisonChanged, this, [this] {
        messages_->beginAction();
        if (session_.isComparing())
            messages_->succeed();
    });
    connect(opener_, &Opener::opened, this, [this] {
        if (recordingBar_->failed())
            recordingBar_->finish();
    });
}

void MainWindow::openFile(const QString& path, std::optional<Bytes> budget, const QString& select, PlanMode mode)
{
    opener_->openFile(path, {budget, select, {}, mode, {}});
}

bool MainWindow::closeStep()
{
    return opener_->closeStep();
}

void MainWindow::fitScreen()
{
    const QSize free = screen()->availableSize();
    if (width() <= free.width() && height() <= free.height())
        return;
    resize(size().boundedTo(free));
    setWindowState(windowState() | Qt::WindowMaximized);
}

void MainWindow::sayChanged(const QString& path)
{
    messages_->showNote(
        tr("%1 has changed since. The window shows the file as opened.").arg(QFileInfo(path).fileName()),
        {tr("Reload"), [this, path] {
             messages_->dismiss();
             if (session_.isComparing() && path == session_.comparedFile())
                 measuredController_->compare(path);
             else
                 opener_->reload();
         }});
}

void MainWindow::sayGone(const QString& path)
{
    messages_->showNote(
        tr("%1 was deleted, moved or renamed. The window shows the file as opened.").arg(QFileInfo(path).fileName()));
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

void MainWindow::askForMeasured()
{
    if (const QString reason = measuredController_->whyNot(); !reason.isEmpty()) {
        messages_->showError(reason);
        return;
    }
    const QString path = QFileDialog::getOpenFileName(
        this, tr("Compare with another step"), QFileInfo(session_.step()->path).absolutePath(),
        tr("Steps, memory snapshots and traces (*.hrs *.pickle *.pkl *.json *.json.gz);;All files (*)"));
    if (!path.isEmpty())
        compareWith(path);
}

void MainWindow::compareWith(const QString& path)
{
    if (session_.isOpen())
        measuredController_->compare(path);
    else
        measuredFile_ = path;
}

void MainWindow::showPage()
{
    pages_->setCurrentWidget(session_.isOpen() ? static_cast<QWidget*>(page_) : start_);
    showTitle();
}

bool MainWindow::planIsComing() const
{
    return session_.isOpen() && !(session_.answerIsCurrent() && page_->timeline()->drawn());
}

void MainWindow::showTitle()
{
    setWindowTitle(session_.isOpen() ? tr("%1[*] – Headroom")
                                           .arg(QFileInfo(session_.step()->path)
                                                    .fileName()
                                                    .replace(QLatin1String("[*]"), QLatin1String("[*][*]")))
                                     : tr("Headroom"));
    setWindowModified(session_.dirty());
}

void MainWindow::showAbout()
{
    QMessageBox::about(this, tr("About Headroom"),
                       tr("<h3>Headroom %1</h3><p>Plans the GPU memory of PyTorch training to the byte.</p>"
                          "<p>Free software under the GNU General Public License, version 3 or later.</p>"
                          "<p>`torch-headroom doctor` says what this machine has.</p>")
                           .arg(QStringLiteral(HEADROOM_VERSION)));
}

/// Asks what to do with a plan that has changed since the last export; false: the step stays open.
bool MainWindow::mayCloseStep()
{
    const bool hasPlan = whyNoExport(session_).isEmpty();
    if (!session_.dirty() || !hasPlan || !askBeforeClosing_)
        return true;
    QMessageBox box(QMessageBox::Question, tr("Headroom"), tr("The plan has changed since the last opening or export."),
                    QMessageBox::NoButton, this);
    box.setInformativeText(tr("Export the plan as policy.json for training?"));
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
    if (!mayCloseStep()) {
        event->ignore();
        return;
    }
    recordController_->recording().cancel();
    page_->fit()->cancel();
    settings_.setLayout(windowName, saveGeometry());
    page_->saveLayout(settings_);
    manualController_->close();
    QMainWindow::closeEvent(event);
}

void MainWindow::changeEvent(QEvent* event)
{
    if (event->type() == QEvent::ActivationChange && isActiveWindow())
        stepWatch_->check();
    QMainWindow::changeEvent(event);
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event)
{
    const QEvent::Type type = event->type();
    if (type != QEvent::DragEnter && type != QEvent::DragMove && type != QEvent::Drop && type != QEvent::DragLeave)
        return QMainWindow::eventFilter(watched, event);
    const auto* widget = qobject_cast<QWidget*>(watched);
    if (!widget || widget->window() != this)
        return false;
    if (type != QEvent::DragLeave)
        takesDrag_ = takeDrag(*static_cast<QDropEvent*>(event));
    return takesDrag_;
}

/// Takes a file that is dragged over the window, at any place, and opens the file at the drop.
bool MainWindow::takeDrag(QDropEvent& event)
{
    const QString path = draggedFile(*event.mimeData());
    if (path.isEmpty())
        return false;
    event.acceptProposedAction();
    if (event.type() != QEvent::Drop)
        return true;
    if (session_.isOpen() && QFileInfo(path).suffix() == QLatin1String("hrs"))
        measuredController_->compareOrOpen(path);
    else
        openFile(path);
    return true;
}

} // namespace headroom
