// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/ops_choice_controller.h"
#include "app/window/plan_text.h"
#include "app/window/step_text.h"
#include "core/policy/policy.h"
#include "core/predict/predict.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/models/module_tree_model.h"
#include "views/models/ops_model.h"
#include "views/plot/number_text.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"
#include "views/widgets/ops_panel.h"

#include <QAbstractItemModelTester>
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QFile>
#include <QGuiApplication>
#include <QHeaderView>
#include <QLabel>
#include <QMessageBox>
#include <QPushButton>
#include <QRadioButton>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTest>
#include <QTimer>
#include <QToolButton>
#include <QTreeView>

using namespace headroom;

/// The slider's second mode: single ops of the whole step.
class WindowOpsTest : public WindowFixture
{
    Q_OBJECT

    Session& session() { return window().session(); }
    OpsPanel& panel() { return *window().page().inspector()->opsPanel(); }
    const OpsDecisions& answer() { return *session().answer()->ops; }

    void planOps()
    {
        openStep();
        window().actions().planOps->trigger();
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
    }

    /// To a plan in the middle of the frontier.
    void planTheMiddle()
    {
        planOps();
        const std::vector<OpsPlan>& plans = session().opsFrontier()->plans;
        QVERIFY(plans.size() > 4);
        session().commitBudget(plans[plans.size() / 2].peak);
        QTRY_VERIFY(session().answerIsCurrent());
    }

private Q_SLOTS:
    void budgetMeansTheSameInBothModes()
    {
        openStep();
        const Bytes budget = session().budget();
        auto* byOp = window().page().budgetBar()->findChild<QToolButton*>(QStringLiteral("planOps"));
        QTest::mouseClick(byOp, Qt::LeftButton);
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        QCOMPARE(session().budget(), budget);
        QVERIFY(session().feasible());
        QVERIFY(session().answer()->plan.peak <= budget);
        QCOMPARE(session().answer()->timeline->peak, answer().plan().peak);
        QVERIFY(window().actions().planOps->isChecked());
        QVERIFY(panel().isVisible());
        QVERIFY(!window().actions().pinKeep->isEnabled());

        window().actions().undo->trigger();
        QTRY_VERIFY(session().answerIsCurrent());
        QCOMPARE(session().mode(), PlanMode::modules);
        QVERIFY(!session().answer()->ops);
        QVERIFY(!byOp->isChecked());
        QVERIFY(!panel().isVisible());
        QVERIFY(window().actions().pinKeep->isEnabled());
    }

    void frontierTakesMoreTimeForLessMemory()
    {
        planOps();
        const std::vector<OpsPlan>& plans = session().opsFrontier()->plans;
        for (std::size_t i = 1; i < plans.size(); ++i) {
            QVERIFY(plans[i - 1].peak < plans[i].peak);
            QVERIFY(plans[i - 1].recomputeMs > plans[i].recomputeMs);
            QVERIFY(plans[i - 1].fraction <= plans[i].fraction);
        }
        QCOMPARE(plans.back().peak, peak());
        QVERIFY(plans.back().recomputed.empty());
    }

    void everyBudgetOfADragIsThePlanThatFits()
    {
        planOps();
        BudgetBar* bar = window().page().budgetBar();
        const std::vector<OpsPlan>& plans = session().opsFrontier()->plans;
        QSignalSpy answers(&session(), &Session::answerChanged);
        for (std::size_t i = plans.size(); i-- > 0;)
            Q_EMIT bar->budgetDragged(plans[i].peak);
        Q_EMIT bar->budgetCommitted(plans.front().peak);
        QTRY_VERIFY(session().answerIsCurrent());
        QCOMPARE(answer().index, std::size_t(0));
        QVERIFY(answers.count() >= 1);
        QCOMPARE(session().undoStack().count(), 2); // the mode, and one drag
        for (std::size_t i = 0; i < plans.size(); i += 16) {
            const OpsPlan& plan = plans[i];
            session().commitBudget(plan.peak + 1);
            QTRY_VERIFY(session().answerIsCurrent());
            QCOMPARE(answer().plan().peak, plan.peak);
            QCOMPARE(session().shownTimeline()->peak, plan.peak);
        }
    }

    void changedDecisionsAreInTheInspectorTheTableAndTheTimeline()
    {
        planTheMiddle();
        QVERIFY(!answer().changed.empty());
        const auto count = static_cast<int>(answer().changed.size());
        QVERIFY(inspectorText("flipsTitle").contains(count == 1 ? QStringLiteral("one op") : QString::number(count)));
        QVERIFY(!changedMarks(answer(), *session().shownTimeline()).empty());

        QTest::mouseClick(panel().findChild<QPushButton*>(QStringLiteral("opsTable")), Qt::LeftButton);
        LowerPanel* lower = window().page().lowerPanel();
        QCOMPARE(lower->page(), LowerPanel::Page::ops);
        QAbstractItemModel* ops = lower->ops()->model();
        QCOMPARE(ops->rowCount(), count);
        for (int row = 0; row < count; ++row)
            QVERIFY(ops->index(row, OpsModel::planColumn).data(OpsModel::ChangedRole).toBool());
        QVERIFY(!lower->ops()->isColumnHidden(OpsModel::planColumn));
        lower->findChild<QToolButton*>(QStringLiteral("onlyFlips"))->setChecked(false);
        QVERIFY(ops->rowCount() > count);

        window().actions().planModules->trigger();
        QTRY_VERIFY(session().answerIsCurrent());
        QVERIFY(lower->ops()->isColumnHidden(OpsModel::planColumn));
    }

    void planOfAnOpIsInViewOnASmallScreen()
    {
        planTheMiddle();
        window().page().lowerPanel()->showChanged();
        const QTreeView* table = window().page().lowerPanel()->ops();
        for (const QSize size : {QSize(1280, 800), QSize(1600, 1000)}) {
            window().resize(size);
            QTRY_COMPARE(window().size(), size);
            QTRY_VERIFY(!table->horizontalScrollBar()->isVisible());
            QVERIFY(!table->isColumnHidden(OpsModel::planColumn));
            QCOMPARE(table->isColumnHidden(OpsModel::phaseColumn), size.width() < 1600);
            QCOMPARE(table->header()->length(), table->viewport()->width());
        }
    }

    void fractionIsCopiedForTorchCompile()
    {
        planTheMiddle();
        QTest::mouseClick(panel().findChild<QPushButton*>(QStringLiteral("copyCompile")), Qt::LeftButton);
        const QString expected = QStringLiteral("config.activation_memory_budget = %1\n").arg(answer().plan().fraction);
        QVERIFY2(QGuiApplication::clipboard()->text().contains(expected), qPrintable(expected));
    }

    void saveListsAreExportedAsPolicy()
    {
        planTheMiddle();
        QTRY_VERIFY(session().policy());
        const QString path = inFolder(QStringLiteral("ops-policy.json"));
        QVERIFY(window().exporter().writePolicyTo(path));
        const Result<Policy> policy = readPolicy(path.toStdString());
        QVERIFY(policy);
        QVERIFY(!policy->modules.empty());
        const Result<CheckpointPlan> regions = checkpointPlan(session().step()->trace(), *policy);
        QVERIFY(regions);
        QCOMPARE(predict(session().step()->trace(), *regions).value().peak, policy->predicted.peak);
        QVERIFY(!session().dirty());
    }

    void aPolicyThatExceedsTheBudgetIsAskedFor()
    {
        window().openFile(QStringLiteral(HEADROOM_TEST_DATA "/steps/gpt2_12L_h100.hrs"), 12'400 * MiB);
        QTRY_VERIFY(session().isOpen() && session().answerIsCurrent());
        window().actions().planOps->trigger();
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        const std::vector<OpsPlan> plans = session().opsFrontier()->plans;
        const auto exceeds
            = [&] { return session().policyOfOps() && session().policyOfOps()->predicted.peak > session().budget(); };
        for (std::size_t i = 0; i < plans.size() && !exceeds(); i += plans.size() / 16 + 1) {
            session().commitBudget(plans[i].peak);
            QTRY_VERIFY(session().answerIsCurrent() && session().feasible());
            QTRY_VERIFY(session().opsPolicy() && session().opsPolicy()->of == session().answer()->ops);
        }
        QVERIFY2(exceeds(), "a policy keeps more than the plan");
        const QString path = inFolder(QStringLiteral("exceeds.json"));
        const QString asked
            = QStringLiteral("The policy of this plan has a peak of %1, which exceeds the budget of %2.")
                  .arg(bytesText(session().policyOfOps()->predicted.peak, 2), bytesText(session().budget(), 2));
        int questions = 0;
        const auto answerWith = [&](bool exportIt) {
            QTimer::singleShot(0, &window(), [&, exportIt] {
                auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
                QVERIFY(box);
                ++questions;
                QCOMPARE(box->text(), asked);
                QCOMPARE(box->defaultButton(), box->button(QMessageBox::Cancel));
                for (QAbstractButton* button : box->buttons())
                    if ((box->buttonRole(button) == QMessageBox::AcceptRole) == exportIt)
                        button->click();
            });
        };
        answerWith(false);
        QVERIFY(!window().exporter().writePolicyTo(path));
        QVERIFY(!QFile::exists(path));
        answerWith(true);
        QVERIFY(window().exporter().writePolicyTo(path));
        QVERIFY(QFile::exists(path));
        QCOMPARE(questions, 2);

        session().commitBudget(plans.back().peak); // keeps all
        QTRY_VERIFY(session().answerIsCurrent() && session().policyOfOps());
        QVERIFY(window().exporter().writePolicyTo(path)); // asks nothing
        QCOMPARE(questions, 2);
    }

    void saveListsSayHowTheirRecomputationDiffers()
    {
        window().openFile(QStringLiteral(HEADROOM_TEST_DATA "/steps/gpt2_12L_h100.hrs"), 12'400 * MiB);
        QTRY_VERIFY(session().isOpen() && session().answerIsCurrent());
        window().actions().planOps->trigger();
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        QTRY_VERIFY(session().policyOfOps());
        // The head and the loss are outside of the blocks, so that the policy takes less time than the plan.
        const double ofPolicy = session().policyOfOps()->predicted.recomputeMs;
        QVERIFY(ofPolicy < session().answer()->plan.recomputeMs);
        const QString text = inspectorText("opsPolicy");
        QVERIFY2(text.startsWith(QStringLiteral("Selective checkpoints of 12 blocks: peak "))
                     && text.contains(QStringLiteral("Ops outside of the blocks do not run again: ")),
                 qPrintable(text));
        session().select(moduleNamed(session().step()->trace(), "blocks.0"));
        const QString reason = moduleFacts(session()).reason;
        QVERIFY2(reason.contains(QStringLiteral("run again and take "))
                     && reason.contains(QStringLiteral(" and free ")),
                 qPrintable(reason));
    }

    void aBudgetThatNoPlanFitsSaysTheLeast()
    {
        planOps();
        const Bytes least = session().opsFrontier()->plans.front().peak;
        session().commitBudget(least - MiB);
        QTRY_VERIFY(session().answerIsCurrent());
        QVERIFY(!session().feasible());
        QVERIFY(session().shownTimeline() != nullptr); // what comes closest
        QVERIFY(!window().actions().copyFraction->isEnabled());
        QVERIFY(!window().exporter().writePolicyTo(inFolder(QStringLiteral("none.json"))));
        QTest::mouseClick(window().page().inspector()->findChild<QPushButton*>(QStringLiteral("leastBudget")),
                          Qt::LeftButton);
        QTRY_VERIFY(session().answerIsCurrent());
        QCOMPARE(session().budget(), least);
        QVERIFY(session().feasible());
    }

    void treeSaysHowMuchOfAModuleIsDiscarded()
    {
        planTheMiddle();
        QAbstractItemModel* tree = window().page().modules()->tree()->model();
        int marked = 0;
        for (int row = 0; row < tree->rowCount(); ++row)
            marked += tree->index(row, 0).data(ModuleTreeModel::MarkRole).value<PlanMark>() == PlanMark::ops;
        QVERIFY(marked > 0);
    }

    void keysMoveAlongTheFrontier()
    {
        planTheMiddle();
        auto* scale = window().page().budgetBar()->findChild<BudgetScale*>();
        const std::size_t before = answer().index;
        scale->setFocus();
        QTest::keyClick(scale, Qt::Key_Left, Qt::ControlModifier);
        QTRY_VERIFY(session().answerIsCurrent());
        QCOMPARE(answer().index, before - 1);
        QTest::keyClick(scale, Qt::Key_End);
        QTRY_VERIFY(session().answerIsCurrent());
        QVERIFY(answer().plan().recomputed.empty());
        QVERIFY(inspectorText("opsSummary").contains(QStringLiteral("no op has to run again")));
    }

    void aStepWithoutBackwardSaysSoInOneSentence()
    {
        StepTrace trace = *makeSyntheticStep({.blocks = 2});
        std::vector<Phase> phases(trace.ops.phase.begin(), trace.ops.phase.end());
        for (Phase& phase : phases)
            phase = phase == Phase::backward ? Phase::optimizer : phase;
        trace.ops.phase.rows = phases;
        const QString path = inFolder(QStringLiteral("inference.hrs"));
        QVERIFY(writeStepTrace(trace, path.toStdString()).ok());
        window().openFile(path);
        QTRY_VERIFY(session().isOpen() && session().answerIsCurrent());
        window().actions().planOps->trigger();
        QTRY_VERIFY(!session().whyNoOps().isEmpty());
        QCOMPARE(inspectorText("opsProblem"),
                 QStringLiteral("The step has no backward: expected a step recorded to the end of backward."));
        QVERIFY(!session().answer());
        QTest::mouseClick(panel().findChild<QPushButton*>(QStringLiteral("opsToModules")), Qt::LeftButton);
        QTRY_VERIFY(session().answerIsCurrent());
        QCOMPARE(session().mode(), PlanMode::modules);
    }

    void aStepRecordedWithAPolicySaysSoInOneSentence()
    {
        StepTrace trace = *makeSyntheticStep({.blocks = 2});
        trace.info.policy = "policy.json";
        const QString path = inFolder(QStringLiteral("checkpointed.hrs"));
        QVERIFY(writeStepTrace(trace, path.toStdString()).ok());
        window().openFile(path, std::nullopt, {}, PlanMode::ops); // as with --ops
        QTRY_VERIFY(session().isOpen());
        const QAction& byOp = *window().actions().planOps;
        QVERIFY(!byOp.isEnabled() && byOp.toolTip().contains(QStringLiteral("recorded under the policy")));
        QTRY_VERIFY(inspectorText("opsProblem").contains(QStringLiteral("recorded under the policy")));
        QVERIFY(!window().actions().copyFraction->isEnabled());
    }

    void solverAndCostAreChosenAndUndone()
    {
        planTheMiddle();
        const OpsFrontierPtr before = session().opsFrontier();
        SolverChoice& choice = *window().page().inspector()->solverChoice();
        QVERIFY(choice.isVisible());
        choice.solvers()->setCurrentIndex(static_cast<int>(OpsSolver::greedy));
        Q_EMIT choice.solvers()->activated(static_cast<int>(OpsSolver::greedy));
        QCOMPARE(session().opsChoice().solver, OpsSolver::greedy);
        QVERIFY(!session().answerIsCurrent());
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        QVERIFY(session().opsFrontier() != before);
        QVERIFY(compileLines(session()).contains(QStringLiteral("_solver = \"greedy\"")));
        Q_EMIT choice.costs()->activated(static_cast<int>(OpCost::flops));
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        QVERIFY(compileLines(session()).contains(QStringLiteral("_runtime_estimator = \"flops\"")));
        // Whatever they were chosen by, less memory takes more time.
        const std::vector<OpsPlan>& plans = session().opsFrontier()->plans;
        for (std::size_t i = 1; i < plans.size(); ++i) {
            QVERIFY(plans[i].peak > plans[i - 1].peak);
            QVERIFY(plans[i].recomputeMs < plans[i - 1].recomputeMs);
        }
        session().undoStack().undo();
        session().undoStack().undo();
        QCOMPARE(session().opsChoice(), OpsChoice());
        QCOMPARE(choice.solvers()->currentIndex(), static_cast<int>(OpsSolver::dp));
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        QCOMPARE(session().opsFrontier()->plans.size(), before->plans.size());
        window().actions().planModules->trigger();
        QVERIFY(!choice.isVisible());
    }

    void measuredTimesComeFromAFile()
    {
        planTheMiddle();
        const std::size_t ops = session().step()->trace().ops.size();
        QStringList times;
        for (std::size_t i = 0; i < ops; ++i)
            times << QString::number(i % 7 + 1);
        const auto write = [&](const char* name, const QStringList& list) {
            QFile file(inFolder(QLatin1String(name)));
            QVERIFY(file.open(QIODevice::WriteOnly));
            file.write(QStringLiteral("[%1]").arg(list.join(QLatin1Char(','))).toLatin1());
        };
        write("times.json", times);
        write("short.json", times.mid(1));
        window().opsChoiceController().takeTimes(inFolder(QStringLiteral("times.json")));
        QTRY_VERIFY(session().opsChoice().times);
        QTRY_VERIFY(session().opsFrontier() && session().opsFrontier()->complete && session().answerIsCurrent());
        QCOMPARE(window().page().inspector()->solverChoice()->costs()->currentText(), QStringLiteral("times.json"));
        const OpsChoice good = session().opsChoice();
        window().opsChoiceController().takeTimes(inFolder(QStringLiteral("short.json")));
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QVERIFY2(window().messages().message().contains(QStringLiteral("expected a JSON list with the ms of each")),
                 qPrintable(window().messages().message()));
        QCOMPARE(session().opsChoice(), good);
        openStep(); // another document: they are of the one before
        QTRY_VERIFY(!session().opsChoice().times);
    }

    void leavingTheModeStopsThePlanning()
    {
        openStep();
        window().actions().planOps->trigger();
        window().actions().planModules->trigger();
        QTRY_VERIFY(session().answerIsCurrent());
        QTest::qWait(50);
        QVERIFY(!session().answer()->ops);
        window().actions().planOps->trigger();
        QTRY_VERIFY(session().answerIsCurrent() && session().opsFrontier()->complete);
    }

    void closingWhilePlanningIsSafe()
    {
        openStep();
        window().actions().planOps->trigger();
        QVERIFY(window().closeStep());
        QTest::qWait(50);
        QVERIFY(!session().isOpen());
        QVERIFY(!session().opsFrontier());
    }

    void opsTableIsAGoodModelInThisMode()
    {
        planTheMiddle();
        OpsModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setStep(session().step()->engine->trace());
        model.setPlan(answer().decisions, answer().changed);
        model.sort(OpsModel::planColumn, Qt::AscendingOrder);
        for (int row = 0; row < static_cast<int>(answer().changed.size()); ++row)
            QVERIFY(model.index(row, 0).data(OpsModel::ChangedRole).toBool());
        model.setOnlyChanged(true);
        QCOMPARE(model.rowCount(), static_cast<int>(answer().changed.size()));
        model.setPlan({}, {});
        QCOMPARE(model.rowCount(), 0);
        model.setOnlyChanged(false);
        QCOMPARE(static_cast<std::size_t>(model.rowCount()), session().step()->trace().ops.size());
    }
};

QTEST_MAIN(WindowOpsTest)
#include "window_ops_test.moc"
