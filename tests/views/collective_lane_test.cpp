// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The lane of a distributed step's collectives: what is painted of them, and the widget with real events.

#include "core/trace/step_trace_builder.h"
#include "views/plot/collective_lane.h"
#include "views/theme/theme.h"

#include <QAccessible>
#include <QApplication>
#include <QElapsedTimer>
#include <QMouseEvent>
#include <QSignalSpy>
#include <QTest>
#include <QToolTip>

#include <array>
#include <memory>
#include <numeric>

using namespace headroom;

namespace {

/// Collectives of two groups in turn, 1 ms each with 1 ms between them; every other one of a group is exposed.
struct Talk
{
    StepTracePtr trace;
    std::vector<ModuleId> modules;
    std::vector<TimedCollective> runs;

    explicit Talk(std::size_t count, std::size_t groups = 2)
    {
        StepTraceBuilder builder;
        const ModuleId root = builder.addModule("Net", "Net", {});
        const ModuleId layer = builder.addModule("Net.layer", "Layer", root);
        std::vector<GroupId> ids;
        for (std::size_t group = 0; group < groups; ++group) {
            std::vector<std::uint32_t> ranks(2 * (group + 1));
            std::iota(ranks.begin(), ranks.end(), 0);
            ids.push_back(builder.group(std::to_string(group), ranks));
        }
        builder.mark(Mark::stepBegin);
        for (std::size_t i = 0; i < count; ++i) {
            const OpId op = builder.beginOp({builder.string("op"), {}, layer, {}, {}, Phase::forward});
            const auto kind = i % groups == 0 ? CollectiveKind::allGather : CollectiveKind::allReduce;
            builder.collective(op, {kind, MiB, ids[i % groups]});
            builder.endOp(op, {.ms = 1});
            const auto at = static_cast<double>(2 * i);
            runs.push_back({op, at, at, 1, (i / groups) % 2 == 0 ? 1.0 : 0.0});
            modules.push_back(i % 3 == 0 ? layer : root);
        }
        trace = *builder.finish();
    }
    CollectiveRows rows() const { return {trace, modules, runs}; }
};

} // namespace

class CollectiveLaneTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { applyTheme(*qApp, Theme::light()); }

    void eachCommunicatorHasARow()
    {
        const CollectiveRows rows = Talk(10).rows();
        QCOMPARE(rows.rowCount(), 2U);
        QCOMPARE(rows.title(0), QStringLiteral("2 ranks"));
        QCOMPARE(rows.title(1), QStringLiteral("4 ranks"));
        QCOMPARE(rows.sums({}).ms, 10.0);
        QCOMPARE(rows.sums({}).exposedMs, 6.0);
        const CollectiveRows many = Talk(20, 7).rows();
        QCOMPARE(many.rowCount(), CollectiveRows::mostRows);
        QCOMPARE(many.title(CollectiveRows::mostRows - 1), QStringLiteral("others"));
        QCOMPARE(many.row(6), CollectiveRows::mostRows - 1);
    }

    void theExposedPartStandsAtTheEndOfItsRun()
    {
        Talk talk(2, 1);
        talk.runs[0].exposedMs = 0.25;
        talk.runs[1].exposedMs = 0;
        const auto blocks = talk.rows().blocks({{0, 4}, 100, 500});
        using Block = CollectiveBlock;
        const std::vector<Block> expected{{0, 100, 175, CollectiveKind::allGather, false},
                                          {0, 175, 200, CollectiveKind::allGather, true},
                                          {0, 300, 400, CollectiveKind::allGather, false}};
        QVERIFY(blocks == expected);
        // What is cut off by the edge keeps its place.
        const auto cut = talk.rows().blocks({{0.5, 4}, 100, 450});
        QVERIFY(cut.front() == (Block{0, 100, 125, CollectiveKind::allGather, false}));
        QVERIFY(cut[1] == (Block{0, 125, 150, CollectiveKind::allGather, true}));
    }

    void manyAreOneBlockAPixel()
    {
        constexpr std::size_t count = 100'000;
        const CollectiveRows rows = Talk(count).rows();
        QElapsedTimer clock;
        clock.start();
        const auto blocks = rows.blocks({{0, 2.0 * count}, 0, 1000});
        QVERIFY2(clock.elapsed() < 100, qPrintable(QString::number(clock.elapsed()))); // some ms; a busy machine
        QVERIFY(blocks.size() <= 2 * 1001);
        QVERIFY(blocks.size() >= 2 * 999);
        for (const CollectiveBlock& block : blocks) {
            QVERIFY(block.end - block.begin == 1);
            QCOMPARE(block.kind, block.row == 0 ? CollectiveKind::allGather : CollectiveKind::allReduce);
        }
    }

    void hiddenWithoutCollectives()
    {
        CollectiveLane lane;
        lane.setRows(Talk(4).rows());
        QVERIFY(!lane.isHidden());
        lane.setRows({});
        QVERIFY(lane.isHidden());
    }

    void paintsKindsAndExposure()
    {
        show(8);
        const QImage image = lane_->grab().toImage();
        const auto at = [&](double ms, std::size_t row, double share) {
            const QRectF rect = lane_->rowRect(row);
            return image.pixelColor(QPoint(static_cast<int>(rect.left() + ms * 50 + 20),
                                           static_cast<int>(rect.bottom() - 2 - share * (rect.height() - 4))));
        };
        const Theme theme = Theme::light();
        QCOMPARE(at(0, 0, 0), theme.ramp[1]); // the first all-gather is exposed: tall
        QCOMPARE(at(0, 0, 1), theme.ramp[1]);
        QCOMPARE(at(4, 0, 0), theme.ramp[1]); // the second is not: low
        QCOMPARE(at(4, 0, 1), theme.hover);
        QCOMPARE(at(2, 1, 0), theme.ramp[0]);
        QCOMPARE(at(0, 1, 0), theme.hover);
    }

    void hoverTellsAndAClickChooses()
    {
        show(8);
        const QPoint position = placeOf(4, 0);
        QMouseEvent move(QEvent::MouseMove, position, lane_->mapToGlobal(position), Qt::NoButton, Qt::NoButton,
                         Qt::NoModifier);
        QApplication::sendEvent(lane_.get(), &move);
        QCOMPARE(
            QToolTip::text(),
            QStringLiteral("all-gather, 1.00 MiB\namong 2 ranks: 0, 1 (group 0)\nNet\ntakes 1.00 ms, hidden by other "
                           "kernels\non the GPU from 4.00 ms on"));
        QSignalSpy chosen(lane_.get(), &CollectiveLane::chosen);
        QTest::mouseClick(lane_.get(), Qt::LeftButton, {}, position);
        QCOMPARE(chosen.count(), 1);
        QCOMPARE(chosen.first().at(0).value<ModuleId>(), ModuleId(0));
        QCOMPARE(chosen.first().at(1).toDouble(), 4.0);
        QTest::mouseClick(lane_.get(), Qt::LeftButton, {}, placeOf(3.5, 0)); // nothing is there
        QCOMPARE(chosen.count(), 1);
    }

    void severalInAPixelAreSaid()
    {
        show(4000);
        const QPoint position = placeOf(4000, 0);
        QMouseEvent move(QEvent::MouseMove, position, lane_->mapToGlobal(position), Qt::NoButton, Qt::NoButton,
                         Qt::NoModifier);
        QApplication::sendEvent(lane_.get(), &move);
        QVERIFY2(QToolTip::text().contains(QStringLiteral("more here")), qPrintable(QToolTip::text()));
    }

    void keysGoFromOneToTheNext()
    {
        show(8);
        QSignalSpy chosen(lane_.get(), &CollectiveLane::chosen);
        QTest::keyClick(lane_.get(), Qt::Key_Return); // none yet
        QCOMPARE(chosen.count(), 0);
        QTest::keyClick(lane_.get(), Qt::Key_Right);
        QCOMPARE(*lane_->current(), 0U);
        QTest::keyClick(lane_.get(), Qt::Key_Right);
        QCOMPARE(*lane_->current(), 1U);
        QTest::keyClick(lane_.get(), Qt::Key_Up);
        QCOMPARE(lane_->rows().row(*lane_->current()), 0U);
        QTest::keyClick(lane_.get(), Qt::Key_End);
        QCOMPARE(*lane_->current(), 7U);
        QTest::keyClick(lane_.get(), Qt::Key_Right);
        QCOMPARE(*lane_->current(), 7U);
        QTest::keyClick(lane_.get(), Qt::Key_Home);
        QCOMPARE(*lane_->current(), 0U);
        QVERIFY(lane_->accessibleDescription().startsWith(QStringLiteral("all-gather, 1.00 MiB")));
        QTest::keyClick(lane_.get(), Qt::Key_Return);
        QCOMPARE(chosen.count(), 1);
        QCOMPARE(chosen.first().at(0).value<ModuleId>(), ModuleId(1));
        // What is not shown is asked for.
        QSignalSpy wanted(lane_.get(), &CollectiveLane::instantWanted);
        lane_->setRange({0, 5});
        QTest::keyClick(lane_.get(), Qt::Key_End);
        QCOMPARE(wanted.count(), 1);
        QCOMPARE(wanted.first().first().toDouble(), 14.0);
    }

    void keysPassOverWhatIsOutsideOfTheSelectedRange()
    {
        show(8);
        lane_->setSelection(TimeRange{3.5, 8.5}); // the third run to the fifth
        QVERIFY(lane_->accessibleDescription().startsWith(QStringLiteral("3 collectives take 3.00 ms")));
        QTest::keyClick(lane_.get(), Qt::Key_Right);
        QCOMPARE(*lane_->current(), 2U);
        QTest::keyClick(lane_.get(), Qt::Key_Left);
        QCOMPARE(*lane_->current(), 2U);
        QTest::keyClick(lane_.get(), Qt::Key_End);
        QCOMPARE(*lane_->current(), 4U);
        QTest::keyClick(lane_.get(), Qt::Key_Home);
        QCOMPARE(*lane_->current(), 2U);
        QSignalSpy chosen(lane_.get(), &CollectiveLane::chosen);
        QTest::mouseClick(lane_.get(), Qt::LeftButton, {}, placeOf(0, 0));
        QCOMPARE(chosen.count(), 0);
        const QRectF row = lane_->rowRect(0);
        const QColor outside = lane_->grab().toImage().pixelColor(row.topLeft().toPoint() + QPoint(20, 7));
        QVERIFY(outside != Theme::light().ramp[1]);
        lane_->setSelection({});
        QCOMPARE(lane_->grab().toImage().pixelColor(row.topLeft().toPoint() + QPoint(20, 7)), Theme::light().ramp[1]);
    }

private:
    void show(std::size_t count)
    {
        lane_ = std::make_unique<CollectiveLane>();
        lane_->resize(1000, 60);
        lane_->setRows(Talk(count).rows());
        lane_->setPlotEdges(50, 50 + 50.0 * 16);
        lane_->setRange({0, 2.0 * static_cast<double>(count)});
        lane_->show();
        QVERIFY(QTest::qWaitForWindowExposed(lane_.get()));
    }
    /// In a lane of `show(8)` 50 pixels are a ms; of others the whole axis is as wide.
    QPoint placeOf(double ms, std::size_t row) const
    {
        const double all = 2.0 * static_cast<double>(lane_->rows().size());
        const QRectF rect = lane_->rowRect(row);
        return {static_cast<int>(rect.left() + ms / all * rect.width()) + 2, static_cast<int>(rect.center().y())};
    }

    std::unique_ptr<CollectiveLane> lane_;
};

QTEST_MAIN(CollectiveLaneTest)
#include "collective_lane_test.moc"
