// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/card_controller.h"

#include "app/window/plan_controller.h"
#include "views/plot/call_later.h"

#include <utility>

namespace headroom {

CardController::CardController(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
{
    connect(&session_, &Session::stepAboutToChange, this, &CardController::forget);
    connect(&session_, &Session::answerChanged, this, &CardController::askVerdict);
    connect(&session_, &Session::cardChanged, this, &CardController::askVerdict);
    for (const auto changed :
         {&Session::stepChanged, &Session::cardChanged, &Session::pinsChanged, &Session::offloadChanged})
        connect(&session_, changed, this, &CardController::askPlan);
    for (const auto changed : {&Session::frontierChanged, &Session::cardChanged, &Session::cardPlanChanged})
        connect(&session_, changed, this, &CardController::askPoints);
    for (const auto changed : {&Session::stepChanged, &Session::cardChanged})
        connect(&session_, changed, this, &CardController::askCauses);
    connect(&session_, &Session::budgetChanged, this, [this] { follows_ = false; });
}

void CardController::askCauses()
{
    const quint64 number = ++causes_;
    causesRunner_.cancel();
    if (!session_.isOpen())
        return;
    causesRunner_.post([this, number, card = session_.card(), step = session_.step()](const std::stop_token& stop) {
        const StepTrace& trace = step->trace();
        const Timeline& recorded = *step->engine->recorded();
        // What ran on a real card did not fail there, whatever a replay says.
        const bool isReplayed = card && trace.info.source.empty() && trace.reserved.size() == 0;
        const std::optional<CardRun> run
            = isReplayed ? std::optional(runOnCard(*card, trace, recorded, stop)) : std::nullopt;
        if (stop.stop_requested())
            return;
        callLater(this,
                  [this, number, found = std::make_shared<const std::vector<Cause>>(causesOf(trace, recorded, run))] {
                      if (number == causes_)
                          Q_EMIT causesFound(found);
                  });
    });
}

void CardController::follow()
{
    follows_ = planning_;
    if (const PlanAnswerPtr& plan = session_.cardPlan())
        takeBudget(*plan);
}

void CardController::askVerdict()
{
    const quint64 number = ++verdicts_;
    verdictRunner_.cancel(); // a verdict on an earlier plan would never be shown
    const PlanAnswerPtr answer = session_.answer();
    const CardPtr card = session_.card();
    judging_ = card && answer && answer->fits() && answer->request.worldSize == 1;
    if (!judging_)
        return;
    verdictRunner_.post([this, number, answer, card, step = session_.step()](const std::stop_token& stop) {
        PlanAnswer judged = *answer;
        judged.card = CardVerdict{card, runOnCard(*card, step->trace(), *answer->timeline, stop)};
        callLater(this, [this, number, made = std::make_shared<const PlanAnswer>(std::move(judged))] {
            if (number != verdicts_)
                return;
            judging_ = false;
            session_.setVerdict(made);
        });
    });
}

void CardController::askPlan()
{
    const quint64 number = ++plans_;
    planRunner_.cancel();
    const CardPtr card = session_.card();
    planning_ = card && plannable(session_.step()->trace());
    if (!planning_) {
        follows_ = false;
        return;
    }
    PlanRequest request = session_.request();
    request.worldSize = 1;
    planRunner_.post([this, number, card, request, step = session_.step()](const std::stop_token& stop) {
        const auto tell = [this, number, &stop](const PlanAnswer& plan) {
            if (!stop.stop_requested())
                callLater(this, [this, number, made = std::make_shared<const PlanAnswer>(plan)] {
                    if (number == plans_)
                        accept(made);
                });
        };
        Result<PlanAnswer> plan = step->engine->planForCard(request, card, stop);
        if (!plan) { // the request for a plan reports the same error
            callLater(this, [this, number] {
                if (number == plans_)
                    planning_ = follows_ = false;
            });
            return;
        }
        plan->preliminary = true;
        tell(*plan);
        if (stop.stop_requested())
            return;
        if (Result<std::optional<BetterSettings>> better = step->engine->betterSettings(request, *plan, stop))
            plan->card->better = *std::move(better);
        plan->preliminary = false;
        tell(*plan);
    });
}

/// The plan of a point is the one that the window shows at its peak.
void CardController::askPoints()
{
    const bool isReady = session_.cardPlan() && session_.mode() == PlanMode::modules && session_.worldSize() == 1
        && session_.frontierIsFinal();
    const CardPoints wanted = isReady ? CardPoints{session_.card(), session_.frontier(), {}} : CardPoints();
    if (wanted.card == asked_.card && wanted.of == asked_.of)
        return;
    asked_ = wanted;
    pointsRunner_.cancel();
    sifting_ = isReady;
    if (!isReady)
        return;
    pointsRunner_.post([this, wanted, runs = session_.cardBudget(), request = session_.request(),
                        step = session_.step()](const std::stop_token& stop) mutable {
        CardPoints points = wanted;
        for (const FrontierPoint& point : *points.of) {
            if (stop.stop_requested())
                return;
            if (point.peak == runs)
                continue;
            if (point.peak > points.card->forTensors()) {
                points.failing.push_back(point.peak);
                continue;
            }
            request.budget = point.peak;
            const Result<PlanAnswer> planned = step->engine->solve(request, stop, PlanController::proofMs);
            if (!planned || !planned->timeline
                || !runOnCard(*points.card, step->trace(), *planned->timeline, stop).runs)
                points.failing.push_back(point.peak);
        }
        callLater(this, [this, made = std::make_shared<const CardPoints>(std::move(points))] {
            if (made->card != asked_.card || made->of != asked_.of)
                return;
            sifting_ = false;
            session_.setCardPoints(made);
        });
    });
}

void CardController::accept(const PlanAnswerPtr& plan)
{
    planning_ = plan->preliminary;
    session_.setCardPlan(plan);
    if (follows_)
        takeBudget(*plan);
}

void CardController::takeBudget(const PlanAnswer& plan)
{
    follows_ = false;
    const Bytes budget = plan.runs() ? plan.plan.peak : plan.plan.leastBudget;
    if (session_.undoStack().count() == 0)
        session_.suggestBudget(budget);
    else
        session_.commitBudget(budget);
}

void CardController::forget()
{
    verdictRunner_.cancel();
    planRunner_.cancel();
    pointsRunner_.cancel();
    causesRunner_.cancel();
    ++verdicts_;
    ++plans_;
    ++causes_;
    asked_ = {};
    judging_ = planning_ = sifting_ = false;
}

} // namespace headroom
