// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The timeline as a user meets it: a real widget, real events.

#include "core/predict/predict.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/made_up.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_paint.h"
#include "views/plot/timeline_view.h"
#include "views/theme/theme.h"

#include <QAbstractItemModelTester>
#include <QAccessible>
#include <QApplication>
#include <QChart>
#include <QGraphicsLineItem>
#include <QPainter>
#include <QSignalSpy>
#include <QTest>
#include <QToolButton>
#include <QWheelEvent>

using namespace headroom;

class TimelineViewTest : public QObject
{
    Q_OBJECT

private:
    TimelinePtr recorded_;
    TimelinePtr planned_;
    std::unique_ptr<TimelineView> view_;
    TimelineCanvas* canvas_ = nullptr;
    double allMs_ = 0; ///< end of the time axis when everything is shown

    QPoint at(double ms) const
    {
        const auto& geometry = canvas_->geometryOfPlot();
        return {static_cast<int>(std::lround(geometry.ms.toPixel(ms))), static_cast<int>(geometry.plot.center().y())};
    }
    void waitUntilPainted() const { QTRY_VERIFY(view_->upToDate()); }

    void wheel(double ms, int notches, Qt::KeyboardModifiers modifiers)
    {
        auto* viewport = canvas_->viewport();
        QWheelEvent event(at(ms), viewport->mapToGlobal(at(ms)), {}, {0, 120 * notches}, Qt::NoButton, modifiers,
                          Qt::NoScrollPhase, false);
        QApplication::sendEvent(viewport, &event);
    }
    void hover(QPoint position)
    {
        QMouseEvent event(QEvent::MouseMove, position, canvas_->viewport()->mapToGlobal(position), Qt::NoButton,
                          Qt::NoButton, Qt::NoModifier);
        QApplication::sendEvent(canvas_->viewport(), &event);
    }
    void drag(double fromMs, double toMs, Qt::MouseButton button)
    {
        auto* viewport = canvas_->viewport();
        QTest::mousePress(viewport, button, {}, at(fromMs));
        const auto to = at(toMs);
        for (const auto& position : {(at(fromMs) + to) / 2, to}) {
            QMouseEvent move(QEvent::MouseMove, position, viewport->mapToGlobal(position), Qt::NoButton, button,
                             Qt::NoModifier);
            QApplication::sendEvent(viewport, &move);
        }
        QTest::mouseRelease(viewport, button, {}, to);
    }

private Q_SLOTS:
    void initTestCase()
    {
        qRegisterMetaType<Bytes>("headroom::Bytes");
        applyTheme(*qApp, Theme::light());
        const MadeUpStep step;
        recorded_ = madeUpTimeline(step, 0);
        planned_ = madeUpTimeline(step, 0.5);
    }

    void init()
    {
        view_ = std::make_unique<TimelineView>();
        view_->resize(1000, 520);
        view_->setStep(nullptr, recorded_);
        view_->setBudgetRange(20 * GiB, 75 * GiB);
        view_->setBudget(48 * GiB, true);
        view_->show();
        canvas_ = view_->findChild<TimelineCanvas*>();
        allMs_ = view_->visibleEndMs();
        waitUntilPainted();
    }

    void showsTheWholeStepAtFirst()
    {
        QCOMPARE(view_->visibleBeginMs(), 0.0);
        QVERIFY(view_->visibleEndMs() > recorded_->durationMs);
        QVERIFY(!view_->zoomedIn());
    }

    void paintsTheActivationsColour()
    {
        const auto image = view_->grab().toImage();
        const auto& geometry = canvas_->geometryOfPlot();
        const auto& atPeak = recorded_->atPeak;
        const double activation = static_cast<double>(atPeak[static_cast<std::size_t>(Category::activation)]);
        const double below
            = static_cast<double>(recorded_->peak - atPeak[static_cast<std::size_t>(Category::temporary)])
            - activation / 2;
        const double ms = recorded_->changes[recorded_->peakChange].ms;
        const auto position = canvas_->viewport()->mapTo(
            view_.get(),
            QPoint(static_cast<int>(geometry.ms.toPixel(ms)), static_cast<int>(geometry.bytes.toPixel(below))));
        QCOMPARE(image.pixelColor(position), Theme::light().color(Category::activation));
    }

    void axesAndBandsShareOnePlot_data()
    {
        QTest::addColumn<QSize>("size");
        QTest::newRow("as shown") << QSize(1000, 520);
        QTest::newRow("taller, same range") << QSize(1000, 1200);
        QTest::newRow("wider, same range") << QSize(1900, 900);
        QTest::newRow("smaller") << QSize(500, 300);
    }

    void axesAndBandsShareOnePlot()
    {
        QFETCH(QSize, size);
        view_->resize(1000, 900);
        waitUntilPainted();
        view_->resize(size);
        waitUntilPainted();
        QCoreApplication::processEvents();
        QCOMPARE(canvas_->chart()->plotArea(), canvas_->geometryOfPlot().plot);
        // Grid lines are where the bands have these values, all of them.
        const auto& bytes = canvas_->geometryOfPlot().bytes;
        QList<double> expected;
        const auto* axis = qobject_cast<QValueAxis*>(canvas_->chart()->axes(Qt::Vertical).first());
        for (double tick = 0; tick <= axis->max(); tick += axis->tickInterval())
            expected << bytes.toPixel(tick * static_cast<double>(GiB));
        QVERIFY(expected.size() >= 2);
        int lines = 0;
        for (const auto* item : canvas_->scene()->items()) {
            const auto* line = qgraphicsitem_cast<const QGraphicsLineItem*>(item);
            if (!line || !line->isVisible() || line->line().dx() < 100)
                continue;
            ++lines;
            const double y = line->line().y1();
            QVERIFY2(std::any_of(expected.begin(), expected.end(), [y](double e) { return std::abs(e - y) < 1.01; }),
                     qPrintable(QString::number(y)));
        }
        QCOMPARE(lines, expected.size());
    }

    void hoverNamesTheHighestInstantOfTheColumn()
    {
        QSignalSpy hovered(view_.get(), &TimelineView::instantHovered);
        hover(at(recorded_->changes[recorded_->peakChange].ms));
        QCOMPARE(hovered.count(), 1);
        QCOMPARE(hovered.first().at(0).value<std::size_t>(), recorded_->peakChange + 1);
        QCOMPARE(hovered.first().at(1).toBool(), false);
        QVERIFY(!canvas_->cursorLayer().cardRect().isEmpty());
        QSignalSpy left(view_.get(), &TimelineView::hoverLeft);
        hover({2, 2});
        QCOMPARE(left.count(), 1);
        QVERIFY(canvas_->cursorLayer().cardRect().isEmpty());
    }

    void cardCoversNoLabelAndStaysOnThePlot()
    {
        view_->setPlanned(planned_);
        waitUntilPainted();
        const auto labels = canvas_->marks().labels();
        QVERIFY(labels.size() >= 2);
        for (double ms = 5; ms < planned_->durationMs; ms += 20) {
            hover(at(ms));
            const auto card = canvas_->cursorLayer().cardRect();
            QVERIFY(!card.isEmpty());
            QVERIFY(canvas_->geometryOfPlot().plot.contains(card));
            for (const auto& label : labels)
                QVERIFY2(!card.intersects(label), qPrintable(QString::number(ms)));
        }
    }

    void clickPinsAndArrowsMoveThePin()
    {
        QSignalSpy pinned(view_.get(), &TimelineView::instantPinned);
        QSignalSpy unpinned(view_.get(), &TimelineView::unpinned);
        QTest::mouseClick(canvas_->viewport(), Qt::LeftButton, {}, at(100));
        QCOMPARE(pinned.count(), 1);
        const auto first = pinned.first().at(0).value<std::size_t>();
        QTest::keyClick(canvas_, Qt::Key_Right);
        QCOMPARE(pinned.count(), 2);
        QVERIFY(pinned.last().at(0).value<std::size_t>() > first);
        QTest::keyClick(canvas_, Qt::Key_Left);
        QCOMPARE(pinned.last().at(0).value<std::size_t>(), first);
        QTest::keyClick(canvas_, Qt::Key_Escape);
        QCOMPARE(unpinned.count(), 1);
    }

    void spacePinsThePeak()
    {
        QSignalSpy pinned(view_.get(), &TimelineView::instantPinned);
        QTest::keyClick(canvas_, Qt::Key_Space);
        QCOMPARE(pinned.count(), 1);
        QCOMPARE(pinned.first().at(0).value<std::size_t>(), recorded_->peakChange + 1);
    }

    void pinFollowsItsInstantIntoAnotherPlan()
    {
        QTest::mouseClick(canvas_->viewport(), Qt::LeftButton, {}, at(100));
        QSignalSpy clicked(view_.get(), &TimelineView::instantPinned);
        QSignalSpy pinned(view_.get(), &TimelineView::pinMoved);
        QSignalSpy unpinned(view_.get(), &TimelineView::unpinned);
        view_->setPlanned(planned_);
        QCOMPARE(clicked.count(), 0); // of the user alone
        QCOMPARE(pinned.count() + unpinned.count(), 1);
        if (pinned.count() == 1) {
            QCOMPARE(pinned.first().at(1).toBool(), true);
            QVERIFY(pinned.first().at(0).value<std::size_t>() <= planned_->changes.size());
        }
    }

    void dragSelectsAndEnterZoomsThere()
    {
        QSignalSpy selected(view_.get(), &TimelineView::rangeSelected);
        QSignalSpy shown(view_.get(), &TimelineView::rangeShown);
        drag(200, 400, Qt::LeftButton);
        QCOMPARE(selected.count(), 1);
        QVERIFY(std::abs(selected.first().at(0).toDouble() - 200) < 1);
        QVERIFY(std::abs(selected.first().at(1).toDouble() - 400) < 1);
        QVERIFY(view_->hasSelection());
        QTest::keyClick(canvas_, Qt::Key_Return);
        QCOMPARE(shown.count(), 1);
        QVERIFY2(view_->hasSelection(), "what is selected stays so");
        QTest::keyClick(canvas_, Qt::Key_Return);
        QCOMPARE(shown.count(), 1);
        QCOMPARE(view_->visibleBeginMs(), selected.first().at(0).toDouble());
        QCOMPARE(view_->visibleEndMs(), selected.first().at(1).toDouble());
        QTest::keyClick(canvas_, Qt::Key_Backspace);
        QVERIFY(!view_->zoomedIn());
    }

    void aRangeReplacesThePinAndAPinTheRange()
    {
        QSignalSpy cleared(view_.get(), &TimelineView::selectionCleared);
        QSignalSpy unpinned(view_.get(), &TimelineView::unpinned);
        QTest::mouseClick(canvas_->viewport(), Qt::LeftButton, {}, at(100));
        drag(200, 400, Qt::LeftButton);
        QCOMPARE(unpinned.count(), 1);
        QTest::keyClick(canvas_, Qt::Key_Space);
        QCOMPARE(cleared.count(), 1);
        QVERIFY(!view_->hasSelection());
        drag(400, 200, Qt::LeftButton);
        QTest::keyClick(canvas_, Qt::Key_Escape);
        QCOMPARE(cleared.count(), 2);
    }

    void keysSelectARangeFromThePinnedInstant()
    {
        QSignalSpy selected(view_.get(), &TimelineView::rangeSelected);
        QSignalSpy cleared(view_.get(), &TimelineView::selectionCleared);
        QTest::mouseClick(canvas_->viewport(), Qt::LeftButton, {}, at(100));
        const auto begin = [&] { return selected.last().at(0).toDouble(); };
        const auto end = [&] { return selected.last().at(1).toDouble(); };
        QTest::keyClick(canvas_, Qt::Key_Right, Qt::ShiftModifier);
        QCOMPARE(selected.count(), 1);
        QVERIFY(std::abs(begin() - 100) < 2);
        const double anchor = begin(), step = end() - begin();
        QTest::keyClick(canvas_, Qt::Key_Right, Qt::ShiftModifier | Qt::ControlModifier);
        QCOMPARE(begin(), anchor);
        QVERIFY(std::abs(end() - begin() - 6 * step) < 1e-6);
        for (int i = 0; i < 2; ++i)
            QTest::keyClick(canvas_, Qt::Key_Left, Qt::ShiftModifier | Qt::ControlModifier);
        QCOMPARE(end(), anchor); // now before the instant
        QTest::keyClick(canvas_, Qt::Key_Right, Qt::ShiftModifier | Qt::ControlModifier);
        QTest::keyClick(canvas_, Qt::Key_Left, Qt::ShiftModifier);
        QCOMPARE(selected.last().at(0).toDouble(), anchor);
        QTest::keyClick(canvas_, Qt::Key_Escape);
        QCOMPARE(cleared.count(), 1);
        // Without a pinned instant a range begins in the middle; the view follows an end outside.
        view_->showRange(200, 300);
        waitUntilPainted();
        for (int i = 0; i < 6; ++i)
            QTest::keyClick(canvas_, Qt::Key_Right, Qt::ShiftModifier | Qt::ControlModifier);
        QCOMPARE(begin(), 250.0);
        QVERIFY(std::abs(end() - 310) < 1e-6);
        QVERIFY(std::abs(view_->visibleEndMs() - 310) < 1e-6);
    }

    void aRangeEndsWithTheStep()
    {
        QSignalSpy selected(view_.get(), &TimelineView::rangeSelected);
        view_->selectVisible();
        QCOMPARE(selected.last().at(0).toDouble(), 0.0);
        QCOMPARE(selected.last().at(1).toDouble(), recorded_->durationMs);
        view_->selectRange(recorded_->durationMs + 1, recorded_->durationMs + 2);
        QCOMPARE(selected.count(), 1);
        QVERIFY(!view_->hasSelection());
    }

    void wheelZoomsAtThePointerAndOneTurnIsOneStepBack()
    {
        const double under = canvas_->geometryOfPlot().ms.toData(at(300).x());
        for (int i = 0; i < 4; ++i)
            wheel(under, 1, Qt::ControlModifier);
        QVERIFY(view_->zoomedIn());
        const auto& map = canvas_->geometryOfPlot().ms;
        QVERIFY(std::abs(map.data.length() - allMs_ / std::pow(1.2, 4)) < 1e-6);
        QVERIFY(std::abs(map.toPixel(under) - at(under).x()) <= 1);
        view_->zoomBack();
        QVERIFY(!view_->zoomedIn());
    }

    void wheelAloneIsLeftToThePageAround()
    {
        wheel(300, 1, Qt::NoModifier);
        QVERIFY(!view_->zoomedIn());
    }

    void middleDragPansAndStaysInsideTheStep()
    {
        view_->showRange(200, 300);
        waitUntilPainted();
        drag(250, 220, Qt::MiddleButton);
        QVERIFY(std::abs(view_->visibleBeginMs() - 230) < 0.5);
        QVERIFY(std::abs(view_->visibleEndMs() - 330) < 0.5);
        view_->zoomBack();
        QCOMPARE(view_->visibleBeginMs(), 200.0);
        wheel(250, 1000, Qt::ShiftModifier);
        QCOMPARE(view_->visibleBeginMs(), 0.0);
    }

    void keysZoomAndControlZeroShowsAll()
    {
        QTest::keyClick(canvas_, Qt::Key_Plus);
        QTest::keyClick(canvas_, Qt::Key_Plus);
        const double length = view_->visibleEndMs() - view_->visibleBeginMs();
        QVERIFY(std::abs(length - allMs_ / 2.25) < 1e-6);
        const double begin = view_->visibleBeginMs();
        QTest::keyClick(canvas_, Qt::Key_Right);
        QVERIFY(std::abs(view_->visibleBeginMs() - begin - length / 10) < 1e-6);
        QTest::keyClick(canvas_, Qt::Key_Minus);
        QTest::keyClick(canvas_, Qt::Key_0, Qt::ControlModifier);
        QVERIFY(!view_->zoomedIn());
    }

    void zoomStaysWhenThePlanChanges()
    {
        view_->showRange(100, 300);
        view_->setPlanned(planned_);
        QCOMPARE(view_->visibleBeginMs(), 100.0);
        QCOMPARE(view_->visibleEndMs(), 300.0);
        view_->showAll();
        QVERIFY(view_->visibleEndMs() > planned_->durationMs);
    }

    void handleDragsTheBudget()
    {
        auto& handle = canvas_->handle();
        QSignalSpy dragged(view_.get(), &TimelineView::budgetDragged);
        QSignalSpy committed(view_.get(), &TimelineView::budgetCommitted);
        const auto& bytes = canvas_->geometryOfPlot().bytes;
        const QPoint grip(20, handle.height() / 2);
        const int down = 60;
        QTest::mousePress(&handle, Qt::LeftButton, {}, grip);
        // The handle follows the pointer: positions are given in its parent and mapped at each move.
        const auto start = handle.mapToParent(grip);
        for (const int moved : {down / 2, down}) {
            const QPointF inHandle = handle.mapFromParent(start + QPoint(0, moved));
            QMouseEvent move(QEvent::MouseMove, inHandle, handle.mapToGlobal(inHandle), Qt::NoButton, Qt::LeftButton,
                             Qt::ShiftModifier);
            QApplication::sendEvent(&handle, &move);
        }
        QCOMPARE(committed.count(), 0);
        QVERIFY(dragged.count() >= 2);
        const double expected = static_cast<double>(48 * GiB) - down * bytes.dataPerPixel();
        const double last = static_cast<double>(dragged.last().first().value<Bytes>());
        QVERIFY(std::abs(last - expected) <= bytes.dataPerPixel());
        QTest::mouseRelease(&handle, Qt::LeftButton, {}, handle.mapFromParent(start + QPoint(0, down)));
        QCOMPARE(committed.count(), 1);
        QCOMPARE(committed.first().first().value<Bytes>(), static_cast<Bytes>(last));
    }

    void escapeRestoresTheBudgetOfADrag()
    {
        auto& handle = canvas_->handle();
        QSignalSpy dragged(view_.get(), &TimelineView::budgetDragged);
        QSignalSpy committed(view_.get(), &TimelineView::budgetCommitted);
        handle.beginDrag();
        handle.dragTo(30 * GiB, 1, true);
        QCOMPARE(dragged.last().first().value<Bytes>(), 30 * GiB);
        view_->setBudget(31 * GiB, true); // the session's echo must not fight the pointer
        QCOMPARE(handle.value(), 30 * GiB);
        QTest::keyClick(&handle, Qt::Key_Escape);
        QCOMPARE(dragged.last().first().value<Bytes>(), 48 * GiB);
        QCOMPARE(handle.value(), 48 * GiB);
        QVERIFY(!handle.dragging());
        QTest::mouseRelease(&handle, Qt::LeftButton);
        QCOMPARE(committed.count(), 0);
    }

    void lineItselfCanBeDragged()
    {
        QSignalSpy committed(view_.get(), &TimelineView::budgetCommitted);
        const auto& geometry = canvas_->geometryOfPlot();
        auto* viewport = canvas_->viewport();
        const int y = static_cast<int>(std::lround(geometry.bytes.toPixel(static_cast<double>(48 * GiB))));
        const QPoint on(static_cast<int>(geometry.plot.right()) - 30, y);
        QTest::mousePress(viewport, Qt::LeftButton, {}, on);
        QMouseEvent move(QEvent::MouseMove, on + QPoint(0, 40), viewport->mapToGlobal(on + QPoint(0, 40)), Qt::NoButton,
                         Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(viewport, &move);
        QTest::mouseRelease(viewport, Qt::LeftButton, {}, on + QPoint(0, 40));
        QCOMPARE(committed.count(), 1);
        QVERIFY(committed.first().first().value<Bytes>() < 44 * GiB);
        QVERIFY(!view_->hasSelection());
    }

    void budgetAboveTheAxisKeepsItsHandleInView()
    {
        view_->setBudget(500 * GiB, true);
        QVERIFY(canvas_->rect().contains(canvas_->handle().geometry()));
        QCOMPARE(canvas_->handle().value(), 500 * GiB);
    }

    /// Names of phases reach over the margin in which the tag is.
    void tagOfTheBudgetLeavesTheNamesOfPhasesFree()
    {
        const QRectF& plot = canvas_->geometryOfPlot().plot;
        const double top = canvas_->geometryOfPlot().bytes.data.end;
        for (const double budget : {0.0, 0.01 * top, 0.5 * top, 0.99 * top, top, 2 * top}) {
            view_->setBudget(static_cast<Bytes>(budget), true);
            const QRectF tag = canvas_->handle().geometry();
            QVERIFY2(tag.top() >= plot.top() && tag.bottom() <= plot.bottom(), qPrintable(QString::number(budget)));
        }
    }

    void overviewPansAndZooms()
    {
        auto* strip = view_->findChild<OverviewStrip*>();
        view_->showRange(200, 300);
        QTest::keyClick(strip, Qt::Key_Right);
        QVERIFY(std::abs(view_->visibleBeginMs() - 210) < 1e-6);
        QTest::keyClick(strip, Qt::Key_Plus);
        QVERIFY(std::abs(view_->visibleEndMs() - view_->visibleBeginMs() - 80) < 1e-6);
        // A click beside the window goes there.
        const double all = allMs_;
        const auto& plot = canvas_->geometryOfPlot().plot;
        const int x = static_cast<int>(plot.left() + canvas_->x() - strip->x() + plot.width() * 0.75);
        QTest::mouseClick(strip, Qt::LeftButton, {}, {x, strip->height() / 2});
        QVERIFY(std::abs((view_->visibleBeginMs() + view_->visibleEndMs()) / 2 - all * 0.75) < 2);
    }

    void tableHoldsThePeak()
    {
        QAbstractItemModelTester tester(view_->table());
        const auto* table = view_->table();
        QVERIFY(table->rowCount() > 200);
        QCOMPARE(table->headerData(4, Qt::Horizontal).toString(), QStringLiteral("Total, bytes"));
        const auto peak = QString::fromStdString(groupedDigits(recorded_->peak));
        QCOMPARE(table->match(table->index(0, 4), Qt::DisplayRole, peak, 1, Qt::MatchExactly).size(), 1);
    }

    void namesOpAndModuleOfARealStep()
    {
        const auto trace = makeSyntheticStep();
        auto timeline = predict(*trace, {});
        QVERIFY(timeline.ok());
        view_->setStep(trace, std::make_shared<const Timeline>(*std::move(timeline)));
        waitUntilPainted();
        const auto* table = view_->table();
        bool named = false;
        for (int row = 0; row < table->rowCount() && !named; ++row)
            named = table->index(row, 2).data().toString().contains(QStringLiteral("feed_forward"))
                && table->index(row, 3).data().toString().startsWith(QStringLiteral("aten."));
        QVERIFY(named);
    }

    void stacksByModule()
    {
        QVERIFY(!view_->findChildren<QToolButton*>().first()->isVisible()); // this step has no trace
        const auto trace = makeSyntheticStep();
        auto timeline = predict(*trace, {});
        view_->setStep(trace, std::make_shared<const Timeline>(*std::move(timeline)));
        waitUntilPainted();
        QSignalSpy changed(view_.get(), &TimelineView::groupingChanged);
        QToolButton* byModule = nullptr;
        for (auto* button : view_->findChildren<QToolButton*>()) {
            if (button->text() == QStringLiteral("by module"))
                byModule = button;
        }
        QVERIFY(byModule && byModule->isVisible());
        QTest::mouseClick(byModule, Qt::LeftButton);
        QCOMPARE(changed.count(), 1);
        QCOMPARE(view_->grouping(), TimelineView::Grouping::module);
        waitUntilPainted();
        const auto* table = view_->table();
        QStringList titles;
        for (int column = 5; column < table->columnCount(); ++column)
            titles << table->headerData(column, Qt::Horizontal).toString();
        QVERIFY(titles.contains(QStringLiteral("layers.0, bytes")));
        view_->setGrouping(TimelineView::Grouping::category);
        QVERIFY(!byModule->isChecked());
        waitUntilPainted();
        QCOMPARE(table->headerData(5, Qt::Horizontal).toString(), QStringLiteral("Parameters, bytes"));
    }

    void forgetsTheStepBefore()
    {
        view_->setPlanned(planned_);
        view_->showRange(100, 200);
        QTest::mouseClick(canvas_->viewport(), Qt::LeftButton, {}, at(150));
        MadeUpStep small;
        small.blocks = 4;
        const auto other = madeUpTimeline(small, 0);
        view_->setStep(nullptr, other);
        waitUntilPainted();
        QVERIFY(!view_->zoomedIn());
        QVERIFY(view_->visibleEndMs() > other->durationMs);
        QVERIFY(view_->visibleEndMs() < other->durationMs * 1.2);
        view_->setStep(nullptr, nullptr);
        QCOMPARE(view_->table()->rowCount(), 0);
        view_->grab();
    }

    void isAccessible()
    {
        view_->setPlanned(planned_);
        auto* chart = QAccessible::queryAccessibleInterface(canvas_);
        QVERIFY(chart);
        QCOMPARE(chart->role(), QAccessible::Chart);
        QCOMPARE(chart->text(QAccessible::Name), QStringLiteral("Memory over time"));
        QVERIFY(chart->text(QAccessible::Value).contains(QStringLiteral("72.6")));
        auto* interface = QAccessible::queryAccessibleInterface(&canvas_->handle());
        QVERIFY(interface);
        QCOMPARE(interface->role(), QAccessible::Slider);
        QVERIFY(!interface->text(QAccessible::Name).isEmpty());
        auto* value = interface->valueInterface();
        QVERIFY(value);
        QCOMPARE(value->currentValue().toDouble(), 48.0); // GiB
        QCOMPARE(value->minimumValue().toDouble(), 20.0);
        QSignalSpy committed(view_.get(), &TimelineView::budgetCommitted);
        value->setCurrentValue(40.0);
        QCOMPARE(committed.count(), 1);
        QCOMPARE(interface->text(QAccessible::Value), QStringLiteral("40.00 GiB"));
    }

    void cardOfTheCursorFitsInALowPlot()
    {
        for (const int height : {200, 230, 280, 340, 520}) {
            view_->resize(1000, height);
            waitUntilPainted();
            hover(at(allMs_ / 2));
            const QRectF card = canvas_->cursorLayer().cardRect();
            QVERIFY(!card.isEmpty());
            QVERIFY2(canvas_->geometryOfPlot().plot.contains(card), qPrintable(QString::number(height)));
        }
    }

    void labelOfALowerPeakIsReadableOnTheStack()
    {
        const Theme theme = Theme::make(true);
        QImage image(400, 100, QImage::Format_RGB32);
        image.fill(theme.categories.front());
        const std::vector<PeakMark> marks{{5, 9, QStringLiteral("This step peak"), QStringLiteral("9 B"), true},
                                          {5, 6, QStringLiteral("Compared step peak"), QStringLiteral("6 B"), false}};
        const std::vector<PlacedPeak> placed
            = placePeaks(marks, TimelineGeometry::of(QRectF(0, 0, 400, 100), {0, 10}, {0, 10}), theme, {});
        QCOMPARE(placed.size(), 2U);
        QVERIFY(!placed[0].label.intersects(placed[1].label));
        QPainter painter(&image);
        paintPeaks(painter, placed, theme);
        QCOMPARE(image.pixelColor(placed[1].label.topLeft().toPoint() + QPoint(4, 3)), theme.card);
    }

    void followsTheLook()
    {
        applyTheme(*qApp, Theme::dark());
        waitUntilPainted();
        const auto image = view_->grab().toImage();
        const auto position = canvas_->viewport()->mapTo(view_.get(), QPoint(5, 5));
        QCOMPARE(image.pixelColor(position), Theme::dark().card);
        applyTheme(*qApp, Theme::light());
        waitUntilPainted();
        QCOMPARE(view_->grab().toImage().pixelColor(position), Theme::light().card);
    }
};

QTEST_MAIN(TimelineViewTest)
#include "timeline_view_test.moc"
