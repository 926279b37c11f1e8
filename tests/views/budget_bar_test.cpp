// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/made_up.h"
#include "views/plot/budget_steps.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"
#include "views/widgets/budget_bar.h"

#include <QAccessible>
#include <QApplication>
#include <QCheckBox>
#include <QLineEdit>
#include <QPushButton>
#include <QSet>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>
#include <QToolTip>

#include <algorithm>
#include <cmath>

using namespace headroom;

/// Counts how often a widget is hidden.
class Hidings : public QObject
{
public:
    int count = 0;
    bool eventFilter(QObject*, QEvent* event) override
    {
        count += event->type() == QEvent::Hide ? 1 : 0;
        return false;
    }
};

class BudgetBarTest : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<BudgetBar> bar_;
    BudgetScale* scale_ = nullptr;
    QLineEdit* line_ = nullptr;

    Bytes last(const QSignalSpy& spy) const { return spy.isEmpty() ? -1 : spy.last().first().value<Bytes>(); }
    QString figure(int index) const { return bar_->findChildren<ResultFigure*>().at(index)->number(); }
    QString rest(int index) const { return bar_->findChildren<ResultFigure*>().at(index)->rest(); }

private Q_SLOTS:
    void initTestCase()
    {
        qRegisterMetaType<Bytes>("headroom::Bytes");
        applyTheme(*qApp, Theme::light());
    }

    void init()
    {
        bar_ = std::make_unique<BudgetBar>();
        bar_->resize(1260, 100);
        bar_->setRange(27 * GiB, 70 * GiB, 10 * GiB, 74 * GiB);
        bar_->setFrontier({{27 * GiB, 230, 0}, {35 * GiB, 140, 0}, {50 * GiB, 60, 0}, {70 * GiB, 0, 0}});
        bar_->setBudget(40 * GiB);
        bar_->show();
        scale_ = bar_->findChild<BudgetScale*>();
        line_ = bar_->findChild<QLineEdit*>();
    }

    void keysMoveTheBudget_data()
    {
        QTest::addColumn<int>("key");
        QTest::addColumn<bool>("control");
        QTest::addColumn<Bytes>("expected");
        QTest::newRow("left: one step") << int(Qt::Key_Left) << false << 40 * GiB - 64 * MiB;
        QTest::newRow("right: one step") << int(Qt::Key_Right) << false << 40 * GiB + 64 * MiB;
        QTest::newRow("control left: plan before") << int(Qt::Key_Left) << true << 35 * GiB;
        QTest::newRow("control right: plan after") << int(Qt::Key_Right) << true << 50 * GiB;
        QTest::newRow("page up") << int(Qt::Key_PageUp) << false << 41 * GiB;
        QTest::newRow("page down") << int(Qt::Key_PageDown) << false << 39 * GiB;
        QTest::newRow("home: least feasible") << int(Qt::Key_Home) << false << 27 * GiB;
        QTest::newRow("end: no checkpointing") << int(Qt::Key_End) << false << 70 * GiB;
    }

    void keysMoveTheBudget()
    {
        QFETCH(int, key);
        QFETCH(bool, control);
        QFETCH(Bytes, expected);
        QSignalSpy dragged(bar_.get(), &BudgetBar::budgetDragged);
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        QTest::keyClick(scale_, Qt::Key(key), control ? Qt::ControlModifier : Qt::NoModifier);
        QCOMPARE(last(dragged), expected);
        QCOMPARE(last(committed), expected);
        QCOMPARE(bar_->budget(), expected);
    }

    void keysStopAtTheEndsOfTheAxis()
    {
        bar_->setBudget(74 * GiB);
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        QTest::keyClick(scale_, Qt::Key_Right);
        QCOMPARE(committed.count(), 0);
        QCOMPARE(bar_->budget(), 74 * GiB);
    }

    void smallModelsHaveFinerSteps()
    {
        bar_->setRange(30 * MiB, 52 * MiB, 10 * MiB, 60 * MiB);
        QCOMPARE(bar_->step(), 128 * KiB * 2);
        bar_->setBudget(40 * MiB);
        QTest::keyClick(scale_, Qt::Key_Right);
        QCOMPARE(bar_->budget(), 40 * MiB + 256 * KiB);
        QCOMPARE(line_->text(), QStringLiteral("40.25"));
    }

    void dragIsOneCommit()
    {
        QSignalSpy dragged(bar_.get(), &BudgetBar::budgetDragged);
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        const QPoint knob(static_cast<int>(std::lround(scale_->knobX())), 50);
        QTest::mousePress(scale_, Qt::LeftButton, {}, knob);
        for (int i = 1; i <= 20; ++i)
            QTest::mouseMove(scale_, knob + QPoint(5 * i, 0));
        QCOMPARE(committed.count(), 0);
        QVERIFY(dragged.count() > 10);
        QTest::mouseRelease(scale_, Qt::LeftButton, {}, knob + QPoint(100, 0));
        QCOMPARE(committed.count(), 1);
        const double perPixel = static_cast<double>(64 * GiB) / (scale_->width() - 28);
        const double expected = static_cast<double>(40 * GiB) + 100 * perPixel;
        QVERIFY(std::abs(static_cast<double>(bar_->budget()) - expected) < 5 * perPixel);
        QCOMPARE(last(committed), bar_->budget());
    }

    void dragSnapsToTheRecordedPeak()
    {
        scale_->beginDrag();
        const double perPixel = static_cast<double>(64 * GiB) / 600;
        scale_->dragTo(70 * GiB - static_cast<Bytes>(2 * perPixel), perPixel, false);
        QCOMPARE(bar_->budget(), 70 * GiB);
        scale_->dragTo(70 * GiB - static_cast<Bytes>(2 * perPixel), perPixel, true);
        QVERIFY(bar_->budget() < 70 * GiB);
        scale_->endDrag();
    }

    void escapeRestores()
    {
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        scale_->beginDrag();
        scale_->dragTo(60 * GiB, 1, true);
        bar_->setBudget(59 * GiB); // an echo from outside does not fight the pointer
        QCOMPARE(bar_->budget(), 60 * GiB);
        QTest::keyClick(scale_, Qt::Key_Escape);
        QCOMPARE(bar_->budget(), 40 * GiB);
        QCOMPARE(committed.count(), 0);
    }

    void typedSizesAreTaken_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<Bytes>("expected");
        QTest::newRow("with unit") << QStringLiteral("12.5 GiB") << 12 * GiB + 512 * MiB;
        QTest::newRow("other unit") << QStringLiteral("40960MiB") << 40 * GiB;
        QTest::newRow("number alone") << QStringLiteral("33") << 33 * GiB;
        QTest::newRow("beyond the axis") << QStringLiteral("100 GiB") << 100 * GiB;
    }

    void typedSizesAreTaken()
    {
        QFETCH(QString, text);
        QFETCH(Bytes, expected);
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        line_->selectAll();
        QTest::keyClicks(line_, text);
        QTest::keyClick(line_, Qt::Key_Return);
        QCOMPARE(committed.count(), 1);
        QCOMPARE(last(committed), expected);
        QCOMPARE(bar_->budget(), expected);
    }

    void nonsenseIsNotTaken_data()
    {
        QTest::addColumn<QString>("text");
        QTest::newRow("word") << QStringLiteral("plenty");
        QTest::newRow("ambiguous unit") << QStringLiteral("12 GB");
        QTest::newRow("negative") << QStringLiteral("-3 GiB");
    }

    void nonsenseIsNotTaken()
    {
        QFETCH(QString, text);
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        auto* edit = bar_->findChild<BudgetEdit*>();
        line_->selectAll();
        QTest::keyClicks(line_, text);
        QTest::keyClick(line_, Qt::Key_Return);
        QCOMPARE(committed.count(), 0);
        QCOMPARE(bar_->budget(), 40 * GiB);
        QVERIFY(!edit->problem().isEmpty());
        QCOMPARE(line_->toolTip(), edit->problem());
        QCOMPARE(QToolTip::text(), WrappedToolTips::wrapped(edit->problem())); // without the mouse
        QTest::keyClick(line_, Qt::Key_Escape);
        QVERIFY(edit->problem().isEmpty());
        QCOMPARE(line_->text(), QStringLiteral("40.00"));
    }

    void textIsTakenOnlyIfTyped()
    {
        QSignalSpy committed(bar_.get(), &BudgetBar::budgetCommitted);
        bar_->setBudget(40 * GiB + 1); // shown as 40.00
        line_->setFocus();
        QTest::keyClick(line_, Qt::Key_Return);
        QCOMPARE(committed.count(), 0);
        QKeyEvent undo(QEvent::ShortcutOverride, Qt::Key_Z, Qt::ControlModifier);
        QCoreApplication::sendEvent(line_, &undo);
        QVERIFY(!undo.isAccepted()); // of the window
        line_->selectAll();
        QTest::keyClicks(line_, QStringLiteral("7.12"));
        bar_->setRange(26 * GiB, 70 * GiB, 9 * GiB, 74 * GiB); // the curve grows
        QCOMPARE(line_->text(), QStringLiteral("7.12"));
        QTest::keyClick(line_, Qt::Key_Return);
        QCOMPARE(committed.count(), 1);
    }

    void aWrongTextGoesWithTheBudget()
    {
        line_->selectAll();
        QTest::keyClicks(line_, QStringLiteral("abc"));
        QTest::keyClick(line_, Qt::Key_Return);
        QVERIFY(!bar_->findChild<BudgetEdit*>()->problem().isEmpty());
        QCOMPARE(line_->accessibleDescription(), line_->toolTip());
        bar_->setBudget(30 * GiB);
        QCOMPARE(line_->text(), QStringLiteral("30.00"));
    }

    void stepsFromBeyondTheAxisLeadBack()
    {
        bar_->setBudget(1 * GiB);
        QTest::keyClick(scale_, Qt::Key_Left);
        QCOMPARE(bar_->budget(), 1 * GiB);
        QTest::keyClick(scale_, Qt::Key_Right);
        QVERIFY(bar_->budget() > 1 * GiB && bar_->budget() < 2 * GiB);
    }

    void upAndDownStepFromTheNumber()
    {
        QTest::keyClick(line_, Qt::Key_Up);
        QCOMPARE(bar_->budget(), 40 * GiB + 64 * MiB);
        QTest::keyClick(line_, Qt::Key_PageDown);
        QCOMPARE(bar_->budget(), 39 * GiB + 64 * MiB);
    }

    void showsThePlan()
    {
        PlanAnswer answer;
        Plan& plan = answer.plan;
        plan.status = PlanStatus::optimal;
        plan.peak = 44 * GiB + 543 * MiB;
        plan.recomputeMs = 100.04;
        plan.stepMs = 714.6;
        plan.decisions = {{"a", 0.5}, {"b", 0}, {"c", 1}};
        bar_->setResult(&answer, false);
        QCOMPARE(figure(0), QStringLiteral("44.53"));
        QCOMPARE(rest(0), QStringLiteral("GiB"));
        QCOMPARE(figure(1), QStringLiteral("+100.0"));
        QCOMPARE(rest(1), QStringLiteral("ms (14.0 %)"));
        QCOMPARE(figure(2), QStringLiteral("2"));
        bar_->setResult(nullptr, true); // another is being solved: the numbers stay
        QCOMPARE(figure(0), QStringLiteral("44.53"));
        bar_->setResult(nullptr, false);
        QCOMPARE(figure(0), QStringLiteral("–"));
    }

    void offersTheLeastBudgetWhenNothingFits()
    {
        PlanAnswer answer;
        Plan& plan = answer.plan;
        plan.status = PlanStatus::infeasible;
        plan.leastBudget = 27 * GiB + 102 * MiB;
        bar_->setBudget(20 * GiB);
        bar_->setResult(&answer, false);
        auto* button = bar_->findChild<QPushButton*>();
        QVERIFY(button->isVisible());
        QVERIFY(button->text().contains(QStringLiteral("27.10 GiB")));
        Hidings hidings;
        button->installEventFilter(&hidings);
        bar_->setResult(&answer, false);
        QCOMPARE(hidings.count,
                 0); // the next answer of a drag that fits nothing, either: the row is not laid out again
        QSignalSpy wanted(bar_.get(), &BudgetBar::leastBudgetWanted);
        QTest::mouseClick(button, Qt::LeftButton);
        QCOMPARE(wanted.count(), 1);
        plan.status = PlanStatus::optimal;
        bar_->setResult(&answer, false);
        QVERIFY(!button->isVisible());
    }

    void clickOnALabelSetsItsStop()
    {
        // "A100 80GB" stands beside its stop: a click there is not one on the scale below the word.
        bar_->setRange(27 * GiB, 70 * GiB, 10 * GiB, 90 * GiB);
        const std::vector<CardStop> cards{{"RTX 4090", 20 * GiB}, {"A100 80GB", 50 * GiB}};
        bar_->setCards(cards);
        const double perByte = (scale_->width() - 28) / (80.0 * GiB);
        QSet<Bytes> reached;
        for (int x = 16; x < scale_->width() - 16; x += 4) {
            bar_->setBudget(2 * x < scale_->width() ? 89 * GiB : 11 * GiB);
            QTest::mouseClick(scale_, Qt::LeftButton, {}, {x, 9});
            const Bytes budget = bar_->budget();
            const bool isStop = budget == 70 * GiB || std::ranges::count(cards, budget, &CardStop::bytes) > 0;
            const double away = 14 + (static_cast<double>(budget) - 10.0 * GiB) * perByte - x;
            QVERIFY2(isStop || std::abs(away) < 5, qPrintable(QString::number(away)));
            if (isStop && std::abs(away) > 20)
                reached << budget;
        }
        QVERIFY(reached.size() >= 2);
        QVERIFY(reached.contains(70 * GiB));
    }

    void stepWithoutAPlanHasNoFigures()
    {
        PlanAnswer answer;
        Plan& plan = answer.plan;
        plan.status = PlanStatus::optimal;
        bar_->setPossible(QStringLiteral("A memory snapshot has no plan."));
        bar_->setResult(nullptr, false);
        QCOMPARE(figure(0), QStringLiteral("None possible"));
        const auto* byOp = bar_->findChild<QToolButton*>(QStringLiteral("planOps"));
        const QString tip = byOp->toolTip();
        QVERIFY(!byOp->isEnabled());
        QCOMPARE(tip, QStringLiteral("A memory snapshot has no plan."));
        for (int i = 1; i < 5; ++i)
            QVERIFY(!bar_->findChildren<ResultFigure*>().at(i)->isVisible());
        bar_->setPossible({});
        QVERIFY(byOp->isEnabled() && byOp->toolTip() != tip);
        bar_->setResult(&answer, false);
        QVERIFY(figure(0) != QStringLiteral("None possible"));
    }

    void offloadIsABoxWithALimit()
    {
        OffloadRow* row = bar_->offload();
        QSignalSpy wanted(row, &OffloadRow::wanted);
        QVERIFY(!row->field()->isVisible());
        QTest::keyClick(row->box(), Qt::Key_Space);
        QCOMPARE(wanted.count(), 1);
        QCOMPARE(wanted.last().at(0).toBool(), true);
        row->setChoice(true, 0);
        QVERIFY(row->field()->isVisible());
        QTest::keyClicks(row->field(), QStringLiteral("64 GiB"));
        QTest::keyClick(row->field(), Qt::Key_Return);
        QCOMPARE(wanted.last().at(1).value<Bytes>(), 64 * GiB);
        row->field()->selectAll();
        QTest::keyClicks(row->field(), QStringLiteral("much"));
        QTest::keyClick(row->field(), Qt::Key_Return);
        QCOMPARE(wanted.count(), 2);
        QVERIFY(row->field()->property("wrong").toBool());
        QVERIFY(row->field()->toolTip().contains(QStringLiteral("much")));
        row->setPossible(QStringLiteral("This step has no shapes."));
        QVERIFY(!row->isEnabled());
        QCOMPARE(row->box()->toolTip(), QStringLiteral("This step has no shapes."));
    }

    void copiesThatTheGpuWaitsForAreAddedTime()
    {
        PlanAnswer answer;
        Plan& plan = answer.plan;
        plan.status = PlanStatus::feasible;
        plan.peak = 40 * GiB;
        plan.recomputeMs = 1.5;
        plan.stepMs = 100;
        plan.offload.exposedMs = 0.5;
        plan.offload.moved = 3 * GiB;
        bar_->setOffloading(true);
        bar_->setResult(&answer, false);
        QCOMPARE(figure(1), QStringLiteral("+2.00"));
        QCOMPARE(figure(5), QStringLiteral("3.00"));
        QCOMPARE(rest(5), QStringLiteral("GiB"));
        QVERIFY(bar_->findChildren<ResultFigure*>().at(5)->isVisible());
        bar_->setOffloading(false);
        QVERIFY(!bar_->findChildren<ResultFigure*>().at(5)->isVisible());
    }

    void isAccessible()
    {
        auto* interface = QAccessible::queryAccessibleInterface(scale_);
        QVERIFY(interface);
        QCOMPARE(interface->role(), QAccessible::Slider);
        QCOMPARE(interface->text(QAccessible::Name), QStringLiteral("Budget"));
        QCOMPARE(interface->text(QAccessible::Value), QStringLiteral("40.00 GiB"));
        auto* value = interface->valueInterface();
        QVERIFY(value);
        QCOMPARE(value->currentValue().toDouble(), 40.0); // what a screen reader speaks is in GiB
        QCOMPARE(value->maximumValue().toDouble(), 74.0);
        QCOMPARE(value->minimumStepSize().toDouble(), 1.0 / 16);
        value->setCurrentValue(50.0);
        QCOMPARE(bar_->budget(), 50 * GiB);
    }

    void fitsTheNarrowestWindow()
    {
        QVERIFY(bar_->minimumSizeHint().width() <= 1100);
        QVERIFY(bar_->minimumSizeHint().height() <= 110);
    }
};

QTEST_MAIN(BudgetBarTest)
#include "budget_bar_test.moc"
