// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// F1 in the real window: each part opens its page of the manual, and the manual has the keys of all actions.

#include "app/recording/record_dialog.h"
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/fit_page.h"
#include "app/window/manual_controller.h"
#include "app/window/record_controller.h"
#include "tests/views/window_fixture.h"
#include "views/manual/manual_pages.h"
#include "views/manual/manual_window.h"
#include "views/plot/fit_chart.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/inspector.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/module_panel.h"

#include <QAction>
#include <QFile>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QTest>
#include <QTreeView>

using namespace headroom;

class WindowManualTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void everyLinkOfTheWindowIsInTheManual()
    {
        openStep();
        int links = 0;
        for (const QWidget* widget : window().findChildren<QWidget*>()) {
            if (!widget->property("manualLink").isValid())
                continue;
            const QString link = ManualController::linkOf(widget);
            QVERIFY2(ManualPages::all().findSection(link), qPrintable(link));
            ++links;
        }
        QVERIFY(links > 10);
    }

    void withoutAStepItOpensTheTour()
    {
        QTest::keyClick(&window(), Qt::Key_F1);
        QCOMPARE(shown(), QStringLiteral("tour.md"));
        QVERIFY(window().manualController().manual()->isVisible());
    }

    void itOpensThePageOfWhatHasTheFocus()
    {
        openStep();
        focusAndAsk(window().page().modules()->tree());
        QCOMPARE(shown(), QStringLiteral("window.md#modules"));
        focusAndAsk(window().page().modules()->filter());
        QCOMPARE(shown(), QStringLiteral("window.md#modules"));
        window().actions().showReserved->trigger();
        focusAndAsk(window().page().lowerPanel()->findChild<QLineEdit*>(QStringLiteral("allocatorSettings")));
        QCOMPARE(shown(), QStringLiteral("allocator.md#in-the-window"));
        window().actions().showFit->trigger();
        focusAndAsk(window().page().fit()->panel()->chart());
        QCOMPARE(shown(), QStringLiteral("window.md#fit"));
        window().actions().showOps->trigger();
        focusAndAsk(window().page().lowerPanel()->ops());
        QCOMPARE(shown(), QStringLiteral("window.md#below-the-timeline"));
    }

    void theDialogThatAsksHowToRecordHasItToo()
    {
        const QString script = inFolder(QStringLiteral("train.py"));
        QVERIFY(QFile(script).open(QIODevice::WriteOnly));
        window().openFile(script);
        RecordDialog* dialog = window().recordController().dialog();
        QVERIFY(dialog);
        dialog->activateWindow();
        QTRY_COMPARE(QApplication::activeWindow(), dialog);
        QTest::keyClick(dialog, Qt::Key_F1);
        QVERIFY(window().manualController().manual());
        QCOMPARE(shown(), QStringLiteral("record-script.md"));
        dialog->reject();
    }

    void itClosesWithTheWindow()
    {
        QTest::keyClick(&window(), Qt::Key_F1);
        QVERIFY(window().manualController().manual()->isVisible());
        window().close();
        QVERIFY(!window().manualController().manual()->isVisible());
    }

    void theManualHasTheKeysOfAllActions()
    {
        const QStringList words
            = ManualPages::all().findSection(QStringLiteral("window.md#all-keys"))->words.split(QLatin1Char(' '));
        for (const QAction* action : window().actions().findChildren<QAction*>()) {
            if (action->menu() || action->isSeparator())
                continue;
            const QString key = action->shortcut().toString(QKeySequence::PortableText);
            QVERIFY2(words.contains(key), qPrintable(action->text() + QStringLiteral(": ") + key));
        }
    }

private:
    QString shown() { return window().manualController().manual()->link(); }
    void focusAndAsk(QWidget* widget)
    {
        QVERIFY(widget);
        window().activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&window()));
        widget->setFocus();
        QTRY_VERIFY(widget->hasFocus());
        QTest::keyClick(widget, Qt::Key_F1);
    }
};

QTEST_MAIN(WindowManualTest)
#include "window_manual_test.moc"
