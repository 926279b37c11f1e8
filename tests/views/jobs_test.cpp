// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/jobs.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/block_engine.h"

#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <thread>

using namespace headroom;

class JobsTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        folder_ = std::make_unique<QTemporaryDir>();
        file_ = folder_->filePath(QStringLiteral("step.hrs"));
        QVERIFY(writeStepTrace(*makeSyntheticStep({.blocks = 6, .activation = 64 * MiB}), file_.toStdString()).ok());
        control_ = std::make_shared<BlockEngine::Control>();
        jobs_ = std::make_unique<Jobs>(
            [control = control_](StepTracePtr trace) { return BlockEngine::create(std::move(trace), control); });
    }

    void opensAStep()
    {
        const OpenStepPtr step = open();
        QVERIFY(step);
        QCOMPARE(step->path, file_);
        QCOMPARE(step->recorded().size(), step->trace().modules.size());
    }

    void brokenFileNamesTheOffset()
    {
        QFile file(file_);
        QVERIFY(file.resize(1000));
        QSignalSpy failed(jobs_.get(), &Jobs::openFailed);
        jobs_->open(file_);
        QVERIFY(failed.wait());
        const QString reason = failed.first().at(1).toString();
        QVERIFY2(reason.contains(QStringLiteral("step.hrs")) && reason.contains(QStringLiteral("offset")),
                 qPrintable(reason));
    }

    void laterOpeningWins()
    {
        QSignalSpy opened(jobs_.get(), &Jobs::opened);
        QSignalSpy failed(jobs_.get(), &Jobs::openFailed);
        jobs_->open(QStringLiteral("/nowhere/first.hrs"));
        jobs_->open(file_);
        QVERIFY(opened.wait());
        QTest::qWait(20);
        QCOMPARE(failed.count(), 0);
        QCOMPARE(opened.count(), 1);
    }

    void forgottenOpeningSaysNothing()
    {
        QSignalSpy opened(jobs_.get(), &Jobs::opened);
        jobs_->open(file_);
        jobs_->forgetOpening();
        QVERIFY(!opened.wait(200));
    }

    void answerCarriesPlanTimelineAndEffects()
    {
        const OpenStepPtr step = open();
        const Bytes budget = step->engine->recorded()->peak * 7 / 10;
        const PlanAnswerPtr answer = solve(step, budget);
        QVERIFY(answer->fits());
        QCOMPARE(answer->request.budget, budget);
        QVERIFY(answer->step.timeline->peak <= budget);
        QCOMPARE(answer->effects[0].recomputeMs, answer->step.timeline->recomputeMs);
        QVERIFY(!jobs_->solving());
    }

    void whereNothingFitsTheClosestPlanIsShown()
    {
        const OpenStepPtr step = open();
        const PlanAnswerPtr answer = solve(step, 64 * MiB);
        QVERIFY(!answer->fits());
        QVERIFY(answer->closest.has_value());
        QCOMPARE(answer->shown().timeline->peak, answer->step.plan.leastBudget);
        const int solves = control_->solves;
        QVERIFY(solve(step, 65 * MiB)->closest.has_value());
        QCOMPARE(control_->solves.load(), solves + 1); // it is remembered, not solved again
    }

    void onlyTheLatestQuestionIsAnswered()
    {
        const OpenStepPtr step = open();
        control_->hold = true;
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        const Bytes peak = step->engine->recorded()->peak;
        ask(step, peak);
        QTRY_COMPARE(control_->solves.load(), 1);
        for (int i = 1; i < 100; ++i)
            ask(step, peak - i * MiB);
        control_->hold = false;
        QTRY_VERIFY(!jobs_->solving());
        QVERIFY(planned.count() <= 2); // the one that ran, unless it was stopped, and the last
        QVERIFY(control_->solves.load() < 10);
        QCOMPARE(planned.last().first().value<PlanAnswerPtr>()->request.budget, peak - 99 * MiB);
    }

    void longSolveIsStoppedForANewerQuestion()
    {
        const OpenStepPtr step = open();
        control_->solveMs = 60'000;
        const Bytes peak = step->engine->recorded()->peak;
        ask(step, peak);
        QTRY_COMPARE(control_->solves.load(), 1);
        control_->solveMs = 0;
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        ask(step, peak - GiB);
        QVERIFY(planned.wait(5000));
        QCOMPARE(control_->stopped.load(), 1);
        QCOMPARE(planned.last().first().value<PlanAnswerPtr>()->request.budget, peak - GiB);
    }

    void dragShowsPlansOnItsWay()
    {
        const OpenStepPtr step = open();
        control_->solveMs = 12; // longer than the time between two moves of the mouse
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        const Bytes peak = step->engine->recorded()->peak;
        for (int i = 0; i < 30; ++i) {
            ask(step, peak - i * MiB);
            QTest::qWait(5);
        }
        QVERIFY2(planned.count() >= 2, qPrintable(QString::number(planned.count())));
        QTRY_VERIFY(!jobs_->solving());
        quint64 generation = 0;
        for (const auto& arguments : planned) {
            const auto answer = arguments.first().value<PlanAnswerPtr>();
            QVERIFY(answer->generation > generation);
            generation = answer->generation;
        }
    }

    void aFirstAnswerIsFollowedByItsProof()
    {
        const OpenStepPtr step = open();
        control_->proofMs = Jobs::proofMs;
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        ask(step, step->engine->recorded()->peak * 7 / 10);
        QTRY_COMPARE(planned.count(), 2);
        const auto first = planned.at(0).first().value<PlanAnswerPtr>();
        const auto proof = planned.at(1).first().value<PlanAnswerPtr>();
        QVERIFY(first->proving);
        QVERIFY(first->step.plan.status == PlanStatus::feasible);
        QVERIFY(!proof->proving);
        QVERIFY(proof->step.plan.status == PlanStatus::optimal);
        QCOMPARE(proof->generation, first->generation);
        QVERIFY(!proof->effects.empty());
    }

    void noProofComesOfAnOldQuestion()
    {
        const OpenStepPtr step = open();
        control_->proofMs = Jobs::proofMs;
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        const Bytes peak = step->engine->recorded()->peak;
        ask(step, peak);
        QTRY_VERIFY(planned.count() >= 1);
        control_->solveMs = 20;
        ask(step, peak - GiB); // while the first is being proven
        QTRY_VERIFY(planned.last().first().value<PlanAnswerPtr>()->request.budget == peak - GiB
                    && !planned.last().first().value<PlanAnswerPtr>()->proving);
        quint64 generation = 0;
        for (const auto& arguments : planned) {
            const auto answer = arguments.first().value<PlanAnswerPtr>();
            QVERIFY(answer->generation >= generation);
            generation = answer->generation;
        }
        jobs_->forgetPlans();
        const auto count = planned.count();
        QTest::qWait(50);
        QCOMPARE(planned.count(), count);
    }

    void forgottenPlansDoNotCome()
    {
        const OpenStepPtr step = open();
        control_->solveMs = 30;
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        ask(step, step->engine->recorded()->peak);
        jobs_->forgetPlans();
        QVERIFY(!planned.wait(200));
        QVERIFY(!jobs_->solving());
    }

    void badPinIsSaidInASentence()
    {
        const OpenStepPtr step = open();
        PlanRequest request;
        request.budget = GiB;
        request.pins.emplace("Transformer.output", Pin::save);
        QSignalSpy failed(jobs_.get(), &Jobs::planFailed);
        jobs_->solve(step, request);
        QVERIFY(failed.wait());
        QVERIFY(failed.first().first().toString().contains(QStringLiteral("Transformer.output")));
    }

    void frontierDoesNotDelayASolve()
    {
        const OpenStepPtr step = open();
        QSignalSpy frontier(jobs_.get(), &Jobs::frontierComputed);
        PlanRequest request;
        request.budget = step->engine->recorded()->peak;
        jobs_->computeFrontier(step, request, 20);
        QVERIFY(solve(step, request.budget)->fits());
        QTRY_COMPARE(frontier.count(), 1);
        const auto points = frontier.first().first().value<FrontierPtr>();
        QCOMPARE(points->back().peak, step->engine->recorded()->peak);
        QCOMPARE(points->back().recomputeMs, 0.0);
    }

    void frontierIsToldWhileItGrows()
    {
        const OpenStepPtr step = open();
        QSignalSpy grew(jobs_.get(), &Jobs::frontierGrew);
        QSignalSpy computed(jobs_.get(), &Jobs::frontierComputed);
        PlanRequest request;
        request.budget = step->engine->recorded()->peak;
        control_->holdFrontier = true;
        jobs_->computeFrontier(step, request, 20);
        QTRY_COMPARE(grew.count(), 1);
        QCOMPARE(grew.first().first().value<FrontierPtr>()->size(), 2U);
        QCOMPARE(computed.count(), 0);
        control_->holdFrontier = false;
        QTRY_COMPARE(computed.count(), 1);
        QVERIFY(computed.first().first().value<FrontierPtr>()->size() > 2U);
    }

    void listsWhatIsAlive()
    {
        const OpenStepPtr step = open();
        const TimelinePtr& recorded = step->engine->recorded();
        QSignalSpy listed(jobs_.get(), &Jobs::liveMemoryListed);
        jobs_->listLiveMemory(step, recorded, recorded->peakChange + 1);
        QVERIFY(listed.wait());
        QCOMPARE(listed.first().first().value<LiveMemoryPtr>()->table.total, recorded->peak);
    }

    void closingWhileSolvingDoesNotHang()
    {
        const OpenStepPtr step = open();
        control_->solveMs = 60'000;
        ask(step, GiB);
        QTRY_COMPARE(control_->solves.load(), 1);
        jobs_.reset(); // stops the solve and waits for its thread
        QCOMPARE(control_->stopped.load(), 1);
    }

private:
    OpenStepPtr open()
    {
        QSignalSpy opened(jobs_.get(), &Jobs::opened);
        jobs_->open(file_);
        return opened.wait() ? opened.first().first().value<OpenStepPtr>() : nullptr;
    }
    void ask(const OpenStepPtr& step, Bytes budget)
    {
        PlanRequest request;
        request.budget = budget;
        jobs_->solve(step, request);
    }
    PlanAnswerPtr solve(const OpenStepPtr& step, Bytes budget)
    {
        QSignalSpy planned(jobs_.get(), &Jobs::planned);
        ask(step, budget);
        return planned.wait() ? planned.first().first().value<PlanAnswerPtr>() : nullptr;
    }

    std::unique_ptr<QTemporaryDir> folder_;
    QString file_;
    std::shared_ptr<BlockEngine::Control> control_;
    std::unique_ptr<Jobs> jobs_;
};

QTEST_GUILESS_MAIN(JobsTest)
#include "jobs_test.moc"
