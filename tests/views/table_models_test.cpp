// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/predict.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/synthetic_step.h"
#include "views/models/live_blocks_model.h"
#include "views/models/ops_model.h"

#include <QAbstractItemModelTester>
#include <QTest>

#include <set>

using namespace headroom;

class TableModelsTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase()
    {
        trace_ = makeSyntheticStep({.blocks = 6});
        timeline_ = predict(*trace_, {}).value();
        blocks_ = liveBlocks(*trace_, timeline_, timeline_.peakChange + 1);
    }

    void groupsAddUpToThePeak()
    {
        LiveBlocksModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setTable(makeLiveBlocksTable(trace_, blocks_));
        QCOMPARE(model.totalBytes(), timeline_.peak);
        int count = 0;
        for (int row = 0; row < model.rowCount(); ++row)
            count += model.rowCount(model.index(row, 0));
        QCOMPARE(static_cast<std::size_t>(count), blocks_.size());
        model.clear();
        QCOMPARE(model.rowCount(), 0);
    }

    void groupsOfACategoryAddUpToItsBytes()
    {
        CategoryBytes expected{};
        for (const LiveBlock& block : blocks_)
            expected[static_cast<std::size_t>(block.category)] += block.bytes;
        CategoryBytes found{};
        const LiveBlocksTable table = makeLiveBlocksTable(trace_, blocks_);
        std::set<ModuleId> modules;
        std::size_t inModules = 0;
        for (const LiveBlocksTable::Group& group : table.groups) {
            found[static_cast<std::size_t>(group.category)] += group.bytes;
            for (const std::uint32_t block : group.blocks)
                QVERIFY(table.blocks[block].live.category == group.category);
            inModules += group.module.valid() ? 1 : 0;
            if (group.module.valid())
                modules.insert(group.module);
        }
        QVERIFY(found == expected);
        QVERIFY(modules.size() < inModules); // weights, gradients and activations of one module
    }

    void largestModuleComesFirstAndSortingTurnsAround()
    {
        LiveBlocksModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setTable(makeLiveBlocksTable(trace_, blocks_));
        const auto sizeAt
            = [&](int row) { return model.index(row, LiveBlocksModel::sizeColumn).data().toString().toDouble(); };
        for (int row = 1; row < model.rowCount(); ++row)
            QVERIFY(sizeAt(row - 1) >= sizeAt(row));
        const QPersistentModelIndex first = model.index(0, LiveBlocksModel::nameColumn);
        const QString name = first.data().toString();
        const QPersistentModelIndex block = model.index(0, LiveBlocksModel::sizeColumn, first);
        const QString size = block.data().toString();
        model.sort(LiveBlocksModel::sizeColumn, Qt::AscendingOrder);
        for (int row = 1; row < model.rowCount(); ++row)
            QVERIFY(sizeAt(row - 1) <= sizeAt(row));
        QCOMPARE(first.data().toString(), name); // indexes follow what they stood for
        QCOMPARE(block.data().toString(), size);
        QVERIFY(first.row() > 0);
    }

    void parametersAreNamedAndBlocksSayTheirOp()
    {
        LiveBlocksModel model;
        model.setTable(makeLiveBlocksTable(trace_, blocks_));
        QStringList names;
        for (int row = 0; row < model.rowCount(); ++row) {
            const QModelIndex group = model.index(row, LiveBlocksModel::nameColumn);
            for (int i = 0; i < model.rowCount(group); ++i)
                names << group.data().toString() + QLatin1Char('/') + model.index(i, 0, group).data().toString();
        }
        QVERIFY(names.contains(QStringLiteral("Transformer.layers.0.attention.wq/weight")));
        QVERIFY(names.contains(QStringLiteral("Transformer.layers.0.feed_forward/aten.gelu.default")));
        QVERIFY(names.contains(QStringLiteral("Optimizer state/from before the step")));
    }

    void unshardedBlocksAreGroupedByUnit()
    {
        StepTraceBuilder builder;
        const ModuleId root = builder.addModule("Net", "Net", {});
        const ModuleId unit = builder.addModule("Net.block", "Block", root);
        builder.mark(Mark::stepBegin);
        const OpId op = builder.beginOp({builder.string("op"), {}, root, {}, {}, Phase::forward});
        const StorageId gathered = builder.alloc(MiB, Category::unshardedParameter, op);
        builder.alloc(2 * MiB, Category::communication, op); // of no unit
        builder.alloc(4 * MiB, Category::activation, op);
        builder.addRegistered(unit, "wq.weight", gathered, Category::unshardedParameter);
        builder.endOp(op, {});
        const StepTracePtr trace = *builder.finish();
        const Timeline timeline = predict(*trace, {}).value();
        const auto blocks = liveBlocks(*trace, timeline, timeline.changes.size());
        LiveBlocksModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        const auto table = makeLiveBlocksTable(trace, blocks, LiveBlocksTable::Of::units);
        QVERIFY(table.hasUnits);
        QCOMPARE(table.unsharded, 3 * MiB);
        model.setTable(table);
        QCOMPARE(model.totalBytes(), 3 * MiB);
        QCOMPARE(model.groupCount(), 2U);
        QCOMPARE(model.index(0, 0).data().toString(), QStringLiteral("Communication buffers"));
        QCOMPARE(model.index(1, 0).data().toString(), QStringLiteral("Net.block"));
        QCOMPARE(model.index(0, 0, model.index(1, 0)).data().toString(), QStringLiteral("wq.weight"));
        QCOMPARE(makeLiveBlocksTable(trace, blocks).total, 7 * MiB);
    }

    void opsOfAModuleIncludeItsChildren()
    {
        OpsModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setStep(trace_);
        QCOMPARE(static_cast<std::size_t>(model.rowCount()), trace_->ops.size());
        const ModuleId block = moduleNamed("Transformer.layers.2");
        model.setModule(block);
        QVERIFY(model.rowCount() > 0);
        for (int row = 0; row < model.rowCount(); ++row) {
            const QString module = model.index(row, OpsModel::moduleColumn).data().toString();
            QVERIFY2(module.startsWith(QStringLiteral("Transformer.layers.2")), qPrintable(module));
        }
        model.setModule({});
        QCOMPARE(static_cast<std::size_t>(model.rowCount()), trace_->ops.size());
    }

    void opsSortByTime()
    {
        OpsModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setStep(trace_);
        const QPersistentModelIndex first = model.index(0, OpsModel::nameColumn);
        const OpId op = model.opAt(first);
        model.sort(OpsModel::msColumn, Qt::DescendingOrder);
        for (int row = 1; row < model.rowCount(); ++row)
            QVERIFY(trace_->ops.ms[model.opAt(model.index(row - 1, 0))]
                    >= trace_->ops.ms[model.opAt(model.index(row, 0))]);
        QVERIFY(model.opAt(first) == op);
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
    Timeline timeline_;
    std::vector<LiveBlock> blocks_;
};

QTEST_GUILESS_MAIN(TableModelsTest)
#include "table_models_test.moc"
