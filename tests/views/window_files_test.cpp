// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/exporter.h"
#include "app/window/planner_engine.h"
#include "tests/views/window_fixture.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/message_bar.h"

#include <QAction>
#include <QApplication>
#include <QDropEvent>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QMenu>
#include <QMimeData>
#include <QPushButton>
#include <QTest>

using namespace headroom;

/// The window around a step: first start, opening, recording, exporting, settings.
class WindowFilesTest : public WindowFixture
{
    Q_OBJECT

private Q_SLOTS:
    void firstStartSaysWhatCanBeDone()
    {
        QVERIFY(window().startPage().isVisible());
        QVERIFY(!window().page().isVisible());
        QVERIFY(window().startPage().findChild<QPushButton*>(QStringLiteral("openButton")));
        QVERIFY(window().startPage().findChild<QAbstractButton*>(QStringLiteral("demo-transformer")));
        QVERIFY(!window().actions().exportPolicy->isEnabled());
        QVERIFY(window().actions().open->isEnabled());
        QCOMPARE(window().windowTitle(), QStringLiteral("Headroom"));
    }

    void aDemoWithoutARecorderIsTheStepThatComesWithHeadroom()
    {
        MainWindow without({makePlannerEngine, inFolder(QStringLiteral("no-recorder")),
                            inFolder(QStringLiteral("made")),
                            QStringLiteral(HEADROOM_SOURCE_DIR "/resources/samples/transformer.hrs")},
                           settings());
        without.askBeforeClosing(false);
        without.show();
        without.startPage().findChild<QAbstractButton*>(QStringLiteral("demo-resnet50"))->click();
        QTRY_VERIFY(without.session().isOpen());
        QCOMPARE(without.session().step()->path,
                 QStringLiteral(HEADROOM_SOURCE_DIR "/resources/samples/transformer.hrs"));
        QVERIFY(without.messages().message().startsWith(QStringLiteral("The recorder is not there")));
    }

    void everyActionHasTextAndStatusTip()
    {
        for (const QAction* action : window().actions().findChildren<QAction*>()) {
            if (action->menu() || action->isSeparator())
                continue;
            QVERIFY2(!action->text().isEmpty() && !action->statusTip().isEmpty(), qPrintable(action->text()));
            QVERIFY2(!action->shortcut().isEmpty(), qPrintable(action->text()));
        }
    }

    void shortcutsAreUnique()
    {
        QMap<QString, QString> seen;
        for (const QAction* action : window().actions().findChildren<QAction*>()) {
            const QString keys = action->shortcut().toString();
            QVERIFY2(keys.isEmpty() || !seen.contains(keys), qPrintable(keys + action->text() + seen.value(keys)));
            seen.insert(keys, action->text());
        }
    }

    void opensAndPlans()
    {
        openStep();
        QVERIFY(window().page().isVisible());
        QCOMPARE(window().page().findChild<QLabel*>(QStringLiteral("stepName"))->text(), QStringLiteral("synthetic"));
        QVERIFY(window().windowTitle().startsWith(QStringLiteral("step.hrs")));
        QVERIFY(window().session().feasible());
        QCOMPARE(window().page().budgetBar()->budget(), window().session().budget());
        QCOMPARE(settings().recentFiles(), QStringList{file()});
        QCOMPARE(window().session().selectedFqn(), std::string("Transformer.layers.0"));
        QVERIFY(window().actions().exportPolicy->isEnabled());
    }

    void guessedBudgetThatDoesNotFitIsReplaced()
    {
        openStep(); // 70 % of the peak fits
        QCOMPARE(window().session().budget(), firstBudget(window().session().step()->trace(), peak()));
        window().closeStep();
        const Bytes asked = 64 * MiB;
        window().openFile(file(), asked); // what was asked for stays, though nothing fits
        QTRY_VERIFY(window().session().isOpen() && window().session().answerIsCurrent());
        QCOMPARE(window().session().budget(), asked);
    }

    void exportsThePolicy()
    {
        openStep();
        window().session().commitBudget(peak() / 2);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(window().isWindowModified());
        const QString path = inFolder(QStringLiteral("policy.json"));
        QVERIFY(window().exporter().writePolicyTo(path));
        QVERIFY(!window().isWindowModified());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QJsonObject policy = QJsonDocument::fromJson(file.readAll()).object();
        QCOMPARE(policy.value(QStringLiteral("headroom_policy")).toInt(), 1);
        QCOMPARE(static_cast<Bytes>(policy.value(QStringLiteral("budget_bytes")).toDouble()), peak() / 2);
        QCOMPARE(window().messages().kind(), MessageBar::Kind::done);
    }

    void policyThatCannotBeWrittenIsSaid()
    {
        openStep();
        QVERIFY(!window().exporter().writePolicyTo(QStringLiteral("/nowhere/policy.json")));
        QCOMPARE(window().messages().kind(), MessageBar::Kind::error);
        window().session().commitBudget(64 * MiB);
        QTRY_VERIFY(window().session().answerIsCurrent());
        QVERIFY(!window().exporter().writePolicyTo(inFolder(QStringLiteral("none.json"))));
        QVERIFY(window().messages().message().contains(QStringLiteral("none fits")));
    }

    void exportsPictures()
    {
        openStep();
        QTRY_VERIFY(window().session().frontier() != nullptr);
        const auto path = [this](const char* name) { return inFolder(QString::fromLatin1(name)); };
        QVERIFY(window().exporter().writeTimelineTo(path("timeline.svg")));
        QVERIFY(window().exporter().writeTradeOffTo(path("tradeoff.csv")));
        QVERIFY(window().exporter().writeFrontierTo(path("frontier.png")));
        for (const char* name : {"timeline.svg", "tradeoff.csv", "frontier.png"})
            QVERIFY(QFileInfo(path(name)).size() > 100);
    }

    void brokenFileLeavesTheOpenStep()
    {
        openStep();
        const OpenStepPtr before = window().session().step();
        const QString broken = inFolder(QStringLiteral("broken.hrs"));
        QFile content(broken);
        QVERIFY(content.open(QIODevice::WriteOnly));
        content.write(QByteArray(300, 'x'));
        content.close();
        window().openFile(broken);
        QTRY_COMPARE(window().messages().kind(), MessageBar::Kind::error);
        QVERIFY2(window().messages().message().contains(QStringLiteral("broken.hrs")),
                 qPrintable(window().messages().message()));
        QCOMPARE(window().session().step(), before);
        QCOMPARE(settings().recentFiles(), QStringList{file()});
    }

    void fileCanBeDropped()
    {
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(file())});
        QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window(), &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window(), &drop);
        QTRY_VERIFY(window().session().isOpen());
    }

    void closingShowsTheStartPageWithTheFile()
    {
        openStep();
        window().actions().closeStep->trigger();
        QVERIFY(!window().session().isOpen());
        QVERIFY(window().startPage().isVisible());
        QVERIFY(!window().actions().exportPolicy->isEnabled());
    }

    void settingsAreKept()
    {
        openStep();
        window().actions().themeDark->trigger();
        QVERIFY(window().palette().color(QPalette::Window).lightness() < 128);
        window().resize(1111, 777);
        window().close();
        destroyWindow();
        makeWindow();
        QVERIFY(window().theme().choice() == ThemeChoice::dark);
        QVERIFY(window().actions().themeDark->isChecked());
        QCOMPARE(window().size(), QSize(1111, 777));
        QCOMPARE(settings().recentFiles(), QStringList{file()});
    }
};

QTEST_MAIN(WindowFilesTest)
#include "window_files_test.moc"
