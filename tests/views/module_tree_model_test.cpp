// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/step_model.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"
#include "views/models/module_tree_model.h"
#include "views/models/table_delegate.h"

#include <QAbstractItemModelTester>
#include <QImage>
#include <QPainter>
#include <QSignalSpy>
#include <QTest>

#include <cmath>

using namespace headroom;

class ModuleTreeModelTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        trace_ = makeSyntheticStep({.blocks = 12});
        effects_ = std::make_unique<ModuleEffects>(StepModel(trace_));
        recorded_ = effects_->recorded();
        model_ = std::make_unique<ModuleTreeModel>();
        tester_ = std::make_unique<QAbstractItemModelTester>(model_.get(),
                                                             QAbstractItemModelTester::FailureReportingMode::QtTest);
        model_->setStep(trace_, recorded_);
    }
    void cleanup()
    {
        tester_.reset();
        model_.reset();
    }

    void listsAreNoRowsOfTheirOwn()
    {
        QStringList top;
        for (int row = 0; row < model_->rowCount(); ++row)
            top << model_->index(row, 0).data().toString();
        QCOMPARE(top.first(), QStringLiteral("tok_embeddings"));
        QCOMPARE(top[1], QStringLiteral("layers.0"));
        QCOMPARE(top[11], QStringLiteral("layers.10")); // natural order: after layers.9
        QCOMPARE(top.last(), QStringLiteral("output"));
        QCOMPARE(top.size(), 14);
    }

    void aModelThatDidNotRunIsOneRowAtTheTop()
    {
        StepTraceBuilder builder;
        const ModuleId root = builder.addModule("models", "Models", {});
        std::vector<ModuleId> blocks;
        for (const std::string net : {"models.Net", "models.Net_2"}) { // the second: an average of weights
            const ModuleId model = builder.addModule(net, "Net", root);
            const ModuleId layers = builder.addModule(net + ".layers", "ModuleList", model);
            blocks.push_back(builder.addModule(net + ".layers.0", "Linear", layers));
        }
        builder.mark(Mark::stepBegin);
        builder.exit(builder.enter(blocks.front(), {}), {});
        const StepTracePtr step = *builder.finish();
        model_->setStep(step, std::vector<ModuleEffect>(step->modules.size()));
        QCOMPARE(model_->rowCount(), 2);
        QCOMPARE(model_->index(0, 0).data().toString(), QStringLiteral("Net.layers.0"));
        const QModelIndex average = model_->index(1, 0);
        QCOMPARE(average.data().toString(), QStringLiteral("Net_2"));
        QCOMPARE(model_->index(0, 0, model_->index(0, 0, average)).data().toString(), QStringLiteral("layers.0"));
    }

    void childrenAreNamedBelowTheirParent()
    {
        const QModelIndex block = model_->indexOf(moduleNamed("Transformer.layers.3"));
        QCOMPARE(model_->rowCount(block), 4);
        QCOMPARE(model_->index(1, 0, block).data().toString(), QStringLiteral("attention"));
        const QModelIndex wq = model_->indexOf(moduleNamed("Transformer.layers.3.attention.wq"));
        QCOMPARE(wq.parent().parent(), block);
        QCOMPARE(wq.data(ModuleTreeModel::FqnRole).toString(), QStringLiteral("Transformer.layers.3.attention.wq"));
        QVERIFY(!model_->indexOf(moduleNamed("Transformer.layers")).isValid());
    }

    void exposedCommunicationIsAColumn()
    {
        std::vector<double> ms(trace_->modules.size(), 0);
        const ModuleId block = moduleNamed("Transformer.layers.3");
        ms[block.value] = 1.25;
        QSignalSpy changes(model_.get(), &QAbstractItemModel::dataChanged);
        model_->setExposed(ms);
        QCOMPARE(changes.count(), 1);
        const QModelIndex index = model_->indexOf(block, ModuleTreeModel::exposedColumn);
        QCOMPARE(index.data().toString(), QStringLiteral("1.25"));
        QCOMPARE(index.data(ModuleTreeModel::SortRole).toDouble(), 1.25);
        QCOMPARE(index.data(Qt::AccessibleTextRole).toString(), QStringLiteral("1.25 ms of communication exposed"));
        QCOMPARE(model_->index(0, ModuleTreeModel::exposedColumn).data().toString(), QStringLiteral("–"));
        QCOMPARE(model_->headerData(ModuleTreeModel::exposedColumn, Qt::Horizontal, Qt::DisplayRole).toString(),
                 QStringLiteral("Exp., ms"));
        model_->setExposed({});
        QCOMPARE(index.data().toString(), QStringLiteral("–"));
    }

    void planChangesOnlyItsRows()
    {
        const ModuleId block = moduleNamed("Transformer.layers.3");
        const CheckpointPlan plan{{block, {}}};
        QSignalSpy changes(model_.get(), &QAbstractItemModel::dataChanged);
        QSignalSpy resets(model_.get(), &QAbstractItemModel::modelReset);
        model_->setPlan(plan, effects_->of(plan).value());
        QCOMPARE(resets.count(), 0);
        for (const auto& change : changes) {
            const auto first = change.at(0).toModelIndex();
            const auto last = change.at(1).toModelIndex();
            QCOMPARE(first.parent(), last.parent());
            for (int row = first.row(); row <= last.row(); ++row) {
                const QModelIndex index = model_->index(row, 0, first.parent());
                QVERIFY2(
                    index.data(ModuleTreeModel::FqnRole).toString().startsWith(QStringLiteral("Transformer.layers.3")),
                    qPrintable(index.data(ModuleTreeModel::FqnRole).toString()));
            }
        }
        QVERIFY(changes.count() > 0);

        const QModelIndex row = model_->indexOf(block);
        QCOMPARE(row.data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::checkpointed);
        const double share = discardedShare(effects_->of(plan).value()[block.value]);
        QCOMPARE(row.data(ModuleTreeModel::PillRole).toString(), QStringLiteral("%1 %").arg(std::lround(100 * share)));
        QVERIFY(share > 0.5 && share < 1); // its result is the next block's argument
        const QModelIndex inner = model_->indexOf(moduleNamed("Transformer.layers.3.attention"));
        QCOMPARE(inner.data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::inside);
        QVERIFY(row.data(ModuleTreeModel::KeptRole).toLongLong()
                < row.data(ModuleTreeModel::RecordedRole).toLongLong());
        QVERIFY(row.data(ModuleTreeModel::RecomputeRole).toDouble() > 0);

        changes.clear();
        model_->setPlan(plan, effects_->of(plan).value()); // the same again
        QCOMPARE(changes.count(), 0);
        model_->clearPlan();
        QCOMPARE(row.data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::none);
        QCOMPARE(row.data(ModuleTreeModel::KeptRole), row.data(ModuleTreeModel::RecordedRole));
    }

    void offloadedModulesAreMarkedAndHaveTheirBytes()
    {
        const ModuleId moved = moduleNamed("Transformer.layers.3");
        const ModuleId counted = moduleNamed("Transformer.layers.4");
        const CheckpointPlan plan{{moved, {}, Offload{}}, {counted, {}, Offload{0, 0, false}}};
        const std::vector<ModuleEffect> effects = effects_->of(plan).value();
        model_->setPlan(plan, effects, {{moved, {}, {.bytes = 48 * MiB}}});
        const QModelIndex row = model_->indexOf(moved);
        QCOMPARE(row.data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::offloaded);
        QCOMPARE(row.data(ModuleTreeModel::HostRole).toLongLong(), 48 * MiB);
        QCOMPARE(row.siblingAtColumn(ModuleTreeModel::recomputeColumn).data().toString(), QStringLiteral("–"));
        QVERIFY(row.siblingAtColumn(ModuleTreeModel::hostColumn).data().toString().startsWith(QStringLiteral("48")));
        QVERIFY(row.data(Qt::ToolTipRole).toString().contains(QStringLiteral("Sends 48.0 MiB to the host and back")));
        QVERIFY(row.data(Qt::AccessibleTextRole).toString().contains(QStringLiteral("offloaded")));
        QCOMPARE(model_->count(PlanMark::offloaded), 1);
        // A module that is only counted is as it was.
        QCOMPARE(model_->indexOf(counted).data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::none);
        model_->setPins({{"Transformer.layers.3", Pin::offload}});
        QCOMPARE(row.data(ModuleTreeModel::PinRole).toString(), QStringLiteral("offload"));
        model_->clearPlan();
        QCOMPARE(row.data(ModuleTreeModel::HostRole).toLongLong(), 0);
        QCOMPARE(model_->count(PlanMark::offloaded), 0);
    }

    void partOfABlockIsSaidInPercent()
    {
        const ModuleId block = moduleNamed("Transformer.layers.3");
        CheckpointRegion region{block, StepModel(trace_).savableOps(block)};
        const auto firstSaved = std::find(region.save.begin(), region.save.end(), true);
        *firstSaved = false;
        const CheckpointPlan plan{region};
        model_->setPlan(plan, effects_->of(plan).value());
        const QString pill = model_->indexOf(block).data(ModuleTreeModel::PillRole).toString();
        QVERIFY2(pill.endsWith(QStringLiteral(" %")), qPrintable(pill));
    }

    void listWithACheckpointInsideIsMarkedSo()
    {
        const CheckpointPlan plan{{moduleNamed("Transformer.layers.3.attention"), {}}};
        model_->setPlan(plan, effects_->of(plan).value());
        const QModelIndex block = model_->indexOf(moduleNamed("Transformer.layers.3"));
        QCOMPARE(block.data(ModuleTreeModel::MarkRole).value<PlanMark>(), PlanMark::contains);
        QCOMPARE(block.data(ModuleTreeModel::PillRole).toString(), QStringLiteral("attention"));
        const CheckpointPlan both{plan.front(), {moduleNamed("Transformer.layers.3.feed_forward"), {}}};
        model_->setPlan(both, effects_->of(both).value());
        QCOMPARE(block.data(ModuleTreeModel::PillRole).toString(), QStringLiteral("attention + feed_forward"));
    }

    void aShareIsNeverCut()
    {
        const ModuleId block = moduleNamed("Transformer.layers.3");
        const CheckpointPlan plan{{block, {}}};
        model_->setPlan(plan, effects_->of(plan).value());
        const QModelIndex index = model_->indexOf(block);
        const ModuleDelegate delegate;
        const QFont font = Theme::light().bodyStrong;
        const int name = QFontMetrics(font).horizontalAdvance(index.data().toString());
        const auto pill = [&](int width) {
            QImage cell(width, 25, QImage::Format_ARGB32_Premultiplied);
            cell.fill(Qt::white);
            QPainter painter(&cell);
            QStyleOptionViewItem option;
            option.rect = cell.rect();
            delegate.paint(&painter, option, index);
            painter.end();
            return cell.copy(width - 50, 0, 50, cell.height());
        };
        QCOMPARE(pill(name + 40), pill(name + 200));
    }

    void pinsAreShown()
    {
        model_->setPins({{"Transformer.layers.3", Pin::save}, {"Transformer.layers.4", Pin::recompute}});
        QCOMPARE(model_->indexOf(moduleNamed("Transformer.layers.3")).data(ModuleTreeModel::PinRole).toString(),
                 QStringLiteral("keep"));
        QCOMPARE(model_->indexOf(moduleNamed("Transformer.layers.4")).data(ModuleTreeModel::PinRole).toString(),
                 QStringLiteral("recompute"));
        model_->setPins({});
        QVERIFY(
            model_->indexOf(moduleNamed("Transformer.layers.3")).data(ModuleTreeModel::PinRole).toString().isEmpty());
    }

    void modulesThatKeepNothingSayZero()
    {
        model_->setStep(trace_, std::vector<ModuleEffect>(recorded_.size()));
        QCOMPARE(model_->headerData(ModuleTreeModel::keptColumn, Qt::Horizontal, Qt::DisplayRole).toString(),
                 QStringLiteral("Kept, MiB"));
        QCOMPARE(model_->index(0, ModuleTreeModel::keptColumn).data().toString(), QStringLiteral("0"));
    }

    void closingLeavesNoRows()
    {
        model_->setStep(nullptr, {});
        QCOMPARE(model_->rowCount(), 0);
    }

private:
    ModuleId moduleNamed(std::string_view fqn) const
    {
        for (std::uint32_t i = 0; i < trace_->modules.size(); ++i) {
            if (trace_->moduleFqn(ModuleId(i)) == fqn)
                return ModuleId(i);
        }
        return {};
    }

    StepTracePtr trace_;
    std::unique_ptr<ModuleEffects> effects_;
    std::vector<ModuleEffect> recorded_;
    std::unique_ptr<ModuleTreeModel> model_;
    std::unique_ptr<QAbstractItemModelTester> tester_;
};

QTEST_MAIN(ModuleTreeModelTest)
#include "module_tree_model_test.moc"
