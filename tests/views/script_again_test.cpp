// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/step_header.h"
#include "app/window/what_if.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/size_fields.h"

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QMessageBox>
#include <QPushButton>
#include <QSpinBox>
#include <QTest>

using namespace headroom;

/// A step of a training script that the window runs again: with the plan, and with other arguments. A script stands for
/// its Python.
class ScriptAgainTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void planIsRunInTheScriptWithConsent()
    {
        open();
        QVERIFY2(verify().button()->isEnabled(), qPrintable(verify().button()->toolTip()));
        verify().button()->setFocus();
        QTest::keyClick(verify().button(), Qt::Key_Space);
        QVERIFY(box());
        QVERIFY2(box()->text().contains(python()) && box()->text().contains(QStringLiteral("copies.py")),
                 qPrintable(box()->text()));
        press(QMessageBox::RejectRole);
        QTRY_VERIFY(!box());
        QCOMPARE(verify().verdict(), VerifyRow::Verdict::none);
        QVERIFY(verify().button()->isEnabled());

        window().actions().verifyPlan->trigger();
        QVERIFY(box());
        press(QMessageBox::AcceptRole);
        QTRY_COMPARE(verify().verdict(), VerifyRow::Verdict::kept);
        QCOMPARE(
            verify().text(),
            QStringLiteral("✓ Run on the simulated GPU: peak 1.00 GiB as predicted, memory equal to the byte after "
                           "each of 1,234 allocations. Gradients were not compared: recorded steps hold no values."));
        QTRY_VERIFY(!box());
        window().session().commitBudget(peak() / 2); // another plan
        QTRY_VERIFY(window().session().answerIsCurrent());
        window().actions().verifyPlan->trigger(); // the consent is remembered
        QVERIFY(!box());
        QTRY_COMPARE(verify().verdict(), VerifyRow::Verdict::kept);
    }

    void consentIsOfThePlanThatWasAskedFor()
    {
        open();
        window().actions().verifyPlan->trigger();
        QVERIFY(box());
        window().session().commitBudget(peak() / 2);
        QTRY_VERIFY(window().session().answerIsCurrent());
        press(QMessageBox::AcceptRole);
        QTest::qWait(200);
        QCOMPARE(verify().verdict(), VerifyRow::Verdict::none);
        QCOMPARE(verify().text(), QString());
    }

    void failureIsOneSentence()
    {
        trust();
        open({"--batch-size", "8"}, QStringLiteral("/nowhere/python3"));
        window().actions().verifyPlan->trigger();
        QVERIFY(box());
        press(QMessageBox::AcceptRole);
        QTRY_COMPARE(verify().verdict(), VerifyRow::Verdict::broken);
        QVERIFY2(verify().text().contains(QStringLiteral("Train.py raised ValueError: no data."))
                     || verify().text().contains(QStringLiteral("train.py raised ValueError: no data.")),
                 qPrintable(verify().text()));
    }

    void planByOpIsRunAsItsPolicy()
    {
        trust();
        open();
        Session& session = window().session();
        window().actions().planOps->trigger();
        QTRY_VERIFY(session.opsFrontier() && session.opsFrontier()->complete && session.answerIsCurrent());
        session.commitBudget(session.opsFrontier()->plans[session.opsFrontier()->plans.size() / 2].peak);
        QTRY_VERIFY(session.answerIsCurrent() && session.feasible());
        QTRY_VERIFY(session.opsPolicy() && session.opsPolicy()->of == session.answer()->ops); // that of the shown plan
        QCOMPARE(window().actions().verifyPlan->isEnabled(), session.opsPolicy()->whyNot.empty());
    }

    void measuredScriptIsNotRun()
    {
        write({"--batch-size", "8"}, python(), false, QStringLiteral("open.hrs"));
        openWritten();
        QVERIFY(!verify().button()->isEnabled());
        QVERIFY2(verify().button()->toolTip().startsWith(QStringLiteral("The script was measured on a GPU")),
                 qPrintable(verify().button()->toolTip()));
        QVERIFY(!fields().isVisible());
    }

    void numbersOfTheCommandAreFields()
    {
        open({"data.py", "--lr", "3e-4", "--epochs=3", "--out", "x", "block_size=128", "--batch-size", "8", "--seed",
              "7"});
        QVERIFY(fields().isVisible());
        QVERIFY(field("--batch-size") && field("block_size") && field("--epochs"));
        QVERIFY(!field("--lr") && !field("--out") && !field("--seed") && !field("--steps"));
        QCOMPARE(field("--batch-size")->value(), 8);
        QCOMPARE(field("--batch-size")->minimum(), 1);
        QCOMPARE(field("--batch-size")->accessibleName(), QStringLiteral("--batch-size"));
        QVERIFY(field("--batch-size")->x() < field("block_size")->x());
        QVERIFY(field("block_size")->x() < field("--epochs")->x());
    }

    void longNamesLeaveTheWindowItsWidth()
    {
        open({"--per-device-train-batch-size=8", "--maximum-sequence-length-in-tokens=128",
              "--gradient-accumulation-steps-between-updates=4"});
        window().resize(1280, 800);
        fields().setRecording(0.5, QStringLiteral("--per-device-train-batch-size 1048576"));
        QTRY_VERIFY(fields().isVisible());
        QVERIFY2(window().minimumSizeHint().width() <= 1280,
                 qPrintable(QString::number(window().minimumSizeHint().width())));
        fields().setResult(QStringLiteral("peak 123.45 GiB, was 123.45 GiB"));
        QVERIFY2(window().minimumSizeHint().width() <= 1280,
                 qPrintable(QString::number(window().minimumSizeHint().width())));
        QVERIFY(!fields().isHidden() && fields().geometry().right() < window().width());
    }

    void scriptIsRecordedWithAnotherNumber()
    {
        write({"--batch-size", "16"}, python(), true, QStringLiteral("step.hrs")); // what the run makes
        open();
        window().session().commitBudget(peak() * 3 / 4);
        QTRY_VERIFY(window().session().answerIsCurrent());
        const Bytes budget = window().session().budget();
        want(16);
        QTRY_VERIFY(box());
        QVERIFY(fields().recording());
        press(QMessageBox::RejectRole);
        QTRY_VERIFY(!box());
        QVERIFY(!fields().recording());
        QCOMPARE(field("--batch-size")->value(), 8);

        want(16);
        QTRY_VERIFY(box());
        press(QMessageBox::AcceptRole);
        QTRY_COMPARE(window().session().step()->trace().info.batch, 16);
        QTRY_VERIFY(window().session().answerIsCurrent() && window().session().frontier());
        QVERIFY2(window().session().step()->path.endsWith(QStringLiteral("--batch-size16.hrs")),
                 qPrintable(window().session().step()->path));
        QCOMPARE(window().session().budget(), budget);
        QCOMPARE(field("--batch-size")->value(), 16);
        QVERIFY2(fields().result().contains(QStringLiteral(", was ")), qPrintable(fields().result()));
        window().actions().undo->trigger();
        QCOMPARE(field("--batch-size")->value(), 8);
    }

    void fieldIsReachedByTab()
    {
        open();
        window().activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&window()));
        for (int steps = 0; steps < 60 && !field("--batch-size")->hasFocus(); ++steps)
            QTest::keyClick(QApplication::focusWidget() ? QApplication::focusWidget() : &window(), Qt::Key_Tab);
        QVERIFY(field("--batch-size")->hasFocus());
    }

    void escapeKeepsTheStep()
    {
        trust();
        open({"--batch-size", "8"}, {}, QStringLiteral("waits.py"));
        const OpenStepPtr before = window().session().step();
        want(64);
        QTRY_VERIFY(fields().recording());
        QTest::keyClick(field("--batch-size"), Qt::Key_Escape);
        QTRY_VERIFY(!fields().recording());
        QCOMPARE(window().session().step(), before);
        QCOMPARE(field("--batch-size")->value(), 8);
    }

    void onlyTheScriptsOwnArgumentsChange()
    {
        const auto changed = [](const char* words, const char* name) {
            return withScriptSize(QString::fromLatin1(words).split(QLatin1Char(' ')), QString::fromLatin1(name),
                                  QStringLiteral("9"))
                .join(QLatin1Char(' '));
        };
        QCOMPARE(changed("--gpu x --steps 2 /a/train.py --steps 5", "--steps"),
                 QStringLiteral("--gpu x --steps 2 /a/train.py --steps 9"));
        QCOMPARE(changed("--steps 2 -m tool.train batch=5", "batch"),
                 QStringLiteral("--steps 2 -m tool.train batch=9"));
        QCOMPARE(changed("torchrun --nproc-per-node=8 t.py --b=1", "--b"),
                 QStringLiteral("torchrun --nproc-per-node=8 t.py --b=9"));
        const auto names = [this](std::vector<std::string> words) {
            QStringList found;
            for (const StepInfo::Dimension& size : scriptSizes(stepWith(words, python(), true)))
                found << QString::fromStdString(size.name);
            return found.join(QLatin1Char(' '));
        };
        QCOMPARE(names({}), QString());
        QCOMPARE(names({"8", "--n", "-3", "--m", "0", "--f", "1.5", "--last"}), QString());
        QCOMPARE(names({"--a", "1", "--a", "2", "--b", "3"}), QStringLiteral("--b"));
        QCOMPARE(names({"--a=1", "--seq-len=2", "--train_batch=3", "--d=4"}),
                 QStringLiteral("--train_batch --seq-len --a"));
    }

private:
    static QString python() { return QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_python.sh"); }
    VerifyRow& verify() { return *window().page().inspector()->verifyRow(); }
    SizeFields& fields() { return *window().page().header()->sizes(); }
    QSpinBox* field(const char* name) { return fields().field(QString::fromLatin1(name)); }
    QMessageBox* box() { return window().findChild<QMessageBox*>(QStringLiteral("interpreterConsent")); }
    void press(QMessageBox::ButtonRole role)
    {
        for (QAbstractButton* button : box()->buttons())
            if (box()->buttonRole(button) == role)
                button->click();
    }
    void trust() { settings().trustProgram(python()); }

    StepTrace stepWith(const std::vector<std::string>& words, const QString& interpreter, bool simulated,
                       const QString& script = QStringLiteral("copies.py"))
    {
        int batch = 8;
        for (std::size_t i = 1; i < words.size(); ++i)
            if (words[i - 1] == "--batch-size")
                batch = std::stoi(words[i]);
        StepTrace trace = *makeSyntheticStep({.blocks = 8, .activation = batch * 8 * MiB, .weight = 8 * MiB});
        trace.info.batch = batch;
        trace.info.simulated = simulated;
        trace.info.arguments = {"--gpu", "a100-80gb", "--steps", "2", inFolder(script).toStdString()};
        trace.info.arguments.insert(trace.info.arguments.end(), words.begin(), words.end());
        trace.info.settings = {{"program", script.toStdString()},
                               {"interpreter", interpreter.toStdString()},
                               {"folder", inFolder({}).toStdString()}};
        return trace;
    }
    void write(const std::vector<std::string>& words, const QString& interpreter, bool simulated, const QString& name,
               const QString& script = QStringLiteral("copies.py"))
    {
        QFile content(inFolder(script));
        QVERIFY(content.open(QIODevice::WriteOnly));
        QVERIFY(writeStepTrace(stepWith(words, interpreter, simulated, script), inFolder(name).toStdString()));
    }
    void openWritten()
    {
        const QString path = inFolder(QStringLiteral("open.hrs"));
        window().openFile(path);
        QTRY_VERIFY(window().session().isOpen() && window().session().step()->path == path
                    && window().session().answerIsCurrent());
    }
    void open(const std::vector<std::string>& words = {"--batch-size", "8"}, const QString& interpreter = {},
              const QString& script = QStringLiteral("copies.py"))
    {
        write(words, interpreter.isEmpty() ? python() : interpreter, true, QStringLiteral("open.hrs"), script);
        openWritten();
    }
    void want(int value)
    {
        field("--batch-size")->setFocus();
        field("--batch-size")->selectAll();
        QTest::keyClicks(field("--batch-size"), QString::number(value));
        QTest::keyClick(field("--batch-size"), Qt::Key_Return);
    }
};

QTEST_MAIN(ScriptAgainTest)
#include "script_again_test.moc"
