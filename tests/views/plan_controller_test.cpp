// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/plan_controller.h"

#include "app/window/session.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/block_engine.h"

#include <QSignalSpy>
#include <QTest>

#include <memory>
#include <vector>

using namespace headroom;

/// The session asks, the controller answers: BlockEngine says how long that takes.
class PlanControllerTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        control_ = std::make_shared<BlockEngine::Control>();
        const StepEnginePtr engine
            = *BlockEngine::create(makeSyntheticStep({.blocks = 6, .activation = 64 * MiB}), control_);
        step_ = std::make_shared<const OpenStep>(
            OpenStep{QStringLiteral("step.hrs"), engine, moduleNames(*engine->trace()), engine->trace(), {}});
        peak_ = engine->recorded()->peak;
        session_ = std::make_unique<Session>();
        controller_ = std::make_unique<PlanController>(*session_);
        answers_.clear();
        connect(session_.get(), &Session::answerChanged, this, [this] {
            if (session_->answer())
                answers_.push_back(session_->answer());
        });
    }

    void cleanup()
    {
        controller_.reset();
        session_.reset();
    }

    void answerCarriesPlanTimelineAndEffects()
    {
        const Bytes budget = peak_ * 7 / 10;
        const PlanAnswerPtr answer = openAt(budget);
        QVERIFY(answer->fits());
        QCOMPARE(answer->request.budget, budget);
        QVERIFY(answer->timeline->peak <= budget);
        QCOMPARE(answer->effects[0].recomputeMs, answer->timeline->recomputeMs);
        QVERIFY(!controller_->solving());
    }

    void whereNothingFitsTheClosestPlanIsShown()
    {
        const PlanAnswerPtr answer = openAt(64 * MiB);
        QVERIFY(!answer->fits());
        QVERIFY(answer->closest != nullptr);
        QCOMPARE(answer->shown().timeline->peak, answer->plan.leastBudget);
        QCOMPARE(answer->shown().effects[0].recomputeMs, answer->shown().timeline->recomputeMs);
        const int solves = control_->solves;
        QVERIFY(answerTo(65 * MiB)->closest != nullptr);
        QCOMPARE(control_->solves.load(), solves + 1); // it is remembered, not solved again
    }

    void aGuessedBudgetGivesWayToTheLeastThatFits()
    {
        session_->open(step_, 64 * MiB);
        controller_->setBudgetIsGuess(true);
        QTRY_VERIFY(!answers_.empty() && answers_.back()->fits());
        QCOMPARE(session_->budget(), answers_.front()->plan.leastBudget);
        answerTo(64 * MiB); // what the user asks for stays
        QCOMPARE(session_->budget(), 64 * MiB);
    }

    void onlyTheLatestQuestionIsAnswered()
    {
        openAt(peak_);
        control_->hold = true;
        control_->solves = 0;
        answers_.clear();
        session_->dragBudget(peak_ + MiB);
        QTRY_COMPARE(control_->solves.load(), 1);
        for (int i = 1; i < 100; ++i)
            session_->dragBudget(peak_ - i * MiB);
        control_->hold = false;
        QTRY_VERIFY(!controller_->solving());
        QVERIFY(answers_.size() <= 2); // the one that ran, unless it was stopped, and the last
        QVERIFY(control_->solves.load() < 10);
        QCOMPARE(answers_.back()->request.budget, peak_ - 99 * MiB);
    }

    void longSolveIsStoppedForANewerQuestion()
    {
        openAt(peak_);
        control_->solveMs = 60'000;
        control_->solves = 0;
        session_->dragBudget(peak_ + MiB);
        QTRY_COMPARE(control_->solves.load(), 1);
        control_->solveMs = 0;
        QCOMPARE(answerTo(peak_ - GiB)->request.budget, peak_ - GiB);
        QCOMPARE(control_->stopped.load(), 1);
    }

    void dragShowsPlansOnItsWay()
    {
        openAt(peak_);
        control_->solveMs = 12; // longer than the time between two moves of the mouse
        answers_.clear();
        for (int i = 1; i <= 30; ++i) {
            session_->dragBudget(peak_ - i * MiB);
            QTest::qWait(5);
        }
        QVERIFY2(answers_.size() >= 2, qPrintable(QString::number(answers_.size())));
        QTRY_VERIFY(!controller_->solving());
        Bytes before = peak_; // each answer is to a later request than the one before
        for (const PlanAnswerPtr& answer : answers_) {
            QVERIFY(answer->request.budget < before);
            before = answer->request.budget;
        }
    }

    void aFirstAnswerIsFollowedByItsProof()
    {
        control_->proofMs = PlanController::proofMs;
        session_->open(step_, peak_ * 7 / 10);
        QTRY_COMPARE(answers_.size(), 2U);
        const PlanAnswerPtr& first = answers_[0];
        const PlanAnswerPtr& proof = answers_[1];
        QVERIFY(first->preliminary);
        QVERIFY(first->plan.status == PlanStatus::feasible);
        QVERIFY(!proof->preliminary);
        QVERIFY(proof->plan.status == PlanStatus::optimal);
        QCOMPARE(proof->request.budget, first->request.budget);
        QVERIFY(!proof->effects.empty());
    }

    void noProofComesOfAnOldQuestion()
    {
        control_->proofMs = PlanController::proofMs;
        session_->open(step_, peak_);
        QTRY_VERIFY(!answers_.empty());
        control_->solveMs = 20;
        session_->dragBudget(peak_ - GiB); // while the first is being proven
        QTRY_VERIFY(answers_.back()->request.budget == peak_ - GiB && !answers_.back()->preliminary);
        Bytes before = peak_;
        for (const PlanAnswerPtr& answer : answers_) {
            QVERIFY(answer->request.budget <= before);
            before = answer->request.budget;
        }
    }

    void answersToAClosedStepDoNotCome()
    {
        control_->solveMs = 30;
        session_->open(step_, peak_);
        session_->close();
        QTest::qWait(200);
        QVERIFY(answers_.empty());
        QVERIFY(!controller_->solving());
    }

    void plansByOpComeOfTheirFrontier()
    {
        openAt(peak_);
        control_->solves = 0;
        session_->setMode(PlanMode::ops);
        const Bytes budget = peak_ * 9 / 10;
        const PlanAnswerPtr answer = answerTo(budget);
        QCOMPARE(control_->solves.load(), 0); // the engine plans modules
        QVERIFY(answer->mode() == PlanMode::ops);
        QVERIFY(answer->fits() && answer->timeline->peak <= budget);
        QVERIFY(answer->regions.empty());
        QCOMPARE(answer->plan.baselinePeak, peak_);
        QVERIFY(answer->plan.stepMs > 0);
    }

    void whereNoPlanByOpFitsTheLowestIsShown()
    {
        openAt(peak_);
        session_->setMode(PlanMode::ops);
        QTRY_VERIFY(session_->frontierIsFinal());
        const PlanAnswerPtr answer = answerTo(MiB);
        QVERIFY(!answer->fits());
        QVERIFY(answer->plan.status == PlanStatus::infeasible);
        QVERIFY(answer->closest && answer->closest->ops == answer->ops);
        QCOMPARE(answer->shown().timeline->peak, answer->plan.leastBudget);
        QCOMPARE(answer->closest->plan.peak, answer->plan.leastBudget);
        QVERIFY(!answer->plan.reason.empty());
    }

    void badPinIsSaidInASentence()
    {
        openAt(GiB);
        QSignalSpy failed(controller_.get(), &PlanController::failed);
        session_->setPin("Transformer.output", Pin::save);
        QVERIFY(failed.wait());
        QVERIFY(failed.first().first().toString().contains(QStringLiteral("Transformer.output")));
    }

    void frontierIsToldWhileItGrowsAndDelaysNoSolve()
    {
        control_->holdFrontier = true;
        QSignalSpy changed(session_.get(), &Session::frontierChanged);
        QVERIFY(openAt(peak_)->fits());
        QTRY_VERIFY(session_->frontier() != nullptr);
        QCOMPARE(session_->frontier()->size(), 2U);
        QVERIFY(!session_->frontierIsFinal());
        QVERIFY(answerTo(peak_ - MiB)->fits());
        control_->holdFrontier = false;
        QTRY_VERIFY(session_->frontierIsFinal());
        QVERIFY(session_->frontier()->size() > 2U);
        QCOMPARE(session_->frontier()->back().peak, peak_);
        QCOMPARE(session_->frontier()->back().recomputeMs, 0.0);
    }

    void optionsAreThoseOfTheSelectedModule()
    {
        openAt(peak_);
        const ModuleId block = moduleNamed(step_->trace(), "Transformer.layers.1");
        QVERIFY(block.valid());
        session_->select(block);
        QTRY_VERIFY(session_->options() != nullptr);
        QVERIFY(session_->options()->module == block);
        QVERIFY(session_->options()->options.size() >= 2);
    }

    void endingWhileSolvingDoesNotHang()
    {
        control_->solveMs = 60'000;
        session_->open(step_, GiB);
        QTRY_COMPARE(control_->solves.load(), 1);
        controller_.reset(); // stops the solve and waits for its thread
        QCOMPARE(control_->stopped.load(), 1);
    }

private:
    PlanAnswerPtr openAt(Bytes budget)
    {
        session_->open(step_, budget);
        return next();
    }
    PlanAnswerPtr answerTo(Bytes budget)
    {
        answers_.clear();
        session_->commitBudget(budget);
        return next();
    }
    /// The answer to the question as it stands.
    PlanAnswerPtr next()
    {
        if (!QTest::qWaitFor([this] { return session_->answer() && session_->answerIsCurrent(); }))
            qFatal("no answer came");
        return session_->answer();
    }

    std::shared_ptr<BlockEngine::Control> control_;
    OpenStepPtr step_;
    Bytes peak_ = 0;
    std::unique_ptr<Session> session_;
    std::unique_ptr<PlanController> controller_;
    std::vector<PlanAnswerPtr> answers_;
};

QTEST_GUILESS_MAIN(PlanControllerTest)
#include "plan_controller_test.moc"
