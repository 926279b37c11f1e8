// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/mainwindow.h"
#include "app/window/open_step.h"
#include "app/window/plan_text.h"
#include "app/window/step_text.h"
#include "app/window/verify_controller.h"
#include "core/policy/policy.h"
#include "views/models/module_tree_model.h"
#include "views/plot/budget_steps.h"
#include "views/plot/number_text.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/inspector.h"
#include "views/widgets/module_panel.h"

#include <QAbstractItemModelTester>
#include <QAbstractProxyModel>
#include <QAction>
#include <QCheckBox>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QRadioButton>
#include <QScrollBar>
#include <QSignalSpy>
#include <QSplitter>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>
#include <QTreeView>

#include <algorithm>
#include <chrono>

using namespace headroom;

namespace {

const auto steps = QStringLiteral(HEADROOM_TEST_DATA "/steps/");
const Bytes budget = 17'800 * MiB; ///< a budget for which the plan of llama_6L_h100.hrs offloads

} // namespace

/// Offload in the window, with the real planner on tests/data/steps/llama_6L_h100.hrs.
class WindowOffloadTest : public QObject
{
    Q_OBJECT

    MainWindow& window() { return *window_; }
    Session& session() { return window_->session(); }
    OffloadRow& row() { return *window_->page().budgetBar()->offload(); }
    ModulePanel& modules() { return *window_->page().modules(); }
    QTreeView& tree() { return *modules().tree(); }
    QRadioButton* option(const char* name)
    {
        return window_->page().inspector()->findChild<QRadioButton*>(QLatin1String(name));
    }
    QString solverText()
    {
        return window_->page().inspector()->findChild<QLabel*>(QStringLiteral("solverLine"))->text();
    }

    void makeWindow()
    {
        settings_ = std::make_unique<Settings>(folder_.filePath(QStringLiteral("settings.ini")));
        window_ = std::make_unique<MainWindow>(MainWindow::Parts{makePlannerEngine, QStringLiteral("/bin/false"),
                                                                 folder_.filePath(QStringLiteral("recordings"))},
                                               *settings_);
        window_->askBeforeClosing(false);
        window_->resize(1280, 800);
        window_->show();
        QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    }
    void open(Bytes at = budget, const QString& step = QStringLiteral("llama_6L_h100.hrs"))
    {
        window_->openFile(steps + step, at);
        QTRY_VERIFY(session().isOpen() && session().step()->path.endsWith(step) && session().answerIsCurrent());
    }
    void settle() { QTRY_VERIFY_WITH_TIMEOUT(session().answerIsCurrent() && !session().answer()->preliminary, 20'000); }
    void allow()
    {
        QTest::mouseClick(row().box(), Qt::LeftButton, {}, {8, row().box()->height() / 2});
        QVERIFY(session().request().offload);
        settle();
    }
    void planOps()
    {
        window_->actions().planOps->trigger();
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete);
        settle();
    }
    double costMs() { return session().answer()->plan.recomputeMs + session().answer()->plan.offload.exposedMs; }
    ModuleId movedModule() { return session().answer()->offloads.front().module; }
    QModelIndex rowOf(ModuleId module, int column)
    {
        const auto all = tree().model()->match(tree().model()->index(0, 0), ModuleTreeModel::ModuleRole, module.value,
                                               1, Qt::MatchExactly | Qt::MatchRecursive);
        return all.isEmpty() ? QModelIndex() : all.front().siblingAtColumn(column);
    }

    /// Whether each shown column can be scrolled into view, and names keep a readable width.
    void checkColumns()
    {
        const QHeaderView& header = *tree().header();
        const int hidden = header.length() - tree().viewport()->width();
        QCOMPARE(tree().horizontalScrollBar()->maximum(), std::max(hidden, 0));
        QVERIFY(header.sectionSize(ModuleTreeModel::moduleColumn) >= 80);
        if (hidden < 0)
            QCOMPARE(header.length(), tree().viewport()->width());
    }

private Q_SLOTS:
    void init()
    {
        QFile::remove(folder_.filePath(QStringLiteral("settings.ini")));
        makeWindow();
    }
    void cleanup()
    {
        window_.reset();
        settings_.reset();
    }

    void allColumnsCanBeReachedAtTheLeastWidth()
    {
        open();
        allow();
        auto* sides = window_->page().findChild<QSplitter*>(QStringLiteral("sides"));
        for (const int width : {900, 280, 400}) {
            sides->setSizes({width, 600, 290});
            QCoreApplication::processEvents();
            QVERIFY(!tree().isColumnHidden(ModuleTreeModel::hostColumn));
            checkColumns();
        }
    }

    void theBoxPlansWithOffloadAndUndoTakesItBack()
    {
        open();
        settle();
        QVERIFY(!row().box()->isChecked());
        QVERIFY(!row().field()->isVisible());
        const double recomputed = costMs();
        allow();
        QVERIFY(row().field()->isVisible());
        QVERIFY(costMs() < recomputed);
        QVERIFY(session().answer()->plan.offload.moved > 0);
        QVERIFY(session().answer()->timeline->peak <= budget);
        QCOMPARE(session().undoStack().count(), 1);
        window().actions().undo->trigger();
        settle();
        QVERIFY(!row().box()->isChecked());
        QCOMPARE(costMs(), recomputed);
        QVERIFY(session().answer()->plan.status == PlanStatus::optimal);
    }

    void everyPartSaysWhatMoves()
    {
        open();
        QVERIFY(tree().isColumnHidden(ModuleTreeModel::hostColumn));
        allow();
        const auto& offload = session().answer()->plan.offload;
        QVERIFY2(solverText().contains(QString::fromStdString(formatBytes(offload.moved))), qPrintable(solverText()));
        QVERIFY(solverText().contains(QStringLiteral("pinned host memory")));
        // The tree has the column, whose blocks add up to the plan's bytes.
        QVERIFY(!tree().isColumnHidden(ModuleTreeModel::hostColumn));
        Bytes moved = 0;
        for (const ModuleOffload& module : session().answer()->offloads) {
            const QModelIndex index = rowOf(module.module, ModuleTreeModel::hostColumn);
            QCOMPARE(index.data(ModuleTreeModel::HostRole).toLongLong(), module.copies.bytes);
            QCOMPARE(index.data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::offloaded);
            moved += module.copies.bytes;
        }
        QCOMPARE(moved, offload.moved);
        // The inspector says what the selected module sends, and the last figure of the bar has the sum.
        session().select(movedModule());
        const QString reason = moduleFacts(session()).reason;
        QVERIFY2(reason.startsWith(QStringLiteral("Sends ")), qPrintable(reason));
        const auto figures = window().page().budgetBar()->findChildren<ResultFigure*>();
        QVERIFY(figures.back()->isVisible());
        QCOMPARE(figures.back()->number() + QLatin1Char(' ') + figures.back()->rest(),
                 QString::fromStdString(formatBytes(offload.moved)));
        session().select({});
        QVERIFY(planSummary(session()).contains(QStringLiteral("to the host and back")));
        // Without a plan that offloads the column leaves.
        window().actions().undo->trigger();
        QVERIFY(tree().isColumnHidden(ModuleTreeModel::hostColumn));
    }

    void theLegendFiltersTheTree()
    {
        open();
        QVERIFY(!modules().markButton(PlanMark::offloaded)->isVisible());
        allow();
        const QAbstractItemModelTester tester(tree().model());
        QToolButton* moved = modules().markButton(PlanMark::offloaded);
        QToolButton* recomputed = modules().markButton(PlanMark::checkpointed);
        QVERIFY(moved->isVisible() && recomputed->isVisible());
        const auto count = static_cast<int>(session().answer()->offloads.size());
        QCOMPARE(moved->text(), QStringLiteral("To the host: %1").arg(count));
        QTest::mouseClick(moved, Qt::LeftButton);
        int shown = 0;
        const auto* rows = qobject_cast<const QAbstractProxyModel*>(tree().model());
        const auto* source = qobject_cast<const ModuleTreeModel*>(rows->sourceModel());
        const std::function<void(const QModelIndex&)> walk = [&](const QModelIndex& parent) {
            for (int i = 0; i < tree().model()->rowCount(parent); ++i) {
                const QModelIndex index = tree().model()->index(i, 0, parent);
                const bool moves = source->has(rows->mapToSource(index), PlanMark::offloaded); // recomputed, too
                shown += moves ? 1 : 0;
                QVERIFY(moves || tree().model()->rowCount(index) > 0);
                walk(index);
            }
        };
        walk({});
        QCOMPARE(shown, count);
        QTest::mouseClick(recomputed, Qt::LeftButton);
        QVERIFY(!moved->isChecked());
        QTest::mouseClick(recomputed, Qt::LeftButton);
        QVERIFY(!recomputed->isChecked());
        QVERIFY(rowOf(ModuleId(1), 0).isValid()); // all rows are back
    }

    void aPinOffloadsAModuleWhateverTheChoice()
    {
        open(session().recordedPeak() + 22 * GiB); // nothing has to be done
        settle();
        session().select(moduleNamed(session().step()->trace(), "layers.1"));
        QVERIFY(option("pinOffload")->isVisible());
        window().actions().pinOffload->trigger();
        settle();
        QCOMPARE(session().answer()->offloads.size(), 1U);
        QCOMPARE(movedModule(), session().selected());
        QVERIFY(option("pinOffload")->isChecked());
        QCOMPARE(rowOf(session().selected(), 0).data(ModuleTreeModel::PinRole).toString(), QStringLiteral("offload"));
        QVERIFY(!tree().isColumnHidden(ModuleTreeModel::hostColumn));
        window().actions().undo->trigger();
        settle();
        QVERIFY(session().answer()->offloads.empty());
        QVERIFY(option("pinFree")->isChecked());
        QTest::mouseClick(option("pinOffload"), Qt::LeftButton);
        settle();
        QCOMPARE(session().answer()->offloads.size(), 1U);
    }

    void theFieldLimitsTheHostMemory()
    {
        open();
        allow();
        const Bytes host = session().answer()->plan.offload.host;
        QVERIFY(host > 0);
        row().field()->setFocus();
        QTest::keyClicks(row().field(), QStringLiteral("a lot"));
        QTest::keyClick(row().field(), Qt::Key_Return);
        QVERIFY(row().field()->property("wrong").toBool());
        QCOMPARE(session().offloadChoice().hostMemory, 0);
        row().field()->selectAll();
        QTest::keyClicks(row().field(), QStringLiteral("200 MiB"));
        QTest::keyClick(row().field(), Qt::Key_Return);
        QVERIFY(!row().field()->property("wrong").toBool());
        QCOMPARE(session().request().hostMemory, 200 * MiB);
        settle();
        QVERIFY(session().answer()->plan.offload.host <= 200 * MiB);
        row().field()->selectAll();
        QTest::keyClick(row().field(), Qt::Key_Delete);
        QTest::keyClick(row().field(), Qt::Key_Return);
        QCOMPARE(session().request().hostMemory, 0);
        QCOMPARE(session().undoStack().count(), 3);
    }

    void theChoiceIsThatOfTheNextWindow()
    {
        open();
        allow();
        session().setOffload({true, GiB});
        cleanup();
        makeWindow();
        open();
        QVERIFY(row().box()->isChecked());
        QCOMPARE(session().request().hostMemory, GiB);
        QCOMPARE(session().undoStack().count(), 0);
        QTRY_VERIFY(session().answer()->plan.offload.moved > 0);
    }

    void whereOffloadIsNotPossibleTheBoxSaysWhy()
    {
        open(10 * GiB, QStringLiteral("transformer_12L.hrs")); // recorded without shapes
        QVERIFY(!row().isEnabled());
        QVERIFY2(row().box()->toolTip().contains(QStringLiteral("record the step again")),
                 qPrintable(row().box()->toolTip()));
        QVERIFY(!window().actions().pinOffload->isEnabled());
        open();
        QVERIFY(row().isEnabled());
        session().setMode(PlanMode::ops);
        QVERIFY(row().isEnabled());
        session().setMode(PlanMode::modules);
        allow();
        session().setPin("Net.layers.1", Pin::offload);
        session().setWorldSize(4);
        QVERIFY(!row().isEnabled());
        QVERIFY(row().box()->toolTip().contains(QStringLiteral("several GPUs")));
        QVERIFY(!session().request().offload);
        QVERIFY(!session().hasPins());
        window().actions().undo->trigger();
        QVERIFY(row().box()->isChecked());
        QVERIFY(session().hasPins());
    }

    void resultsOfOpsGoToTheHost()
    {
        open();
        planOps();
        const double plainMs = costMs();
        QVERIFY(session().answer()->regions.empty());
        allow();
        const PlanAnswerPtr answer = session().answer();
        const auto& offload = answer->plan.offload;
        QVERIFY(answer->ops && offload.moved > 0);
        QVERIFY(costMs() < plainMs);
        QVERIFY(answer->timeline->peak <= budget);
        // All parts say the same bytes.
        const QString moved = QString::fromStdString(formatBytes(offload.moved));
        QVERIFY2(solverText().contains(moved), qPrintable(solverText()));
        const OpsFacts facts = opsFacts(session());
        QVERIFY2(facts.summary.contains(bytesText(offload.moved)), qPrintable(facts.summary));
        Bytes changed = 0;
        for (const ChangedOp& op : answer->ops->changed) {
            QVERIFY(op.now == OpDecision::offloaded);
            changed += op.bytes;
        }
        QCOMPARE(changed, offload.moved);
        QVERIFY2(facts.changedTitle.startsWith(QStringLiteral("Results of %1 ops").arg(answer->ops->changed.size())),
                 qPrintable(facts.changedTitle));
        QVERIFY(facts.compileLines.isEmpty());
        QVERIFY(!window().actions().copyFraction->isEnabled());
        QVERIFY(!tree().isColumnHidden(ModuleTreeModel::hostColumn));
        QCOMPARE(rowOf(movedModule(), ModuleTreeModel::hostColumn).data(ModuleTreeModel::HostRole).toLongLong(),
                 answer->offloads.front().copies.bytes);
        session().select(movedModule());
        QVERIFY(moduleFacts(session()).reason.contains(QStringLiteral("to the host and back")));
        const auto figures = window().page().budgetBar()->findChildren<ResultFigure*>();
        QVERIFY(figures.back()->isVisible());
        QCOMPARE(figures.back()->number() + QLatin1Char(' ') + figures.back()->rest(), moved);
        // The exported policy is the shown one.
        QTRY_VERIFY(session().policyOfOps());
        const QString file = folder_.filePath(QStringLiteral("ops-policy.json"));
        QVERIFY(window().exporter().writePolicyTo(file));
        const Result<Policy> policy = readPolicy(file.toStdString());
        QVERIFY(policy.ok());
        QCOMPARE(policy->predicted.peak, answer->plan.peak);
        QVERIFY(std::ranges::any_of(policy->modules,
                                    [](const Policy::Module& module) { return module.hosted.has_value(); }));
        // The host memory is a limit here, too, and undo goes back to the fraction.
        session().setOffload({true, 200 * MiB});
        settle();
        QVERIFY(session().answer()->plan.offload.host <= 200 * MiB);
        window().actions().undo->trigger();
        window().actions().undo->trigger();
        settle();
        QCOMPARE(costMs(), plainMs);
        QVERIFY(!compileLines(session()).isEmpty());
    }

    void thePoliciesOfOpsHaveACurve()
    {
        open();
        planOps();
        const FrontierPtr plain = session().frontier();
        const Bytes least = session().leastBudget();
        allow();
        QTRY_VERIFY_WITH_TIMEOUT(session().frontierIsFinal(), 120'000);
        QVERIFY(session().frontier() != session().recomputeFrontier());
        QVERIFY(std::ranges::any_of(*session().frontier(), [](const auto& point) { return point.movedBytes > 0; }));
        for (const FrontierPoint& point : *session().frontier())
            if (point.peak >= least)
                QVERIFY(point.costMs() <= recomputeAt(*plain, point.peak));
        QVERIFY(session().leastBudget() <= least);
        if (session().leastBudget() < least) { // a budget that only a policy with offload fits
            session().commitBudget(session().leastBudget());
            settle();
            QVERIFY(session().feasible());
        }
        row().box()->click();
        QVERIFY(session().frontier() == session().recomputeFrontier());
    }

    void bothCurvesAreKnown()
    {
        open();
        QTRY_VERIFY_WITH_TIMEOUT(session().frontierIsFinal(), 20'000);
        QVERIFY(!session().recomputeFrontier());
        allow();
        QTRY_VERIFY_WITH_TIMEOUT(session().frontierIsFinal() && session().recomputeFrontier(), 60'000);
        QVERIFY(std::ranges::any_of(*session().frontier(), [](const auto& point) { return point.movedBytes > 0; }));
        const auto& without = *session().recomputeFrontier();
        QVERIFY(session().frontier()->front().peak <= without.front().peak);
        for (const FrontierPoint& point : *session().frontier())
            if (point.peak >= without.front().peak)
                QVERIFY(point.costMs() <= recomputeAt(without, point.peak));
    }

    void aDragGetsItsPlansAsItMoves()
    {
        open();
        settle();
        const auto drag = [this](const char* what) {
            std::vector<double> times;
            QSignalSpy answered(&session(), &Session::answerChanged);
            for (int i = 0; i < 40; ++i) {
                const auto begin = std::chrono::steady_clock::now();
                session().dragBudget(budget + i * 64 * MiB);
                while (!session().answerIsCurrent() && answered.wait()) {}
                const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
                times.push_back(took.count());
            }
            session().dragBudget(budget);
            std::ranges::sort(times);
            qInfo("%s: median %.1f ms, 95 %% %.1f ms", what, times[times.size() / 2], times[times.size() * 95 / 100]);
            return times[times.size() / 2];
        };
        drag("without offload");
        settle();
        allow();
        QVERIFY2(drag("with offload") < 250, "a drag waits for its plans"); // of a slow machine, too
    }

    void theReportSaysWhatMoves()
    {
        open();
        allow();
        QSignalSpy ended(&window().exporter(), &Exporter::reportEnded);
        const QString file = folder_.filePath(QStringLiteral("report.html"));
        window().exporter().writeReportTo(file);
        QTRY_COMPARE_WITH_TIMEOUT(ended.size(), 1, 20'000);
        QVERIFY(ended.front().front().toBool());
        QFile report(file);
        QVERIFY(report.open(QIODevice::ReadOnly));
        const QString text = QString::fromUtf8(report.readAll());
        const std::string moved = formatBytes(session().answer()->plan.offload.moved);
        QVERIFY2(text.contains(QString::fromStdString(moved)), qPrintable(QString::fromStdString(moved)));
        QVERIFY(text.contains(QStringLiteral("host")));
    }

    void thePolicyHasWhatMoves()
    {
        open();
        allow();
        const QString file = folder_.filePath(QStringLiteral("policy.json"));
        QVERIFY(window().exporter().writePolicyTo(file));
        const Result<Policy> policy = readPolicy(file.toStdString());
        QVERIFY(policy.ok());
        const auto count = std::ranges::count_if(policy->modules, [](const Policy::Module& module) {
            return module.offload && !module.offload->tensors.empty();
        });
        QCOMPARE(static_cast<std::size_t>(count), session().answer()->offloads.size());
    }

private:
    QTemporaryDir folder_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(WindowOffloadTest)
#include "window_offload_test.moc"
