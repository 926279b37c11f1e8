// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/snapshot_dialog.h"
#include "app/window/step_header.h"
#include "app/window/what_if.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/size_fields.h"

#include <QAction>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <QTest>

using namespace headroom;

/// The open step at another batch: recorded again in the background, in place of the one that is open.
class WhatIfTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        writeStep(8, 8);
        writeStep(16, 8);
        writeStep(32, 4); // another model by then: half of the modules are gone
    }

    void stepWithoutItsCommandHasNoFields()
    {
        openStep();
        QVERIFY(!fields().isVisible());
        QVERIFY(facts().startsWith(QStringLiteral("batch 8 × 128")));
    }

    void fieldsSayTheSizesAndTheirRange()
    {
        open8();
        QVERIFY(fields().isVisible());
        QCOMPARE(batch()->value(), 8);
        QCOMPARE(batch()->minimum(), 1);
        QCOMPARE(batch()->maximum(), 4096);
        QCOMPARE(batch()->accessibleName(), QStringLiteral("batch"));
        QVERIFY(!facts().contains(QStringLiteral("batch")));
        batch()->stepBy(1);
        QCOMPARE(batch()->value(), 9);
        batch()->stepBy(-1);
        QCOMPARE(batch()->value(), 8);
    }

    void budgetPinsAndSelectionStay()
    {
        open8();
        window().session().commitBudget(peak() * 3 / 4);
        window().session().setPin("Transformer.layers.1", Pin::recompute);
        window().session().select(moduleNamed(window().session().step()->trace(), "layers.2"));
        QTRY_VERIFY(window().session().answerIsCurrent());
        const Bytes budget = window().session().budget();
        const Bytes before = window().session().recordedPeak();
        want(16);
        QTRY_COMPARE(window().session().step()->trace().info.batch, 16);
        QTRY_VERIFY(window().session().answerIsCurrent() && window().session().frontier());
        QVERIFY(window().session().recordedPeak() > before);
        QCOMPARE(window().session().budget(), budget);
        QCOMPARE(window().session().pin("Transformer.layers.1"), std::optional(Pin::recompute));
        QCOMPARE(window().session().selectedFqn(), std::string("Transformer.layers.2"));
        QCOMPARE(batch()->value(), 16);
        QVERIFY2(fields().result().contains(QStringLiteral(", was ")), qPrintable(fields().result()));
        QVERIFY(!fields().recording());
    }

    void isUndoneAndDoneAgain()
    {
        open8();
        const OpenStepPtr eight = window().session().step();
        want(16);
        QTRY_COMPARE(window().session().step()->trace().info.batch, 16);
        QVERIFY(window().actions().undo->text().contains(QStringLiteral("batch 16")));
        window().actions().undo->trigger();
        QCOMPARE(window().session().step(), eight);
        QCOMPARE(batch()->value(), 8);
        QTRY_VERIFY(window().session().answerIsCurrent() && window().session().frontier());
        window().actions().redo->trigger();
        QCOMPARE(window().session().step()->trace().info.batch, 16);
        QTRY_VERIFY(window().session().answerIsCurrent());
    }

    void pinsOfModulesThatAreGoneComeBackWithTheStep()
    {
        open8();
        window().session().setPin("Transformer.layers.1", Pin::save);
        window().session().setPin("Transformer.layers.7", Pin::save);
        window().session().select(moduleNamed(window().session().step()->trace(), "layers.7"));
        want(32);
        QTRY_COMPARE(window().session().step()->trace().info.batch, 32);
        QCOMPARE(window().session().request().pins.size(), std::size_t{1});
        QVERIFY(window().session().selected().valid()); // another one
        QTRY_VERIFY(window().session().answerIsCurrent());
        window().actions().undo->trigger();
        QCOMPARE(window().session().request().pins.size(), std::size_t{2});
        QTRY_VERIFY(window().session().answerIsCurrent());
    }

    void wishIsCancelledByEscape()
    {
        open8();
        want(64);
        QTRY_VERIFY(fields().recording());
        QTRY_VERIFY(window().whatIf().running());
        QTest::keyClick(batch(), Qt::Key_Escape);
        QTRY_VERIFY(!window().whatIf().running());
        QTRY_VERIFY(!fields().recording());
        QCOMPARE(batch()->value(), 8);
        QCOMPARE(window().session().step()->trace().info.batch, 8);
    }

    void latestWishWins()
    {
        open8();
        want(64); // waits for ever
        QTRY_VERIFY(fields().recording());
        want(16);
        QTRY_COMPARE(window().session().step()->trace().info.batch, 16);
        QCOMPARE(window().session().undoStack().count(), 1);
    }

    void refusedSizeIsSaidAndTaken()
    {
        open8();
        want(13);
        QTRY_COMPARE(window().messages().type(), MessageBar::MessageType::error);
        QCOMPARE(window().messages().message(), QStringLiteral("--batch 13: expected an even number."));
        QCOMPARE(batch()->value(), 8);
        QCOMPARE(window().session().step()->trace().info.batch, 8);
    }

    void closingForgetsTheWish()
    {
        open8();
        want(64);
        QTRY_VERIFY(fields().recording());
        window().closeStep();
        QTRY_VERIFY(!window().whatIf().running());
        QVERIFY(!window().session().isOpen());
    }

    /// It would take the place of the step that the user asked for later.
    void openingAnotherFileForgetsTheWish()
    {
        open8();
        want(64);
        QTRY_VERIFY(window().whatIf().running());
        window().openFile(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/two_devices.pickle")); // asks which device
        QTRY_VERIFY(window().findChild<SnapshotDialog*>());
        QTRY_VERIFY(!window().whatIf().running());
    }

    void recordingsAreGoneWithTheWindow()
    {
        open8();
        want(16);
        QTRY_COMPARE(window().session().step()->trace().info.batch, 16);
        QCOMPARE(settings().recentFiles(), QStringList{inFolder(QStringLiteral("batch-8.hrs"))});
        destroyWindow();
        const QDir recordings(inFolder(QStringLiteral("recordings")));
        QCOMPARE(recordings.entryList(QDir::AllEntries | QDir::Hidden | QDir::NoDotAndDotDot), QStringList());
    }

    void optionIsReplacedOrAdded()
    {
        const QStringList given{QStringLiteral("m"), QStringLiteral("--batch"), QStringLiteral("8"),
                                QStringLiteral("--seq=5")};
        QCOMPARE(withOption(given, QStringLiteral("--batch"), QStringLiteral("9")).join(QLatin1Char(' ')),
                 QStringLiteral("m --batch 9 --seq=5"));
        QCOMPARE(withOption(given, QStringLiteral("--seq"), QStringLiteral("7")).join(QLatin1Char(' ')),
                 QStringLiteral("m --batch 8 --seq=7"));
        QCOMPARE(withOption({}, QStringLiteral("--seq"), QStringLiteral("7")).join(QLatin1Char(' ')),
                 QStringLiteral("--seq 7"));
    }

private:
    void writeStep(int batch, int blocks)
    {
        StepTrace trace = *makeSyntheticStep({.blocks = blocks, .activation = batch * 8 * MiB, .weight = 8 * MiB});
        trace.info.batch = batch;
        trace.info.dimensions = {{"batch", batch, 1, 4096}};
        trace.info.arguments = {"sizes:" + inFolder({}).toStdString(), "--batch", std::to_string(batch)};
        QVERIFY(writeStepTrace(trace, inFolder(QStringLiteral("batch-%1.hrs").arg(batch)).toStdString()));
    }
    void open8()
    {
        window().openFile(inFolder(QStringLiteral("batch-8.hrs")));
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
    }
    SizeFields& fields() { return *window().page().header()->sizes(); }
    QSpinBox* batch() { return fields().field(QStringLiteral("batch")); }
    QString facts() { return window().page().findChild<QLabel*>(QStringLiteral("stepFacts"))->text(); }
    void want(int value)
    {
        batch()->setFocus();
        batch()->selectAll();
        QTest::keyClicks(batch(), QString::number(value));
        QTest::keyClick(batch(), Qt::Key_Return);
    }
};

QTEST_MAIN(WhatIfTest)
#include "what_if_test.moc"
