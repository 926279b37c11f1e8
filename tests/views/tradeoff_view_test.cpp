// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/made_up.h"
#include "views/plot/legend.h"
#include "views/plot/tradeoff_view.h"
#include "views/theme/theme.h"

#include <QAbstractAxis>
#include <QAbstractItemModelTester>
#include <QApplication>
#include <QChart>
#include <QPaintEvent>
#include <QSet>
#include <QSignalSpy>
#include <QTest>
#include <QValueAxis>

using namespace headroom;

namespace {

class PaintedRegion : public QObject
{
public:
    explicit PaintedRegion(QWidget* of) { of->installEventFilter(this); }
    QRegion region;

protected:
    bool eventFilter(QObject*, QEvent* event) override
    {
        if (event->type() == QEvent::Paint)
            region += static_cast<QPaintEvent*>(event)->region();
        return false;
    }
};

} // namespace

class TradeOffViewTest : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<TradeOffView> view_;
    TradeOffChart* chart_ = nullptr;
    ModuleInfoPtr info_ = madeUpModules({});

    QPoint pixelOf(double keptMiB, double ms) const
    {
        return chart_->plane().at({0, keptMiB * static_cast<double>(MiB), ms}).toPoint();
    }

private Q_SLOTS:
    void initTestCase() { applyTheme(*qApp, Theme::light()); }

    void init()
    {
        view_ = std::make_unique<TradeOffView>();
        view_->resize(900, 320);
        view_->setModules(info_);
        view_->select("GPT.layers.42");
        view_->show();
        chart_ = view_->findChild<TradeOffChart*>();
    }

    void saysWhatIsMissing()
    {
        view_->select("");
        QVERIFY(chart_->accessibleDescription().contains(QStringLiteral("Select a module")));
        view_->select("GPT.layers.42.norm");
        QVERIFY(chart_->accessibleDescription().contains(QStringLiteral("no modules inside")));
        view_->setModules(nullptr);
        QVERIFY(chart_->accessibleDescription().contains(QStringLiteral("Open a step")));
        QCOMPARE(view_->table()->rowCount(), 0);
        view_->grab();
    }

    /// FSDP1 writes each wrapper into the name.
    void aLongNameIsElidedInTheMiddleOfTheTitle()
    {
        const std::string fqn = "FullyShardedDataParallel._fsdp_wrapped_module.model.layers.42._fsdp_wrapped_module."
                                "self_attn._checkpoint_wrapped_module.q_proj";
        const QString whole = QStringLiteral("Trade-off of ") + QString::fromStdString(fqn);
        auto info = std::make_shared<ModuleInfo>(*info_);
        std::ranges::find(info->stats, "GPT.layers.42", &ModuleStats::fqn)->fqn = fqn;
        view_->resize(560, 320);
        view_->setModules(info);
        view_->select(fqn);
        const auto* head = view_->findChild<LegendBar*>();
        QCOMPARE(head->toolTip(), whole);
        const Legend legend(whole, {}, head->width(), Theme::light());
        QVERIFY(legend.titleWidth() <= head->width());
        QVERIFY2(legend.title().contains(QStringLiteral(".42.")), "the number tells the layers apart");
        QVERIFY(legend.title().endsWith(QStringLiteral(".q_proj")));
        view_->select("GPT.layers.41");
        QVERIFY(head->toolTip().isEmpty());
    }

    void clickOnACornerChoosesIt()
    {
        const auto& module = *findModule(*info_, "GPT.layers.42");
        const auto corner = tradeOffCurve(module).at(2);
        QSignalSpy chosen(view_.get(), &TradeOffView::pointChosen);
        QTest::mouseClick(chart_->viewport(), Qt::LeftButton, {},
                          pixelOf(corner.kept / static_cast<double>(MiB), corner.ms));
        QCOMPARE(chosen.count(), 1);
        QCOMPARE(chosen.first().at(0).value<std::string>(), std::string("GPT.layers.42"));
        QCOMPARE(chosen.first().at(1).toDouble(), corner.ratio);
        QTest::mouseClick(chart_->viewport(), Qt::LeftButton, {}, {chart_->width() - 30, 30});
        QCOMPARE(chosen.count(), 1);
    }

    void keysWalkAlongTheCurve()
    {
        QSignalSpy chosen(view_.get(), &TradeOffView::pointChosen);
        QTest::keyClick(chart_, Qt::Key_Left); // everything kept
        QTest::keyClick(chart_, Qt::Key_Left);
        QTest::keyClick(chart_, Qt::Key_Return);
        QCOMPARE(chosen.count(), 1);
        QCOMPARE(chosen.first().at(1).toDouble(), 0.25);
        for (int i = 0; i < 10; ++i)
            QTest::keyClick(chart_, Qt::Key_Left);
        QTest::keyClick(chart_, Qt::Key_Return);
        QCOMPARE(chosen.last().at(1).toDouble(), 1.0);
    }

    void dotsOnTheAxesAreWhole()
    {
        // The corners at no recompute and at nothing kept lie on the axes: the plot reaches beyond them.
        const auto plot = chart_->chart()->plotArea();
        const auto curve = tradeOffCurve(*findModule(*info_, "GPT.layers.42"));
        const auto first = pixelOf(curve.front().kept / static_cast<double>(MiB), curve.front().ms);
        const auto last = pixelOf(curve.back().kept / static_cast<double>(MiB), curve.back().ms);
        QVERIFY(plot.bottom() - first.y() > 6);
        QVERIFY(last.x() - plot.left() > 6);
    }

    void aLowPlotHasTheUnitForATitle()
    {
        const auto title = [&] { return chart_->chart()->axes(Qt::Vertical).value(0)->titleText(); };
        view_->resize(600, 400);
        QTRY_COMPARE(title(), QStringLiteral("Recompute, ms"));
        view_->resize(600, 150);
        QTRY_COMPARE(title(), QStringLiteral("ms"));
        view_->resize(600, 400);
        QTRY_COMPARE(title(), QStringLiteral("Recompute, ms"));
    }

    void axesOfSmallModulesAreLabelled_data()
    {
        QTest::addColumn<Bytes>("kept");
        QTest::addColumn<double>("ms");
        QTest::addColumn<QString>("titles");
        QTest::newRow("usual") << 96 * MiB << 4.0 << QStringLiteral("kept, MiB; Recompute, ms");
        QTest::newRow("small") << 6 * KiB << 0.012 << QStringLiteral("kept, KiB; Recompute, µs");
        QTest::newRow("smallest") << Bytes{512} << 3e-5 << QStringLiteral("kept, B; Recompute, µs");
        QTest::newRow("no time") << 6 * KiB << 0.0 << QStringLiteral("kept, KiB; Recompute, ms");
    }
    void axesOfSmallModulesAreLabelled()
    {
        QFETCH(const Bytes, kept);
        QFETCH(const double, ms);
        QFETCH(const QString, titles);
        auto info = std::make_shared<ModuleInfo>(*info_);
        std::erase_if(info->stats, [](const ModuleStats& module) { return module.fqn != "GPT.layers.42"; });
        info->stats.front().sacMemory = kept;
        info->stats.front().sacRuntimeMs = ms;
        view_->setModules(info);
        view_->setOptions("GPT.layers.42", {{kept, 0, {}}, {0, ms, {}}});
        const auto axis = [&](Qt::Orientation orientation) {
            return qobject_cast<QValueAxis*>(chart_->chart()->axes(orientation).value(0));
        };
        QVERIFY2(QString(axis(Qt::Horizontal)->titleText() + QStringLiteral("; ") + axis(Qt::Vertical)->titleText())
                     .endsWith(titles),
                 qPrintable(axis(Qt::Horizontal)->titleText()));
        for (const auto* one : {axis(Qt::Horizontal), axis(Qt::Vertical)}) {
            QSet<QString> labels;
            int count = 0;
            for (double tick = 0; tick <= one->max(); tick += one->tickInterval(), ++count)
                labels << QString::asprintf(qPrintable(one->labelFormat()), tick);
            QVERIFY2(count >= 3 && count <= 20 && labels.size() == count,
                     qPrintable(QStringList(labels.values()).join(u' ')));
        }
        QCOMPARE(chart_->plane().at({0, static_cast<double>(kept), 0}).y() < chart_->chart()->plotArea().bottom(),
                 true);
    }

    void tableHoldsTheCurveAndTheChoice()
    {
        QAbstractItemModelTester tester(view_->table());
        const auto* table = view_->table();
        QCOMPARE(table->rowCount(), 5);
        Plan plan;
        plan.status = PlanStatus::optimal;
        plan.decisions = {{"GPT.layers.42", 0.45}};
        view_->setPlan(madeUpPoints(madeUpModules({}), plan), 0);
        QCOMPARE(table->rowCount(), 5);
        QCOMPARE(table->index(2, 3).data().toString(), QStringLiteral("chosen"));
        plan.decisions = {{"GPT.layers.42", 0.6}};
        view_->setPlan(madeUpPoints(madeUpModules({}), plan), 0);
        QCOMPARE(table->rowCount(), 6);
        QCOMPARE(table->index(3, 0).data().toString(), QStringLiteral("60.0"));
        QCOMPARE(table->index(3, 3).data().toString(), QStringLiteral("chosen"));
        view_->clearPlan();
        QCOMPARE(table->rowCount(), 5);
    }

    void optionsTakeThePlaceOfTheEstimate()
    {
        QAbstractItemModelTester tester(view_->table());
        const std::string fqn = "GPT.layers.42";
        const std::vector<ModuleOption> options{{96 * MiB, 0, {}}, {64 * MiB, 1, {}}, {0, 4, {}}};
        view_->setOptions("GPT.layers.41", options); // of another module
        QCOMPARE(view_->table()->rowCount(), 5);
        view_->setOptions(fqn, options);
        QCOMPARE(view_->table()->rowCount(), 3);
        view_->setPlan([](const std::string&) { return TradeOffPoint{1.0 / 3, 64.0 * MiB, 1}; }, 0);
        QCOMPARE(view_->table()->index(1, 3).data().toString(), QStringLiteral("chosen"));
        QSignalSpy chosen(view_.get(), &TradeOffView::pointChosen);
        QTest::mouseClick(chart_->viewport(), Qt::LeftButton, {}, pixelOf(0, 4));
        QCOMPARE(chosen.count(), 1);
        QCOMPARE(chosen.first().at(1).toDouble(), 1.0);
        view_->select("GPT.layers.41");
        QCOMPARE(view_->table()->rowCount(), 6); // PyTorch's corners, and what the plan did
    }

    void chosenPointIsOnTop()
    {
        const TradeOffPoint chosen = tradeOffPoint(*findModule(*info_, "GPT.layers.42"), 0.25);
        view_->setPlan([&](const std::string&) { return chosen; }, 4.4);
        QCoreApplication::processEvents();
        const auto image = chart_->grab().toImage();
        QCOMPARE(image.pixelColor(pixelOf(chosen.kept / static_cast<double>(MiB), chosen.ms)), Theme::light().accent);
    }

    /// Axes and the curves of other modules are kept from plan to plan.
    void anotherPlanIsPaintedAsInANewView()
    {
        const auto planned = [&](double ratio) {
            return [this, ratio](const std::string& fqn) { return tradeOffPoint(*findModule(*info_, fqn), ratio); };
        };
        QCoreApplication::processEvents();
        const auto without = chart_->grab().toImage();
        view_->setPlan(planned(0.2), 4.4);
        const auto before = chart_->grab().toImage();
        view_->setPlan(planned(0.6), 4.4);
        const auto after = chart_->grab().toImage();
        QVERIFY(before != without);
        QVERIFY(after != before);
        init();
        view_->setPlan(planned(0.6), 4.4);
        QCoreApplication::processEvents();
        QCOMPARE(chart_->grab().toImage(), after);
    }

    void onlyWhatShowsThePlanIsRepainted()
    {
        const TradeOffPoint first = tradeOffPoint(*findModule(*info_, "GPT.layers.42"), 0.2);
        const TradeOffPoint second = tradeOffPoint(*findModule(*info_, "GPT.layers.42"), 0.35);
        QVERIFY(QTest::qWaitForWindowExposed(view_.get()));
        view_->setPlan([&](const std::string&) { return first; }, 40);
        QCoreApplication::processEvents();
        QTest::qWait(60);
        const QImage before = chart_->viewport()->grab().toImage();
        PaintedRegion painted(chart_->viewport());
        view_->setPlan([&](const std::string&) { return second; }, 60);
        QTRY_VERIFY(!painted.region.isEmpty());
        const QRegion region = painted.region;
        const QImage after = chart_->viewport()->grab().toImage();
        QVERIFY(after != before);
        for (int y = 0; y < after.height(); ++y)
            for (int x = 0; x < after.width(); ++x)
                QVERIFY(after.pixel(x, y) == before.pixel(x, y) || region.contains(QPoint(x, y)));
        const QSize size = region.boundingRect().size();
        QVERIFY(2 * size.width() * size.height() < after.width() * after.height());
    }
};

QTEST_MAIN(TradeOffViewTest)
#include "tradeoff_view_test.moc"
