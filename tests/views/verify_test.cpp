// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/step_header.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"

#include <QAction>
#include <QPushButton>
#include <QTest>

using namespace headroom;

/// The plan run from the window, with a script in place of torch-headroom-record.
class VerifyTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void planThatKeepsItsWordIsSaid()
    {
        openStepFor("kept");
        QVERIFY(row().button()->isEnabled());
        QTest::mouseClick(row().button(), Qt::LeftButton);
        QTRY_COMPARE(row().verdict(), VerifyRow::Verdict::kept);
        QCOMPARE(row().text(),
                 QStringLiteral(
                     "✓ Run on the simulated GPU: peak 1.00 GiB as predicted, memory equal to the byte after each "
                     "of 1,234 allocations. Gradients of 56 parameters equal to the bit."));
        window().session().commitBudget(peak() / 2); // another plan
        QCOMPARE(row().verdict(), VerifyRow::Verdict::none);
        QCOMPARE(row().text(), QString());
    }

    /// The search goes on while a plan is shown, and may find a better plan of the same budget.
    void verdictLeavesWithThePlan()
    {
        openStepFor("kept");
        Session& session = window().session();
        session.commitBudget(peak() * 3 / 4);
        QTRY_VERIFY(session.answerIsCurrent() && !session.answer()->regions.empty());
        window().actions().verifyPlan->trigger();
        QTRY_COMPARE(row().verdict(), VerifyRow::Verdict::kept);
        PlanAnswer same = *session.answer(); // proven
        session.setAnswer(std::make_shared<const PlanAnswer>(same));
        QCOMPARE(row().verdict(), VerifyRow::Verdict::kept);
        same.regions.pop_back();
        session.setAnswer(std::make_shared<const PlanAnswer>(same));
        QCOMPARE(row().verdict(), VerifyRow::Verdict::none);
        QCOMPARE(row().text(), QString());
        QVERIFY(row().button()->isEnabled());
    }

    void runLeavesWithThePlan()
    {
        openStepFor("waits");
        Session& session = window().session();
        session.commitBudget(peak() * 3 / 4);
        QTRY_VERIFY(session.answerIsCurrent() && !session.answer()->regions.empty());
        window().actions().verifyPlan->trigger();
        QTRY_COMPARE(row().text(), QStringLiteral("Verifying: policy"));
        PlanAnswer better = *session.answer();
        better.regions.pop_back();
        session.setAnswer(std::make_shared<const PlanAnswer>(better));
        QTRY_COMPARE(row().button()->text(), QStringLiteral("Verify"));
        QCOMPARE(row().text(), QString());
    }

    void planOfOpsIsRunAsItIsShown()
    {
        openStepFor("kept");
        planOps();
        QVERIFY(row().button()->isEnabled());
        QTest::mouseClick(row().button(), Qt::LeftButton);
        QTRY_COMPARE(row().verdict(), VerifyRow::Verdict::kept);
        QVERIFY2(row().text().contains(
                     QStringLiteral("The step keeps 512.00 MiB for backward, as planned, and runs 17 ops again.")),
                 qPrintable(row().text()));
        window().actions().planModules->trigger(); // another plan
        QCOMPARE(row().verdict(), VerifyRow::Verdict::none);
    }

    void planOfOpsThatIsLeftIsNotRunToItsEnd()
    {
        openStepFor("slow");
        planOps();
        window().actions().verifyPlan->trigger();
        QTRY_VERIFY(row().text().startsWith(QStringLiteral("Verifying")));
        window().session().commitBudget(peak());
        QTRY_COMPARE(row().text(), QString());
        QTRY_VERIFY(row().button()->isEnabled());
    }

    void planThatDoesNotKeepItsWordIsSaid_data()
    {
        QTest::addColumn<QString>("words");
        QTest::newRow("broken") << QStringLiteral("Executed memory differs from the predicted memory: at op 7.");
        QTest::newRow("crash") << QStringLiteral("segmentation fault");
    }
    void planThatDoesNotKeepItsWordIsSaid()
    {
        QFETCH(const QString, words);
        openStepFor(QTest::currentDataTag());
        window().actions().verifyPlan->trigger();
        QTRY_COMPARE(row().verdict(), VerifyRow::Verdict::broken);
        QVERIFY2(row().text().contains(words), qPrintable(row().text()));
        QVERIFY(row().button()->isEnabled()); // once more
    }

    void isCancelledByTheButtonAndByAnotherPlan()
    {
        openStepFor("waits");
        for (const bool byButton : {true, false}) {
            row().button()->setFocus();
            QTest::keyClick(row().button(), Qt::Key_Space);
            QTRY_COMPARE(row().text(), QStringLiteral("Verifying: policy"));
            QCOMPARE(row().button()->text(), QStringLiteral("Cancel"));
            if (byButton)
                QTest::keyClick(row().button(), Qt::Key_Space);
            else
                window().session().commitBudget(peak() / 2);
            QTRY_COMPARE(row().button()->text(), QStringLiteral("Verify"));
            QCOMPARE(row().text(), QString());
            QTRY_VERIFY(window().session().answerIsCurrent());
        }
    }

    void isOfferedOnlyWhereItCanBeDone()
    {
        openStep(); // nobody knows which command made it
        QVERIFY(!row().button()->isEnabled());
        QVERIFY(row().button()->toolTip().contains(QStringLiteral("torch_headroom.apply")));
        openStepFor("kept");
        window().session().setWorldSize(8);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(!window().actions().verifyPlan->isEnabled());
        window().session().setWorldSize(1);
        QTRY_VERIFY(window().actions().verifyPlan->isEnabled());
        window().session().commitBudget(64 * MiB); // nothing fits
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(!row().button()->isEnabled());
        window().closeStep();
        QVERIFY(!window().actions().verifyPlan->isEnabled());
    }

    void stepOfAScriptSaysWhereItCameFrom()
    {
        openStepFor("kept",
                    {{"program", "train.py --batch-size 32"},
                     {"interpreter", "/venv/bin/python"},
                     {"folder", "/home/me/training"}});
        QVERIFY(row().button()->isEnabled()); // script_again_test.cpp runs it
        QStringList tips;
        for (const QWidget* part : window().page().header()->findChildren<QWidget*>())
            tips << part->toolTip();
        const QString all = tips.join(QLatin1Char('\n'));
        QVERIFY2(all.contains(QStringLiteral(
                     "Recorded from train.py --batch-size 32\nrun by /venv/bin/python\nin /home/me/training")),
                 qPrintable(all));
        QVERIFY2(all.contains(QStringLiteral("The training script chooses the batch")), qPrintable(all));
    }

private:
    VerifyRow& row() { return *window().page().inspector()->verifyRow(); }

    /// To a plan in the middle of the frontier.
    void planOps()
    {
        Session& session = window().session();
        window().actions().planOps->trigger();
        QTRY_VERIFY(session.opsFrontier() && session.opsFrontier()->complete && session.answerIsCurrent());
        const std::vector<OpsPlan>& plans = session.opsFrontier()->plans;
        session.commitBudget(plans[plans.size() / 2].peak);
        QTRY_VERIFY(session.answerIsCurrent() && session.feasible());
    }

    void openStepFor(const char* outcome, const decltype(StepInfo::settings)& settings = {})
    {
        StepTrace trace = *makeSyntheticStep({.blocks = 8, .activation = 64 * MiB, .weight = 8 * MiB});
        trace.info.arguments = {std::string("verify:") + outcome};
        trace.info.settings = settings;
        const QString path = inFolder(QStringLiteral("verified.hrs"));
        QVERIFY(writeStepTrace(trace, path.toStdString()));
        window().openFile(path);
        QTRY_VERIFY(window().session().isOpen() && window().session().step()->path == path
                    && window().session().answerIsCurrent());
    }
};

QTEST_MAIN(VerifyTest)
#include "verify_test.moc"
