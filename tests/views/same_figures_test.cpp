// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Window and command line say the same of one plan: what each module discards, and what memory costs.

#include "app/window/open_step.h"
#include "app/window/plan_text.h"
#include "app/window/session.h"
#include "core/trace/step_file.h"
#include "tests/cli/process.h"
#include "tests/core/synthetic_step.h"
#include "views/models/module_tree_model.h"

#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace headroom;

class SameFiguresTest : public QObject
{
    Q_OBJECT

private:
    static QString pillOf(const ModuleTreeModel& model, ModuleId module)
    {
        return model.indexOf(module).data(ModuleTreeModel::PillRole).toString();
    }

private Q_SLOTS:
    void ofOnePlan_data()
    {
        QTest::addColumn<int>("microBatches");
        QTest::newRow("one batch") << 1;
        QTest::newRow("gradient accumulation") << 3;
    }

    void ofOnePlan()
    {
        QFETCH(int, microBatches);
        const StepTracePtr trace
            = makeSyntheticStep({.blocks = 6, .activation = 64 * MiB, .weight = 8 * MiB, .microBatches = microBatches});
        const QTemporaryDir folder;
        const std::string file = folder.filePath(QStringLiteral("step.hrs")).toStdString();
        QVERIFY(writeStepTrace(*trace, file));
        const StepEnginePtr engine = makePlannerEngine(trace).value();

        PlanRequest request;
        request.budget = engine->recorded()->peak * 7 / 10;
        const PlanAnswer answer = engine->solve(request, {}, 10'000).value();
        Session session;
        session.open(
            std::make_shared<const OpenStep>(OpenStep{QString::fromStdString(file), engine, moduleNames(*trace)}),
            request.budget);
        session.setAnswer(std::make_shared<const PlanAnswer>(answer));
        ModuleTreeModel model;
        model.setStep(trace, session.step()->recorded());
        model.setPlan(answer.regions, answer.effects);

        const std::vector<std::string> question{"plan",          file,  "--budget", std::to_string(request.budget),
                                                "--calibration", "none"};
        std::vector<std::string> asJson = question;
        asJson.emplace_back("--json");
        const auto json = headroomProgram(asJson).json();
        const std::string text = headroomProgram(question).out;

        QVERIFY(!json["decisions"].empty());
        QCOMPARE(json["decisions"].size(), answer.regions.size());
        double outermostMs = 0;
        for (const CheckpointRegion& region : answer.regions) {
            const std::string fqn(trace->moduleFqn(region.module));
            const double share = json["decisions"][fqn].get<double>();
            QVERIFY2(share > 0 && share < 1, fqn.c_str()); // a block keeps its result
            QCOMPARE(pillOf(model, region.module), QStringLiteral("%1 %").arg(std::lround(100 * share)));
            outermostMs += answer.effects[region.module.value].recomputeMs;
        }
        QVERIFY(std::abs(outermostMs - json["recompute_ms"].get<double>()) < 1e-6);

        const double price = json["ms_per_gib"].get<double>();
        QVERIFY(price > 0);
        QCOMPARE(session.msPerGiB(), price);
        const QString shown = QString::number(price, 'f', 2) + QStringLiteral(" ms");
        session.select(answer.regions.front().module);
        const QString reason = moduleFacts(session).reason;
        QVERIFY2(reason.contains(shown + QStringLiteral(" per GiB")), qPrintable(reason));
        QVERIFY2(QString::fromStdString(text).contains(shown), text.c_str());
    }
};

QTEST_MAIN(SameFiguresTest)
#include "same_figures_test.moc"
