// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/mainwindow.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/block_engine.h"
#include "views/models/module_tree_model.h"
#include "views/plot/timeline_view.h"
#include "views/plot/tradeoff_view.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/budget_scale.h"
#include "views/widgets/inspector.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"

#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QDropEvent>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QPushButton>
#include <QRadioButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QTreeView>

using namespace headroom;

/// The whole window on a synthetic step, with real widgets and keys.
class WindowTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        QVERIFY(folder_.isValid());
        file_ = folder_.filePath(QStringLiteral("step.hrs"));
        const StepTracePtr step = makeSyntheticStep({.blocks = 8, .activation = 64 * MiB, .weight = 8 * MiB});
        QVERIFY(writeStepTrace(*step, file_.toStdString()).ok());
        peak_ = predict(*step, {}).value().peak;
    }

    void init()
    {
        static int number = 0;
        settingsFile_ = folder_.filePath(QStringLiteral("settings%1.ini").arg(++number));
        settings_ = std::make_unique<Settings>(settingsFile_);
        settings_->setTheme(ThemeChoice::light);
        makeWindow();
    }
    void cleanup()
    {
        window_.reset();
        settings_.reset();
    }

    void firstStartSaysWhatCanBeDone()
    {
        QVERIFY(window_->startPage().isVisible());
        QVERIFY(!window_->page().isVisible());
        QVERIFY(window_->startPage().findChild<QPushButton*>(QStringLiteral("openButton")));
        QVERIFY(window_->startPage().findChild<QAbstractButton*>(QStringLiteral("demo-transformer")));
        QVERIFY(!window_->actions().exportPolicy->isEnabled());
        QVERIFY(window_->actions().open->isEnabled());
        QCOMPARE(window_->windowTitle(), QStringLiteral("Headroom"));
    }

    void everyActionHasTextAndStatusTip()
    {
        for (const QAction* action : window_->actions().findChildren<QAction*>()) {
            if (action->menu() || action->isSeparator())
                continue;
            QVERIFY2(!action->text().isEmpty() && !action->statusTip().isEmpty(), qPrintable(action->text()));
            QVERIFY2(!action->shortcut().isEmpty(), qPrintable(action->text()));
        }
    }

    void shortcutsAreUnique()
    {
        QMap<QString, QString> seen;
        for (const QAction* action : window_->actions().findChildren<QAction*>()) {
            const QString keys = action->shortcut().toString();
            QVERIFY2(keys.isEmpty() || !seen.contains(keys), qPrintable(keys + action->text() + seen.value(keys)));
            seen.insert(keys, action->text());
        }
    }

    void opensAndPlans()
    {
        openStep();
        QVERIFY(window_->page().isVisible());
        QCOMPARE(window_->page().findChild<QLabel*>(QStringLiteral("stepName"))->text(), QStringLiteral("synthetic"));
        QVERIFY(window_->windowTitle().startsWith(QStringLiteral("step.hrs")));
        QVERIFY(window_->session().feasible());
        QCOMPARE(window_->page().budgetBar()->budget(), window_->session().budget());
        QCOMPARE(settings_->recentFiles(), QStringList{file_});
        QCOMPARE(window_->session().selectedFqn(), std::string("Transformer.layers.0"));
        QVERIFY(window_->actions().exportPolicy->isEnabled());
    }

    void planIsShownInTreeAndInspector()
    {
        openStep();
        QTreeView* tree = window_->page().modules()->tree();
        const QModelIndex block = tree->model()->index(1, 0);
        QCOMPARE(block.data().toString(), QStringLiteral("layers.0"));
        QCOMPARE(block.data(ModuleTreeModel::PillRole).toString(), QStringLiteral("all"));
        const QModelIndex last = tree->model()->index(8, 0);
        QCOMPARE(last.data().toString(), QStringLiteral("layers.7"));
        QVERIFY(last.data(ModuleTreeModel::PillRole).toString().isEmpty());
        QCOMPARE(inspectorText("moduleName"), QStringLiteral("layers.0"));
        QVERIFY(inspectorText("reason").startsWith(QStringLiteral("Frees <b>")));
        QCOMPARE(inspectorText("solverLine"), QStringLiteral("Optimal in 1.10 ms"));
    }

    void planFollowsADrag()
    {
        openStep();
        BudgetBar* bar = window_->page().budgetBar();
        QSignalSpy answers(&window_->session(), &Session::answerChanged);
        const Bytes before = window_->session().budget();
        control_->hold = true;
        for (int i = 1; i <= 10; ++i)
            Q_EMIT bar->budgetDragged(before - i * peak_ / 50);
        const Bytes end = before - 10 * (peak_ / 50);
        Q_EMIT bar->budgetCommitted(end);
        QCOMPARE(bar->budget(), end); // the handle does not wait for the plan
        control_->hold = false;
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(answers.count() <= 2); // the first, unless it was stopped, and the last
        QCOMPARE(window_->session().answer()->request.budget, end);
        QCOMPARE(bar->budget(), end);
        QCOMPARE(window_->session().undoStack().count(), 1);
        QVERIFY(window_->isWindowModified());

        window_->actions().undo->trigger();
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QCOMPARE(bar->budget(), before);
        QVERIFY(!window_->isWindowModified());
    }

    void lineInTheTimelineIsTheSameBudget()
    {
        openStep();
        const Bytes budget = window_->session().budget() - 64 * MiB;
        Q_EMIT window_->page().timeline()->budgetDragged(budget);
        QCOMPARE(window_->page().budgetBar()->budget(), budget);
        Q_EMIT window_->page().timeline()->budgetCommitted(budget);
        QCOMPARE(window_->session().undoStack().count(), 1);
    }

    void pinKeepsAModule()
    {
        openStep();
        auto* keep = window_->page().inspector()->findChild<QRadioButton*>(QStringLiteral("pinKeep"));
        QTest::mouseClick(keep, Qt::LeftButton);
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(window_->session().pin("Transformer.layers.0") == Pin::save);
        const QModelIndex block = window_->page().modules()->tree()->model()->index(1, 0);
        QCOMPARE(block.data(ModuleTreeModel::PinRole).toString(), QStringLiteral("keep"));
        QVERIFY(block.data(ModuleTreeModel::PillRole).toString().isEmpty());
        QVERIFY(window_->actions().pinKeep->isChecked());

        window_->actions().undo->trigger();
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(window_->page().inspector()->findChild<QRadioButton*>(QStringLiteral("pinFree"))->isChecked());
        QCOMPARE(block.data(ModuleTreeModel::PillRole).toString(), QStringLiteral("all"));
    }

    void keysPinTheSelectedModule()
    {
        openStep();
        QTreeView* tree = window_->page().modules()->tree();
        tree->setCurrentIndex(tree->model()->index(8, 0));
        QCOMPARE(window_->session().selectedFqn(), std::string("Transformer.layers.7"));
        window_->actions().pinRecompute->trigger();
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QCOMPARE(tree->currentIndex().data(ModuleTreeModel::PillRole).toString(), QStringLiteral("all"));
        window_->actions().clearPins->trigger();
        QVERIFY(!window_->session().hasPins());
        QCOMPARE(window_->session().undoStack().count(), 2);
    }

    void leafCannotBePinned()
    {
        openStep();
        QTreeView* tree = window_->page().modules()->tree();
        tree->setCurrentIndex(tree->model()->index(0, 0)); // tok_embeddings
        QVERIFY(!window_->actions().pinKeep->isEnabled());
        QVERIFY(!window_->page().inspector()->findChild<QRadioButton*>(QStringLiteral("pinKeep"))->isVisible());
        QVERIFY(window_->page().inspector()->findChild<QLabel*>(QStringLiteral("whyNot"))->isVisible());
    }

    void pointOfTheCurveIsAPin()
    {
        openStep();
        Q_EMIT window_->page().tradeOff()->pointChosen("Transformer.layers.0", 0);
        QVERIFY(window_->session().pin("Transformer.layers.0") == Pin::save);
        Q_EMIT window_->page().tradeOff()->pointChosen("Transformer.layers.0", 0.5);
        QVERIFY(window_->session().pin("Transformer.layers.0") == Pin::recompute);
    }

    void whereNothingFitsTheLeastBudgetIsAButton()
    {
        openStep();
        window_->session().commitBudget(64 * MiB);
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(!window_->session().feasible());
        auto* button = window_->page().inspector()->findChild<QPushButton*>(QStringLiteral("leastBudget"));
        QVERIFY(button->isVisible());
        QCOMPARE(inspectorText("infeasibleHeadline"), QStringLiteral("No plan fits 64.00 MiB"));
        QVERIFY(inspectorText("infeasibleReason").contains(QStringLiteral("Transformer.output")));
        const Bytes least = window_->session().leastBudget();
        QTest::mouseClick(button, Qt::LeftButton);
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(window_->session().feasible());
        QCOMPARE(window_->session().budget(), least);
        QVERIFY(!button->isVisible());
    }

    void guessedBudgetThatDoesNotFitIsReplaced()
    {
        openStep(); // 70 % of the peak fits
        QCOMPARE(window_->session().budget(), firstBudget(window_->session().step()->trace(), peak_));
        window_->closeStep();
        const Bytes asked = 64 * MiB;
        window_->openFile(file_, asked); // what was asked for stays, though nothing fits
        QTRY_VERIFY(window_->session().isOpen() && window_->session().answerIsCurrent());
        QCOMPARE(window_->session().budget(), asked);
    }

    void exportsThePolicy()
    {
        openStep();
        window_->session().commitBudget(peak_ / 2);
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(window_->isWindowModified());
        const QString path = folder_.filePath(QStringLiteral("policy.json"));
        QVERIFY(window_->exporter().writePolicyTo(path));
        QVERIFY(!window_->isWindowModified());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QJsonObject policy = QJsonDocument::fromJson(file.readAll()).object();
        QCOMPARE(policy.value(QStringLiteral("headroom_policy")).toInt(), 1);
        QCOMPARE(static_cast<Bytes>(policy.value(QStringLiteral("budget_bytes")).toDouble()), peak_ / 2);
        QCOMPARE(window_->messages().kind(), MessageBar::Kind::done);
    }

    void policyThatCannotBeWrittenIsSaid()
    {
        openStep();
        QVERIFY(!window_->exporter().writePolicyTo(QStringLiteral("/nowhere/policy.json")));
        QCOMPARE(window_->messages().kind(), MessageBar::Kind::error);
        window_->session().commitBudget(64 * MiB);
        QTRY_VERIFY(window_->session().answerIsCurrent());
        QVERIFY(!window_->exporter().writePolicyTo(folder_.filePath(QStringLiteral("none.json"))));
        QVERIFY(window_->messages().message().contains(QStringLiteral("none fits")));
    }

    void exportsPictures()
    {
        openStep();
        QTRY_VERIFY(window_->session().frontier() != nullptr);
        const auto path = [this](const char* name) { return folder_.filePath(QString::fromLatin1(name)); };
        QVERIFY(window_->exporter().writeTimelineTo(path("timeline.svg")));
        QVERIFY(window_->exporter().writeTradeOffTo(path("tradeoff.csv")));
        QVERIFY(window_->exporter().writeFrontierTo(path("frontier.png")));
        for (const char* name : {"timeline.svg", "tradeoff.csv", "frontier.png"})
            QVERIFY(QFileInfo(path(name)).size() > 100);
    }

    void brokenFileLeavesTheOpenStep()
    {
        openStep();
        const OpenStepPtr before = window_->session().step();
        const QString broken = folder_.filePath(QStringLiteral("broken.hrs"));
        QFile file(broken);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(QByteArray(300, 'x'));
        file.close();
        window_->openFile(broken);
        QTRY_COMPARE(window_->messages().kind(), MessageBar::Kind::error);
        QVERIFY2(window_->messages().message().contains(QStringLiteral("broken.hrs")),
                 qPrintable(window_->messages().message()));
        QCOMPARE(window_->session().step(), before);
        QCOMPARE(settings_->recentFiles(), QStringList{file_});
    }

    void fileCanBeDropped()
    {
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(file_)});
        QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(window_.get(), &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(window_.get(), &drop);
        QTRY_VERIFY(window_->session().isOpen());
    }

    void recordingCanBeCancelled()
    {
        window_->recordDemo({QStringLiteral("Slow"), {}, {QStringLiteral("slow")}, QStringLiteral("slow")});
        QTRY_COMPARE(window_->messages().kind(), MessageBar::Kind::progress);
        QTRY_COMPARE(window_->messages().message(), QStringLiteral("Recording: forward"));
        QTest::mouseClick(window_->messages().actionButton(), Qt::LeftButton);
        QTRY_COMPARE(window_->messages().kind(), MessageBar::Kind::done);
        QVERIFY(!window_->recording().running());
        QVERIFY(!QFile::exists(folder_.filePath(QStringLiteral("recordings/slow.hrs"))));
        QVERIFY(!window_->session().isOpen());
    }

    void recordingIsOpenedWhenItIsDone()
    {
        window_->recordDemo({QStringLiteral("Copy"), {}, {QStringLiteral("copy:") + file_}, QStringLiteral("copy")});
        QTRY_VERIFY(window_->session().isOpen());
        QCOMPARE(window_->session().step()->path, folder_.filePath(QStringLiteral("recordings/copy.hrs")));
    }

    void modelIsRecordedAndOpened()
    {
        const QString model = folder_.filePath(QStringLiteral("model.pt2"));
        QVERIFY(QFile::copy(file_, model)); // the fake recorder copies it
        window_->openFile(model);
        QTRY_VERIFY(window_->session().isOpen());
        QCOMPARE(window_->session().step()->path, folder_.filePath(QStringLiteral("recordings/model.hrs")));
    }

    void failedRecordingIsOneSentence()
    {
        window_->recordDemo({QStringLiteral("Refuse"), {}, {QStringLiteral("refuse")}, QStringLiteral("refuse")});
        QTRY_COMPARE(window_->messages().kind(), MessageBar::Kind::error);
        QCOMPARE(window_->messages().message(),
                 QStringLiteral("demo:refuse: unknown model; known are demo:mlp, demo:transformer."));
    }

    void keyMovesTheBudget()
    {
        openStep();
        auto* scale = window_->page().budgetBar()->findChild<BudgetScale*>();
        scale->setFocus();
        const Bytes before = window_->session().budget();
        QTest::keyClick(scale, Qt::Key_Left);
        QCOMPARE(window_->session().budget(), before - window_->page().budgetBar()->step());
        QCOMPARE(window_->session().undoStack().count(), 1);
        QTest::keyClick(scale, Qt::Key_Right);
        QCOMPARE(window_->session().budget(), before);
        QTRY_VERIFY(window_->session().answerIsCurrent());
    }

    void timelineStacksByModule()
    {
        openStep();
        window_->actions().stackByModule->trigger();
        QCOMPARE(window_->page().timeline()->grouping(), TimelineView::Grouping::module);
        QVERIFY(window_->exporter().writeTimelineTo(folder_.filePath(QStringLiteral("modules.svg"))));
        QFile file(folder_.filePath(QStringLiteral("modules.svg")));
        QVERIFY(file.open(QIODevice::ReadOnly));
        QVERIFY(file.readAll().contains("layers"));
    }

    void timelineIsCopiedAsTable()
    {
        openStep();
        QTRY_VERIFY(window_->page().timeline()->upToDate());
        window_->actions().copyTable->trigger();
        const QStringList lines = QGuiApplication::clipboard()->text().split(QLatin1Char('\n'), Qt::SkipEmptyParts);
        QVERIFY(lines.size() > 10);
        QVERIFY(lines.first().contains(QLatin1Char('\t')));
    }

    void filterFindsModules()
    {
        openStep();
        window_->actions().findModule->trigger();
        QLineEdit* filter = window_->page().modules()->filter();
        QTest::keyClicks(filter, QStringLiteral("layers.3.att"));
        const QAbstractItemModel* rows = window_->page().modules()->tree()->model();
        QCOMPARE(rows->rowCount(), 1);
        QCOMPARE(rows->index(0, 0).data().toString(), QStringLiteral("layers.3"));
        filter->clear();
        QCOMPARE(rows->rowCount(), 10);
    }

    void pinnedInstantListsWhatIsAlive()
    {
        openStep();
        const OpenStepPtr step = window_->session().step();
        QSignalSpy listed(&window_->jobs(), &Jobs::liveMemoryListed);
        Q_EMIT window_->page().timeline()->instantPinned(10, false);
        QVERIFY(listed.wait());
        QCOMPARE(window_->page().lowerPanel()->page(), LowerPanel::Page::liveBlocks);
        QVERIFY(window_->actions().showLiveBlocks->isChecked());
        QVERIFY(window_->page().lowerPanel()->liveBlocks()->model()->rowCount() > 0);
        window_->actions().showTradeOff->trigger();
        QCOMPARE(window_->page().lowerPanel()->page(), LowerPanel::Page::tradeOff);
    }

    void closingShowsTheStartPageWithTheFile()
    {
        openStep();
        window_->actions().closeStep->trigger();
        QVERIFY(!window_->session().isOpen());
        QVERIFY(window_->startPage().isVisible());
        QVERIFY(!window_->actions().exportPolicy->isEnabled());
    }

    void settingsAreKept()
    {
        openStep();
        window_->actions().themeDark->trigger();
        QVERIFY(window_->palette().color(QPalette::Window).lightness() < 128);
        window_->resize(1111, 777);
        window_->close();
        window_.reset();
        settings_ = std::make_unique<Settings>(settingsFile_);
        makeWindow();
        QVERIFY(window_->theme().choice() == ThemeChoice::dark);
        QVERIFY(window_->actions().themeDark->isChecked());
        QCOMPARE(window_->size(), QSize(1111, 777));
        QCOMPARE(settings_->recentFiles(), QStringList{file_});
    }

    void closingWhileSolvingDoesNotHang()
    {
        openStep();
        control_->solveMs = 60'000;
        window_->session().commitBudget(peak_ / 2);
        window_.reset();
        QCOMPARE(control_->stopped.load() + 1, 2);
    }

private:
    void makeWindow()
    {
        control_ = std::make_shared<BlockEngine::Control>();
        const auto make
            = [control = control_](StepTracePtr trace) { return BlockEngine::create(std::move(trace), control); };
        window_ = std::make_unique<MainWindow>(
            MainWindow::Parts{make, QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_recorder.sh"),
                              folder_.filePath(QStringLiteral("recordings"))},
            *settings_);
        window_->askBeforeClosing(false);
        window_->show();
        QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    }

    void openStep()
    {
        window_->openFile(file_);
        QTRY_VERIFY(window_->session().isOpen() && window_->session().answerIsCurrent());
    }

    QString inspectorText(const char* name) const
    {
        return window_->page().inspector()->findChild<QLabel*>(QString::fromLatin1(name))->text();
    }

    QTemporaryDir folder_;
    QString file_;
    QString settingsFile_;
    Bytes peak_ = 0;
    std::shared_ptr<BlockEngine::Control> control_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(WindowTest)
#include "window_test.moc"
