// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/step_header.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/tab_order.h"
#include "tests/views/window_fixture.h"
#include "views/models/module_tree_model.h"
#include "views/plot/icicle.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_view.h"
#include "views/plot/tradeoff_view.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/inspector.h"
#include "views/widgets/labels.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"

#include <QAbstractItemModelTester>
#include <QAbstractScrollArea>
#include <QClipboard>
#include <QDir>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QRadioButton>
#include <QScrollBar>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTest>
#include <QTextBlock>
#include <QTextDocument>
#include <QToolButton>
#include <QTreeView>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace headroom;

/// Planning in the window: budget, pins, selection, tables.
class WindowTest : public WindowFixture
{
    Q_OBJECT

private:
    /// What the tree is to say of a module that the plan checkpoints.
    QString discarded(const std::string& fqn)
    {
        return QStringLiteral("%1 %").arg(std::lround(100 * window().session().answer()->plan.decisions.at(fqn)));
    }

    TimelineCanvas* canvas() { return window().page().timeline()->findChild<TimelineCanvas*>(); }
    QTreeView* opsTable() { return window().page().lowerPanel()->ops(); }
    QTreeView* liveTable() { return window().page().lowerPanel()->liveBlocks(); }
    template <class Widget>
    Widget* part(const char* name)
    {
        return window().page().findChild<Widget*>(QLatin1String(name));
    }

    /// Drags from one instant to another with the mouse, and waits for what happens in between.
    StepRangePtr dragRange(double fromMs, double toMs)
    {
        QSignalSpy summarised(&window().jobs(), &Jobs::rangeSummarised);
        QWidget* viewport = canvas()->viewport();
        const auto at = [&](double ms) {
            const auto& geometry = canvas()->geometryOfPlot();
            return QPoint(static_cast<int>(std::lround(geometry.ms.toPixel(ms))),
                          static_cast<int>(geometry.plot.top()) + 30);
        };
        QTest::mousePress(viewport, Qt::LeftButton, {}, at(fromMs));
        QMouseEvent move(QEvent::MouseMove, at(toMs), viewport->mapToGlobal(at(toMs)), Qt::NoButton, Qt::LeftButton,
                         Qt::NoModifier);
        QApplication::sendEvent(viewport, &move);
        QTest::mouseRelease(viewport, Qt::LeftButton, {}, at(toMs));
        return summarised.wait() ? summarised.last().first().value<StepRangePtr>() : nullptr;
    }

private Q_SLOTS:
    /// A laptop's screen of 1600 x 1000 pixels at 150 %.
    void fitsASmallScreen()
    {
        const auto fits = [this] {
            window().resize(1, 1);
            QCoreApplication::processEvents();
            return window().width() <= 1066 && window().height() <= 666;
        };
        QVERIFY2(fits(), "the start page");
        openStep();
        QVERIFY2(fits(), qPrintable(QStringLiteral("%1 x %2").arg(window().width()).arg(window().height())));
        window().messages().showNote(QStringLiteral("step.hrs has changed since."));
        QVERIFY2(fits(), qPrintable(QStringLiteral("with a message, %1").arg(window().height())));
    }

    void theTimelineCanBeReadInALowWindow_data()
    {
        QTest::addColumn<QSize>("size");
        QTest::newRow("1280 x 800") << QSize(1280, 800);
        QTest::newRow("1280 x 720") << QSize(1280, 720);
        QTest::newRow("1066 x 666") << QSize(1066, 666);
    }
    void theTimelineCanBeReadInALowWindow()
    {
        QFETCH(const QSize, size);
        openStep();
        const auto plotHeight = [this, size] {
            window().resize(size);
            QCoreApplication::processEvents();
            return window().size() == size ? canvas()->geometryOfPlot().plot.height() : 0;
        };
        QTRY_VERIFY2(plotHeight() >= 100, qPrintable(QString::number(plotHeight())));
        const auto* overview = window().page().timeline()->findChild<OverviewStrip*>();
        QCOMPARE(overview->isVisible(), size.height() >= 800);
        const auto* scroll = window().page().tradeOff()->parentWidget()->parentWidget();
        const auto* bar = qobject_cast<const QAbstractScrollArea*>(scroll)->verticalScrollBar();
        QCOMPARE(bar->isVisible(), size.height() < 800);
        window().messages().showNote(
            QStringLiteral("step.hrs has changed since. The window shows the file as opened."));
        QTRY_VERIFY2(plotHeight() >= 100, qPrintable(QString::number(plotHeight())));
        // What has no room below scrolls.
        const auto* tradeOff = window().page().tradeOff();
        QTRY_VERIFY(tradeOff->height() >= tradeOff->minimumSizeHint().height());
    }

    /// Names of the user may have tags: Qt would take a label with them for HTML.
    void labelsSayWhatTheirTextIs()
    {
        openStep();
        QTRY_VERIFY(window().page().timeline()->upToDate());
        for (const QLabel* label : window().findChildren<QLabel*>())
            QVERIFY2(label->inherits("QTipLabel") || label->textFormat() != Qt::AutoText,
                     qPrintable(label->objectName() + QStringLiteral(": ") + label->text()));
        auto* name = window().findChild<QLabel*>(QStringLiteral("stepName"));
        QCOMPARE(name->textFormat(), Qt::PlainText);
    }

    void aRangeFiltersEveryTable()
    {
        openStep();
        QTRY_VERIFY(window().page().timeline()->upToDate());
        const Timeline& planned = *window().session().answer()->timeline;
        auto* bar = part<QWidget>("range");
        QVERIFY(!bar->isVisible());
        window().actions().showOps->trigger();
        const QTreeView* tree = window().page().modules()->tree();
        const int modules = tree->model()->rowCount();
        const ModuleId selected = window().session().selected();

        const StepRangePtr range = dragRange(planned.durationMs * 0.05, planned.durationMs * 0.15);
        QVERIFY(range);
        QCOMPARE(range->timeline, window().session().answer()->timeline);
        const RangeSummary& summary = range->summary;
        QVERIFY(summary.ops > 0 && summary.ops < planned.runs.size() / 2);
        QVERIFY(bar->isVisible());
        const QString sums = part<WrappedLabel>("rangeSums")->text();
        QVERIFY2(sums.contains(QStringLiteral("%1 ops").arg(summary.ops)), qPrintable(sums));
        QVERIFY2(part<WrappedLabel>("rangeMost")->text().startsWith(QStringLiteral("Most made by Transformer")),
                 qPrintable(part<WrappedLabel>("rangeMost")->text()));

        // Ops of all modules, then those of the selected one.
        QAbstractItemModelTester ops(opsTable()->model(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        QCOMPARE(opsTable()->model()->rowCount(),
                 static_cast<int>(std::count(summary.runs.begin(), summary.runs.end(), true)));
        auto* onlyModule = part<QToolButton>("onlyModule");
        QVERIFY(onlyModule->isVisible());
        window().session().select(summary.modules.front().id);
        const int all = opsTable()->model()->rowCount();
        onlyModule->click();
        QVERIFY(opsTable()->model()->rowCount() < all);
        onlyModule->click();
        QCOMPARE(opsTable()->model()->rowCount(), all);

        // Modules at work, and the modules around.
        QAbstractItemModelTester rows(tree->model(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        QVERIFY(tree->model()->rowCount() < modules);
        QCOMPARE(tree->model()->index(0, 0).data().toString(), QStringLiteral("layers.0"));
        window().page().modules()->filter()->setText(QStringLiteral("layers.0"));
        QCOMPARE(tree->model()->rowCount(), 1);
        auto* nothing = part<WrappedLabel>("noModules");
        QVERIFY(!nothing->isVisible());
        window().page().modules()->filter()->setText(QStringLiteral("no such"));
        QVERIFY(nothing->isVisible());
        QCOMPARE(nothing->text(), QStringLiteral("No module's name contains “no such”."));
        window().page().modules()->filter()->clear();
        QVERIFY(!nothing->isVisible());

        // Blocks made in the range.
        QSignalSpy listed(&window().jobs(), &Jobs::liveMemoryListed);
        window().actions().showLiveBlocks->trigger();
        QVERIFY(listed.wait());
        const auto memory = listed.last().first().value<LiveBlocksAtPtr>();
        QCOMPARE(memory->table.total, summary.made);
        QCOMPARE(memory->tree ? memory->tree->root().bytes : summary.made, summary.made);

        // Another plan: the same time, other ops.
        QSignalSpy again(&window().jobs(), &Jobs::rangeSummarised);
        window().session().commitBudget(peak());
        QTRY_VERIFY(window().session().answerIsCurrent());
        QTRY_VERIFY(!again.isEmpty()
                    && again.last().first().value<StepRangePtr>()->timeline == window().session().answer()->timeline);

        window().session().select(selected);
        QTest::keyClick(canvas(), Qt::Key_Escape);
        QVERIFY(!bar->isVisible());
        QVERIFY(!onlyModule->isVisible());
        QCOMPARE(tree->model()->rowCount(), modules);
        QCOMPARE(window().session().selected(), selected);
        QVERIFY(tree->currentIndex().isValid());
        QTRY_VERIFY(!listed.last().first().value<LiveBlocksAtPtr>()->request.range);
    }

    void theButtonBelowTheTimelineClearsTheRange()
    {
        openStep();
        QTRY_VERIFY(window().page().timeline()->upToDate());
        QSignalSpy summarised(&window().jobs(), &Jobs::rangeSummarised);
        window().actions().selectVisible->trigger();
        QVERIFY(summarised.wait());
        QVERIFY(window().page().timeline()->hasSelection());
        QCOMPARE(summarised.last().first().value<StepRangePtr>()->summary.range.endMs,
                 window().session().answer()->timeline->durationMs);
        part<QToolButton>("clearRange")->click();
        QVERIFY(!window().page().timeline()->hasSelection());
        QVERIFY(!part<QWidget>("range")->isVisible());
        // A range is of the open step.
        window().actions().selectVisible->trigger();
        QVERIFY(summarised.wait());
        QVERIFY(window().closeStep());
        openStep();
        QVERIFY(!window().page().timeline()->hasSelection());
        QVERIFY(!part<QWidget>("range")->isVisible());
    }

    void theReportIsWrittenWhileTheWindowWorks()
    {
        openStep();
        QTRY_VERIFY(window().session().frontierIsFinal());
        const QString file = inFolder(QStringLiteral("report.html"));
        QSignalSpy ended(&window().exporter(), &Exporter::reportEnded);
        window().exporter().writeReportTo(file);
        QCOMPARE(window().messages().type(), MessageBar::MessageType::progress);
        QVERIFY(ended.isEmpty());
        QVERIFY(ended.wait());
        QVERIFY(ended.first().first().toBool());
        QCOMPARE(window().messages().type(), MessageBar::MessageType::done);
        QFile page(file);
        QVERIFY(page.open(QIODevice::ReadOnly));
        const QByteArray html = page.readAll();
        QVERIFY(html.startsWith("<!doctype html>"));
        QVERIFY(html.contains("Peak with the plan"));
        QVERIFY(html.contains("What less memory costs"));
        QVERIFY(html.trimmed().endsWith("</html>"));
    }

    void aReportThatIsCancelledLeavesNothing()
    {
        const QString large = inFolder(QStringLiteral("large.hrs")); // so that its report takes a while
        QVERIFY(writeStepTrace(*makeSyntheticStep(syntheticOptions(60'000, 12)), large.toStdString()).ok());
        window().openFile(large, 100 * GiB);
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        const QString file = inFolder(QStringLiteral("cancelled.html"));
        QSignalSpy ended(&window().exporter(), &Exporter::reportEnded);
        window().exporter().writeReportTo(file);
        QTest::mouseClick(window().messages().actionButton(), Qt::LeftButton);
        QVERIFY(window().messages().type() != MessageBar::MessageType::progress);
        window().exporter().writeReportTo(inFolder(QStringLiteral("after.html"))); // by the same thread
        QVERIFY(ended.wait(60'000));
        QCOMPARE(ended.count(), 1);
        QVERIFY(QFile::exists(inFolder(QStringLiteral("after.html"))));
        QVERIFY(!QFile::exists(file));
    }

    void aReportThatCannotBeWrittenSaysWhy()
    {
        openStep();
        QSignalSpy ended(&window().exporter(), &Exporter::reportEnded);
        window().exporter().writeReportTo(inFolder(QStringLiteral("none/report.html")));
        QVERIFY(ended.wait());
        QVERIFY(!ended.first().first().toBool());
        QCOMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY2(window().messages().message().contains(QStringLiteral("report.html")),
                 qPrintable(window().messages().message()));
        QVERIFY(QDir(inFolder({})).entryList({QStringLiteral("none*")}).isEmpty());
    }

    void planIsShownInTreeAndInspector()
    {
        openStep();
        QTreeView* tree = window().page().modules()->tree();
        const QModelIndex block = tree->model()->index(1, 0);
        QCOMPARE(block.data().toString(), QStringLiteral("layers.0"));
        QCOMPARE(block.data(ModuleTreeModel::PillRole).toString(), discarded("Transformer.layers.0"));
        const QModelIndex last = tree->model()->index(8, 0);
        QCOMPARE(last.data().toString(), QStringLiteral("layers.7"));
        QVERIFY(last.data(ModuleTreeModel::PillRole).toString().isEmpty());
        QCOMPARE(inspectorText("moduleName"), QStringLiteral("layers.0"));
        QVERIFY(inspectorText("reason").startsWith(QStringLiteral("Frees <span")));
        QVERIFY(inspectorText("solverLine").startsWith(QStringLiteral("Proven optimal in 1.10 ms")));
    }

    void textOfTheInspectorCanBeSelectedUnderTheMouse()
    {
        openStep();
        for (const char* name : {"solverLine", "reason"}) {
            auto* label = window().page().inspector()->findChild<QLabel*>(QLatin1String(name));
            QVERIFY(!label->textInteractionFlags().testFlag(Qt::TextSelectableByMouse));
            const QImage alone = label->grab().toImage();
            QEnterEvent enter({5, 5}, {5, 5}, {5, 5});
            QCoreApplication::sendEvent(label, &enter);
            QCOMPARE(label->grab().toImage(), alone);
            QEvent leave(QEvent::Leave);
            QCoreApplication::sendEvent(label, &leave);
            QVERIFY(!label->textInteractionFlags().testFlag(Qt::TextSelectableByMouse));
            QCoreApplication::sendEvent(label, &enter);
            QTest::mouseDClick(label, Qt::LeftButton, {}, {12, 8});
            QVERIFY(label->hasSelectedText());
            QCoreApplication::sendEvent(label, &leave);
            QVERIFY(label->hasSelectedText()); // to be copied
        }
    }

    void planFollowsADrag()
    {
        openStep();
        BudgetBar* bar = window().page().budgetBar();
        QSignalSpy answers(&window().session(), &Session::answerChanged);
        const Bytes before = window().session().budget();
        control().hold = true;
        for (int i = 1; i <= 10; ++i)
            Q_EMIT bar->budgetDragged(before - i * peak() / 50);
        const Bytes end = before - 10 * (peak() / 50);
        Q_EMIT bar->budgetCommitted(end);
        QCOMPARE(bar->budget(), end); // the handle does not wait for the plan
        control().hold = false;
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(answers.count() <= 2); // the first, unless it was stopped, and the last
        QCOMPARE(window().session().answer()->request.budget, end);
        QCOMPARE(bar->budget(), end);
        QCOMPARE(window().session().undoStack().count(), 1);
        QVERIFY(window().isWindowModified());

        window().actions().undo->trigger();
        QTRY_VERIFY(window().session().answerIsCurrent());
        QCOMPARE(bar->budget(), before);
        QVERIFY(!window().isWindowModified());
    }

    void lineInTheTimelineIsTheSameBudget()
    {
        openStep();
        const Bytes budget = window().session().budget() - 64 * MiB;
        Q_EMIT window().page().timeline()->budgetDragged(budget);
        QCOMPARE(window().page().budgetBar()->budget(), budget);
        Q_EMIT window().page().timeline()->budgetCommitted(budget);
        QCOMPARE(window().session().undoStack().count(), 1);
    }

    void pinKeepsAModule()
    {
        openStep();
        auto* keep = window().page().inspector()->findChild<QRadioButton*>(QStringLiteral("pinKeep"));
        QTest::mouseClick(keep, Qt::LeftButton);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(window().session().pin("Transformer.layers.0") == Pin::save);
        const QModelIndex block = window().page().modules()->tree()->model()->index(1, 0);
        QCOMPARE(block.data(ModuleTreeModel::PinRole).toString(), QStringLiteral("keep"));
        QVERIFY(block.data(ModuleTreeModel::PillRole).toString().isEmpty());
        QVERIFY(window().actions().pinKeep->isChecked());

        window().actions().undo->trigger();
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(window().page().inspector()->findChild<QRadioButton*>(QStringLiteral("pinFree"))->isChecked());
        QCOMPARE(block.data(ModuleTreeModel::PillRole).toString(), discarded("Transformer.layers.0"));
    }

    void keysPinTheSelectedModule()
    {
        openStep();
        QTreeView* tree = window().page().modules()->tree();
        tree->setCurrentIndex(tree->model()->index(8, 0));
        QCOMPARE(window().session().selectedFqn(), std::string("Transformer.layers.7"));
        window().actions().pinRecompute->trigger();
        QTRY_VERIFY(window().session().answerIsCurrent());
        QCOMPARE(tree->currentIndex().data(ModuleTreeModel::PillRole).toString(), discarded("Transformer.layers.7"));
        window().actions().clearPins->trigger();
        QVERIFY(!window().session().hasPins());
        QCOMPARE(window().session().undoStack().count(), 2);
    }

    void pinThatCannotBeIsSaidAndCanBeTakenBack()
    {
        openStep();
        window().session().setPin("Transformer.output", Pin::save); // the planner refuses it
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QTRY_VERIFY(window().messages().actionButton()->isVisible());
        QVERIFY(window().messages().message().startsWith(QStringLiteral("Cannot pin")));
        QTest::mouseClick(window().messages().actionButton(), Qt::LeftButton);
        QVERIFY(!window().session().hasPins());
        QTRY_VERIFY(window().session().answerIsCurrent());
        QCOMPARE(window().messages().type(), MessageBar::MessageType::none);
    }

    void treeIsExpandedAsBeforeTheFilter()
    {
        openStep();
        QTreeView* tree = window().page().modules()->tree();
        QLineEdit* filter = window().page().modules()->filter();
        std::vector<int> parents;
        for (int row = 0; row < tree->model()->rowCount(); ++row)
            if (tree->model()->hasChildren(tree->model()->index(row, 0)))
                parents.push_back(row);
        QVERIFY(parents.size() > 2);
        const auto isExpanded = [&](int row) { return tree->isExpanded(tree->model()->index(row, 0)); };
        tree->setCurrentIndex(tree->model()->index(parents[0], 0));
        tree->collapseAll();
        tree->expand(tree->model()->index(parents[1], 0));
        const QString name = tree->model()->index(0, 0, tree->model()->index(parents[2], 0)).data().toString();
        for (const QString& text : {name.left(1), name, QString()})
            filter->setText(text);
        QVERIFY(isExpanded(parents[1]));
        QVERIFY(!isExpanded(parents[0]) && !isExpanded(parents[2]));
        filter->setText(name);
        QVERIFY(isExpanded(0));
        filter->clear();
        QVERIFY(isExpanded(parents[1]) && !isExpanded(parents[2]));
    }

    void leafCannotBePinned()
    {
        openStep();
        QTreeView* tree = window().page().modules()->tree();
        tree->setCurrentIndex(tree->model()->index(0, 0)); // tok_embeddings
        QVERIFY(!window().actions().pinKeep->isEnabled());
        QVERIFY(!window().page().inspector()->findChild<QRadioButton*>(QStringLiteral("pinKeep"))->isVisible());
        QVERIFY(window().page().inspector()->findChild<QLabel*>(QStringLiteral("whyNot"))->isVisible());
    }

    void shardingAsksAgain()
    {
        openStep();
        auto* gpus = window().page().inspector()->findChild<QSpinBox*>(QStringLiteral("worldSize"));
        QCOMPARE(gpus->text(), QStringLiteral("1 GPU"));
        gpus->setValue(4);
        QCOMPARE(gpus->text(), QStringLiteral("4 GPUs"));
        QTRY_VERIFY(window().session().answerIsCurrent());
        QCOMPARE(window().session().answer()->request.worldSize, 4);
        window().actions().undo->trigger();
        QCOMPARE(gpus->value(), 1);
    }

    void optionsOfTheSelectedModuleAreShown()
    {
        openStep();
        QTRY_VERIFY(window().session().options());
        const auto* table = window().page().tradeOff()->table();
        QCOMPARE(table->rowCount(), 2); // the test's planner: all or nothing
        QTreeView* tree = window().page().modules()->tree();
        tree->setCurrentIndex(tree->model()->index(0, 0)); // tok_embeddings
        QTRY_VERIFY(window().session().options());
        QVERIFY(window().session().options()->options.empty());
        QCOMPARE(table->rowCount(), 0);
    }

    void pointOfTheCurveIsAPin()
    {
        openStep();
        Q_EMIT window().page().tradeOff()->pointChosen("Transformer.layers.0", 0);
        QVERIFY(window().session().pin("Transformer.layers.0") == Pin::save);
        Q_EMIT window().page().tradeOff()->pointChosen("Transformer.layers.0", 0.5);
        QVERIFY(window().session().pin("Transformer.layers.0") == Pin::recompute);
    }

    void whereNothingFitsTheLeastBudgetIsAButton()
    {
        openStep();
        window().session().commitBudget(64 * MiB);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(!window().session().feasible());
        auto* button = window().page().inspector()->findChild<QPushButton*>(QStringLiteral("leastBudget"));
        QVERIFY(button->isVisible());
        QCOMPARE(inspectorText("infeasibleHeadline"), QStringLiteral("No plan fits 64.00 MiB"));
        QVERIFY(inspectorText("infeasibleReason").contains(QStringLiteral("Transformer.output")));
        const Bytes least = window().session().leastBudget();
        QTest::mouseClick(button, Qt::LeftButton);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(window().session().feasible());
        QCOMPARE(window().session().budget(), least);
        QVERIFY(!button->isVisible());
    }

    void keyMovesTheBudget()
    {
        openStep();
        auto* scale = window().page().budgetBar()->findChild<BudgetScale*>();
        scale->setFocus();
        const Bytes before = window().session().budget();
        QTest::keyClick(scale, Qt::Key_Left);
        QCOMPARE(window().session().budget(), before - window().page().budgetBar()->step());
        QCOMPARE(window().session().undoStack().count(), 1);
        QTest::keyClick(scale, Qt::Key_Right);
        QCOMPARE(window().session().budget(), before);
        QTRY_VERIFY(window().session().answerIsCurrent());
    }

    void mouseDragsAndEscapeRestores()
    {
        openStep();
        auto* scale = window().page().budgetBar()->findChild<BudgetScale*>();
        const Bytes before = window().session().budget();
        const QPoint middle = scale->rect().center();
        QTest::mousePress(scale, Qt::LeftButton, {}, middle);
        QTest::mouseMove(scale, middle - QPoint(60, 0));
        QVERIFY(window().session().budget() != before);
        QVERIFY(window().session().dragging());
        QTest::keyClick(scale, Qt::Key_Escape);
        QTest::mouseRelease(scale, Qt::LeftButton, {}, middle);
        QCOMPARE(window().session().budget(), before);
        QVERIFY(!window().session().dragging());
        QCOMPARE(window().session().undoStack().count(), 0);

        QTest::mousePress(scale, Qt::LeftButton, {}, middle);
        QTest::mouseMove(scale, middle - QPoint(60, 0));
        const Bytes dragged = window().session().budget();
        QTest::mouseRelease(scale, Qt::LeftButton, {}, middle - QPoint(60, 0));
        QCOMPARE(window().session().budget(), dragged);
        QCOMPARE(window().session().undoStack().count(), 1);
        QTRY_VERIFY(window().session().answerIsCurrent());
        window().actions().undo->trigger();
        QCOMPARE(window().page().budgetBar()->budget(), before);
    }

    void timelineStacksByModule()
    {
        openStep();
        window().actions().stackByModule->trigger();
        QCOMPARE(window().page().timeline()->grouping(), TimelineView::Grouping::module);
        QVERIFY(window().exporter().writeTimelineTo(inFolder(QStringLiteral("modules.svg"))));
        QFile file(inFolder(QStringLiteral("modules.svg")));
        QVERIFY(file.open(QIODevice::ReadOnly));
        QVERIFY(file.readAll().contains("layers"));
    }

    void timelineIsCopiedAsTable()
    {
        openStep();
        QTRY_VERIFY(window().page().timeline()->upToDate());
        window().actions().copyTable->trigger();
        const QStringList lines = QGuiApplication::clipboard()->text().split(QLatin1Char('\n'), Qt::SkipEmptyParts);
        QVERIFY2(lines.size() > 10, qPrintable(lines.join(QLatin1Char(0x0a))));
        QVERIFY(lines.first().contains(QLatin1Char('\t')));
    }

    void filterFindsModules()
    {
        openStep();
        window().actions().findModule->trigger();
        QLineEdit* filter = window().page().modules()->filter();
        QTest::keyClicks(filter, QStringLiteral("layers.3.att"));
        QTreeView* tree = window().page().modules()->tree();
        const QAbstractItemModel* rows = tree->model();
        QAbstractItemModelTester tester(tree->model(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        QCOMPARE(rows->rowCount(), 1);
        QCOMPARE(rows->index(0, 0).data().toString(), QStringLiteral("layers.3"));
        tree->sortByColumn(ModuleTreeModel::keptColumn, Qt::DescendingOrder);
        filter->clear();
        QCOMPARE(rows->rowCount(), 10);
        tree->sortByColumn(ModuleTreeModel::moduleColumn, Qt::AscendingOrder);
        window().session().commitBudget(peak() / 2);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QCOMPARE(rows->index(0, 0).data().toString(), QStringLiteral("tok_embeddings"));
    }

    void pinnedInstantListsWhatIsAlive()
    {
        openStep();
        const OpenStepPtr step = window().session().step();
        QSignalSpy listed(&window().jobs(), &Jobs::liveMemoryListed);
        Q_EMIT window().page().timeline()->instantPinned(10, false);
        QVERIFY(listed.wait());
        QCOMPARE(window().page().lowerPanel()->page(), LowerPanel::Page::liveBlocks);
        QVERIFY(window().actions().showLiveBlocks->isChecked());
        QVERIFY(window().page().lowerPanel()->liveBlocks()->model()->rowCount() > 0);
        window().actions().showTradeOff->trigger();
        QCOMPARE(window().page().lowerPanel()->page(), LowerPanel::Page::tradeOff);
    }

    /// The heaviest weight of the fonts is that of titles: Qt draws a heavier one twice, a pixel apart.
    void noTextIsHeavierThanTheFonts()
    {
        openStep();
        int heavy = 0;
        for (const QLabel* label : window().findChildren<QLabel*>()) {
            QTextDocument text;
            text.setDefaultFont(label->font());
            text.setHtml(label->text());
            for (QTextBlock block = text.begin(); block.isValid(); block = block.next()) {
                for (auto part = block.begin(); !part.atEnd(); ++part) {
                    const int weight = part.fragment().charFormat().fontWeight();
                    QVERIFY2(weight <= QFont::DemiBold, qPrintable(label->text()));
                    heavy += weight == QFont::DemiBold && block.length() > part.fragment().length() + 1 ? 1 : 0;
                }
            }
        }
        QVERIFY2(heavy > 0, "the numbers of a sentence stand out");
    }

    void noButtonCutsItsText()
    {
        openStep();
        window().resize(1280, 800);
        QTRY_COMPARE(window().size(), QSize(1280, 800));
        int seen = 0;
        for (const QAbstractButton* button : window().findChildren<QAbstractButton*>()) {
            if (!button->isVisible() || button->text().isEmpty())
                continue;
            QSize needed = button->sizeHint();
            if (qobject_cast<const QToolButton*>(button))
                needed -= QSize(0, 3); // which Qt leaves free above and below the text
            QVERIFY2(button->width() >= needed.width() && button->height() >= needed.height(),
                     qPrintable(QStringLiteral("%1: %2 x %3 of %4 x %5")
                                    .arg(button->text())
                                    .arg(button->width())
                                    .arg(button->height())
                                    .arg(needed.width())
                                    .arg(needed.height())));
            ++seen;
        }
        QVERIFY(seen >= 12);
    }

    void tabGoesForwardAsBackward()
    {
        openStep();
        DocumentPage& page = window().page();
        page.modules()->filter()->setFocus();
        const QString fault = tabOrderFault(window());
        QVERIFY2(fault.isEmpty(), qPrintable(fault));
        // As one reads: the modules, the plots, the inspector, the budget.
        std::vector<QWidget*> parts;
        for (QWidget* widget : focusRound(window(), Qt::Key_Tab)) {
            for (QWidget* part : std::initializer_list<QWidget*>{page.modules(), page.timeline(), page.lowerPanel(),
                                                                 page.inspector(), page.budgetBar(), page.header()}) {
                if ((widget == part || part->isAncestorOf(widget)) && (parts.empty() || parts.back() != part))
                    parts.push_back(part);
            }
        }
        QCOMPARE(namesOf(parts),
                 namesOf({page.modules(), page.timeline(), page.lowerPanel(), page.inspector(), page.budgetBar(),
                          page.header()}));
        window().closeStep();
        window().startPage().findChild<QPushButton*>(QStringLiteral("openButton"))->setFocus();
        const QString faultOfStart = tabOrderFault(window());
        QVERIFY2(faultOfStart.isEmpty(), qPrintable(faultOfStart));
    }

    void closingWhileSolvingDoesNotHang()
    {
        openStep();
        QTRY_VERIFY(window().session().cardPoints()); // until then plans are solved for the card, too
        control().solveMs = 60'000;
        control().solves = 0;
        control().stopped = 0;
        window().session().commitBudget(peak() / 2);
        QTRY_COMPARE(control().solves.load(), 1);
        destroyWindow();
        QCOMPARE(control().stopped.load(), 1);
    }
};

QTEST_MAIN(WindowTest)
#include "window_test.moc"
