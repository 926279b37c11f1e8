// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/modules_controller.h"

#include "app/window/session.h"
#include "views/plot/call_later.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace headroom {
namespace {

/// The answer with a plan, without PlanAnswer::closest.
PlanAnswer answerOf(const OpenStep& step, quint64 generation, const PlanRequest& request, PlannedStep planned)
{
    PlanAnswer made{generation, request, std::move(planned), {}, {}, false};
    made.effects = made.step.timeline ? made.step.effects : step.recorded();
    if (made.fits())
        made.clock = step.engine->clock(made.step.regions);
    return made;
}

} // namespace

/// Caches the plan at the least budget, which is shown for every budget that no plan fits.
class ModulesController::ClosestPlan
{
public:
    std::optional<PlannedStep> find(const OpenStepPtr& step, const PlanRequest& request, Bytes leastBudget,
                                    const std::stop_token& stop)
    {
        if (leastBudget <= 0)
            return std::nullopt;
        if (step_.lock() == step && pins_ == request.pins && worldSize_ == request.worldSize && least_ == leastBudget)
            return planned_;
        PlanRequest least = request;
        least.budget = leastBudget;
        const Result<PlannedStep> planned = step->engine->solve(least, stop, firstAnswerMs);
        if (!planned || !planned->timeline)
            return std::nullopt;
        step_ = step;
        pins_ = request.pins;
        worldSize_ = request.worldSize;
        least_ = leastBudget;
        planned_ = *planned;
        return planned_;
    }

private:
    std::weak_ptr<const OpenStep> step_;
    std::map<std::string, Pin> pins_;
    int worldSize_ = 1;
    Bytes least_ = 0;
    std::optional<PlannedStep> planned_;
};

ModulesController::ModulesController(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
    , closest_(std::make_shared<ClosestPlan>())
{
    staleTimer_.setSingleShot(true);
    staleTimer_.setInterval(patience);
    connect(&staleTimer_, &QTimer::timeout, this, &ModulesController::stopStaleSolve);
    connect(&session_, &Session::stepAboutToChange, this, &ModulesController::forget);
    connect(&session_, &Session::stepChanged, this, &ModulesController::askFrontier);
    connect(&session_, &Session::pinsChanged, this, &ModulesController::askFrontier);
    connect(&session_, &Session::worldSizeChanged, this, &ModulesController::askFrontier);
    connect(&session_, &Session::questionChanged, this, &ModulesController::ask);
    connect(&session_, &Session::stepChanged, this, &ModulesController::askWays);
    connect(&session_, &Session::selectionChanged, this, &ModulesController::askWays);
    connect(&session_.undoStack(), &QUndoStack::indexChanged, this, [this] { budgetIsGuess_ = false; });
}

void ModulesController::ask()
{
    if (session_.mode() != PlanMode::modules)
        return;
    const quint64 generation = ++askedGeneration_;
    proofRunner_.cancel();
    const PlannedStep* known = session_.plannedForCard();
    planRunner_.post([this, step = session_.step(), request = session_.request(), generation, closest = closest_,
                      known = known ? std::optional(*known) : std::nullopt](const std::stop_token& stop) {
        Result<PlannedStep> planned = known ? *known : step->engine->solve(request, stop, firstAnswerMs);
        if (!planned) {
            callLater(this, [this, generation, error = planned.error()] { acceptFailure(generation, error); });
            return;
        }
        if (planned->plan.status == PlanStatus::stopped)
            return; // a newer request waits
        PlanAnswer made = answerOf(*step, generation, request, *std::move(planned));
        made.step.plan.budget = request.budget;
        made.proving = !known && made.step.plan.status == PlanStatus::feasible;
        if (made.step.plan.status == PlanStatus::infeasible)
            made.closest = closest->find(step, request, made.step.plan.leastBudget, stop);
        if (made.closest) {
            made.effects = made.closest->effects;
            made.clock = step->engine->clock(made.closest->regions);
        }
        callLater(this, [this, step, answer = std::make_shared<const PlanAnswer>(std::move(made))] {
            acceptAnswer(step, answer);
        });
    });
    stopStaleSolve();
}

void ModulesController::acceptAnswer(const OpenStepPtr& step, const PlanAnswerPtr& answer)
{
    if (answer->generation <= answeredGeneration_)
        return;
    answeredGeneration_ = answer->generation;
    if (answer->proving && !solving())
        prove(step, *answer);
    show(answer);
}

void ModulesController::prove(const OpenStepPtr& step, const PlanAnswer& first)
{
    proofRunner_.post([this, step, request = first.request,
                       generation = first.generation](const std::stop_token& stop) {
        Result<PlannedStep> planned = step->engine->solve(request, stop, proofMs);
        if (!planned || planned->plan.status == PlanStatus::stopped)
            return;
        callLater(
            this,
            [this,
             answer = std::make_shared<const PlanAnswer>(answerOf(*step, generation, request, *std::move(planned)))] {
                if (answer->generation == answeredGeneration_ && !solving())
                    show(answer);
            });
    });
}

void ModulesController::show(const PlanAnswerPtr& answer)
{
    if (session_.mode() != PlanMode::modules)
        return; // meanwhile plans are by op
    session_.setAnswer(answer);
    const Plan& plan = answer->step.plan;
    if (std::exchange(budgetIsGuess_, false) && plan.status == PlanStatus::infeasible && plan.leastBudget > 0)
        session_.suggestBudget(plan.leastBudget);
}

void ModulesController::acceptFailure(quint64 generation, const Error& error)
{
    if (generation <= answeredGeneration_)
        return;
    answeredGeneration_ = generation;
    Q_EMIT failed(QString::fromStdString(error.message));
}

void ModulesController::stopStaleSolve()
{
    if (planRunner_.stopStale(patience))
        staleTimer_.start();
}

void ModulesController::askFrontier()
{
    if (!session_.isOpen())
        return;
    const quint64 generation = ++frontierGeneration_;
    frontierRunner_.cancel();
    frontierRunner_.post(
        [this, step = session_.step(), request = session_.request(), generation](const std::stop_token& stop) {
            const auto tell = [this, generation](auto function) {
                callLater(this, [this, generation, function = std::move(function)] {
                    if (generation == frontierGeneration_)
                        function();
                });
            };
            const auto grown = [this, tell, next = TaskRunner::Clock::now()](std::vector<FrontierPoint> some) mutable {
                if (TaskRunner::Clock::now() < next)
                    return;
                next = TaskRunner::Clock::now() + growthInterval;
                tell([this, frontier = std::make_shared<const std::vector<FrontierPoint>>(std::move(some))] {
                    session_.growFrontier(frontier);
                });
            };
            Result<std::vector<FrontierPoint>> found = step->engine->frontier(request, frontierPoints, stop, grown);
            if (stop.stop_requested())
                return;
            if (!found)
                tell([this, reason = QString::fromStdString(found.error().message)] { Q_EMIT frontierFailed(reason); });
            else
                tell([this, frontier = std::make_shared<const std::vector<FrontierPoint>>(*std::move(found))] {
                    session_.setFrontier(frontier);
                });
        });
}

void ModulesController::askWays()
{
    const quint64 generation = ++waysGeneration_;
    if (!session_.isOpen() || !session_.selected().valid())
        return;
    waysRunner_.post([this, step = session_.step(), module = session_.selected(), generation](const std::stop_token&) {
        Result<std::vector<ModuleWay>> ways = step->engine->ways(module);
        if (!ways)
            return; // the request for a plan reports the same error
        callLater(
            this,
            [this, generation, found = std::make_shared<const WaysOfModule>(WaysOfModule{module, *std::move(ways)})] {
                if (generation == waysGeneration_)
                    session_.setWays(found);
            });
    });
}

void ModulesController::forget()
{
    planRunner_.cancel();
    proofRunner_.cancel();
    frontierRunner_.cancel();
    waysRunner_.cancel();
    answeredGeneration_ = ++askedGeneration_;
    ++frontierGeneration_;
    ++waysGeneration_;
}

} // namespace headroom
