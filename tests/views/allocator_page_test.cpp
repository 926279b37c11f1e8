// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/allocator_page.h"

#include "app/window/actions.h"
#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/open_step.h"
#include "app/window/settings.h"
#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/snapshot/import.h"
#include "tests/core/synthetic_step.h"
#include "views/theme/theme.h"
#include "views/widgets/allocator_panel.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/inspector.h"

#include <QAction>
#include <QApplication>
#include <QBuffer>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <QSvgGenerator>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include <algorithm>
#include <cmath>
#include <memory>

using namespace headroom;

/// The window on memory snapshots, and reserved memory as a what-if.
class AllocatorPageTest : public QObject
{
    Q_OBJECT

    void open(const QString& name)
    {
        window_->openFile(QStringLiteral(HEADROOM_TEST_DATA "/snapshots/") + name);
        QTRY_VERIFY(window_->session().isOpen() && window_->session().answerIsCurrent());
    }
    AllocatorPanel& panel() { return *window_->findChild<AllocatorPanel*>(); }

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        settings_ = std::make_unique<Settings>(folder_->filePath(QStringLiteral("settings.ini")));
        window_ = std::make_unique<MainWindow>(MainWindow::Parts{makePlannerEngine, QString(), folder_->path()},
                                               *settings_);
        window_->askBeforeClosing(false);
        window_->show();
        QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    }
    void cleanup()
    {
        window_.reset();
        settings_.reset();
    }

    void aSnapshotOpensAsAStep()
    {
        open(QStringLiteral("protocol4.pickle"));
        const Session& session = window_->session();
        const Result<StepTracePtr> step = readStepOrSnapshot(HEADROOM_TEST_DATA "/snapshots/protocol4.pickle");
        QVERIFY(step.ok());
        QCOMPARE(session.recordedPeak(), predict(**step, {})->peak);
        QCOMPARE(session.budget(), session.recordedPeak());
        QVERIFY2(session.feasible(), "it opens as it is, without a plan");
        QVERIFY(window_->session().step()->trace().modules.size() > 20);
    }

    void whatASnapshotCannotDoIsDisabledWithTheReason()
    {
        open(QStringLiteral("protocol4.pickle"));
        const Actions& actions = window_->actions();
        const auto says = [](const auto& part) {
            return !part.isEnabled() && part.toolTip().contains(QStringLiteral("does not tell what autograd saves"));
        };
        for (const QAction* action :
             {actions.planModules, actions.planOps, actions.exportPolicy, actions.exportFrontier,
              actions.exportTradeOff, actions.pinKeep, actions.pinRecompute, actions.pinOffload, actions.verifyPlan})
            QVERIFY2(says(*action), qPrintable(action->text() + u' ' + action->toolTip()));
        for (const char* name : {"planModules", "planOps"})
            QVERIFY(says(*window_->page().budgetBar()->findChild<QToolButton*>(QLatin1String(name))));
        const auto* gpus = window_->page().inspector()->findChild<QSpinBox*>(QStringLiteral("worldSize"));
        QVERIFY(gpus->isVisible() && says(*gpus));
        for (const auto* button : gpus->parentWidget()->findChildren<QToolButton*>())
            QVERIFY(says(*button));
        for (const QAction* action : {actions.exportTimeline, actions.exportReport, actions.stackByModule,
                                      actions.showReserved, actions.showLiveBlocks, actions.compare})
            QVERIFY2(action->isEnabled(), qPrintable(action->text()));

        window_->openFile(QStringLiteral(HEADROOM_SOURCE_DIR "/resources/samples/transformer.hrs"));
        QTRY_VERIFY(window_->session().isOpen() && window_->session().answerIsCurrent()
                    && window_->session().step()->path.endsWith(QStringLiteral("transformer.hrs")));
        QVERIFY(actions.planOps->isEnabled() && actions.exportFrontier->isEnabled() && gpus->isEnabled());
        QVERIFY(actions.planOps->toolTip().startsWith(QStringLiteral("Meet the budget with single ops")));
        QVERIFY(gpus->toolTip().startsWith(QStringLiteral("FSDP divides")));
    }

    void lessThanItsPeakIsRefusedWithTheReason()
    {
        open(QStringLiteral("protocol4.pickle"));
        window_->session().commitBudget(window_->session().recordedPeak() / 2);
        QTRY_VERIFY(window_->session().answerIsCurrent());
        const Plan& plan = window_->session().answer()->plan;
        QVERIFY(plan.status == PlanStatus::infeasible);
        QVERIFY(plan.reason.find("does not tell what autograd saves") != std::string::npos);
        QCOMPARE(window_->session().leastBudget(), window_->session().recordedPeak());
    }

    void reservedMemoryIsDrawnBesideTheRecorded()
    {
        open(QStringLiteral("protocol4.pickle"));
        QVERIFY2(window_->actions().showReserved->isChecked(), "a snapshot opens on it: there is no trade-off to show");
        QTRY_VERIFY(!panel().plot()->curves().active.empty());
        const ReservedCurves& curves = panel().plot()->curves();
        const StepTrace& trace = window_->session().step()->trace();
        QCOMPARE(std::ranges::max(curves.recorded), std::ranges::max(trace.reserved.bytes));
        const AllocatorRun run = simulateAllocator(trace, *window_->session().step()->engine->recorded(), {});
        QCOMPARE(std::ranges::max(curves.reserved), run.stats.reservedPeak);
        QCOMPARE(std::ranges::max(curves.active), run.stats.activePeak);
        for (std::size_t i = 0; i < curves.active.size(); ++i)
            QVERIFY(curves.active[i] <= curves.reserved[i]);
        QVERIFY(panel().words()->text().contains(QStringLiteral("Recorded: ")));
        QVERIFY(!panel().plot()->accessibleDescription().isEmpty());
    }

    void otherSettingsAreAnswered()
    {
        open(QStringLiteral("protocol4.pickle"));
        window_->actions().showReserved->trigger();
        QTRY_VERIFY(!panel().plot()->curves().active.empty());
        panel().settingsEdit()->setText(QStringLiteral("expandable_segments:True"));
        const StepTrace& trace = window_->session().step()->trace();
        const AllocatorRules rules = *withAllocatorSettings({}, "expandable_segments:True");
        const Bytes expected
            = simulateAllocator(trace, *window_->session().step()->engine->recorded(), rules).stats.reservedPeak;
        QTRY_COMPARE(std::ranges::max(panel().plot()->curves().reserved), expected);
        panel().settingsEdit()->setText(QStringLiteral("expandable_segments:yes"));
        QVERIFY(panel().words()->text().contains(QStringLiteral("'yes' at character 21")));
    }

    void aCardThatIsTooSmallSaysWhere()
    {
        open(QStringLiteral("protocol4.pickle"));
        window_->actions().showReserved->trigger();
        window_->session().chooseCard("400MiB");
        QTRY_VERIFY(panel().plot()->curves().failureMs.has_value());
        QVERIFY(panel().words()->text().startsWith(QStringLiteral("Does not fit: out of memory at ")));
        window_->resize(1, 1);
        QCoreApplication::processEvents();
        const QLabel* words = panel().words();
        QVERIFY2(words->height() >= words->heightForWidth(words->width()), "all lines can be scrolled to");
        QVERIFY(panel().plot()->height() >= panel().plot()->minimumSizeHint().height());
        QVERIFY(panel().plot()->curves().reserved.size() < panel().plot()->curves().recorded.size());
        QVERIFY(panel().plot()->curves().reserved.size() < panel().plot()->curves().intervals);
        window_->session().chooseCard("a100-80gb");
        QTRY_VERIFY(!panel().plot()->curves().failureMs.has_value());
    }

    void aBrokenSnapshotIsASentence()
    {
        const QString path = folder_->filePath(QStringLiteral("calls.pickle"));
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write("\x80\x02"
                   "cos\nsystem\n.",
                   14);
        file.close();
        window_->openFile(path);
        QTRY_VERIFY(std::ranges::any_of(window_->findChildren<QLabel*>(), [](const QLabel* label) {
            return label->text().contains(QStringLiteral("asks to load or call a Python object"));
        }));
        QVERIFY(!window_->session().isOpen());
    }

    /// Highest bytes of each stretch, by hand.
    void curvesEndWhereMemoryRanOut()
    {
        applyTheme(*qApp, Theme::light());
        ReservedPlot plot;
        plot.resize(500, 200);
        const BytesOverTime half(50, GiB);
        plot.setCurves({100, 100, half, half, {}, 50, 0});
        const QImage picture = plot.grab().toImage();
        const QRgb inUse = Theme::light().color(Category::optimizer).rgb();
        int last = 0; // of the filled area, below the legend
        for (int x = 0; x < picture.width(); ++x)
            last = picture.pixel(x, 165) == inUse ? x : last;
        // The axis goes from 76 to 486.
        QVERIFY2(std::abs(last - (76 + 205)) <= 2, qPrintable(QString::number(last)));
    }

    void axesHaveRoundNumbers()
    {
        ReservedPlot plot;
        plot.resize(900, 240);
        plot.setCurves(
            {2236.44, 4, {GiB, 16 * GiB, 12 * GiB, 2 * GiB}, {GiB, 17 * GiB, 17 * GiB, 17 * GiB}, {}, {}, 0});
        QByteArray picture;
        QBuffer buffer(&picture);
        QSvgGenerator svg; // the labels stay text there
        svg.setOutputDevice(&buffer);
        svg.setSize(plot.size());
        plot.render(&svg);
        const QString words = QString::fromUtf8(picture);
        for (const char* label : {">0 GiB<", ">5 GiB<", ">15 GiB<", ">0 ms<", ">500 ms<", ">2000 ms<"})
            QVERIFY2(words.contains(QLatin1String(label)), label);
    }

    void curvesKeepEverySpike()
    {
        const StepTracePtr trace = makeSyntheticStep();
        const Result<Timeline> timeline = predict(*trace, {});
        QVERIFY(timeline.ok());
        const AllocatorRun run = simulateAllocator(*trace, *timeline, {});
        constexpr std::size_t stretches = 37;
        const AllocatorAnswer answer = allocatorAnswer(*trace, *timeline, {}, {}, stretches);
        QCOMPARE(answer.curves.reserved.size(), stretches);
        QVERIFY(answer.curves.recorded.empty());
        BytesOverTime expected(stretches, 0);
        Bytes last = run.start.active;
        double from = 0;
        const auto hold = [&](double to) {
            const auto place = [&](double ms) {
                return std::min<std::size_t>(static_cast<std::size_t>(ms / timeline->durationMs * stretches),
                                             stretches - 1);
            };
            for (std::size_t i = place(from); i <= place(to); ++i)
                expected[i] = std::max(expected[i], last);
        };
        for (std::size_t i = 0; i < run.samples.size(); ++i) {
            hold(timeline->changes[i].ms);
            from = timeline->changes[i].ms;
            last = run.samples[i].active;
        }
        hold(timeline->durationMs);
        QVERIFY(answer.curves.active == expected);
    }

private:
    std::unique_ptr<QTemporaryDir> folder_;
    std::unique_ptr<Settings> settings_;
    std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(AllocatorPageTest)
#include "allocator_page_test.moc"
