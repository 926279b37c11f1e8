// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_trace_builder.h"
#include "views/plot/icicle.h"

#include <QContextMenuEvent>
#include <QImage>
#include <QSignalSpy>
#include <QTest>

#include <algorithm>

using namespace headroom;

/// The icicle as a widget: mouse, keys, selection.
class IcicleTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        StepTraceBuilder builder;
        const ModuleId net = builder.addModule("Net", "Net", {});
        std::vector<ModuleId> layers;
        for (const char* name : {"Net.<b>up</b>", "Net.down"})
            layers.push_back(builder.addModule(name, "Linear", net));
        builder.mark(Mark::stepBegin);
        Bytes bytes = 64 * MiB;
        for (const ModuleId layer : layers) {
            StepTraceBuilder::Op op;
            op.name = builder.string("aten.mm.default");
            op.module = layer;
            op.frame = builder.frame({}, "/home/me/model.py", "forward", layer.value);
            const OpId mm = builder.beginOp(op);
            blocks_.push_back({builder.alloc(bytes, Category::activation, mm), bytes, Category::activation, mm, false});
            builder.endOp(mm, {});
            bytes /= 2;
        }
        step_ = *builder.finish();
        tree_ = std::make_shared<const LiveTree>(liveTree(*step_, blocks_, LiveTree::By::module));
        view_ = std::make_unique<IcicleView>();
        view_->resize(600, 400);
        view_->setTree(tree_);
        view_->setVisible(true);
        QVERIFY(QTest::qWaitForWindowExposed(view_.get()));
    }
    void cleanup()
    {
        view_.reset();
        blocks_.clear();
    }

    void widthsAreBytes()
    {
        const double all = view_->areaOf(0)->width();
        for (std::uint32_t node = 0; node < tree_->nodes.size(); ++node) {
            QVERIFY(view_->areaOf(node));
            const double share = static_cast<double>(tree_->nodes[node].bytes) / static_cast<double>(96 * MiB);
            QVERIFY2(std::abs(view_->areaOf(node)->width() - share * all) < 2, qPrintable(QString::number(node)));
        }
    }

    void aClickSelectsAndADoubleClickShows()
    {
        QSignalSpy selected(view_.get(), &IcicleView::nodeSelected);
        const std::uint32_t down = nodeOf(ModuleId(2));
        const QPoint place = view_->areaOf(down)->center().toPoint();
        QTest::mouseClick(view_.get(), Qt::LeftButton, {}, place);
        QCOMPARE(view_->selected(), down);
        QCOMPARE(selected.size(), 1);
        QTest::mouseClick(view_.get(), Qt::LeftButton, {}, place);
        QCOMPARE(selected.size(), 1); // it is selected already
        QTest::mouseDClick(view_.get(), Qt::LeftButton, {}, place);
        QCOMPARE(view_->top(), down);
        QCOMPARE(view_->areaOf(down)->width(), view_->areaOf(0)->width());
        QVERIFY(!view_->areaOf(nodeOf(ModuleId(1))));
        QTest::keyClick(view_.get(), Qt::Key_Escape);
        QCOMPARE(view_->top(), 0U);
    }

    void keysGoToParentChildAndNeighbour()
    {
        const std::uint32_t up = nodeOf(ModuleId(1));
        const std::uint32_t down = nodeOf(ModuleId(2));
        view_->selectModule(ModuleId(1));
        QCOMPARE(view_->selected(), up);
        QTest::keyClick(view_.get(), Qt::Key_Right);
        QCOMPARE(view_->selected(), down);
        QTest::keyClick(view_.get(), Qt::Key_Right);
        QCOMPARE(view_->selected(), down); // the last
        QTest::keyClick(view_.get(), Qt::Key_Left);
        QCOMPARE(view_->selected(), up);
        QTest::keyClick(view_.get(), Qt::Key_Down);
        QCOMPARE(tree_->nodes[view_->selected()].level, LiveTree::Level::line);
        QCOMPARE(tree_->nodes[view_->selected()].name, std::string("model.py:1 forward"));
        QTest::keyClick(view_.get(), Qt::Key_Down);
        QCOMPARE(tree_->nodes[view_->selected()].level, LiveTree::Level::block);
        QTest::keyClick(view_.get(), Qt::Key_Return);
        QCOMPARE(view_->top(), view_->selected());
    }

    void theMenuIsOfTheNodeUnderTheMouse()
    {
        QSignalSpy menu(view_.get(), &IcicleView::menuWanted);
        const std::uint32_t down = nodeOf(ModuleId(2));
        const QPoint place = view_->areaOf(down)->center().toPoint();
        QContextMenuEvent event(QContextMenuEvent::Mouse, place, view_->mapToGlobal(place));
        QApplication::sendEvent(view_.get(), &event);
        QCOMPARE(menu.size(), 1);
        QCOMPARE(menu.first().first().toUInt(), down);
        QContextMenuEvent key(QContextMenuEvent::Keyboard, {}, {});
        QApplication::sendEvent(view_.get(), &key);
        QCOMPARE(menu.size(), 2);
        const QPoint below(place.x(), view_->height() - 2);
        QContextMenuEvent beside(QContextMenuEvent::Mouse, below, view_->mapToGlobal(below));
        QApplication::sendEvent(view_.get(), &beside);
        QCOMPARE(menu.size(), 2);
    }

    void namesAreText()
    {
        QVERIFY(
            icicleText(*tree_, nodeOf(ModuleId(1))).contains(QStringLiteral("<b>up</b>, 64.00 MiB (66.7 %), 1 block")));
    }

    void anEmptyTreeTakesKeysAndClicks()
    {
        view_->setTree(nullptr);
        QTest::keyClick(view_.get(), Qt::Key_Down);
        QTest::mouseClick(view_.get(), Qt::LeftButton, {}, {10, 10});
        QContextMenuEvent key(QContextMenuEvent::Keyboard, {}, {});
        QApplication::sendEvent(view_.get(), &key);
        QCOMPARE(view_->selected(), std::uint32_t(LiveTree::none));
    }

private:
    std::uint32_t nodeOf(ModuleId module) const
    {
        const auto found = std::ranges::find_if(tree_->nodes, [&](const LiveTree::Node& node) {
            return node.level == LiveTree::Level::module && node.id == module.value;
        });
        return static_cast<std::uint32_t>(found - tree_->nodes.begin());
    }

    StepTracePtr step_;
    std::vector<LiveBlock> blocks_;
    LiveTreePtr tree_;
    std::unique_ptr<IcicleView> view_;
};

QTEST_MAIN(IcicleTest)
#include "icicle_test.moc"
