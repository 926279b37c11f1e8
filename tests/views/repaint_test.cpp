// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What another budget repaints: what changes, once, and nothing else.

#include "app/window/document_page.h"
#include "app/window/frame_pacer.h"
#include "tests/views/window_fixture.h"
#include "views/plot/legend.h"
#include "views/plot/text_line.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_view.h"
#include "views/theme/theme.h"
#include "views/widgets/budget_bar.h"

#include <QApplication>
#include <QPaintEvent>
#include <QPainter>
#include <QTest>

using namespace headroom;

namespace {

/// Counts events of one type.
class Counter : public QObject
{
public:
    Counter(QObject* of, QEvent::Type type)
        : type_(type)
    {
        of->installEventFilter(this);
    }

    void forget()
    {
        count = 0;
        painted = {};
    }

    int count = 0;
    QRegion painted; ///< by the counted paint events

protected:
    bool eventFilter(QObject*, QEvent* event) override
    {
        count += event->type() == type_ ? 1 : 0;
        if (event->type() == type_ && type_ == QEvent::Paint)
            painted += static_cast<QPaintEvent*>(event)->region();
        return false;
    }

private:
    QEvent::Type type_;
};

QImage painted(double density, QSize size, const std::function<void(QPainter&)>& paint)
{
    QImage image(size * density, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(density);
    image.fill(Qt::white);
    QPainter painter(&image);
    painter.setPen(Qt::black);
    paint(painter);
    return image;
}

} // namespace

class RepaintTest : public WindowFixture
{
    Q_OBJECT

private:
    bool settled()
    {
        return window().session().answerIsCurrent() && window().page().timeline()->upToDate()
            && !window().frames().pending();
    }

private Q_SLOTS:
    void aRepaintWaitsForWhatIsStillBeingMade()
    {
        QWidget widget;
        bool making = true;
        FramePacer pacer(&widget, [&] { return making; });
        widget.resize(100, 100);
        widget.show();
        Counter paints(&widget, QEvent::Paint);
        QCoreApplication::sendPostedEvents();
        QTRY_VERIFY(!pacer.pending()); // no longer than its patience
        QVERIFY(paints.count > 0);

        paints.count = 0;
        for (int i = 0; i < 3; ++i) {
            widget.update();
            QCoreApplication::sendPostedEvents();
        }
        QVERIFY(pacer.pending());
        QCOMPARE(paints.count, 0);
        pacer.release();
        QVERIFY(pacer.pending()); // there is still something to wait for
        making = false;
        pacer.release();
        QVERIFY(!pacer.pending());
        QCoreApplication::sendPostedEvents();
        QCOMPARE(paints.count, 1);

        widget.update();
        QCoreApplication::sendPostedEvents();
        QCOMPARE(paints.count, 2); // at once
    }

    void theHandleIsPaintedWithThePlan()
    {
        openStep();
        QTRY_VERIFY(settled());
        control().hold = true;
        window().session().dragBudget(window().session().budget() - 64 * MiB);
        QCoreApplication::sendPostedEvents();
        QVERIFY(window().frames().pending());
        control().hold = false;
        QTRY_VERIFY(settled());
    }

    void theLegendKeepsItsRowsUntilTheNextImage()
    {
        openStep();
        window().resize(1280, 900);
        QTRY_VERIFY(settled());
        const auto* legend = window().page().timeline()->findChild<LegendBar*>();
        const int rows = legend->minimumHeight();
        QVERIFY(rows > 30);
        QList<int> whenAnswered; // the plot has what the legend leaves
        connect(&window().session(), &Session::answerChanged, this, [&] { whenAnswered << legend->minimumHeight(); });
        window().session().dragBudget(window().session().budget() - 64 * MiB);
        QTRY_VERIFY(settled());
        QVERIFY(!whenAnswered.empty());
        QCOMPARE(whenAnswered, QList<int>(whenAnswered.size(), rows));
        QCOMPARE(legend->minimumHeight(), rows);
        window().session().disconnect(this);
    }

    void labelsOfTheAxesStayAsTheyAre()
    {
        openStep();
        QTRY_VERIFY(settled() && window().session().frontierIsFinal());
        auto* canvas = window().page().timeline()->findChild<TimelineCanvas*>();
        Counter paints(canvas->viewport(), QEvent::Paint);
        const QRectF plot = canvas->geometryOfPlot().plot;
        const QRect labels(0, 0, static_cast<int>(plot.left()) - 8, canvas->height());
        bool untouched = false; // by one move: what opening the step has left to paint may come with others
        for (int move = 1; move <= 8 && !untouched; ++move) {
            paints.forget();
            window().session().dragBudget(window().session().budget() - 16 * MiB);
            QTRY_VERIFY(settled());
            QCoreApplication::processEvents();
            untouched = paints.painted.contains(plot.center().toPoint()) && !paints.painted.intersects(labels);
        }
        QVERIFY(untouched);
    }

    void theScaleFollowsItsCurveAndTheme()
    {
        BudgetScale scale;
        scale.resize(600, 90);
        scale.setRange(10 * GiB, 40 * GiB, 5 * GiB, 42 * GiB);
        scale.setValue(20 * GiB);
        const QImage without = scale.grab().toImage();
        scale.setFrontier({{10 * GiB, 90, 0}, {25 * GiB, 30, 0}, {40 * GiB, 0, 0}});
        const QImage with = scale.grab().toImage();
        QVERIFY(with != without);
        scale.setValue(30 * GiB);
        QVERIFY(scale.grab().toImage() != with);
        scale.setValue(20 * GiB);
        QCOMPARE(scale.grab().toImage(), with);
        scale.resize(700, 90);
        QVERIFY(scale.grab().toImage().copy(0, 0, 600, 90) != with);
        scale.resize(600, 90);
        scale.setPalette(Theme::dark().palette());
        QCOMPARE(scale.grab().toImage().pixelColor(1, 1), Theme::dark().card);
    }

    void aLineIsPaintedAsQtPaintsIt_data()
    {
        QTest::addColumn<double>("density");
        QTest::addColumn<int>("alignment");
        for (const double density : {1.0, 1.25, 2.0}) {
            for (const auto alignment : {Qt::AlignLeft, Qt::AlignRight, Qt::AlignHCenter})
                QTest::addRow("%g, %d", density, static_cast<int>(alignment))
                    << density << static_cast<int>(alignment | Qt::AlignVCenter);
        }
    }

    void aLineIsPaintedAsQtPaintsIt()
    {
        QFETCH(double, density);
        QFETCH(int, alignment);
        const QFont& font = Theme::make(false).body;
        const QString text = QStringLiteral("layers.42.attention → 12.5 MiB");
        const QRectF box(7, 3, 240, 25);
        QCOMPARE(lineWidth(font, text), QFontMetricsF(font).horizontalAdvance(text));
        const auto line = [&](QPainter& painter) {
            painter.setFont(font);
            paintLine(painter, box, Qt::Alignment(alignment), text);
        };
        const auto expected = [&](QPainter& painter) {
            painter.setFont(font);
            painter.drawText(box, alignment, text);
        };
        QCOMPARE(painted(density, {260, 40}, line), painted(density, {260, 40}, expected));
        const QRectF narrow(7, 3, 90, 25);
        const auto elided = [&](QPainter& painter) {
            painter.setFont(font);
            paintElided(painter, narrow, Qt::Alignment(alignment), text, Qt::ElideMiddle);
        };
        const auto expectedElided = [&](QPainter& painter) {
            painter.setFont(font);
            painter.drawText(narrow, alignment, QFontMetricsF(font).elidedText(text, Qt::ElideMiddle, narrow.width()));
        };
        QCOMPARE(painted(density, {260, 40}, elided), painted(density, {260, 40}, expectedElided));
    }
};

QTEST_MAIN(RepaintTest)
#include "repaint_test.moc"
