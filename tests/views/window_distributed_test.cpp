// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/document_page.h"
#include "app/window/step_header.h"
#include "core/trace/step_file.h"
#include "tests/views/window_fixture.h"
#include "views/models/live_blocks_model.h"
#include "views/models/module_tree_model.h"
#include "views/plot/collective_lane.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/module_panel.h"

#include <QAbstractItemModelTester>
#include <QLabel>
#include <QMenu>
#include <QScreen>
#include <QScrollArea>
#include <QSignalSpy>
#include <QTest>
#include <QTimer>
#include <QToolButton>
#include <QTreeView>

using namespace headroom;

/// A step of fully_shard in the window (tests/data/steps/fsdp_llama.hrs), and remarks of any step.
class WindowDistributedTest : public WindowFixture
{
    Q_OBJECT

    Session& session() { return window().session(); }
    CollectiveLane& lane() { return *window().findChild<CollectiveLane*>(); }
    RemarksButton& remarks() { return *window().findChild<RemarksButton*>(QStringLiteral("remarks")); }
    QTreeView& tree() { return *window().page().modules()->tree(); }
    QTreeView& live() { return *window().page().lowerPanel()->liveBlocks(); }
    QToolButton& units() { return *window().findChild<QToolButton*>(QStringLiteral("unshardedUnits")); }

    void openSharded()
    {
        window().openFile(QStringLiteral(HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs"));
        QTRY_VERIFY(session().isOpen() && session().answerIsCurrent());
        QTRY_VERIFY(window().page().timeline()->upToDate());
    }
    QStringList liveNames()
    {
        QStringList names;
        for (int row = 0; row < live().model()->rowCount(); ++row)
            names << live().model()->index(row, 0).data().toString();
        return names;
    }

private Q_SLOTS:
    void aStepOfOneGpuHasNeitherLaneNorColumn()
    {
        openStep();
        QVERIFY(lane().isHidden());
        QVERIFY(tree().isColumnHidden(ModuleTreeModel::exposedColumn));
        QVERIFY(remarks().isHidden());
    }

    void nothingOfARankIsDividedAgain()
    {
        auto& worldSize = *window().findChild<QWidget*>(QStringLiteral("worldSize"));
        openSharded();
        QVERIFY(!worldSize.isVisible());
        openStep();
        QTRY_VERIFY(worldSize.isVisible());
    }

    void collectivesAreBelowTheTimeline()
    {
        openSharded();
        QVERIFY(lane().isVisible());
        QCOMPARE(lane().rows().rowCount(), 1U);
        QCOMPARE(lane().rows().title(0), QStringLiteral("8 ranks"));
        QCOMPARE(lane().rows().size(), session().step()->trace().collectives.size());
        QCOMPARE(lane().rows().sums({}).exposedMs, session().answer()->clock->exposedMs); // of the plan
        // Each has its place inside of the step.
        for (std::size_t run = 0; run < lane().rows().size(); ++run)
            QVERIFY(lane().rows().range(run).end <= session().shownTimeline()->durationMs + 1e-9);
    }

    void thePlansCollectivesAreOnThePlansAxis()
    {
        openSharded();
        session().commitBudget(session().recordedPeak());
        QTRY_VERIFY(session().answerIsCurrent());
        const std::size_t last = lane().rows().size() - 1;
        const double before = lane().rows().range(last).begin;
        session().commitBudget(std::max(session().leastBudget(), session().recordedPeak() * 6 / 10));
        QTRY_VERIFY(session().answerIsCurrent() && session().feasible());
        QVERIFY(session().answer()->plan.recomputeMs > 0);
        QVERIFY(lane().rows().range(lane().rows().size() - 1).begin > before); // behind what runs again
    }

    void aCollectiveSelectsItsModuleAndItsInstant()
    {
        openSharded();
        QSignalSpy pinned(window().page().timeline(), &TimelineView::instantPinned);
        lane().setFocus();
        QTest::keyClick(&lane(), Qt::Key_Home);
        QTest::keyClick(&lane(), Qt::Key_Right);
        QTest::keyClick(&lane(), Qt::Key_Return);
        QCOMPARE(session().selected(), lane().rows().module(*lane().current()));
        QCOMPARE(session().selectedFqn(), std::string("Llama.layers.0"));
        QCOMPARE(pinned.count(), 1);
        const auto count = pinned.first().first().value<std::size_t>();
        const double ms = lane().rows().range(*lane().current()).begin;
        const Timeline& timeline = *session().shownTimeline();
        QVERIFY(count == 0 || timeline.changes[count - 1].ms <= ms);
        QVERIFY(timeline.changes[count].ms > ms);
        QCOMPARE(window().page().lowerPanel()->page(), LowerPanel::Page::liveBlocks);
    }

    void exposedCommunicationIsInTheTree()
    {
        openSharded();
        QVERIFY(!tree().isColumnHidden(ModuleTreeModel::exposedColumn));
        const QModelIndex row = tree().model()->index(1, ModuleTreeModel::exposedColumn);
        QCOMPARE(row.siblingAtColumn(0).data().toString(), QStringLiteral("layers.0"));
        const auto exposed = exposedByModule(session().step()->trace(), session().step()->collectiveModules,
                                             *session().answer()->clock);
        const ModuleId module = moduleNamed(session().step()->trace(), "layers.0");
        QVERIFY(exposed[module.value] > 0);
        const QModelIndex name = row.siblingAtColumn(0);
        QVERIFY(name.data(Qt::ToolTipRole).toString().contains(QStringLiteral("A unit of FSDP")));
        QVERIFY(!name.model()->index(0, 0, name).data(Qt::ToolTipRole).toString().contains(QStringLiteral("A unit")));
        QCOMPARE(row.data(ModuleTreeModel::SortRole).toDouble(), exposed[module.value]);
    }

    void unshardedBytesAreListedByUnit()
    {
        openSharded();
        QAbstractItemModelTester tester(live().model(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        window().page().lowerPanel()->show(LowerPanel::Page::liveBlocks);
        QTRY_VERIFY(units().isVisible());
        const int all = live().model()->rowCount();
        QTest::mouseClick(&units(), Qt::LeftButton);
        QTRY_VERIFY(live().model()->rowCount() < all && live().model()->rowCount() > 0);
        for (const QString& name : liveNames())
            QVERIFY2(name == QStringLiteral("Llama") || name.startsWith(QStringLiteral("Llama.layers.")),
                     qPrintable(name));
        QVERIFY(liveNames().contains(QStringLiteral("Llama"))); // which keeps its own from forward to backward
        const QModelIndex root
            = live().model()->index(static_cast<int>(liveNames().indexOf(QStringLiteral("Llama"))), 0);
        QStringList blocks;
        for (int row = 0; row < live().model()->rowCount(root); ++row)
            blocks << live().model()->index(row, 0, root).data().toString();
        QVERIFY2(blocks.contains(QStringLiteral("tok_embeddings.weight")), qPrintable(blocks.join(u' ')));
        // Another step has none: the choice is gone, and what is listed is all again.
        openStep();
        window().page().lowerPanel()->show(LowerPanel::Page::liveBlocks);
        QTRY_VERIFY(live().model()->rowCount() > 0);
        QTRY_VERIFY(!units().isVisible() && !units().isChecked());
    }

    void remarksAreReadByClickAndByKey()
    {
        StepTrace step = **readStepTrace(file().toStdString());
        step.info.remarks = {"the first of them may change the peak", "the second may change times"};
        const QString path = inFolder(QStringLiteral("remarks.hrs"));
        QVERIFY(writeStepTrace(step, path.toStdString()));
        window().openFile(path);
        QTRY_VERIFY(session().isOpen() && session().answerIsCurrent());
        QVERIFY(remarks().isVisible());
        QCOMPARE(remarks().text(), QStringLiteral("2 remarks"));
        QVERIFY(remarks().toolTip().contains(QString::fromStdString(step.info.remarks[1])));
        const auto readWith = [&](auto open) {
            QStringList said;
            QTimer::singleShot(0, this, [&] {
                QMenu* popup = window().findChild<QMenu*>(QStringLiteral("remarksPopup"));
                for (const QLabel* label : popup->findChildren<QLabel*>())
                    if (label->isVisible())
                        said << label->text();
                popup->close();
            });
            open();
            return said;
        };
        const QStringList clicked = readWith([&] { QTest::mouseClick(&remarks(), Qt::LeftButton); });
        QCOMPARE(clicked.size(), 3); // with the line above them
        for (const std::string& remark : step.info.remarks)
            QVERIFY(clicked.contains(QString::fromStdString(remark)));
        remarks().setFocus(Qt::TabFocusReason);
        QVERIFY(remarks().focusPolicy() & Qt::TabFocus);
        QCOMPARE(readWith([&] { QTest::keyClick(&remarks(), Qt::Key_Space); }), clicked);
    }

    void causesStandBesideTheVerdict()
    {
        openSharded();
        auto* causes = window().findChild<RemarksButton*>(QStringLiteral("causes"));
        QTRY_VERIFY(causes->isVisible());
        QCOMPARE(causes->text(), QStringLiteral("Why 29.52 MiB?"));
        QVERIFY2(causes->toolTip().startsWith(QStringLiteral("Logits are the peak: 12.00 MiB of 29.52 MiB")),
                 qPrintable(causes->toolTip()));
        QVERIFY(causes->focusPolicy() & Qt::TabFocus);
        openStep(); // whose largest part are activations
        QTRY_VERIFY(causes->isHidden());
        // A remark that a cause says as well is not said twice.
        StepTrace step = **readStepTrace(HEADROOM_TEST_DATA "/steps/fsdp_llama.hrs");
        step.info.remarks = {"this may change the peak"};
        const QString path = inFolder(QStringLiteral("remarked.hrs"));
        QVERIFY(writeStepTrace(step, path.toStdString()));
        window().openFile(path);
        QTRY_VERIFY(causes->isVisible() && remarks().text() == QStringLiteral("1 remark"));
        Cause said;
        said.sentence = "the same";
        said.line = "train.py:7 main";
        said.remark = "this may change the peak";
        window().page().header()->setCauses(std::make_shared<const std::vector<Cause>>(std::vector{said}));
        QVERIFY(remarks().isHidden());
        QCOMPARE(causes->toolTip(), QStringLiteral("The same.\nAt train.py:7 main"));
        const QSignalSpy opened(window().page().header(), &StepHeader::lineWanted);
        const QList<QLabel*> labels
            = window().findChild<QMenu*>(QStringLiteral("causesPopup"))->findChildren<QLabel*>();
        QCOMPARE(labels.size(), 3); // the title, the cause and its line
        QVERIFY(labels.last()->text().contains(QStringLiteral("At train.py:7 main")));
        Q_EMIT labels.last()->linkActivated({});
        QCOMPARE(opened.size(), 1);
    }

    void manyRemarksStayInsideTheScreen()
    {
        StepTrace step = **readStepTrace(file().toStdString());
        for (int i = 0; i < 40; ++i)
            step.info.remarks.push_back(
                "remark " + std::to_string(i)
                + " says at length what the card would do, why the "
                  "simulated one does not, and by how much the peak may differ for that reason");
        const QString path = inFolder(QStringLiteral("many.hrs"));
        QVERIFY(writeStepTrace(step, path.toStdString()));
        window().openFile(path);
        QTRY_VERIFY(session().isOpen() && remarks().text() == QStringLiteral("40 remarks"));
        QMenu* popup = window().findChild<QMenu*>(QStringLiteral("remarksPopup"));
        const QRect screen = window().screen()->availableGeometry();
        popup->popup(screen.center());
        QVERIFY(screen.contains(popup->geometry()));
        auto* scroll = popup->findChild<QScrollArea*>();
        QVERIFY(scroll->isVisible());
        const QLabel* last = scroll->findChildren<QLabel*>().last();
        scroll->ensureWidgetVisible(const_cast<QLabel*>(last), 0, 0);
        const QRect shown(last->mapToGlobal(QPoint(0, 0)), last->size());
        QVERIFY(screen.contains(shown));
        QCOMPARE(last->text(), QString::fromStdString(step.info.remarks.back()));
        QVERIFY(last->heightForWidth(last->width()) <= last->height()); // whole
        popup->close();
    }
};

QTEST_MAIN(WindowDistributedTest)
#include "window_distributed_test.moc"
