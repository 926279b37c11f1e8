// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/made_up.h"
#include "views/models/fit_model.h"
#include "views/models/ops_model.h"
#include "views/plot/fit_chart.h"
#include "views/theme/theme.h"
#include "views/widgets/fit_panel.h"
#include "views/widgets/labels.h"

#include <QAbstractItemModelTester>
#include <QApplication>
#include <QBuffer>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QSignalSpy>
#include <QSvgGenerator>
#include <QTest>
#include <QToolButton>
#include <QTreeView>

#include <algorithm>
#include <cmath>

using namespace headroom;

/// What fits, as chart, table and panel, on rows that are made up.
class FitViewTest : public QObject
{
    Q_OBJECT

private:
    static FitResultPtr result() { return std::make_shared<const FitResult>(madeUpFit()); }
    static QPoint at(const FitChart& chart, std::size_t curve, std::size_t point)
    {
        return chart.plane().at(curve, chart.picture().curves[curve].points[point]).toPoint();
    }

private Q_SLOTS:
    void initTestCase() { applyTheme(*qApp, Theme::light()); }

    void sizesAreOnALogarithmicAxis()
    {
        const FitPicture picture = fitPicture(madeUpFit(), false);
        const FitPlane plane(picture, {0, 0, 800, 300});
        const auto& points = picture.curves[0].points;
        const auto x = [&](std::size_t point) { return plane.at(0, points[point]).x(); };
        QVERIFY(std::abs((x(1) - x(0)) - (x(2) - x(1))) < 1e-6); // 1, 2, 4
        QVERIFY(x(0) > plane.plot.left() && x(points.size() - 1) < plane.plot.right());
        for (const FitPoint& point : points) {
            const double y = plane.at(0, point).y();
            if (point.runs())
                QVERIFY(y > plane.plot.top() && y < plane.plot.bottom());
            else
                QVERIFY2(y > plane.plot.bottom() && y < plane.ground, "below the axis of the rates");
        }
        QVERIFY(plane.rows[1] > plane.rows[0]);
        QCOMPARE(points[5].outcome, FitPoint::Outcome::plain);
        QCOMPARE(points[6].outcome, FitPoint::Outcome::planned);
        QCOMPARE(points.back().outcome, FitPoint::Outcome::outOfMemory);
        QCOMPARE(picture.curves[1].points[2].outcome, FitPoint::Outcome::failed);
    }

    void ratesAreThoseOfTheSearchedSize()
    {
        const FitResult fit = madeUpFit();
        const FitPoint batch = fitPicture(fit, false).curves[0].points[6];
        const FitPoint sequence = fitPicture(fit, true).curves[0].points[6];
        QCOMPARE(batch.size, 24);
        QCOMPARE(batch.rate, fit.series[0].rows[6].planned->samplesPerSecond);
        QCOMPARE(sequence.size, 1024);
        QCOMPARE(sequence.rate, fit.series[0].rows[6].planned->tokensPerSecond);
        QVERIFY2(batch.words.startsWith(QStringLiteral("Batch 24, sequence 1024 on RTX 4090 with a plan: ")),
                 qPrintable(batch.words));
        QVERIFY(batch.words.endsWith(QStringLiteral("; recorded")));
    }

    void otherSizesAreNamedIfThereAreSeveral()
    {
        FitResult fit = madeUpFit();
        fit.series[1].gpu = fit.series[0].gpu;
        fit.series[0].other = 512;
        fit.series[1].other = 1024;
        QCOMPARE(fitPicture(fit, false).curves[1].title, QStringLiteral("RTX 4090, sequence 1024"));
        QCOMPARE(fitPicture(fit, true).curves[0].title, QStringLiteral("RTX 4090, batch 512"));
    }

    void pointIsChosenByClickAndKeys()
    {
        FitChart chart;
        chart.resize(700, 260);
        chart.setPicture(fitPicture(madeUpFit(), false), {});
        chart.show();
        QVERIFY(QTest::qWaitForWindowExposed(&chart));
        QSignalSpy chosen(&chart, &FitChart::chosen);
        QTest::mouseClick(&chart, Qt::LeftButton, {}, at(chart, 1, 4));
        QCOMPARE(chosen.size(), 1);
        QCOMPARE(chosen.last()[0].toULongLong(), 1ULL);
        QCOMPARE(chosen.last()[1].toULongLong(), 4ULL);
        QTest::mouseClick(&chart, Qt::LeftButton, {}, QPoint(2, 2));
        QCOMPARE(chosen.size(), 1);
        QTest::keyClick(&chart, Qt::Key_Home);
        QTest::keyClick(&chart, Qt::Key_Right);
        QTest::keyClick(&chart, Qt::Key_Return);
        QCOMPARE(chosen.last()[1].toULongLong() + 10 * chosen.last()[0].toULongLong(), 11ULL);
        QTest::keyClick(&chart, Qt::Key_Up);
        QTest::keyClick(&chart, Qt::Key_End);
        QTest::keyClick(&chart, Qt::Key_Left);
        QTest::keyClick(&chart, Qt::Key_Enter);
        QCOMPARE(chosen.last()[0].toULongLong(), 0ULL);
        QCOMPARE(chosen.last()[1].toULongLong(), 10ULL);
        QVERIFY(chart.accessibleDescription().startsWith(QStringLiteral("Batch 38")));
        QTest::keyClick(&chart, Qt::Key_Down); // the nearest size of the other card
        QTest::keyClick(&chart, Qt::Key_Return);
        QCOMPARE(chosen.last()[1].toULongLong(), 8ULL);
    }

    void chartDrawsAtAnySizeAndNothing()
    {
        FitChart chart;
        chart.setPicture({}, QStringLiteral("Nothing yet"));
        QCOMPARE(chart.accessibleDescription(), QStringLiteral("Nothing yet"));
        QTest::keyClick(&chart, Qt::Key_Right);
        FitResult one = madeUpFit();
        one.series.resize(1);
        one.series[0].rows.resize(1);
        one.series[0].largest = one.series[0].fastest = 0;
        for (const FitResult& fit : {FitResult(), one, madeUpFit()})
            for (const QSize size : {QSize(1, 1), QSize(260, 120), QSize(3000, 900)}) {
                chart.resize(size);
                chart.setPicture(fitPicture(fit, false), {});
                QVERIFY(!chart.grab().isNull());
            }
    }

    void namesDoNotOverlap()
    {
        FitChart chart;
        for (const QSize size : {QSize(300, 130), QSize(560, 180), QSize(1600, 500)}) {
            chart.resize(size);
            chart.setPicture(fitPicture(madeUpFit(), false), {});
            QByteArray picture;
            QBuffer buffer(&picture);
            QSvgGenerator svg; // the names stay text there
            svg.setOutputDevice(&buffer);
            svg.setSize(size);
            chart.render(&svg);
            const QString words = QString::fromUtf8(picture);
            QVERIFY2(words.contains(QStringLiteral("largest")), qPrintable(QString::number(size.width())));
        }
    }

    void tableHasEverySize()
    {
        FitModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        QCOMPARE(model.rowCount(), 0);
        model.setResult(result());
        QCOMPARE(model.rowCount(), 21);
        const auto cell = [&](int row, int column) { return model.index(row, column).data().toString(); };
        QCOMPARE(cell(6, FitModel::cardColumn), QStringLiteral("RTX 4090"));
        QCOMPARE(cell(6, FitModel::batchColumn), QStringLiteral("24"));
        QCOMPARE(cell(6, FitModel::runsColumn), QStringLiteral("with a plan"));
        QCOMPARE(cell(6, FitModel::recomputeColumn), QStringLiteral("3.00 ms"));
        QCOMPARE(cell(5, FitModel::recomputeColumn), QStringLiteral("–"));
        QCOMPARE(cell(0, FitModel::sourceColumn), QStringLiteral("calculated"));
        QCOMPARE(cell(11, FitModel::runsColumn), QStringLiteral("no"));
        QCOMPARE(cell(11, FitModel::samplesColumn), QStringLiteral("–"));
        QVERIFY(cell(11, FitModel::peakColumn).endsWith(QStringLiteral("GiB")));
        QCOMPARE(cell(14, FitModel::sourceColumn), QStringLiteral("failed"));
        QCOMPARE(model.index(14, 0).data(Qt::ToolTipRole).toString(), QStringLiteral("the batch is odd"));
        QVERIFY(model.index(6, FitModel::runsColumn).data(OpsModel::ChangedRole).toBool());
        QVERIFY(model.hasValues(FitModel::cardColumn) && model.hasValues(FitModel::tokensColumn));
        QVERIFY(!model.hasValues(FitModel::sequenceColumn) && !model.hasValues(FitModel::accumulationColumn));
        model.setResult(nullptr);
        QCOMPARE(model.rowCount(), 0);
    }

    void tableIsSortedByNumbers()
    {
        FitModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setResult(result());
        const QPersistentModelIndex largest = model.indexOf({0, 10});
        for (int column = 0; column < FitModel::columns; ++column)
            for (const auto order : {Qt::AscendingOrder, Qt::DescendingOrder})
                model.sort(column, order);
        model.sort(FitModel::batchColumn, Qt::DescendingOrder);
        QCOMPARE(model.index(0, FitModel::batchColumn).data().toString(), QStringLiteral("39"));
        QCOMPARE(model.index(1, FitModel::batchColumn).data().toString(), QStringLiteral("38"));
        QCOMPARE(largest.row(), 1); // indexes follow what they stood for
        QVERIFY(model.rowAt(model.index(1, 0)) == (FitModel::RowIndex{0, 10}));
    }

    void panelShowsChartOrTable()
    {
        FitPanel panel;
        panel.resize(560, 240);
        panel.show();
        panel.setCards({{"rtx-4090-24gb", QStringLiteral("recorded"), true}, {"rtx-3090-24gb", {}, false}});
        panel.showResult(result(), false);
        QVERIFY(panel.chart()->isVisible() && !panel.table()->isVisible());
        for (QToolButton* button : panel.findChildren<QToolButton*>())
            if (button->text() == QStringLiteral("Table"))
                button->click();
        QVERIFY(!panel.chart()->isVisible() && panel.table()->isVisible());
        QVERIFY(panel.table()->isColumnHidden(FitModel::accumulationColumn));
        QSignalSpy chosen(&panel, &FitPanel::chosen);
        panel.table()->setFocus();
        panel.table()->setCurrentIndex(panel.table()->model()->index(3, 0));
        QTest::keyClick(panel.table(), Qt::Key_Return);
        QCOMPARE(chosen.size(), 1);
        panel.showResult(result(), false); // more sizes come
        QCOMPARE(panel.table()->currentIndex().row(), 3);
        panel.resize(1400, 600);
        QVERIFY(panel.chart()->isVisible() && panel.table()->isVisible());
    }

    void severalCardsAreChosenInOneMenu()
    {
        FitPanel panel;
        panel.show();
        panel.setCards({{"rtx-4090-24gb", {}, true}, {"rtx-3090-24gb", {}, false}, {"a100-80gb", {}, false}});
        auto* cards = panel.findChild<QToolButton*>(QStringLiteral("fitCards"));
        QCOMPARE(cards->text(), QStringLiteral("Card: RTX 4090"));
        QMenu* menu = cards->menu();
        menu->popup(panel.mapToGlobal(QPoint(0, 0)));
        QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(menu->actions()[1]).center());
        QVERIFY2(menu->isVisible(), "another card can be chosen");
        menu->setActiveAction(menu->actions()[2]);
        QTest::keyClick(menu, Qt::Key_Space);
        QVERIFY(menu->isVisible());
        QCOMPARE(cards->text(), QStringLiteral("3 cards"));
        QCOMPARE(panel.cards().size(), std::size_t{3});
        for (QAction* action : menu->actions())
            action->setChecked(false);
        menu->actions()[0]->trigger();
        menu->actions()[0]->trigger();
        menu->close();
        QVERIFY2(!panel.findChild<QPushButton*>(QStringLiteral("fitStart"))->isEnabled(), "no card is chosen");
    }

    void escapeCancelsWhileASearchRuns()
    {
        FitPanel panel;
        panel.show();
        panel.setCards({{"rtx-4090-24gb", {}, true}});
        panel.setBatch(QStringLiteral("1.."), QStringLiteral("1..64"));
        panel.setSequence({}, {});
        QSignalSpy started(&panel, &FitPanel::startWanted);
        QSignalSpy cancelled(&panel, &FitPanel::cancelWanted);
        QTest::keyClick(panel.findChild<QLineEdit*>(QStringLiteral("fitBatch")), Qt::Key_Return);
        QCOMPARE(started.size(), 1);
        QTest::keyClick(&panel, Qt::Key_Escape);
        QCOMPARE(cancelled.size(), 0);
        panel.setRunning(true);
        panel.showProgress(0.5, QStringLiteral("Half"));
        QCOMPARE(panel.words()->text(), QStringLiteral("Half"));
        QVERIFY(!panel.findChild<QLineEdit*>(QStringLiteral("fitBatch"))->isEnabled());
        QTest::keyClick(panel.chart(), Qt::Key_Escape);
        QCOMPARE(cancelled.size(), 1);
        panel.setRunning(false);
        QVERIFY(!panel.findChild<QLineEdit*>(QStringLiteral("fitSequence"))->isEnabled());
    }
};

QTEST_MAIN(FitViewTest)
#include "fit_view_test.moc"
