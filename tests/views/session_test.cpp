// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recorder_program.h"
#include "app/window/plan_text.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/block_engine.h"

#include <QSignalSpy>
#include <QTest>

using namespace headroom;

namespace {

const std::string block0 = "Transformer.layers.0";

OpenStepPtr openSynthetic()
{
    const StepTracePtr trace = makeSyntheticStep({.blocks = 6, .activation = 64 * MiB, .weight = 8 * MiB});
    return std::make_shared<const OpenStep>(
        OpenStep{QStringLiteral("/tmp/step.hrs"), BlockEngine::create(trace).value(), moduleNames(*trace)});
}

PlanAnswerPtr answerTo(const Session& session)
{
    PlanAnswer answer = session.step()->engine->solve(session.request(), {}, 1000).value();
    answer.request = session.request();
    return std::make_shared<const PlanAnswer>(std::move(answer));
}

} // namespace

class SessionTest : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init()
    {
        session_ = std::make_unique<Session>();
        session_->open(openSynthetic(), 4 * GiB);
    }

    void openingAsksThePlannerOnce()
    {
        Session session;
        QSignalSpy questions(&session, &Session::requestChanged);
        QSignalSpy steps(&session, &Session::stepChanged);
        session.open(openSynthetic(), 4 * GiB);
        QCOMPARE(questions.count(), 1);
        QCOMPARE(steps.count(), 1);
        QCOMPARE(session.budget(), 4 * GiB);
        QVERIFY(!session.dirty());
        session.close();
        QVERIFY(!session.isOpen());
        QCOMPARE(questions.count(), 1); // nothing to ask of no step
    }

    void oneDragIsOneUndoStep()
    {
        QSignalSpy budgets(session_.get(), &Session::budgetChanged);
        for (int i = 1; i <= 5; ++i)
            session_->dragBudget(4 * GiB - i * 64 * MiB);
        QCOMPARE(budgets.count(), 5);
        QCOMPARE(session_->undoStack().count(), 0);
        session_->commitBudget(4 * GiB - 5 * 64 * MiB);
        QCOMPARE(budgets.count(), 5); // the value did not change once more
        QCOMPARE(session_->undoStack().count(), 1);
        session_->undoStack().undo();
        QCOMPARE(session_->budget(), 4 * GiB);
        session_->undoStack().redo();
        QCOMPARE(session_->budget(), 4 * GiB - 5 * 64 * MiB);
    }

    void dragThatEndsWhereItBeganIsNoUndoStep()
    {
        session_->dragBudget(3 * GiB);
        session_->dragBudget(4 * GiB); // Esc
        QVERIFY(!session_->dragging());
        QCOMPARE(session_->undoStack().count(), 0);
        session_->dragBudget(2 * GiB);
        session_->commitBudget(2 * GiB);
        session_->undoStack().undo();
        QCOMPARE(session_->budget(), 4 * GiB);
    }

    void pinsAreUndone()
    {
        QSignalSpy pins(session_.get(), &Session::pinsChanged);
        QSignalSpy questions(session_.get(), &Session::requestChanged);
        session_->setPin(block0, Pin::save);
        session_->setPin(block0, Pin::save); // again: nothing changes
        QCOMPARE(pins.count(), 1);
        QCOMPARE(questions.count(), 1);
        QVERIFY(session_->pin(block0) == Pin::save);
        session_->setPin(block0, Pin::recompute);
        session_->undoStack().undo();
        QVERIFY(session_->pin(block0) == Pin::save);
        session_->clearPins();
        QVERIFY(!session_->hasPins());
        session_->undoStack().undo();
        QVERIFY(session_->pin(block0) == Pin::save);
    }

    void shardingIsUndone()
    {
        QSignalSpy questions(session_.get(), &Session::requestChanged);
        session_->setWorldSize(8);
        session_->setWorldSize(8); // again: nothing changes
        QCOMPARE(questions.count(), 1);
        QCOMPARE(session_->request().worldSize, 8);
        session_->undoStack().undo();
        QCOMPARE(session_->worldSize(), 1);
        session_->setWorldSize(0);
        QCOMPARE(session_->worldSize(), 1);
    }

    /// Each size, card and time model has a step of its own in memory.
    void oldStepsAreForgotten()
    {
        std::vector<std::weak_ptr<const OpenStep>> steps;
        const Bytes budgets[]{4 * GiB, 3 * GiB};
        const int replaced = Session::mostUndoneSteps + 4;
        for (int i = 0; i < replaced; ++i) {
            const OpenStepPtr step = openSynthetic();
            steps.push_back(step);
            session_->replaceStep(step, QStringLiteral("batch %1").arg(i));
            session_->commitBudget(budgets[(i + 1) % 2]);
            if (i == replaced - 2)
                session_->markExported();
        }
        QUndoStack& undo = session_->undoStack();
        const auto living = std::ranges::count_if(steps, [](const auto& step) { return !step.expired(); });
        QCOMPARE(static_cast<int>(living), Session::mostUndoneSteps + 1);
        QCOMPARE(undo.count(), 2 * Session::mostUndoneSteps + 1); // the budget of the oldest step, too
        QVERIFY(session_->dirty());
        QCOMPARE(session_->budget(), budgets[replaced % 2]);
        undo.undo();
        QCOMPARE(session_->budget(), budgets[(replaced + 1) % 2]);
        undo.undo();
        QVERIFY(!session_->dirty()); // as exported
        while (undo.canUndo())
            undo.undo();
        QCOMPARE(session_->step(), steps[3].lock());
        while (undo.canRedo())
            undo.redo();
        QCOMPARE(session_->step(), steps.back().lock());
        QCOMPARE(session_->budget(), budgets[replaced % 2]);
    }

    void exportMakesItClean()
    {
        QSignalSpy dirty(session_.get(), &Session::dirtyChanged);
        session_->commitBudget(3 * GiB);
        QVERIFY(session_->dirty());
        session_->markExported();
        QVERIFY(!session_->dirty());
        session_->undoStack().undo();
        QVERIFY(session_->dirty());
        QCOMPARE(dirty.count(), 3);
    }

    void suggestionIsNotUndone()
    {
        session_->suggestBudget(2 * GiB);
        QCOMPARE(session_->budget(), 2 * GiB);
        QCOMPARE(session_->undoStack().count(), 0);
        QVERIFY(!session_->dirty());
    }

    void answerBelongsToAQuestion()
    {
        session_->setAnswer(answerTo(*session_));
        QVERIFY(session_->answerIsCurrent());
        session_->dragBudget(session_->budget() - MiB);
        QVERIFY(!session_->answerIsCurrent());
        session_->dragBudget(4 * GiB);
        QVERIFY(session_->answerIsCurrent());
        session_->setPin(block0, Pin::save);
        QVERIFY(!session_->answerIsCurrent());
    }

    void inspectorSaysWhatTheModuleFrees()
    {
        session_->suggestBudget(session_->recordedPeak() * 6 / 10);
        session_->setAnswer(answerTo(*session_));
        QVERIFY(session_->feasible());
        session_->select(moduleNamed(block0));
        const ModuleFacts facts = moduleFacts(*session_);
        QCOMPARE(facts.name, QStringLiteral("layers.0"));
        QCOMPARE(facts.description, QStringLiteral("TransformerBlock, 80.0 MiB of weights"));
        QVERIFY(facts.whyNot.isEmpty());
        QVERIFY(!facts.pin);
        const ModuleEffect& effect = session_->answer()->effects[moduleNamed(block0).value];
        const QString freed = QString::fromStdString(formatBytes(effect.recorded - effect.kept, 1));
        QVERIFY2(facts.reason.startsWith(QStringLiteral("Frees ") + bold(freed)), qPrintable(facts.reason));
        QCOMPARE(facts.chosenPoint, -1); // what the plan chose is none of PyTorch's corners
        QVERIFY(planSummary(*session_).contains(QStringLiteral("recomputed")));
        QCOMPARE(solverLine(*session_), QStringLiteral("Proven optimal in 1.10 ms"));
        QVERIFY(frontierLine(*session_).isEmpty());
        session_->setFrontier(std::make_shared<const std::vector<FrontierPoint>>(
            std::vector<FrontierPoint>{{GiB, 2, 0, 2 * GiB - 1}, {2 * GiB, 0, 0, 2 * GiB}}));
        QCOMPARE(frontierLine(*session_), QStringLiteral("The cost curve is complete: 2 plans, each proven optimal"));
        session_->setFrontier(std::make_shared<const std::vector<FrontierPoint>>(
            std::vector<FrontierPoint>{{GiB, 2, 0.1, GiB}, {2 * GiB, 0, 0, 2 * GiB}}));
        QCOMPARE(frontierLine(*session_), QStringLiteral("The cost curve shows 2 of many plans, 1 proven optimal"));
        QVERIFY(session_->frontierIsFinal());
        session_->setFrontier(session_->frontier(), {}, false);
        QCOMPARE(frontierLine(*session_), QStringLiteral("The cost curve is being computed: 2 plans so far"));
        QVERIFY(!session_->frontierIsFinal());
    }

    void leafSaysWhyItHasNoOptions()
    {
        session_->setAnswer(answerTo(*session_));
        session_->select(moduleNamed("Transformer.layers.0.attention.wq"));
        const ModuleFacts facts = moduleFacts(*session_);
        QVERIFY(!facts.whyNot.isEmpty());
        QCOMPARE(facts.name, QStringLiteral("layers.0.attention.wq"));
    }

    void infeasibleSaysTheLeastBudget()
    {
        session_->suggestBudget(64 * MiB);
        session_->setAnswer(answerTo(*session_));
        QVERIFY(!session_->feasible());
        const auto facts = infeasibleFacts(*session_);
        QVERIFY(facts.has_value());
        QCOMPARE(facts->headline, QStringLiteral("No plan fits 64.00 MiB"));
        QCOMPARE(facts->leastBudget, session_->answer()->plan.leastBudget);
        QCOMPARE(session_->leastBudget(), facts->leastBudget);
        QVERIFY(!session_->budgetSeemsEnough());
        session_->dragBudget(facts->leastBudget);
        QVERIFY(session_->budgetSeemsEnough()); // not solved yet, but known
        QVERIFY(facts->reason.contains(QStringLiteral("Transformer.output")));
    }

    void anAnswerKnowsLeanerPlansThanAGrowingCurve()
    {
        session_->suggestBudget(session_->recordedPeak() * 6 / 10);
        session_->setAnswer(answerTo(*session_));
        const Bytes least = session_->answer()->plan.leastBudget;
        QVERIFY(session_->feasible() && least > 0);
        const Bytes more = session_->budget() + MiB;
        session_->setFrontier(std::make_shared<const std::vector<FrontierPoint>>(
                                  std::vector<FrontierPoint>{{more, 2, 1, more}, {2 * more, 0, 0, 2 * more}}),
                              {}, false);
        QCOMPARE(session_->leastBudget(), least);
        session_->setWorldSize(2); // the answer is of another request
        QCOMPARE(session_->leastBudget(), more);
    }

    void optionsAreThoseOfTheSelectedModule()
    {
        session_->select(moduleNamed(block0));
        const auto optionsOf = [this](ModuleId module) {
            return std::make_shared<const OptionsOfModule>(
                OptionsOfModule{module, session_->step()->engine->moduleOptions(module).value()});
        };
        session_->setOptions(optionsOf(moduleNamed("Transformer.layers.1"))); // of what was selected before
        QVERIFY(!session_->options());
        QVERIFY(moduleFacts(*session_).curveTitle.contains(QStringLiteral("PyTorch")));
        session_->setOptions(optionsOf(moduleNamed(block0)));
        QVERIFY(session_->options());
        session_->commitBudget(session_->recordedPeak() / 2);
        session_->setAnswer(answerTo(*session_));
        QVERIFY(session_->feasible());
        const ModuleFacts facts = moduleFacts(*session_);
        QCOMPARE(facts.curveTitle, QStringLiteral("Checkpointing options"));
        QCOMPARE(facts.curve.size(), std::size_t(2));
        QCOMPARE(facts.curve[0].ms, 0.0);
        QCOMPARE(facts.chosenPoint, 1);
        const ModuleEffect& effect = session_->answer()->effects[moduleNamed(block0).value];
        QCOMPARE(facts.curve[1].kept, static_cast<double>(effect.kept));
        QCOMPARE(facts.curve[1].ms, effect.recomputeMs);
        session_->select(moduleNamed("Transformer.layers.1"));
        QVERIFY(!session_->options());
    }

    void firstBudgetIsThePeakIfTheCardIsKnown()
    {
        const StepTrace& trace = session_->step()->trace();
        QCOMPARE(firstBudget(trace, 100 * GiB, true), 100 * GiB);
        QCOMPARE(firstBudget(trace, 10 * GiB, false), 7 * GiB);
        QCOMPARE(firstBudget(trace, 100 * MiB, false), 70 * MiB);
        QCOMPARE(firstBudget(trace, 10'000, false), 6656); // in blocks of 512
    }

    void messagesAreSentences()
    {
        QCOMPARE(sentence(QStringLiteral("cannot pin \"x\": it is a leaf")),
                 QStringLiteral("Cannot pin \"x\": it is a leaf."));
        QCOMPARE(sentence(QStringLiteral("step.hrs: at offset 8")), QStringLiteral("step.hrs: at offset 8."));
        QCOMPARE(sentence(QStringLiteral("demo:mlp is known.")), QStringLiteral("demo:mlp is known."));
        QCOMPARE(sentence(QStringLiteral("error: none\n")), QStringLiteral("Error: none."));
        QCOMPARE(sentence({}), QString());
    }

    void stepIsNamedForPeople()
    {
        const StepTrace& trace = session_->step()->trace();
        QCOMPARE(stepName(trace), QStringLiteral("synthetic"));
        QVERIFY(stepFacts(trace).startsWith(QStringLiteral("batch 8 × 128, float32, adam, simulated, ")));
        StepTrace rank = trace;
        rank.info.distributed = RankInfo{8, 8, 3};
        QVERIFY(stepFacts(rank).contains(QStringLiteral("simulated, rank 3 of 8, ")));
        QVERIFY(firstCandidate(*session_->step()->engine->moduleInfo(), trace) == moduleNamed(block0));
    }

private:
    ModuleId moduleNamed(std::string_view fqn) const
    {
        const StepTrace& trace = session_->step()->trace();
        for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
            if (trace.moduleFqn(ModuleId(i)) == fqn)
                return ModuleId(i);
        }
        return {};
    }

    std::unique_ptr<Session> session_;
};

QTEST_GUILESS_MAIN(SessionTest)
#include "session_test.moc"
